"""Leases the messages of one topic in groups, each for several pulls."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from itertools import islice
from math import inf
from time import monotonic
from typing import Any

from bridge.broker.ready.taken import Taken
from bridge.model.values import Effective
from bridge.service.pulling.dealing import deal
from bridge.service.pulling.leasing import Leasing
from bridge.service.pulling.want import Want


class LeaseGroups:
    """Leases the messages of one topic in groups. `in_flight`: how many groups are being leased now. `out`: how many
    messages these groups have. `heard_s`: the moment of `monotonic()` at which the latest group was leased; -inf: none
    was."""

    def __init__(
        self,
        topic: str,
        leasing: Leasing,
        begin: Callable[[Coroutine[Any, Any, None]], None],
        changed: Callable[[], None],
    ) -> None:
        """`begin`: begins a task that goes on even if the pulls are cancelled. `changed`: called when the leasing of a
        group has ended or failed."""
        self.in_flight = self.out = 0
        self.heard_s = -inf
        self._topic, self._leasing, self._begin, self._changed = topic, leasing, begin, changed

    def begin(self, taken: Sequence[Taken], wants: Sequence[Want], policy: Effective) -> None:
        """Deals messages to pulls, and begins to lease them. Begins to give back messages that no pull wants."""
        left = iter(taken)
        dealt: list[tuple[Want, list[Taken]]] = []
        for want, share in zip(wants, deal([want.limit for want in wants], len(taken)), strict=True):
            if share:
                its_own = list(islice(left, share))
                want.claim(share, sum(len(one.message.body) for one in its_own))
                dealt.append((want, its_own))
        if dealt:
            self.in_flight += 1
            self.out += sum(len(share) for _, share in dealt)
            self._begin(self._lease(dealt, policy))
        if surplus := list(left):
            self._begin(self.give_back(surplus))

    async def give_back(self, taken: Sequence[Taken]) -> None:
        """Puts messages back into their ready queue, so that other pulls can take them."""
        if taken:
            await self._leasing.give_back(self._topic, taken)

    async def _lease(self, dealt: Sequence[tuple[Want, list[Taken]]], policy: Effective) -> None:
        taken = [(one, want.terms) for want, share in dealt for one in share]
        try:
            results = iter(await self._leasing.lease(self._topic, taken, policy))
            for want, share in dealt:
                want.end(list(islice(results, len(share))))
            self.heard_s = monotonic()
        except Exception as error:  # noqa: BLE001 - every pull of the group gets it
            for want, _ in dealt:
                want.fail(error)
        finally:
            self.in_flight -= 1
            self.out -= len(taken)
            self._changed()
