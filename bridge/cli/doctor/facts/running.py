"""Asks a running bridge for its health and its version."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import httpx2

from bridge.access.access import is_loopback
from bridge.broker.declared.findings import Finding
from bridge.cli.doctor.facts.missing import Missing
from bridge.settings.settings import Settings

_TIMEOUT_S: Final = 10.0  # the health of several workers takes up to four seconds
_EVERY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """The facts that a running bridge showed. `parts`: the state of each part of its health, by name. `findings`: the
    findings in its health. `version`: the bridge's version. `own_version`: the version of this program."""

    url: str
    parts: Mapping[str, str]
    findings: Sequence[Finding]
    version: str
    own_version: str


def url_of(settings: Settings) -> str:
    """Returns the URL at which a bridge with these settings answers on its machine."""
    host = _EVERY_ADDRESS.get(settings.http_host, settings.http_host)
    shown = f"[{host}]" if ":" in host else host
    return f"{'http' if settings.http_cert is None else 'https'}://{shown}:{settings.http_port}"


async def running(url: str) -> Running | Missing:
    try:
        # No secret is sent, and the certificate is for the name by which clients call the bridge.
        async with httpx2.AsyncClient(
            base_url=url,
            timeout=_TIMEOUT_S,
            verify=_any_certificate(),
            trust_env=not is_loopback(httpx2.URL(url).host),  # no proxy reaches this machine's own addresses
        ) as client:
            health: Any = (await client.get("/health/ready")).json()
            info: Any = (await client.get("/openapi.json")).json()["info"]
        return Running(
            url=url,
            parts=health["parts"],
            findings=[Finding(found["severity"], found["says"]) for found in health["findings"]],
            version=info["version"],
            own_version=version("delaybridge"),
        )
    except httpx2.TransportError as error:
        return Missing(f"no bridge answers at {url}: {str(error) or type(error).__name__}")
    except (ValueError, KeyError, TypeError, httpx2.HTTPError):
        return Missing(f"what answers at {url} is no bridge")


def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
