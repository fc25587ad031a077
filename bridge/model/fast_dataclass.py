"""Makes dataclasses that are frozen for the type checker only.

A frozen dataclass sets each field through `object.__setattr__`, so an instance with 16 fields takes 2.3 us to make.
Without `frozen` it takes 0.24 us. A send makes a dozen such instances. In both cases the type checker refuses an
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
    """Makes a dataclass, and takes the arguments of `dataclass`. With `frozen` the class is hashable, but nothing stops
    an assignment at run time."""
    return dataclass(slots=slots, kw_only=kw_only, unsafe_hash=frozen)
