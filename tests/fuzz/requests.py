"""Makes requests that are nearly right, byte for byte: a valid request with one fault."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.world import KEPT, STATES

_T = f"/v1/topics/{KEPT}"
_MANY = 1_001
_UNKNOWN = "Mi51bmtub3du"


@dataclass(frozen=True, slots=True)
class Sent:
    """One request: `target` and `body` are sent byte for byte."""

    method: str
    target: bytes
    body: bytes = b""
    content_type: str = "application/json"

    def __repr__(self) -> str:
        body = self.body if len(self.body) < 300 else f"<{len(self.body)} bytes from {self.body[:80]!r}>"
        return f"Sent({self.method!r}, {self.target!r}, {body!r}, {self.content_type!r})"


BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", f"{_T}/messages"): {
        "body": 1,
        "delay": "1d",
        "ttl": "1h",
        "max_retry": 1,
        "headers": {"a": "b"},
        "labels": {"a": "b"},
    },
    ("POST", f"{_T}/messages/batch"): {"messages": [{"body": 1, "delay": "1d"}]},
    ("PATCH", f"{_T}/messages/waiting"): {"delay": "3d"},
    ("POST", f"{_T}/pull"): {
        "max": 1,
        "wait": 0,
        "lease": "1h",
        "ack": [_UNKNOWN],
        "nack": [{"receipt": _UNKNOWN, "delay": "1h", "reason": "x"}],
    },
    ("POST", "/v1/pull"): {
        "topics": [KEPT],
        "max": 1,
        "wait": 0,
        "lease": "1h",
        "ack": [{"topic": KEPT, "receipt": _UNKNOWN}],
        "nack": [{"topic": KEPT, "receipt": _UNKNOWN, "delay": "1h"}],
    },
    ("POST", f"{_T}/ack"): {"ids": ["unknown"]},
    ("POST", f"{_T}/messages/leased/ack"): {"receipt": "Mi5sZWFzZWQ"},
    ("POST", f"{_T}/messages/leased/nack"): {"receipt": "Mi5sZWFzZWQ", "delay": "1h", "reason": "x"},
    ("POST", f"{_T}/messages/leased/extend"): {"receipt": "Mi5sZWFzZWQ", "lease": "12h"},
    ("POST", f"{_T}/dead/replay"): {"max": 1},
    ("POST", "/v1/messages:delete"): {"topic": KEPT, "max": 1, "dry_run": True},
    ("POST", "/v1/messages:move"): {"topic": KEPT, "max": 1, "dry_run": True, "delay": "1d"},
    ("PUT", _T): {"release": "checked", "max_retry": 3, "ttl": "1d", "lease": "1m", "backoff": ["1s"], "paused": False},
    ("PATCH", _T): {
        "release": "checked",
        "max_retry": 3,
        "ttl": "1d",
        "lease": "1m",
        "backoff": ["1s"],
        "paused": False,
    },
}
QUERIES = {
    ("GET", f"{_T}/messages"): ("limit=10", "state=waiting", "due_after=5", "due_before=2030-01-01T00:00:00Z"),
    ("GET", f"{_T}/dead"): ("limit=10",),
    ("DELETE", f"{_T}/messages/waiting"): ("release=true",),
    ("DELETE", f"{_T}/dead"): ("max=10",),
    ("DELETE", _T): ("force=true",),
    ("GET", "/v1/topics"): ("prefix=a", "limit=10"),
    ("GET", "/v1/messages"): ("topic=*", "state=dead", "label=a:b", "id_prefix=a", "reason=*", "order=desc"),
}
# No field of any request accepts one of these values.
JUNK = (
    "1e400", "-1", "-1.5", "[[]]", "{}", '""', '"\\u0000"', '"-5s"', '"1000000d"', '"\\u0665m"', '"1 h"',
    "99999999999999999999", '"' + "9" * 64 + 'd"', '"' + "x" * 4_000 + '"', "[" * 200 + "]" * 200,
    '{"\\u0000":1e999}', '["\\u0000"]', "true", '{"a":{"b":[]}}', "[" + ",".join(["null"] * _MANY) + "]",
)  # fmt: skip
_TAKES_ANYTHING = {"body"}
_TAKES_TRUE = {"dry_run", "paused"}
_TAKES_EMPTY = {
    "headers": ("{}",),
    "labels": ("{}",),
    "reason": ('""', '"\\u0000"', '"-5s"', '"1000000d"', '"\\u0665m"', '"1 h"', '"' + "9" * 64 + 'd"'),
    "lease": (),
    "messages": (),
}
BROKEN = (
    b"{", b"nul", b"{'a':1}", b'{"a":1,}', b"\xef\xbb\xbf{}", b'{"a":"\xc0\xaf"}', b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\xff"}', b'{"a":NaN}', b'{"a":Infinity}', b'{"a":-Infinity}', b'{"a":01}', b'{"a":1}x',
    b'{"a":"\\ud800"}', b'{"\\udfff":1}', b'{"\\ud800":12345678901234567890}', b'{"a":["\\ud800",1e400]}',
    b'{"a":"\n"}', b"[" * 100_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b"9" * 5_000, b"\x00",
    '{"a":"é"}'.encode("utf-16"), b'{"a":NaN,"b":12345678901234567890}',
)  # fmt: skip
NOT_OBJECTS = (b"[]", b"null", b"1", b'"x"', b"true", b"-0", b"1e400", b"[" * 250 + b"]" * 250)
# Bad names in a path: too long, encoded twice or wrongly, in another alphabet, or with further segments.
BAD_NAMES = (
    b"%00", b"a%00", b"%C0%AF", b"%ED%A0%80", b"%FF", b"%C3%A9", b"e%CC%81", b"%E2%80%AE", b"%0A", b"a%0A",
    b"%20%0D%0A", b"a%2Fb%2Fc", b"%2Fa", b"a%2F", b"%2F", b"%252F", b"%", b"%zz", b"%u0041", b"a%3F", b"x" * 300,
    b"a/b", b"", b"%EF%BC%8F", b"..%2F..%2F..", b"a%2F%2E%2E%2Fb", b"%7B", b"*", b"a;b=c/d",
)  # fmt: skip
BAD_QUERIES = (
    "limit=0", "limit=1001", "limit=-1", "limit=1e3", "limit=", "limit=1&limit=2", "limit=%D9%A5",
    "limit=" + "9" * 40, "max=0", "max=&max=", "max=1.0", "force=yes", "force=TRUE", "force=true&force=true",
    "release=1", "release=%00", "state=%00", "state=unknown", "state=waiting%2Cx", "due_after=yesterday",
    "due_after=-1", "due_after=" + "9" * 30, "due_before=2030-01-01T00:00:00", "cursor=x", "cursor=%FF",
    "cursor=MTAwIQ", "unknown=1", "=", "&", "a&a&a", "%00=%00", "%C0%AF", "%D8%00=1",
)  # fmt: skip


def _document(fields: dict[str, str]) -> bytes:
    return ("{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in fields.items()) + "}").encode()


@st.composite
def _wrong_bodies(draw: st.DrawFn) -> Sent:
    (method, path), valid = draw(st.sampled_from(sorted(BODIES.items(), key=str)))
    sent = Sent(method, path.encode())
    kind = draw(st.sampled_from(["broken", "no object", "unknown field", "wrong field", "wrong field last"]))
    if kind == "broken":
        return replace(sent, body=draw(st.sampled_from(BROKEN)))
    if kind == "no object":
        return replace(sent, body=draw(st.sampled_from(NOT_OBJECTS)))
    fields = {name: json.dumps(value) for name, value in valid.items()}
    if kind == "unknown field":
        name = draw(st.sampled_from(["unknown", "", "Body", "body ", "delay\0", "é", "x" * 3_000, "__proto__"]))
        return replace(sent, body=_document({**fields, name: "1"}))
    name = draw(st.sampled_from(sorted(fields.keys() - _TAKES_ANYTHING)))
    text = draw(st.sampled_from([text for text in JUNK if _wrong_for(name, text)]))
    if kind == "wrong field":
        return replace(sent, body=_document({**fields, name: text}))
    # If a key is given twice, the last value counts.
    return replace(sent, body=_document(fields)[:-1] + f",{json.dumps(name)}:{text}}}".encode())


def _wrong_for(name: str, text: str) -> bool:
    if name in _TAKES_TRUE and text == "true":
        return False
    return text not in _TAKES_EMPTY.get(name, ())


@st.composite
def _wrong_paths(draw: st.DrawFn) -> Sent:
    method, path = draw(st.sampled_from(sorted([*BODIES, *QUERIES])))
    segments = path.encode().split(b"/")
    names = [place for place, segment in enumerate(segments) if segment.decode() in {KEPT, *STATES}]
    bad = draw(st.sampled_from(BAD_NAMES))
    if draw(st.booleans()) and names:
        segments[draw(st.sampled_from(names))] = bad
        target = b"/".join(segments)
    else:
        target = b"/".join(segments) + b"/" + bad
    body = json.dumps(BODIES[method, path]).encode() if (method, path) in BODIES else b""
    return Sent(method, target, body)


@st.composite
def _wrong_queries(draw: st.DrawFn) -> Sent:
    (method, path), valid = draw(st.sampled_from(sorted(QUERIES.items())))
    given = [*valid, draw(st.sampled_from(BAD_QUERIES))]
    return Sent(method, f"{path}?{'&'.join(draw(st.permutations(given)))}".encode())


@st.composite
def _wrong_states(draw: st.DrawFn) -> Sent:
    """Makes a valid call that the state of the message or topic forbids."""
    name = draw(st.sampled_from([*STATES, "unknown"]))
    path = f"{_T}/messages/{name}"
    calls = {
        ("POST", f"{path}/nack"): {"receipt": None, "delay": "1h"},
        ("POST", f"{path}/extend"): {"lease": "12h"},
        ("POST", f"{path}/ack"): {"receipt": "OS5sZWFzZWQ"},
        ("PATCH", path): {"deliver_at": 4_000_000_000_000},
        ("DELETE", path): None,
        ("POST", f"{_T}/dead/{name}/replay"): None,
        ("DELETE", f"{_T}/dead/{name}"): None,
        ("DELETE", _T): None,
        ("PUT", path): None,
    }
    wrong = {
        call: body
        for call, body in calls.items()
        if not (name == "leased" and ("nack" in call[1] or "extend" in call[1]))
        and not (call[0] == "DELETE" and name in {"waiting", "leased", "deleted", "dead"} and call[1] != _T)
        and not ("replay" in call[1] and name == "dead")
    }
    (method, target), body = draw(st.sampled_from(sorted(wrong.items(), key=str)))
    return Sent(method, target.encode(), b"" if body is None else json.dumps(body).encode())


def wrong() -> st.SearchStrategy[Sent]:
    requests = st.one_of(_wrong_bodies(), _wrong_paths(), _wrong_queries(), _wrong_states())
    types = st.sampled_from(
        ["application/json", "", "text/plain", "application/xml; charset=utf-16", "multipart/form-data"]
    )
    return st.builds(lambda sent, kind: replace(sent, content_type=kind), requests, types)
