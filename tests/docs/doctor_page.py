"""Writes docs/operating/doctor.md from the checks: `make docs`."""

from __future__ import annotations

from collections.abc import Iterator

from bridge.cli.doctor.checks.check import PAGE as PATH
from bridge.cli.doctor.checks.table import THEMES
from tests.docs.documents import PROJECT

PAGE = PROJECT / PATH

INTRODUCTION = """\
# Doctor

`delaybridge doctor` names what is wrong with the settings, RabbitMQ, Redis and a running bridge. `make docs` writes
this page from its checks.

```sh
delaybridge doctor
delaybridge doctor --all --json
```

It reads the settings of [`serve`](settings.md), looks at the servers itself, and asks a bridge for its health if one
answers. Without settings it looks at the servers of a running `make run`. It needs the rights of a bridge, and changes
nothing. It publishes two messages that RabbitMQ drops, to see whether publishers are blocked. It shows no password.

Run it on the machine of the bridge, with its environment and as its user: ports, limits and files are of this machine.
The bridge is the one of `--url` or `BRIDGE_URL`. Otherwise it is the one where `serve` would listen.

| state | meaning |
| --- | --- |
| `error` | a promise is broken, or a bridge can't start or work |
| `warning` | a promise may be broken, or messages may be late |
| `not checked` | the check could not be made; `found` has the reason |
| `ok` | nothing was found; only `--all` lists it |

Columns have one line for all checks that could not be made for the same reason, with their numbers.

The exit code is 0 if there is no fault, and 1 if there is an error or a warning. With `--strict` it is also 1 if a
check could not be made. `--json` prints one object a line with the members `check`, `state`, `title`, `found` and
`docs`. A fault also has `cause`, `effect` and `remedy`.

Two settings of RabbitMQ are in no check, as RabbitMQ shows them to no client. `rabbitmqctl environment` prints them:

* `consumer_timeout` in `rabbitmq.conf`. It must be 30 minutes or more, as by default.
* `dead_letter_worker_consumer_prefetch` in `advanced.config`. Check [226](#226-expired-messages-stay-in-a-slot) sees
  its effect.
"""


def page() -> str:
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    for theme, checks in THEMES.items():
        yield f"\n## {theme}\n"
        for check in checks:
            yield f"\n### {check.heading}\n\n"
            yield f"* **Cause.** {check.cause}\n* **Effect.** {check.effect}\n* **Remedy.** {check.remedy}\n"


if __name__ == "__main__":
    PAGE.write_text(page())
