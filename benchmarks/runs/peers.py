"""Measures other delay queues under the same loads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from benchmarks.bench import Bench
from benchmarks.figures import Unit, curve, percentiles
from benchmarks.peers.beanstalkd import Beanstalkd
from benchmarks.peers.bullmq import BullMq
from benchmarks.peers.celery import Celery
from benchmarks.peers.peer import Load, NotRun, Peer
from benchmarks.peers.zset import FSYNCS, ZsetQueue
from bridge.local.errors import LocalError

SAYS = (
    "Other delay queues on the same machine, one after the other, without a bridge, with the same bodies, 64 clients, "
    "batches of 100, delays and durations. Lateness counts from the planned moment of the send plus the delay. Peers "
    "that know only whole seconds get delays of whole seconds."
)


async def run(bench: Bench) -> None:
    size = bench.size
    load = Load(
        seconds=size.sends_s,
        cycle_s=size.cycle_s,
        warm_s=size.warm_s / 2,
        window=size.cycle_window,
        rate_per_s=size.rate_per_s,
        lateness_s=size.lateness_s,
        longest_ms=size.longest_ms,
    )
    await bench.own.stop_bridge()
    await bench.own.empty()
    for peer in _peers(bench):
        bench.peers[peer.name] = peer.accepted
        try:
            async with peer.running():
                await _measure(bench, peer, load)
                bench.versions |= await peer.versions()
        except Exception as error:  # noqa: BLE001 - a failure of a peer is not a failure of the benchmark
            _not_run(bench, peer, error)


def _peers(bench: Bench) -> Sequence[Peer]:
    folder, installed, may_install = bench.own.folder / "peers-data", bench.own.folder / "peers", bench.may_install

    async def broker() -> str:
        await bench.own.empty()
        return bench.own.amqp_url

    if not bench.size.judged and not may_install:
        return [ZsetQueue(folder, 0.01, "always")]
    return [
        *(ZsetQueue(folder, tick_s, appendfsync) for tick_s in (0.01, 1.0) for appendfsync in FSYNCS),
        *(Beanstalkd(folder, installed, fsync=fsync, may_install=may_install) for fsync in (True, False)),
        *(BullMq(folder, installed, appendfsync, may_install=may_install) for appendfsync in FSYNCS),
        Celery(folder, installed, broker, may_install=may_install),
    ]


async def _measure(bench: Bench, peer: Peer, load: Load) -> None:
    rates: dict[str, Callable[[Load], Awaitable[float]]] = {
        "single": peer.single,
        "batches of 100": peer.batches,
    }
    for what, measure in rates.items():
        await _rate(bench, peer, what, measure, load)
    # Before the cycle, which leaves messages in the queue.
    try:
        late_ms = await peer.lateness_ms(load)
    except Exception as error:  # noqa: BLE001 - the other figures are worth keeping
        _add_not_run(bench, f"peer {peer.name} late p99", "ms", error)
    else:
        for which, value_ms in percentiles(late_ms).items():
            bench.add(f"peer {peer.name} late {which}", value_ms, "ms")
        bench.add_series("peers", "% of messages", "ms late", {peer.name: curve(late_ms)})
    await _rate(bench, peer, "cycle", peer.cycle, load)


async def _rate(bench: Bench, peer: Peer, what: str, measure: Callable[[Load], Awaitable[float]], load: Load) -> None:
    name = f"peer {peer.name} {what}"
    try:
        bench.add(name, await measure(load), "messages/s")
    except Exception as error:  # noqa: BLE001 - the other figures are worth keeping
        _add_not_run(bench, name, "messages/s", error)


def _not_run(bench: Bench, peer: Peer, error: Exception) -> None:
    measured = {row.name for row in bench.rows}
    for what in ("single", "batches of 100", "cycle", "late p50", "late p99"):
        name = f"peer {peer.name} {what}"
        if name not in measured:
            _add_not_run(bench, name, "ms" if what.startswith("late") else "messages/s", error)


def _add_not_run(bench: Bench, name: str, unit: Unit, error: Exception) -> None:
    why = str(error) if isinstance(error, NotRun | LocalError) else f"{type(error).__name__}: {error}"
    bench.add_not_run(name, unit, " ".join(why.split())[:300])
