"""Takes HTTP requests from sockets: protocol, limits, fast path."""
