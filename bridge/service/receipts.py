"""Receipts: what a consumer shows to settle what it was handed. Opaque to it; epoch and id to us. Pure."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64

from bridge.model.errors import InvalidRequest
from bridge.model.message import valid_id


def make(epoch: int, message_id: str) -> str:
    return urlsafe_b64encode(f"{epoch}.{message_id}".encode()).decode().rstrip("=")


def read(receipt: str) -> tuple[int, str]:
    """The lease's epoch and the message's id.

    Raises:
        InvalidRequest: it is not one of ours.
    """
    try:
        text = urlsafe_b64decode(receipt + "=" * (-len(receipt) % 4)).decode()
        epoch, _, message_id = text.partition(".")
        if epoch.isdecimal() and valid_id(message_id) and make(int(epoch), message_id) == receipt:
            return int(epoch), message_id
    except (NotBase64, ValueError):
        pass
    raise InvalidRequest.of("receipt", receipt[:200], "a receipt given with a pulled message", "is not a receipt")
