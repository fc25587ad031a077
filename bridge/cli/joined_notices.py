"""Joins the notices that the worker processes of one `serve` send to systemd, because systemd accepts notices only from
their parent."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from bridge.service.systemd import Notices


class JoinedNotices:
    """Sends systemd the notices of a service (ready, alive, stopping, a status), made of the notices of its workers.

    The service is ready when all workers are ready. It is alive while all workers are alive. A worker that was silent
    for half of the watchdog's time is not alive.
    """

    def __init__(self, names: Sequence[str], notices: Notices, *, start_s: float = 60.0) -> None:
        """`names`: the workers' names. `start_s`: how many seconds longer a starting worker may be silent."""
        self._names = names
        self._notices = notices
        self._start_s = start_s
        self._pipes = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in names]
        for end in (end for pipe in self._pipes for end in pipe):
            end.setblocking(False)
        self._limit_s = notices.watchdog_s / 2
        self._silent_from_s = [0.0] * len(names)
        self._starting = set(range(len(names)))
        self._statuses = ["starting"] * len(names)
        self._next_beat_s = 0.0
        self._stopping = False

    @property
    def pause_s(self) -> float:
        """How many seconds the parent may wait until it must call `join` again."""
        return min(0.2 if self._starting else 1.0, self._notices.watchdog_s / 8)

    def of(self, place: int) -> Notices:
        """Returns the `Notices` of the worker number `place`, counted from 0. The worker's process sends its notices
        with this object."""
        return Notices(self._pipes[place][1].send, self._notices.watchdog_s)

    def started(self, place: int) -> None:
        """Notes that the parent has forked the worker number `place`, counted from 0. While a worker starts, it may be
        silent for longer."""
        self._silent_from_s[place] = monotonic() + self._start_s

    def stopping(self) -> None:
        """Tells systemd that the service stops. From now on workers may be silent, because they end."""
        self._stopping = True
        self._notices.stopping()

    def join(self) -> None:
        """Reads the notices that the workers have sent, and sends the resulting notices to systemd."""
        starting = bool(self._starting)
        for place, (inbox, _) in enumerate(self._pipes):
            with suppress(BlockingIOError):
                while notice := inbox.recv(4_096).decode():
                    self._take(place, notice)
        if starting and not self._starting:
            self._notices.ready()
        now_s = monotonic()
        if now_s >= self._next_beat_s and (self._stopping or now_s <= min(self._silent_from_s) + self._limit_s):
            self._next_beat_s = now_s + self._notices.watchdog_s / 4
            self._notices.alive()
        if not self._stopping:
            statuses = zip(self._names, self._statuses, strict=True)
            unready = [f"{name}: {status}" for name, status in statuses if status != "ready"]
            self._notices.status("; ".join(unready) or "ready")

    def close(self) -> None:
        """Closes the pipes to the workers. Call this method when no worker is left."""
        for end in (end for pipe in self._pipes for end in pipe):
            end.close()

    def _take(self, place: int, notice: str) -> None:
        kind, _, value = notice.partition("=")
        if kind == "READY":
            self._starting.discard(place)
        elif kind == "STATUS":
            self._statuses[place] = value
        if kind in ("READY", "WATCHDOG"):
            self._silent_from_s[place] = monotonic()
