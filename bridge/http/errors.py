"""Defines the errors that occur only over HTTP, as subclasses of the bridge's errors."""

from __future__ import annotations

from bridge.model.errors import BridgeError, FieldError, Unavailable


class BrokenJSON(BridgeError):
    """The body of the request is not JSON."""


class EncodedBody(BridgeError):
    """The body of the request has a content coding, such as gzip. `coding`: its name."""

    def __init__(self, coding: str) -> None:
        message = "the body must be sent as it is, without a content coding"
        super().__init__(f"Content-Encoding: {message}, not as {coding}")
        self.errors = (FieldError(field="Content-Encoding", value=coding, limit="identity", message=message),)


class TooLarge(BridgeError):
    """The request, or the body of a message, has too many bytes. `field`: `request`, or the name of the body's
    field."""

    def __init__(self, *, field: str, size_bytes: int, limit_bytes: int) -> None:
        message = f"has {size_bytes} bytes; at most {limit_bytes} are allowed"
        super().__init__(f"{field}: {message}")
        self.errors = (FieldError(field=field, value=size_bytes, limit=limit_bytes, message=message),)

    def under(self, path: str) -> TooLarge:
        """Returns the error with `path`, such as `messages.3.`, in front of its field's name."""
        (error,) = self.errors
        return TooLarge(field=path + error.field, size_bytes=error.value, limit_bytes=error.limit)


class TooManyValues(BridgeError):
    """The JSON of the request has so many values that reading it would take too much memory."""

    def __init__(self, limit_bytes: int) -> None:
        message = f"has so many values that they would take more than {limit_bytes} bytes of memory"
        super().__init__(f"request: {message}")
        self.errors = (FieldError(field="request", value=None, limit=limit_bytes, message=message),)


class TooManyBytes(Unavailable):
    """With this request, the bodies of all large requests would exceed `limit_bytes`: `BRIDGE_MAX_BUFFERED`."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"large requests hold all {limit_bytes} bytes that BRIDGE_MAX_BUFFERED allows: try again in a second"
        )


class StoodStill(Unavailable):
    """The event loop stalled, and the request may have waited for longer than a call may last. `limit_s`: how many
    seconds a call may last."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            f"the bridge stood still for more than {limit_s:g} s, and this request may have waited as long: nothing "
            "was done, try again"
        )
