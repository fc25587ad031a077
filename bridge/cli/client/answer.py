"""Reads answers of the bridge, and keeps every digit of the numbers in them for `--json`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_BETWEEN = re.compile(r"[\s,]*")


@dataclass(frozen=True, slots=True)
class Answer:
    """A JSON object in an answer. `raw`: its text as the bridge wrote it."""

    raw: str

    @property
    def value(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.raw)
        return value

    def items(self) -> list[Answer]:
        """Returns the objects in the list that is this object's first member, as in `{"messages": [...]}`."""
        decoder, position = json.JSONDecoder(), self.raw.index("[") + 1
        found: list[Answer] = []
        while self.raw[position := _BETWEEN.match(self.raw, position).end()] != "]":  # type: ignore[union-attr]
            _, end = decoder.raw_decode(self.raw, position)
            found.append(Answer(self.raw[position:end]))
            position = end
        return found
