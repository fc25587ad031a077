"""Names the topics of a run, by what happens to them."""

from __future__ import annotations

from typing import Final

PULLED: Final = ("pulled-1", "pulled-2")
CONSUMED: Final = ("consumed-1", "consumed-2")
CHANGED_PULLED: Final = "changed-pulled"  # to direct release and back, paused and resumed
CHANGED_CONSUMED: Final = "changed-consumed"
REMOVED: Final = "removed"  # again and again, with its messages
CROWDED: Final = "crowded"  # by hundreds of callers at once
LETTERS: Final = "letters"  # thousands of dead letters
TICKED: Final = "ticked"  # by a schedule
BULK: Final = "bulk"  # moved and deleted by operations

CHECKED: Final = (*PULLED, *CONSUMED)
CHANGED: Final = (CHANGED_PULLED, CHANGED_CONSUMED)
STEADY: Final = (*CHECKED, *CHANGED)  # get messages for the whole run
ALL: Final = (*STEADY, REMOVED, CROWDED, LETTERS)


def first(topic: str) -> str:
    """The key of the topic's first message."""
    return f"first-{topic}"
