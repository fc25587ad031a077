"""Describes the API: the OpenAPI document, its examples and its page."""
