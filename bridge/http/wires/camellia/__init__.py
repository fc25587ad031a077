"""Serves the HTTP protocol of camellia-delay-queue to that project's clients."""
