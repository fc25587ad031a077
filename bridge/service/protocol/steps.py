"""Describes what a change of one message needs: which copy is published, and which call names it in the record.

A step is data: deciding code returns it, and `Succession.perform` alone carries it out.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

from bridge.broker.publications import Publication
from bridge.model.errors import Unavailable
from bridge.model.fast_dataclass import fast_dataclass
from bridge.store.calls import Call
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.verdicts import AnnounceVerdict

V = TypeVar("V", bound=StrEnum)
V_co = TypeVar("V_co", bound=StrEnum, covariant=True)


@fast_dataclass(frozen=True, slots=True)
class Nothing:
    """A step that changes nothing."""


@fast_dataclass(frozen=True, slots=True)
class Publish:
    """A step that publishes the live copy again. There is nothing to name: the record names its epoch and nonce
    already."""

    publication: Publication


@fast_dataclass(frozen=True, slots=True)
class Update(Generic[V_co]):
    """A step that changes the record, and needs no new copy. `name`: the call that changes the record."""

    name: Call[Outcome[V_co]]


@fast_dataclass(frozen=True, slots=True)
class Succeed(Generic[V_co]):
    """A step that publishes a successor, and then names it in the record by the call `name`.

    `announce`: the call that makes the record outlive the copy; its answer does not matter. None: Redis can't forget
    the record before the copy comes.
    """

    publication: Publication
    name: Call[Outcome[V_co]]
    announce: Call[Outcome[AnnounceVerdict]] | None = None


Step = Nothing | Publish | Update[V] | Succeed[V]

Result = Outcome[V] | Unavailable | None
"""The result of a step: the outcome of its call `name`; None if the step has no such call. Or an error: the copy was
not published, Redis did not answer, or this version does not know its answer."""


def named(result: Result[V]) -> Outcome[V]:
    """Returns the outcome in the result of a step. The step must have a call `name`.

    Raises:
        Unavailable: the step was not carried out.
    """
    if isinstance(result, Unavailable):
        raise result
    if result is None:
        raise LookupError("the step named nothing, so it has no outcome")
    return result
