"""Runs `python -m bridge.local`: RabbitMQ, Redis and the bridge until Ctrl-C."""

from __future__ import annotations

import sys

from bridge.local.errors import LocalError
from bridge.local.stack import StackSettings, run

if __name__ == "__main__":
    try:
        settings = StackSettings.from_environment()
    except LocalError as error:
        sys.stderr.write(f"delaybridge: {error}\n")
        sys.exit(2)
    try:
        run(settings)
    except LocalError as error:
        sys.exit(f"delaybridge: {error}")
