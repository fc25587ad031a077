"""Defines labels: as an object in a body, and as `key:value` in a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bridge.http.structs import Refused, Scalar
from bridge.http.v1.contract.scalars import listed
from bridge.model.labels import LABEL_KEY_PATTERN, LONGEST_VALUE, MOST_LABELS, valid_key, valid_value

_KEY_FORM: Final = "1-40 characters from a-z 0-9 _ . -"
_VALUE_FORM: Final = f"at most {LONGEST_VALUE} characters, none of them a control character"


_VALUE_PATTERN: Final = rf"[^\u0000-\u001f\u007f-\u009f]{{0,{LONGEST_VALUE}}}$"
_LABELS_SCHEMA: Final = {
    "type": "object",
    "maxProperties": MOST_LABELS,
    "propertyNames": {"pattern": LABEL_KEY_PATTERN},
    "additionalProperties": {"type": "string", "pattern": f"^{_VALUE_PATTERN}"},
}


class GivenLabels(dict[str, str], metaclass=Scalar):
    """The labels of a message, as an object in a request's body: at most four keys, each with a text as value."""

    @classmethod
    def read(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Refused("an object", "must be an object whose values are strings")
        if len(value) > MOST_LABELS:
            raise Refused(MOST_LABELS, f"has {len(value)} labels; at most {MOST_LABELS} are allowed")
        for key, text in value.items():
            _check_label(key, text)
        return value

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return _LABELS_SCHEMA


class QueriedLabels(GivenLabels):
    """Labels as a query gives them, in texts of the form `key:value`; `read` returns them as a dict."""

    @classmethod
    def read(cls, value: Any) -> Any:
        found: dict[str, str] = {}
        for pair in listed(value):
            key, colon, text = pair.partition(":")
            if not colon:
                raise Refused("key:value", f"must be key:value, as in customer:42, not {pair[:150]!r}")
            if found.get(key, text) != text:
                raise Refused("one value a key", f"asks for two values of {key!r}, and a message has at most one")
            found[key] = text
        return super().read(found)

    @classmethod
    def schema(cls) -> dict[str, Any]:
        items = {"type": "string", "pattern": f"{LABEL_KEY_PATTERN[:-1]}:{_VALUE_PATTERN}"}
        return {"type": "array", "maxItems": MOST_LABELS, "items": items}


def _check_label(key: str, text: Any) -> None:
    if not valid_key(key):
        raise Refused(_KEY_FORM, f"the key {key[:60]!r} must be {_KEY_FORM}")
    if not isinstance(text, str) or not valid_value(text):
        raise Refused(_VALUE_FORM, f"the value of {key} must be a string of {_VALUE_FORM}")
