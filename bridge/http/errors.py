"""Adds the errors that only HTTP has to the bridge's tree of errors: `BrokenJSON`, `TooLarge` and `TooManyBytes`."""

from __future__ import annotations

from bridge.model.errors import BridgeError, FieldError, Unavailable


class BrokenJSON(BridgeError):
    """The body of the request is not JSON."""


class TooLarge(BridgeError):
    """The request, or the body of a message, has too many bytes. `field`: which of them."""

    def __init__(self, *, field: str, size_bytes: int, limit_bytes: int) -> None:
        message = f"has {size_bytes} bytes; at most {limit_bytes} are allowed"
        super().__init__(f"{field}: {message}")
        self.errors = (FieldError(field=field, value=size_bytes, limit=limit_bytes, message=message),)

    def under(self, path: str) -> TooLarge:
        """The same error with `path` in front of its field."""
        (error,) = self.errors
        return TooLarge(field=path + error.field, size_bytes=error.value, limit_bytes=error.limit)


class TooManyBytes(Unavailable):
    """The requests that are being read hold as many bytes together as the process allows."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"large requests hold all {limit_bytes} bytes that BRIDGE_MAX_BUFFERED allows: try again in a second"
        )
