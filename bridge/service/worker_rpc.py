"""The other worker processes of one `serve`, which are asked for what only they know: what they count, how they are.

Each worker has one end of a pair of datagram sockets, made before they are forked, and all hold the other ends. Who
asks sends with its question one end of a fresh pair of stream sockets, and reads the answer there until it ends. So
nothing listens that others could reach, and what is asked of a worker that is being started again waits for it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import orjson

_PATIENCE_S = 4.0  # longer than a server that is away is waited for
_LONGEST_QUESTION = 64  # bytes
_CHUNK = 1 << 18

Answers = Mapping[str, Callable[[], Awaitable[Any]]]
"""What is answered, as JSON has it, to each question."""


class WorkerRpc:
    """`name`: this process's among them; empty where it is the only one."""

    def __init__(self, name: str = "", own: socket.socket | None = None, others: Mapping[str, socket.socket] = {}):
        self.name = name
        self._own = own
        self._others = others
        self._answering: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, names: Sequence[str]) -> list[WorkerRpc]:
        """Those of each of these workers, one of which a process keeps once it is forked."""
        pairs = {name: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for name in names}
        for end in (end for pair in pairs.values() for end in pair):
            end.setblocking(False)
        return [
            cls(name, pairs[name][0], {other: pairs[other][1] for other in names if other != name}) for name in names
        ]

    def listen(self, answers: Answers) -> None:
        """Answers the others from now on, in the running loop."""
        if self._own is not None:
            asyncio.get_running_loop().add_reader(self._own, self._asked, self._own, answers)

    def end(self) -> None:
        """Answers nobody any longer."""
        if self._own is not None:
            asyncio.get_running_loop().remove_reader(self._own)
        for task in self._answering:
            task.cancel()

    def close(self) -> None:
        for one in (self._own, *self._others.values()):
            if one is not None:
                one.close()

    async def ask(self, question: str) -> dict[str, Any]:
        """What each of the others answers, by its name; None for one that does not in time, or that as many questions
        wait for as Linux lets wait (`net.unix.max_dgram_qlen`, 10)."""
        answers = await asyncio.gather(*(_ask(question, other) for other in self._others.values()))
        return dict(zip(self._others, answers, strict=True))

    def _asked(self, own: socket.socket, answers: Answers) -> None:
        with suppress(BlockingIOError):
            while True:
                question, ends, _, _ = socket.recv_fds(own, _LONGEST_QUESTION, 1)
                for end in ends:
                    task = asyncio.create_task(_answer(socket.socket(fileno=end), answers[question.decode()]))
                    self._answering.add(task)
                    task.add_done_callback(self._answering.discard)


async def _ask(question: str, other: socket.socket) -> Any:
    here, there = socket.socketpair()
    with closing(here), suppress(OSError, TimeoutError):
        here.setblocking(False)
        with closing(there):
            socket.send_fds(other, [question.encode()], [there.fileno()])
        loop = asyncio.get_running_loop()
        answer = bytearray()
        async with asyncio.timeout(_PATIENCE_S):
            while chunk := await loop.sock_recv(here, _CHUNK):
                answer += chunk
        # One that ended before it had answered has closed it as well.
        return orjson.loads(answer) if answer else None
    return None


async def _answer(end: socket.socket, answer: Callable[[], Awaitable[Any]]) -> None:
    with closing(end), suppress(OSError, TimeoutError):
        end.setblocking(False)
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.get_running_loop().sock_sendall(end, orjson.dumps(await answer()))
