"""Runs in Celery's own environment: the app of its worker, and the loads. benchmarks/peers/celery.py starts it.

A task writes its lateness in microseconds, as a line of 16 bytes, to the file BENCH_ARRIVALS. So the size of the file
gives the number of arrivals over all processes of the worker.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from celery import Celery  # type: ignore[import-not-found, unused-ignore]
from celery.signals import worker_ready  # type: ignore[import-not-found, unused-ignore]
from kombu import Exchange, Queue  # type: ignore[import-not-found, unused-ignore]

LINE_BYTES = 16
FAR_S = 600
ARRIVALS = os.environ["BENCH_ARRIVALS"]

app = Celery("bench", broker=os.environ["BENCH_AMQP_URL"])
app.conf.update(
    # Delayed delivery needs a topic exchange.
    task_queues=[
        Queue("bench", Exchange("bench", type="topic"), routing_key="bench", queue_arguments={"x-queue-type": "quorum"})
    ],
    task_default_queue="bench",
    task_default_exchange="bench",
    task_default_exchange_type="topic",
    task_default_routing_key="bench",
    broker_transport_options={"confirm_publish": True},
    broker_pool_limit=64,
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=50,
)


def arrived(due_s: float, body: object) -> None:
    late_us = int((time.time() - due_s) * 1_000_000)
    os.write(_file(), b"%15d\n" % late_us)


_files: dict[int, int] = {}


def _file() -> int:
    pid = os.getpid()
    if pid not in _files:
        _files[pid] = os.open(ARRIVALS, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    return _files[pid]


task = app.task(name="arrived")(arrived)


def _ready(**_: object) -> None:
    with open(os.environ["BENCH_READY"], "w"):
        pass


worker_ready.connect(_ready)


def _came() -> int:
    return os.path.getsize(ARRIVALS) // LINE_BYTES if os.path.exists(ARRIVALS) else 0


def _send(options: dict[str, Any], delay_s: int, planned_s: float) -> None:
    task.apply_async((planned_s + delay_s, options["body"]), countdown=delay_s)


def _clients(options: dict[str, Any], delay_s: int, until_s: Callable[[], bool], window: int | None) -> list[int]:
    """Starts threads that send. Each item of the returned list counts the sends of one thread."""
    sent = [0] * options["clients"]
    first = _came()

    def client(at: int) -> None:
        while until_s():
            if window is not None and sum(sent) - (_came() - first) >= window:
                time.sleep(0.01)
                continue
            _send(options, delay_s, time.time())
            sent[at] += 1

    for at in range(options["clients"]):
        threading.Thread(target=client, args=(at,), daemon=True).start()
    return sent


def single(options: dict[str, Any]) -> float:
    end_s = time.time() + options["warm_s"] + options["seconds"]
    sent = _clients(options, FAR_S, lambda: time.time() < end_s, None)
    time.sleep(options["warm_s"])
    before, begun_s = sum(sent), time.time()
    time.sleep(options["seconds"])
    return (sum(sent) - before) / (time.time() - begun_s)


def cycle(options: dict[str, Any]) -> float:
    delay_s = options["delay_ms"] // 1_000
    end_s = time.time() + delay_s + options["warm_s"] + options["seconds"]
    _clients(options, delay_s, lambda: time.time() < end_s, options["window"])
    time.sleep(delay_s + options["warm_s"])
    before, begun_s = _came(), time.time()
    time.sleep(options["seconds"])
    return (_came() - before) / (time.time() - begun_s)


def lateness(options: dict[str, Any]) -> list[float]:
    """An open loop: 64 threads share the plan. Lateness counts from the planned moment, even if a thread sends late."""
    delays_s = [delay_ms // 1_000 for delay_ms in options["delays_ms"]]
    first, start_s = _came(), time.time() + 0.2
    places = iter(range(len(delays_s)))
    lock = threading.Lock()

    def client() -> None:
        while True:
            with lock:
                at = next(places, None)
            if at is None:
                return
            planned_s = start_s + at / options["rate_per_s"]
            time.sleep(max(0.0, planned_s - time.time()))
            _send(options, delays_s[at], planned_s)

    for _ in range(64):
        threading.Thread(target=client, daemon=True).start()
    give_up_s = start_s + len(delays_s) / options["rate_per_s"] + options["give_up_s"]
    while _came() - first < len(delays_s):
        if time.time() > give_up_s:
            raise SystemExit(f"{len(delays_s) - _came() + first} of {len(delays_s)} tasks did not come")
        time.sleep(0.05)
    with open(ARRIVALS, "rb") as file:
        file.seek(first * LINE_BYTES)
        return [int(line) / 1_000 for line in file]


if __name__ == "__main__":
    given = json.load(sys.stdin)
    found = {"single": single, "cycle": cycle, "lateness": lateness}[given["what"]](given)
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    # The program does not wait for threads that are still sending.
    os._exit(0)
