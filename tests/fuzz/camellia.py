"""Makes requests of the camellia wire that are nearly right: queries, forms, and bodies that only look like forms."""

from __future__ import annotations

from urllib.parse import quote

from hypothesis import strategies as st

from tests.fuzz.requests import Sent
from tests.fuzz.world import KEPT

Pairs = list[tuple[bytes, bytes]]

_PARTS = "multipart/form-data; boundary=x"
_FORM = "application/x-www-form-urlencoded"
_CALLS: dict[str, dict[str, str]] = {
    "sendMsg": {"topic": KEPT, "msg": "x", "delayMillis": "86400000", "ttlMillis": "5", "maxRetry": "1", "msgId": "n"},
    "pullMsg": {"topic": KEPT, "ackTimeoutMillis": "5", "batch": "1"},
    "longPollingMsg": {"topic": KEPT, "ackTimeoutMillis": "5", "batch": "1", "longPollingTimeoutMillis": "5"},
    "ackMsg": {"topic": KEPT, "msgId": "leased", "ack": "true"},
    "deleteMsg": {"topic": KEPT, "msgId": "waiting", "release": "true"},
    "getMsg": {"topic": KEPT, "msgId": "waiting"},
}
# Allowed names that no message has: only a look-up or a delete of them is refused.
_UNKNOWN = ("%00", "%FF", "%C0%AF", "%ED%A0%80", "e%CC%81", "a%2Fb%2Fc", "%", "%zz", "+", "x" * 300)
# Empty, or over 1,000 bytes once decoded.
_NAMES = (
    "",
    "%00" * 1_001,
    "%FF" * 334,
    "%ED%A0%80" * 120,
    "e%CC%81" * 334,
    "a%2Fb%2Fc" * 201,
    "%zz" * 334,
    "+" * 1_001,
)
_NUMBERS = (
    "1e3",
    "0x10",
    "--1",
    "9223372036854775808",
    "-9223372036854775809",
    "9" * 5_000,
    "1_0",
    "%00",
    "1.0",
    "%2B",
    "NaN",
)
_WORDS = ("yesno", "2", "%00", "truefalse", "null")
_WRONG = {
    "msgId": _NAMES,
    "topic": _NAMES,
    **dict.fromkeys(
        ("delayMillis", "ttlMillis", "maxRetry", "ackTimeoutMillis", "batch", "longPollingTimeoutMillis"), _NUMBERS
    ),
    **dict.fromkeys(("ack", "release"), _WORDS),
    "msg": ("",),
}
_BODIES = (
    (b"\xff\x00&&&=;", _FORM),
    (b"topic=kept&msgId=waiting", "text/plain"),
    (b'{"topic":"kept","msgId":"waiting"}', "application/json"),
    (b"topic=kept", "multipart/form-data"),
    (b"topic=kept", "multipart/form-data; boundary="),
    (b"--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x--", _PARTS),
    (b"--x\r\nContent-Disposition: form-data; name=\"topic\"\r\n\r\nkept", _PARTS),
    (b"--x\r\nContent-Disposition: form-data; name=\"topic\"; filename=\"f\"\r\n\r\nkept\r\n--x--\r\n", _PARTS),
    (b"--x\r\nNo header\r\n\r\nkept\r\n--x--\r\n", "multipart/form-data; boundary=x; charset=none"),
    (b"--x\r\n\xff: \xfe\r\n\r\nkept\r\n--x--\r\n", _PARTS),
    (b"&".join([b"a=b"] * 10_001), _FORM),
)  # fmt: skip


@st.composite
def mistaken(draw: st.DrawFn) -> Sent:
    """Makes a request with one fault: a parameter is missing or wrong, the body is not a valid form, or the path or
    method is."""
    name, valid = draw(st.sampled_from(sorted(_CALLS.items())))
    path = f"/camellia/delayQueue/{name}"
    kind = draw(st.sampled_from(["wrong", "missing", "body", "method", "path"]))
    if kind == "body":
        body, content_type = draw(st.sampled_from(_BODIES))
        return Sent("POST", path.encode(), body, content_type)
    if kind == "method":
        return Sent(draw(st.sampled_from(["PUT", "PATCH", "DELETE"])), path.encode())
    pairs = {key: quote(value) for key, value in valid.items()}
    if kind == "path":
        return Sent(
            "POST", (path + draw(st.sampled_from(["/", "%2F", "%00", "/../x", "s"]))).encode(), _encoded(pairs), _FORM
        )
    if kind == "missing":
        del pairs[draw(st.sampled_from(["topic", "msgId"] if "msgId" in pairs and name != "sendMsg" else ["topic"]))]
    else:
        wrong = draw(st.sampled_from(sorted(pairs)))
        looks = name in ("getMsg", "deleteMsg") and wrong in ("topic", "msgId")
        pairs[wrong] = draw(st.sampled_from(_WRONG[wrong] + _UNKNOWN if looks else _WRONG[wrong]))
    if draw(st.booleans()):
        return Sent("POST", f"{path}?".encode() + _encoded(pairs), b"", "")
    return Sent("POST", path.encode(), _encoded(pairs), _FORM)


def _encoded(pairs: dict[str, str]) -> bytes:
    return "&".join(f"{name}={value}" for name, value in pairs.items()).encode()
