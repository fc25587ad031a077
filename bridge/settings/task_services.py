"""The services that tasks may name as their receivers, as the settings have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from json import loads

from bridge.model.addresses import Url, parse_url
from bridge.model.webhooks import key_of


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskService:
    """`url`: of which the origin counts. `secret`: signs what goes there; None: it goes unsigned."""

    url: Url
    secret: str | None = field(default=None, repr=False)


def parse_task_services(text: str) -> dict[str, TaskService]:
    """`{"name": {"url": …, "secret": …}}`

    Raises:
        ValueError: names the service; shows no secret.
    """
    given = loads(text)
    if not isinstance(given, dict):
        raise ValueError('must be {"name": {"url": …, "secret": …}}')  # noqa: TRY004 - pydantic takes no other
    return {str(name): _service(name, fields) for name, fields in given.items()}


def _service(name: str, fields: object) -> TaskService:
    if not isinstance(fields, dict) or not isinstance(fields.get("url"), str) or fields.keys() - {"url", "secret"}:
        raise ValueError(f'{name}: must be {{"url": …, "secret": …}}, the secret as needed')
    secret = fields.get("secret")
    try:
        if secret is not None:
            key_of(str(secret))
        return TaskService(url=parse_url(fields["url"]), secret=secret)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
