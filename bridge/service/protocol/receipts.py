"""Makes and reads receipts. A consumer shows a receipt to settle its lease; inside are epoch, nonce and id. Pure."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from typing import NamedTuple

from bridge.model.errors import InvalidRequest
from bridge.model.message import valid_id

_FORM = re.compile(r"(0|[1-9][0-9]*)(?:-([1-9a-f][0-9a-f]{0,11}))?\.(.+)")


class Receipt(NamedTuple):
    """A lease: the id of its message, and epoch and nonce of the lease copy. `nonce` None: an older bridge made the
    receipt without one."""

    id: str
    epoch: int
    nonce: int | None


def make(receipt: Receipt) -> str:
    """Makes the text of a receipt."""
    nonce = "" if receipt.nonce is None else f"-{receipt.nonce:x}"
    return urlsafe_b64encode(f"{receipt.epoch}{nonce}.{receipt.id}".encode()).decode().rstrip("=")


def read(text: str) -> Receipt:
    """Reads a receipt.

    Raises:
        InvalidRequest: the text is not a receipt that `make` returned.
    """
    try:
        match = _FORM.fullmatch(urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
        if match is not None and valid_id(match[3]):
            receipt = Receipt(match[3], int(match[1]), int(match[2], 16) if match[2] else None)
            if make(receipt) == text:
                return receipt
    except (NotBase64, ValueError):
        pass
    raise InvalidRequest.of("receipt", text[:200], "a receipt given with a pulled message", "is not a receipt")
