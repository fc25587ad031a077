"""Defines labels: up to four short names with values, which a sender gives a message, and which a search finds.

Redis keeps the labels of a message as one text, a line for each: `customer=42`. No key has an equals sign, and no value
has a control character, so the text is unambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

Labels = Mapping[str, str]

MOST_LABELS: Final = 4
LABEL_KEY_PATTERN: Final = r"^[a-z0-9_.-]{1,40}$"
LONGEST_VALUE: Final = 100
NO_LABELS: Final[Labels] = {}

_KEY = re.compile(LABEL_KEY_PATTERN[:-1] + r"\Z")
_UNWANTED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def valid_key(key: str) -> bool:
    return _KEY.match(key) is not None


def valid_value(value: str) -> bool:
    """Whether the value has at most 100 characters, and neither control characters nor half of a surrogate pair."""
    return len(value) <= LONGEST_VALUE and _UNWANTED.search(value) is None


def packed(labels: Labels) -> str:
    """Returns the labels as Redis keeps them: sorted, so that equal labels give equal texts."""
    return "\n".join(f"{key}={value}" for key, value in sorted(labels.items())) if labels else ""


def unpacked(text: str) -> Labels:
    """Reads the text that `packed` returned."""
    pairs = (line.partition("=") for line in text.split("\n")) if text else ()
    return {key: value for key, _, value in pairs}
