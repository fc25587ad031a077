"""Consumes a topic without asyncio, one message at a time.

python consume_sync.py http://127.0.0.1:8080 orders
"""

from __future__ import annotations

import signal
import sys
import threading

from delaybridge_client import LeasedMessage, SyncClient


def handle(message: LeasedMessage) -> None:
    print("order", message.body, flush=True)


def main(url: str, topic: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with SyncClient(url) as client:
        print("stopped", client.consume(topic, handle=handle, stop=stop), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
