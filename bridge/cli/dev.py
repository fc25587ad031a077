"""Runs `delaybridge dev`: RabbitMQ, Redis and the bridge until Ctrl-C."""

from __future__ import annotations

from bridge.cli import failures
from bridge.cli.groups import App
from bridge.local.errors import LocalError
from bridge.local.stack import StackSettings, run

app = App()


@app.command()
def dev() -> None:
    """Run RabbitMQ, Redis and the bridge on this machine.

    They run until Ctrl-C.
    """
    try:
        settings = StackSettings.from_environment()
    except LocalError as error:
        failures.end("dev", str(error), failures.WRONG)
    try:
        run(settings)
    except LocalError as error:
        failures.end("dev", str(error))
