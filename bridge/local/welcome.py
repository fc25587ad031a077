"""Writes the text that `make run` prints once the stack runs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def welcome(http_url: str, *, amqp_url: str, management_url: str | None, logs: Path) -> str:
    """Returns a text with the URLs, and with an example whose commands work as printed."""
    management = f"  RabbitMQ page  {management_url}\n" if management_url else ""
    program = shlex.quote(_program())
    return f"""
delaybridge is ready.

  Console        {http_url}/console
  API            {http_url}
  Documentation  {http_url}/docs
  AMQP           {amqp_url}
{management}  Logs           {logs}

Try it: send a message that is due in 5 seconds, wait for it, acknowledge it.

{program} send hello '{{"hello": "world"}}' --id hello-1 --delay 5s --url {http_url}
{program} pull hello --wait 10s --url {http_url}
{program} ack hello hello-1 --url {http_url}

Ctrl-C stops all servers. They keep their data for the next start.
"""


def _program() -> str:
    """Returns the path of this installation's command `delaybridge`; relative if it is below the working folder."""
    program, here = Path(sys.prefix, "bin", "delaybridge"), Path.cwd()
    return str(program.relative_to(here) if program.is_relative_to(here) else program)
