"""Says what an error of Redis means: the text for callers, and whether the bridge opens new connections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from redis.exceptions import RedisError, ResponseError

from bridge.model.errors import StoreRefused, StoreUnavailable
from bridge.model.tls import tls_failure


@dataclass(frozen=True, slots=True)
class Refusal:
    """The meaning of an error code. `says`: why Redis refuses the call; it continues a sentence that begins with the
    server's name. `renews`: another server may have the address by now, so the bridge opens new connections.
    `is_fault`: neither the state of the server nor its settings explain the error, so the bridge may be wrong."""

    says: str
    renews: bool = False
    is_fault: bool = False


_LOGIN: Final = Refusal("refuses the login: check the user and the password in BRIDGE_REDIS_URL", renews=True)
_NO_PERMISSION: Final = Refusal("does not permit the user what the bridge needs: check its ACL")
_ELSEWHERE: Final = Refusal("is a node of a Redis Cluster: put +cluster before the colon of BRIDGE_REDIS_URL")
_SCRIPT_RUNS: Final = Refusal("is busy with a script that does not end")

REFUSALS: Final[Mapping[str, Refusal]] = {
    "READONLY": Refusal("is a replica, which takes no writes", renews=True),
    "MASTERDOWN": Refusal("is a replica that has lost its master", renews=True),
    "LOADING": Refusal("is loading its data", renews=True),
    "NOREPLICAS": Refusal("takes no writes, as it has too few replicas", renews=True),
    "NOAUTH": _LOGIN,
    "WRONGPASS": _LOGIN,
    "NOPERM": _NO_PERMISSION,
    "OOM": Refusal("takes no writes, as its memory is full"),
    "MISCONF": Refusal("takes no writes, as it can't save its data"),
    "CLUSTERDOWN": Refusal("takes no calls, as the cluster is down"),
    "MOVED": _ELSEWHERE,
    "ASK": _ELSEWHERE,
    "TRYAGAIN": Refusal("is moving the keys to another server"),
    "BUSY": _SCRIPT_RUNS,
    "UNKILLABLE": _SCRIPT_RUNS,
    "NOSCRIPT": Refusal("has lost a script"),
    "ERR": Refusal("refuses the call", is_fault=True),
    "WRONGTYPE": Refusal("holds a key of another type: is the prefix used by another application?", is_fault=True),
    "CROSSSLOT": Refusal("refuses the call", is_fault=True),
}
"""The meanings by error code. After any other code, the bridge opens new connections, and counts the error as a
fault."""

_UNKNOWN: Final = Refusal("refuses the call", renews=True, is_fault=True)

# Some refusals have the code ERR, and differ by their first words. Redis 7.0 and 7.2 have different words for an ACL.
_BY_WORDS: Final[Mapping[str, Refusal]] = {
    "The user executing the script": _NO_PERMISSION,
    "ACL failure in script": _NO_PERMISSION,
    "invalid password": _LOGIN,
    "max number of clients reached": Refusal("takes no more connections"),
}

_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]*(?= |$)")


def code_of(error: BaseException) -> str | None:
    """Returns the error code of an answer of Redis, or None for any other error."""
    if not isinstance(error, RedisError):
        return None
    if error.status_code:  # redis-py removes a code that it knows from the text, and some of these are no ResponseError
        return error.status_code
    if not isinstance(error, ResponseError):
        return None
    code = _CODE.match(str(error))
    return code[0] if code else "ERR"


def meaning(code: str, text: str) -> Refusal:
    """Returns what an error means. `code`: the error's first word. `text`: the words behind the code."""
    by_words = next((refusal for words, refusal in _BY_WORDS.items() if text.startswith(words)), None)
    return by_words or REFUSALS.get(code, _UNKNOWN)


def renews(error: BaseException) -> bool:
    """Returns whether the bridge has to open new connections after this error."""
    code = code_of(error)
    return code is not None and meaning(code, _text(error, code)).renews


def unavailable(title: str, error: BaseException, *, partly: bool = False) -> StoreUnavailable:
    """Converts an error of redis-py, which may be an answer of Redis, to an error of the bridge. `title`: names the
    server. `partly`: only one of several servers is away, and others answer."""
    code = code_of(error)
    if code is None:
        return StoreUnavailable(f"{title} did not answer: {tls_failure(error) or type(error).__name__}", partly=partly)
    text = _text(error, code)
    refusal = meaning(code, text)
    says = f"{title} {refusal.says} ({code} {text})"
    return StoreRefused(says, code=code, is_fault=refusal.is_fault, partly=partly)


def _text(error: BaseException, code: str) -> str:
    return str(error).removeprefix(code).strip()
