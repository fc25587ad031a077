"""Defines the fields of the API's requests and answers."""
