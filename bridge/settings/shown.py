"""Writes the values of settings so that they may be shown, with all passwords masked."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Any, Final

from bridge.model.durations import format_duration
from bridge.settings.amqp_urls import without_password
from bridge.settings.kinds import Unit
from bridge.settings.roles import Role
from bridge.settings.settings import Settings

_MASKED: Final = "***"


def shown(settings: Settings, name: str) -> str | int | bool | None:
    """Returns the value of a setting in a form that `Settings` takes, with `***` in place of each password."""
    value = getattr(settings, name)
    match name:
        case "lmstfy_accounts" if value:
            return _json(dict.fromkeys(value, _MASKED))
        case "pools" if value:
            return _json(
                {pool: {"namespaces": one.namespaces} | _servers(one.settings()) for pool, one in value.items()}
            )
        case "task_services" if value:
            return _json(
                {
                    one: {"url": str(service.url)} | ({"secret": _MASKED} if service.secret else {})
                    for one, service in value.items()
                }
            )
        case "amqp_url" | "redis_url" | "management_url" if value:
            return without_password(value)
        case _:
            return written(name, value)


def written(name: str, value: Any) -> str | int | bool | None:
    """Returns `value` in a form that `Settings` takes. `name`: any setting but `lmstfy_accounts`, `pools` and
    `task_services`, which are objects with several passwords."""
    if isinstance(value, frozenset):
        return ",".join(role for role in Role if role in value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, Path):
        return str(value)
    if Unit("duration") in Settings.model_fields[name].metadata:
        return format_duration(value)
    return value  # type: ignore[no-any-return]


def _servers(of_pool: dict[str, Any]) -> dict[str, Any]:
    urls = {name: url and without_password(url) for name, url in of_pool.items() if name.endswith("_url")}
    return {name: value for name, value in (urls | {"prefix": of_pool.get("prefix")}).items() if value}


def _json(value: Any) -> str:
    return dumps(value, ensure_ascii=False)
