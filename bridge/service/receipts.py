"""Makes and reads receipts. A consumer shows a receipt to settle its lease; inside are epoch and id. Pure."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64

from bridge.model.errors import InvalidRequest
from bridge.model.message import valid_id


def make(epoch: int, message_id: str) -> str:
    """Makes the receipt of the lease with this epoch."""
    return urlsafe_b64encode(f"{epoch}.{message_id}".encode()).decode().rstrip("=")


def read(receipt: str) -> tuple[int, str]:
    """Returns the epoch of the lease and the id of the message.

    Raises:
        InvalidRequest: the text is not a receipt that `make` returned.
    """
    try:
        text = urlsafe_b64decode(receipt + "=" * (-len(receipt) % 4)).decode()
        epoch, _, message_id = text.partition(".")
        if epoch.isdecimal() and valid_id(message_id) and make(int(epoch), message_id) == receipt:
            return int(epoch), message_id
    except (NotBase64, ValueError):
        pass
    raise InvalidRequest.of("receipt", receipt[:200], "a receipt given with a pulled message", "is not a receipt")
