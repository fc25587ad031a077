"""Sends a message that is due in two hours, moves it, lists what waits, and deletes it.

python send.py http://127.0.0.1:8080
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

from delaybridge_client import NotFound, SyncClient, operations


def main(url: str) -> None:
    with SyncClient(url) as client:
        bill = client.send("bills", {"customer": 42}, delay=timedelta(hours=2), labels={"customer": "42"})
        moved = client.move("bills", bill.id, deliver_at=datetime.now(UTC) + timedelta(days=1))
        print("waits until", moved.due_at.isoformat())

        for message in client.every(operations.list_messages("bills", state=["waiting"])):
            print(message.id, message.body)

        print(client.delete("bills", bill.id).state)
        try:
            client.look_up("bills", "no-such-bill")
        except NotFound as error:
            print(error.detail)


if __name__ == "__main__":
    main(sys.argv[1])
