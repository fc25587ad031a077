"""Defines what requests and answers hold."""
