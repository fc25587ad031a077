"""The wire of camellia-delay-queue."""
