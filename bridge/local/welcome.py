"""Writes the text that `make run` prints once the stack runs."""

from __future__ import annotations

from pathlib import Path


def welcome(http_url: str, *, amqp_url: str, management_url: str | None, logs: Path) -> str:
    """Returns the URLs, and an example that works as it is printed."""
    management = f"  RabbitMQ page  {management_url}\n" if management_url else ""
    json_header = "-H 'content-type: application/json'"
    topic = f"{http_url}/v1/topics/hello"
    return f"""
delaybridge is ready.

  Console        {http_url}/console
  API            {http_url}
  Documentation  {http_url}/docs
  AMQP           {amqp_url}
{management}  Logs           {logs}

Try it: send a message that is due in 5 seconds, wait for it, acknowledge it.

curl -s -X POST {topic}/messages {json_header} -d '{{"id": "hello-1", "body": {{"hello": "world"}}, "delay": "5s"}}'
curl -s -X POST {topic}/pull {json_header} -d '{{"wait": "10s"}}'
curl -s -X POST {topic}/ack {json_header} -d '{{"ids": ["hello-1"]}}'

Ctrl-C stops all servers. They keep their data for the next start.
"""
