"""Names operations, copies and answers, for the path to a broken promise. Pure."""

from __future__ import annotations

from typing import Any

from bridge.broker.publications import Publication
from tests.explore.state import Carried, Receipt, Task


def task_name(task: Task) -> str:
    of = "" if task.taken is None else f" {copy_name(task.taken.copy)}"
    args = " ".join(arg.id if isinstance(arg, Receipt) else str(arg) for arg in task.args)
    return f"{task.operation}{of}{' ' if args else ''}{args}" + (f" #{task.number + 1}" if task.number else "")


def publication_name(publication: Publication) -> str:
    return f"{copy_name(Carried.of(publication.copy))} to {publication.route.value}"


def copy_name(copy: Carried) -> str:
    return f"{copy.id} {copy.epoch}.{copy.nonce}"


def call_name(call: Any, answer: Any) -> str:
    return f"{call.script.name} {call.message_id} says {_verdict(answer)}"


def _verdict(answer: Any) -> str:
    first = answer[0] if isinstance(answer, tuple) and answer else answer
    return first.decode() if isinstance(first, bytes) else str(answer)


def result_name(result: Any) -> str:
    return f"{type(result).__name__}: {result}" if isinstance(result, Exception) else type(result).__name__
