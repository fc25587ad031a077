"""Makes dataclasses that only the type checker keeps from being changed.

A frozen dataclass sets each field through `object.__setattr__`: one of 16 fields takes 2.3 us to make. A send makes a
dozen values. A dataclass that is not frozen takes 0.24 us. The type checker reads both in the same way and refuses an
assignment to a field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

__all__ = ["fast_dataclass"]

Class = TypeVar("Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def fast_dataclass(*, frozen: bool, slots: bool, kw_only: bool = False) -> Callable[[type[Class]], type[Class]]:
    """Works as `dataclass` with the same arguments, and with the hash of a frozen one, but without its guard."""
    return dataclass(slots=slots, kw_only=kw_only, unsafe_hash=frozen)
