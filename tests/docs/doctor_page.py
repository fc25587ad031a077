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

Run it on the machine of the bridge, with its environment and as its user. It reads the settings of
[`serve`](settings.md), or without settings looks at the servers of a running `make run`. It also asks a bridge for its
health: that of `--url` or `BRIDGE_URL`, otherwise the one where `serve` would listen.

It needs the rights of a bridge, changes nothing, and shows no password. To see whether publishers are blocked, it
publishes two messages that RabbitMQ drops.

| state | meaning |
| --- | --- |
| `error` | a promise is broken, or a bridge can't start or work |
| `warning` | a promise may be broken, or messages may be late |
| `not checked` | the check could not be made; `found` has the reason |
| `ok` | nothing was found; only `--all` lists it |

The exit code is 1 if there is an error or a warning, otherwise 0. With `--strict` it is also 1 if a check could not be
made. `--json` prints one object a line with the members `check`, `state`, `title`, `found` and `docs`. A fault also has
`cause`, `effect` and `remedy`.

RabbitMQ shows two settings to no client, so no check reads them. `rabbitmqctl environment` prints them:

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
