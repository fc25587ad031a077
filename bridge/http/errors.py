"""What only HTTP can get wrong, added to the bridge's tree of errors: `BrokenJSON` and `TooLarge`."""

from __future__ import annotations

from bridge.model.errors import BridgeError, FieldError


class BrokenJSON(BridgeError):
    pass


class TooLarge(BridgeError):
    """The request, or a message's body, has more bytes than allowed."""

    def __init__(self, *, field: str, size_bytes: int, limit_bytes: int) -> None:
        message = f"must be at most {limit_bytes} bytes, and is {size_bytes}"
        super().__init__(f"{field}: {message}")
        self.errors = (FieldError(field=field, value=size_bytes, limit=limit_bytes, message=message),)

    def under(self, path: str) -> TooLarge:
        """The same error with its field's path set under another."""
        (error,) = self.errors
        return TooLarge(field=path + error.field, size_bytes=error.value, limit_bytes=error.limit)
