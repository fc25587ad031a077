"""Defines a planted defect: code of the bridge that is replaced while a search runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from inspect import getsource
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any, Final

import pytest

from bridge.store.scripts import NUMBERS, SCRIPTS

EVERY: Final = "*"


@dataclass(frozen=True)
class Change:
    """Replaces `code` by `instead`. `where`: the name of a script, `EVERY` script that has the code, or a function, as
    in "module:Class.function". The code of a function begins at its margin, and a script's may use named numbers."""

    where: str
    code: str
    instead: str

    def scripts(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Returns the texts of the changed scripts by name. `texts`: of all scripts so far."""
        code, instead = _with_numbers(self.code), _with_numbers(self.instead)
        names = [name for name, text in texts.items() if code in text] if self.where == EVERY else [self.where]
        if not names:
            raise LookupError(f"no script has {self.code!r} any more")
        return {name: _replaced(name, texts[name], code, instead) for name in names}

    def function(self) -> tuple[FunctionType, CodeType]:
        """Returns the function, and the code that it is to have."""
        module_name, _, path = self.where.partition(":")
        found: Any = import_module(module_name)
        members = vars(found)
        for name in path.split("."):
            found = getattr(found, name)
        text = _replaced(self.where, dedent(getsource(found)), self.code, self.instead)
        made: dict[str, Any] = {}
        exec(compile(f"from __future__ import annotations\n{text}", self.where, "exec"), dict(members), made)
        return found, made[found.__name__].__code__


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A defect: each change takes a part of one rule away. `mended`: the commit that mended it in November 2026; empty:
    nobody has made it. `scenario`: the scenario of the exploration that finds it, and `promise` how the promise begins
    that breaks then; empty: none finds it. `simulated`: the simulation finds it."""

    name: str
    changes: tuple[Change, ...]
    mended: str = ""
    scenario: str = ""
    promise: str = ""
    simulated: bool = True

    @contextmanager
    def planted(self) -> Iterator[dict[str, str]]:
        """Plants the defect. Yields the changed texts of scripts by name."""
        all_texts = {name: script.text for name, script in SCRIPTS.items()}
        texts: dict[str, str] = {}
        with pytest.MonkeyPatch.context() as patch:
            for change in self.changes:
                if ":" in change.where:
                    function, code = change.function()
                    patch.setattr(function, "__code__", code)  # so it changes wherever it was imported
                else:
                    texts |= change.scripts({**all_texts, **texts})
            yield texts


def _replaced(where: str, text: str, code: str, instead: str) -> str:
    if text.count(code) != 1:
        raise LookupError(f"{where} has {code!r} {text.count(code)} times, not once")
    return text.replace(code, instead)


def _with_numbers(code: str) -> str:
    return re.sub(r"\b[A-Z_]+\b", lambda word: NUMBERS.get(word[0], word[0]), code)
