"""Walks a plan as a broker routes: topic patterns, fanout, exchange to exchange, alternate exchanges, dead letters.

https://www.rabbitmq.com/docs/exchanges, /docs/e2e, /docs/ae, /docs/dlx.
"""

from collections import defaultdict
from dataclasses import dataclass

from topology.plan import Binding, Plan


def matches(pattern: str, key: str) -> bool:
    """Returns whether the pattern matches the key. `*` matches one word, `#` any number of words. Dots separate
    words."""
    return _matches(tuple(pattern.split(".")), tuple(key.split(".")))


def _matches(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_matches(pattern[1:], words[taken:]) for taken in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _matches(pattern[1:], words[1:])


@dataclass(frozen=True, kw_only=True)
class End:
    """The last queue of a copy, the ms until it arrived there, and the queues it waited in before."""

    queue: str
    after_ms: int
    waited_in: tuple[str, ...]


class Walker:
    def __init__(self, plan: Plan) -> None:
        self.exchanges = {exchange.name: exchange for exchange in plan.exchanges}
        self.queues = {queue.name: queue for queue in plan.queues}
        self.bindings: dict[str, list[Binding]] = defaultdict(list)
        for binding in plan.bindings:
            # The broker removes a queue's bindings with the queue.
            if binding.destination_type == "exchange" or binding.destination in self.queues:
                self.bindings[binding.source].append(binding)

    def route(self, exchange: str, key: str) -> list[str]:
        """The queues that get a copy, each once. Empty when the message is unroutable."""
        queues: set[str] = set()
        open_exchanges, seen = [exchange], {exchange}
        while open_exchanges:
            at = self.exchanges[open_exchanges.pop()]
            taken = [b for b in self.bindings[at.name] if at.type == "fanout" or matches(b.key, key)]
            queues |= {b.destination for b in taken if b.destination_type == "queue"}
            onward = {b.destination for b in taken if b.destination_type == "exchange"}
            if not taken and at.alternate:
                onward = {at.alternate}
            open_exchanges += onward - seen
            seen |= onward
        return sorted(queues)

    def walk(self, exchange: str, key: str) -> list[End]:
        """Follows a published message until every copy is in a queue without a TTL."""
        ends = []
        moving = [End(queue=queue, after_ms=0, waited_in=()) for queue in self.route(exchange, key)]
        while moving:
            copy = moving.pop()
            arguments = self.queues[copy.queue].arguments
            ttl_ms = arguments.get("x-message-ttl")
            if ttl_ms is None:
                ends.append(copy)
                continue
            assert copy.queue not in copy.waited_in, f"a cycle through {copy.queue}"
            targets = self.route(str(arguments["x-dead-letter-exchange"]), key)
            assert targets, f"a dead letter of {copy.queue} with the key {key} is unroutable"
            moving += [
                End(queue=target, after_ms=copy.after_ms + int(ttl_ms), waited_in=(*copy.waited_in, copy.queue))
                for target in targets
            ]
        return ends
