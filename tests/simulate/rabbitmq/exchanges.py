"""Routes messages: exchanges, their bindings, and alternate exchanges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tests.simulate.rabbitmq.message import Message
from tests.simulate.rabbitmq.tables import EMPTY, Table

TYPES: Final = ("direct", "fanout", "topic", "headers")
_CACHED: Final = 10_000

Kind = Literal["queue", "exchange"]
Destination = tuple[Kind, str]


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding of an exchange. `arguments`: only headers exchanges read them."""

    destination: Destination
    key: str
    arguments: tuple[tuple[str, bytes], ...] = ()


@dataclass(eq=False)
class Exchange:
    """An exchange. Bindings keep the order in which they were made."""

    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = EMPTY
    bindings: dict[Binding, None] = field(default_factory=dict)
    _found: dict[str, tuple[Destination, ...]] = field(default_factory=dict)

    @property
    def alternate(self) -> str | None:
        value = self.arguments.value("alternate-exchange")
        return value if isinstance(value, str) else None

    def bind(self, binding: Binding) -> None:
        self.bindings[binding] = None
        self._found.clear()

    def unbind(self, binding: Binding) -> bool:
        """Removes the binding. Returns whether it existed."""
        self._found.clear()
        return self.bindings.pop(binding, True) is None

    def unbind_all(self, destination: Destination) -> bool:
        """Removes all bindings to the destination. Returns whether there was one."""
        gone = [binding for binding in self.bindings if binding.destination == destination]
        for binding in gone:
            self.unbind(binding)
        return bool(gone)

    def destinations(self, message: Message) -> Iterator[Destination]:
        """Yields the destination of each binding that matches, for each of the message's keys."""
        if self.type == "headers":
            headers = message.properties.headers.read()
            yield from (binding.destination for binding in self.bindings if _headers_match(binding, headers))
            return
        for key in message.keys:
            if key not in self._found:
                if len(self._found) > _CACHED:
                    self._found.clear()
                self._found[key] = tuple(b.destination for b in self.bindings if self._matches(b.key, key))
            yield from self._found[key]

    def _matches(self, pattern: str, key: str) -> bool:
        match self.type:
            case "fanout":
                return True
            case "direct":
                return pattern == key
            case _:
                return _topic_matches(pattern.split("."), key.split("."))


def _topic_matches(pattern: list[str], words: list[str]) -> bool:
    """Whether a topic pattern matches: `*` is one word, `#` any number of words."""
    for at, part in enumerate(pattern):
        if part == "#":
            rest = pattern[at + 1 :]
            return not rest or any(_topic_matches(rest, words[start:]) for start in range(at, len(words) + 1))
        if at >= len(words) or part not in ("*", words[at]):
            return False
    return len(pattern) == len(words)


def _headers_match(binding: Binding, headers: Mapping[str, Any]) -> bool:
    wanted = Table(dict(binding.arguments)).read()
    any_of = wanted.get("x-match") == "any"
    tests = [
        name in headers and (value is None or headers[name] == value)
        for name, value in wanted.items()
        if not name.startswith("x-")
    ]
    return any(tests) if any_of else all(tests)


class Exchanges:
    """All exchanges by name. The default exchange has the name ""."""

    def __init__(self) -> None:
        self._by_name: dict[str, Exchange] = {}
        predeclared = [("amq.direct", "direct"), ("amq.fanout", "fanout"), ("amq.topic", "topic")]
        for name, kind in [*predeclared, ("amq.headers", "headers"), ("amq.match", "headers")]:
            self.add(Exchange(name, kind))
        self.add(Exchange("amq.rabbitmq.trace", "topic", internal=True))

    def add(self, exchange: Exchange) -> None:
        self._by_name[exchange.name] = exchange

    def get(self, name: str) -> Exchange | None:
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Exchange]:
        return iter([*self._by_name.values()])

    def remove(self, exchange: Exchange) -> None:
        """Removes an exchange, and the bindings that lead to it."""
        self._by_name.pop(exchange.name, None)
        self.forget(("exchange", exchange.name))

    def forget(self, destination: Destination) -> None:
        """Removes all bindings to a destination, and auto-delete exchanges that have none left."""
        for exchange in self:
            if exchange.unbind_all(destination):
                self.end_unused(exchange)

    def end_unused(self, exchange: Exchange) -> None:
        """Removes an auto-delete exchange whose last binding has gone."""
        if exchange.auto_delete and not exchange.bindings:
            self.remove(exchange)

    def route(self, message: Message) -> Iterable[str]:
        """Returns the names of the queues that get the message, each once, in the order in which they are found."""
        if message.exchange == "":
            return dict.fromkeys(message.keys)
        queues: dict[str, None] = {}
        work, seen = [message.exchange], {message.exchange}
        while work:
            exchange = self._by_name.get(work.pop(0))
            if exchange is None:
                continue
            found = [*exchange.destinations(message)]
            if not found and exchange.alternate is not None:
                found = [("exchange", exchange.alternate)]
            for kind, name in found:
                if kind == "queue":
                    queues[name] = None
                elif name not in seen:
                    seen.add(name)
                    work.append(name)
        return queues
