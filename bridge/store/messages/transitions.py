"""Pairs each script about messages with its verdicts and with the reader of its answers."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.values import AckVerdict
from bridge.store.calls import Call
from bridge.store.messages import verdicts as of
from bridge.store.messages.outcomes import Outcome, read_looked, read_timeline_answer, reader
from bridge.store.scripts import SCRIPTS, Script

Answer_co = TypeVar("Answer_co", covariant=True)
V = TypeVar("V", bound=StrEnum)


@fast_dataclass(frozen=True, slots=True)
class Transition(Generic[Answer_co]):
    """One script. `verdicts`: the verdicts that its header names."""

    script: Script
    verdicts: type[StrEnum]
    read: Callable[[Call[Any], Any], Answer_co]


def _deciding(name: str, verdicts: type[V]) -> Transition[Outcome[V]]:
    return Transition(SCRIPTS[name], verdicts, reader(verdicts))


ABANDON: Final = _deciding("abandon", of.AbandonVerdict)
ACK: Final = _deciding("ack", AckVerdict)
ANNOUNCE: Final = _deciding("announce", of.AnnounceVerdict)
BURY: Final = _deciding("bury", of.BuryVerdict)
CHANGE: Final = _deciding("change", of.ChangeVerdict)
CONFIRM: Final = _deciding("confirm", of.ConfirmVerdict)
DELETE: Final = _deciding("delete", of.DeleteVerdict)
DROP: Final = _deciding("drop", of.DropVerdict)
ENTER: Final = _deciding("enter", of.EnterVerdict)
EXTEND: Final = _deciding("extend", of.ExtendVerdict)
FIRE: Final = _deciding("fire", of.FireVerdict)
KEEP: Final = _deciding("keep", of.KeepVerdict)
LEASE: Final = _deciding("lease", of.LeaseVerdict)
LEASE_COPY: Final = _deciding("lease_copy", of.LeaseCopyVerdict)
LOOK: Final = Transition(SCRIPTS["look"], of.LookVerdict, read_looked)
NACK: Final = _deciding("nack", of.NackVerdict)
REPLACE: Final = _deciding("replace", of.ReplaceVerdict)
REPLAY: Final = _deciding("replay", of.ReplayVerdict)
RESTORE: Final = _deciding("restore", of.RestoreVerdict)
RETRY: Final = _deciding("retry", of.RetryVerdict)
RETURNED: Final = _deciding("returned", of.ReturnedVerdict)
SCHEDULE: Final = _deciding("schedule", of.ScheduleVerdict)
TIMELINE: Final = Transition(SCRIPTS["timeline"], of.LookVerdict, read_timeline_answer)
WEIGH: Final = _deciding("weigh", of.WeighVerdict)
WITHDRAW: Final = _deciding("withdraw", of.WithdrawVerdict)
