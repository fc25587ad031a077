"""Reads BRIDGE_TASK_SERVICES: the services that tasks may name as their receivers."""

from __future__ import annotations

from dataclasses import dataclass, field
from json import loads

from bridge.model.addresses import Url, parse_url
from bridge.model.webhooks import key_of


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskService:
    """A receiver of tasks. Of `url` only the origin (scheme, host and port) counts. `secret` signs the callbacks to it;
    None: they are unsigned."""

    url: Url
    secret: str | None = field(default=None, repr=False)


def parse_task_services(text: str) -> dict[str, TaskService]:
    """Parses the JSON object of services by name: `{"name": {"url": …, "secret": …}}`.

    Raises:
        ValueError: the text is malformed, or a service is wrong. The error names the service and shows no secret.
    """
    given = loads(text)
    if not isinstance(given, dict):
        raise ValueError('must be {"name": {"url": …, "secret": …}}')  # noqa: TRY004 - pydantic handles only ValueError
    return {str(name): _service(name, fields) for name, fields in given.items()}


def _service(name: str, fields: object) -> TaskService:
    if not isinstance(fields, dict) or not isinstance(fields.get("url"), str) or fields.keys() - {"url", "secret"}:
        raise ValueError(f'{name}: must be {{"url": …, "secret": …}}; the secret is optional')
    secret = fields.get("secret")
    try:
        if secret is not None:
            key_of(str(secret))
        return TaskService(url=parse_url(fields["url"]), secret=secret)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
