"""Asks the other worker processes of one `serve` for their metrics, counts and health.

Before the fork, each worker gets a pair of datagram sockets. The worker keeps one end, and all other workers hold the
other end. To ask a question, a worker makes a pair of stream sockets and sends one end along with the question. It
reads the answer from the other end until that closes. So there is no listening socket that other processes could reach.
A question to a worker that is being restarted waits in the worker's socket.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import orjson

from bridge.model import background

_PATIENCE_S = 4.0  # longer than a worker waits for a server that is away
_LONGEST_QUESTION = 64  # bytes
_CHUNK = 1 << 18

Answers = Mapping[str, Callable[[], Awaitable[Any]]]
"""The functions that answer questions, by question. Each returns a value that can be written as JSON."""


class WorkerRpc:
    """Asks the other workers, and answers their questions. `name`: the name of this worker process; empty if it is the
    only worker.

    `own`: the datagram socket of this worker; None: there is only one worker. `others`: the sockets that lead to the
    other workers, by name.
    """

    def __init__(self, name: str = "", own: socket.socket | None = None, others: Mapping[str, socket.socket] = {}):
        self.name = name
        self._own = own
        self._others = others
        self._answering: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, names: Sequence[str]) -> list[WorkerRpc]:
        """Makes one `WorkerRpc` for each worker. After the fork, each process uses only the `WorkerRpc` of its
        worker."""
        pairs = {name: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for name in names}
        for end in (end for pair in pairs.values() for end in pair):
            end.setblocking(False)
        return [
            cls(name, pairs[name][0], {other: pairs[other][1] for other in names if other != name}) for name in names
        ]

    def listen(self, answers: Answers) -> None:
        """Starts answering the other workers, in the running event loop."""
        if self._own is not None:
            asyncio.get_running_loop().add_reader(self._own, self._read_questions, self._own, answers)

    def end(self) -> None:
        """Stops answering the questions of other workers."""
        if self._own is not None:
            asyncio.get_running_loop().remove_reader(self._own)
        for task in self._answering:
            task.cancel()

    def close(self) -> None:
        """Closes the sockets between the workers."""
        for end in (self._own, *self._others.values()):
            if end is not None:
                end.close()

    async def ask(self, question: str) -> dict[str, Any]:
        """Asks all other workers. `question`: a key of their `Answers`. Returns their answers by the workers' names;
        None for a worker that did not answer within four seconds.

        Also None for a worker that has as many waiting questions as Linux allows (`net.unix.max_dgram_qlen`, 10).
        """
        answers = await asyncio.gather(*(_ask(question, other) for other in self._others.values()))
        return dict(zip(self._others, answers, strict=True))

    def _read_questions(self, own: socket.socket, answers: Answers) -> None:
        with suppress(BlockingIOError):
            while True:
                question, ends, _, _ = socket.recv_fds(own, _LONGEST_QUESTION, 1)
                for end in ends:
                    answering = _answer(socket.socket(fileno=end), answers[question.decode()])
                    task = background.begin(answering, "answer another worker")
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
        # A worker that ended before it answered has closed its end as well.
        return orjson.loads(answer) if answer else None
    return None


async def _answer(end: socket.socket, answer: Callable[[], Awaitable[Any]]) -> None:
    with closing(end), suppress(OSError, TimeoutError):
        end.setblocking(False)
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.get_running_loop().sock_sendall(end, orjson.dumps(await answer()))
