"""Finds variables and secret files that begin like a setting of the bridge and are none."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

PREFIX: Final = "BRIDGE_"
SECRETS_DIR: Final = f"{PREFIX}SECRETS_DIR"

OF_CLIENTS: Final = (f"{PREFIX}URL", f"{PREFIX}TOKEN")
"""The bridge that client commands call, and their token."""
_BESIDE: Final = (SECRETS_DIR, f"{PREFIX}LOCAL_DIR", f"{PREFIX}RABBITMQ_PASSWORD", *OF_CLIENTS)
"""Read elsewhere: by the settings' class, by `make run`, by the compose file, by client commands."""
_OF_TESTS: Final = f"{PREFIX}TEST_"
# Kubernetes sets these in each pod for a Service whose name begins with `bridge`.
_OF_KUBERNETES: Final = re.compile(
    r"BRIDGE_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)=.*|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?=\w+://.*"
    r"|PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=.*)",
    re.DOTALL,
)


def complaints_about_unknown(environment: Mapping[str, str], settings: Collection[str]) -> list[str]:
    """Names each unknown variable, and each unknown file in `BRIDGE_SECRETS_DIR`, with the nearest known name.

    `settings`: the names of the settings, without their prefix, in lower case. Shows no value.
    """
    known = [*(f"{PREFIX}{name.upper()}" for name in settings), *_BESIDE]
    named = [(name, name) for name, value in environment.items() if not _of_others(name, value)]
    named += [(f"{path}", path.name) for path in _secrets(environment.get(SECRETS_DIR))]
    return [
        f"{shown}: is unknown{_nearest(name.upper(), known)}; correct its name or remove it"
        for shown, name in sorted(named)
        if name.upper().startswith(PREFIX) and name.upper() not in known
    ]


def _of_others(name: str, value: str) -> bool:
    return name.upper().startswith(_OF_TESTS) or _OF_KUBERNETES.fullmatch(f"{name}={value}") is not None


def _secrets(folder: str | None) -> Iterator[Path]:
    if folder and Path(folder).is_dir():
        yield from Path(folder).iterdir()


def _nearest(name: str, known: Collection[str]) -> str:
    # The prefix, which all share, would make any two names similar.
    nearest = get_close_matches(name.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in known], n=1)
    return f"; the nearest setting is {PREFIX}{nearest[0]}" if nearest else ""
