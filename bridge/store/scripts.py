"""Loads the Lua scripts from `lua/`. The header of a script, the comment at its top, is its contract.

The `KEYS:` and `ARGV:` lines of the header decide in which order a caller's named arguments are sent. Frequent calls
give their arguments in order, and tests compare these with the header. A `KEYS:` line that says only `message` means
the keys in the header of `_record.lua`. The bridge puts the functions that a script uses in front of the script: from
`_moments.lua`, and with such a line from `_record.lua`.

The lines `Life:` and `Also:` say how a script moves a record from state to state. Only tests read them
(`tests/life_table.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    name: str
    text: str
    sha: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    purpose: str
    for_each: bool  # one call takes several messages and answers for each

    @property
    def of_record(self) -> bool:
        """Whether the script is about one message, or with `for_each` about several."""
        return self.keys[0] == "record"

    @property
    def of_index(self) -> bool:
        """Whether the script reads or writes a topic's indexes."""
        return "waiting" in self.keys


def _contract(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Reads the names of the keys and of the arguments from a script's header."""
    lines = text.splitlines()
    names: dict[str, list[str]] = {"KEYS": [], "ARGV": []}
    for number, line in enumerate(lines):
        for part, listed in names.items():
            if line.startswith(f"-- {part}: "):
                listed.extend(line.removeprefix(f"-- {part}: ").split())
                for more in lines[number + 1 :]:
                    # A long list continues on indented lines that hold names only.
                    if not re.fullmatch(r"-- {7}[a-z_]+( [a-z_]+)*", more):
                        break
                    listed.extend(more[2:].split())
    return tuple(names["KEYS"]), tuple(names["ARGV"])


_NUMBERS = re.compile(r"^local ([A-Z_]+(?:, [A-Z_]+)*) = (\d+(?:, \d+)*)$", re.MULTILINE)
_FUNCTION = re.compile(r"^local function (\w+)", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)


def _named_numbers(text: str) -> dict[str, str]:
    return {
        name: number
        for names, values in _NUMBERS.findall(text)
        for name, number in zip(names.split(", "), values.split(", "), strict=True)
    }


_LUA: Final = files("bridge.store") / "lua"
_PRELUDE: Final = (_LUA / "_record.lua").read_text()
NUMBERS: Final = _named_numbers(_PRELUDE)
"""The numbers that `_record.lua` names, such as those of a record's fields. Every script may use the names."""


def _with_prelude(prelude: str, own: str) -> str:
    """Puts the prelude in front of the script, with only the functions that the script uses. Replaces named numbers by
    their values, because Lua would bind shared locals to each function in every call."""
    used, kept = set(re.findall(r"\w+", _COMMENT.sub("", own))), [own]
    for part in reversed(_COMMENT.sub("", prelude).split("\n\n")):
        functions = set(_FUNCTION.findall(part))
        if not functions or functions & used:
            used.update(re.findall(r"\w+", part))
            kept.insert(0, part)
    text = "\n".join(kept)
    numbers = NUMBERS | _named_numbers(text)
    return re.sub(r"\b[A-Z_]+\b", lambda word: numbers.get(word[0], word[0]), _NUMBERS.sub("", text))


def _load() -> dict[str, Script]:
    moments = (_LUA / "_moments.lua").read_text()
    of_message, _ = _contract(_PRELUDE)
    scripts = {}
    for file in _LUA.iterdir():
        name = file.name.removesuffix(".lua")
        if name == file.name or name.startswith("_"):
            continue
        own = file.read_text()
        named, args = _contract(own)
        keys = of_message if named == ("message",) else named
        text = _with_prelude(f"{moments}\n{_PRELUDE}" if keys is of_message else moments, own)
        digest = sha1(text.encode(), usedforsecurity=False).hexdigest()
        purpose = own.partition("\n")[0].removeprefix("-- ")
        for_each = own.endswith(f"\nreturn for_each({name})\n")
        scripts[name] = Script(
            name=name, text=text, sha=digest, keys=keys, args=args, purpose=purpose, for_each=for_each
        )
    return scripts


SCRIPTS = _load()
