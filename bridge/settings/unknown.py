"""Finds variables, files of secrets and keys of the settings file that look like settings but are unknown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

PREFIX: Final = "BRIDGE_"
CONFIG: Final = f"{PREFIX}CONFIG"
SECRETS_DIR: Final = f"{PREFIX}SECRETS_DIR"
CREDENTIALS_DIR: Final = "CREDENTIALS_DIRECTORY"

OF_CLIENTS: Final = tuple(f"{PREFIX}{name}" for name in ("URL", "TOKEN", "CA", "CERT", "KEY"))
"""Variables of the client commands: the bridge that they call, the token, and the files for TLS."""
_BESIDE: Final = (CONFIG, SECRETS_DIR, f"{PREFIX}LOCAL_DIR", f"{PREFIX}RABBITMQ_PASSWORD", *OF_CLIENTS)
"""Variables that are no settings. Other code reads them: the search for settings files, `make run`, the compose file,
client commands."""
_OF_TESTS: Final = f"{PREFIX}TEST_"
# Kubernetes sets these in each pod for a Service whose name begins with `bridge`.
_OF_KUBERNETES: Final = re.compile(
    r"BRIDGE_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)=.*|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?=\w+://.*"
    r"|PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=.*)",
    re.DOTALL,
)


def complaints_about_unknown(environment: Mapping[str, str], settings: Collection[str]) -> list[str]:
    """Returns a line for each unknown variable, and for each unknown file of secrets or credentials. It names the
    nearest known name, and shows no value.

    `settings`: the names of the settings, without their prefix, in lower case.
    """
    files = [f"{PREFIX}{name.upper()}" for name in settings]
    known = [*files, *(f"{name}_FILE" for name in files), *_BESIDE]
    named = [(name, name, known) for name, value in environment.items() if not _of_others(name, value)]
    for folder in (SECRETS_DIR, CREDENTIALS_DIR):
        named += [(f"{path}", path.name, files) for path in _files(environment.get(folder))]
    return [
        f"{shown}: is unknown{_nearest(name.upper(), names)}; correct its name or remove it"
        for shown, name, names in sorted(named)
        if name.upper().startswith(PREFIX) and name.upper() not in names
    ]


def complaints_about_unknown_keys(file: Path, keys: Collection[str], settings: Collection[str]) -> list[str]:
    """Returns a line for each unknown key of the settings file, with the nearest known name. Shows no value. `keys`:
    the keys of the file. `settings`: the names of all settings."""
    known = [*settings, *(f"{name}_file" for name in settings)]
    return [
        f"{file}: {key}: is unknown{_nearest(key.lower(), known)}; correct its name or remove it"
        for key in sorted(keys)
        if key not in known
    ]


def _of_others(name: str, value: str) -> bool:
    return name.upper().startswith(_OF_TESTS) or _OF_KUBERNETES.fullmatch(f"{name}={value}") is not None


def _files(folder: str | None) -> Iterator[Path]:
    if folder and Path(folder).is_dir():
        yield from Path(folder).iterdir()


def _nearest(name: str, known: Collection[str]) -> str:
    # The prefix, which all variables share, would make any two names similar.
    full = {each.removeprefix(PREFIX): each for each in known}
    nearest = get_close_matches(re.sub(f"^{PREFIX}", "", name, flags=re.IGNORECASE), full, n=1)
    return f"; the nearest setting is {full[nearest[0]]}" if nearest else ""
