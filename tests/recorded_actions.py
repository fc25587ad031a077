"""Keeps operators' actions in a list, for tests without a server."""

from __future__ import annotations

from bridge.model.action import Action
from bridge.service.actions import Actions


class RecordedActions(Actions):
    """Actions that are recorded in `recorded` alone."""

    def __init__(self) -> None:
        self.recorded: list[Action] = []

    async def record(self, action: Action) -> None:
        self.recorded.append(action)
