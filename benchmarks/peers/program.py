"""Runs the loads of a peer as a program in the peer's own environment."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

import orjson

from benchmarks.bodies import BODY
from benchmarks.errors import BenchError
from benchmarks.peers.peer import (
    BATCH,
    BATCH_CLIENTS,
    CLIENTS,
    CYCLE_DELAY_MS,
    LATE_WITHIN_S,
    SENDERS,
    Load,
    Peer,
    random_delays_ms,
)


class ProgramPeer(Peer):
    """A peer whose program reads one JSON object from its input and prints one JSON value: a rate or a list of ms."""

    @abstractmethod
    def command(self) -> list[str]:
        """Returns the command line of the program."""

    def given(self) -> dict[str, Any]:
        """Returns fields for the program's input, in addition to the load."""
        return {}

    def environment(self) -> dict[str, str] | None:
        """Returns the program's whole environment. None: that of this process."""
        return None

    async def single(self, load: Load) -> float:
        return float(await self._load("single", load, load.seconds, clients=CLIENTS))

    async def batches(self, load: Load) -> float:
        return float(await self._load("batches", load, load.seconds, clients=BATCH_CLIENTS))

    async def cycle(self, load: Load) -> float:
        seconds = load.warm_s + CYCLE_DELAY_MS / 1_000 + load.cycle_s
        return float(await self._load("cycle", load, seconds, clients=SENDERS, delay_ms=CYCLE_DELAY_MS))

    async def lateness_ms(self, load: Load) -> list[float]:
        messages = int(load.rate_per_s * load.lateness_s)
        delays_ms = random_delays_ms(messages, load.longest_ms, whole_seconds=self.whole_seconds)
        late_ms = await self._load("lateness", load, load.lateness_s + LATE_WITHIN_S, delays_ms=delays_ms)
        return [float(late) for late in late_ms]

    async def _load(self, what: str, load: Load, seconds: float, **more: Any) -> Any:
        job = {
            "what": what,
            "body": BODY,
            "batch": BATCH,
            "seconds": load.cycle_s if what == "cycle" else load.seconds,
            "warm_s": load.warm_s,
            "window": load.window,
            "rate_per_s": load.rate_per_s,
            "give_up_s": LATE_WITHIN_S,
            **self.given(),
            **more,
        }
        process = await asyncio.create_subprocess_exec(
            *self.command(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment(),
        )
        try:
            async with asyncio.timeout(seconds + load.warm_s + 30):
                printed, errors = await process.communicate(orjson.dumps(job))
        except TimeoutError:
            raise BenchError(f"{self.name} did not finish the load {what!r} in time") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise BenchError(f"{self.name}, {what}: {errors.decode(errors='replace').strip()[-300:]}")
        return orjson.loads(printed)
