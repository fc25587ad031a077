"""Looks at the environment, the ports, the limits and the certificates of this machine."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ssl import SSLContext, cert_time_to_seconds
from time import time
from typing import Final

from yarl import URL

from bridge.access.access import Undecided, asks_for_tokens
from bridge.cli.listening import Files, addresses_of
from bridge.model.tls import expires_s
from bridge.settings.redis_url import parse_redis_url, redis_endpoints
from bridge.settings.settings import Settings
from bridge.settings.unknown import complaints_about_unknown

_CONNECT_S: Final = 5.0
_DAY_S: Final = 86_400


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """Facts about this machine. `access`: why `serve` would refuse to start, as no setting says who may call the
    bridge; None: a setting says it. `taken`: why a bridge can't listen, by address. `files`: the limits of open files.
    `days_left`: the days until a certificate expires, by the certificate's file or server."""

    access: str | None
    taken: Mapping[str, str]
    files: Files
    days_left: Mapping[str, float]


def unknown_settings(environment: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(complaints_about_unknown(environment, Settings.model_fields))


async def machine(settings: Settings) -> Machine:
    return Machine(
        access=_undecided(settings),
        taken={f"{host}:{port}": why for host, port in addresses_of(settings) if (why := _taken(host, port))},
        files=Files.of(settings, resource.getrlimit(resource.RLIMIT_NOFILE)),
        days_left=dict(_of_files(settings)) | await _of_servers(settings),
    )


def _undecided(settings: Settings) -> str | None:
    try:
        asks_for_tokens(settings)
    except Undecided as error:
        return str(error)
    return None


def _taken(host: str, port: int) -> str | None:
    """Returns the reason why no program can listen on the address now; None: a program can. Binds a socket there for a
    moment."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return None


def _of_files(settings: Settings) -> Iterator[tuple[str, float]]:
    for name, cert in (("BRIDGE_HTTP_CERT", settings.http_cert), ("BRIDGE_TLS_CERT", settings.tls_cert)):
        if cert is not None:
            yield f"{name} {cert}", (expires_s(cert) - time()) / _DAY_S


async def _of_servers(settings: Settings) -> dict[str, float]:
    """Returns the days until the certificate of each TLS server expires, by host and port. Skips servers that do not
    answer: other checks name them."""
    servers = set(_tls_servers(settings))
    found = await asyncio.gather(*(_expires_s(host, port, settings.tls) for host, port in servers))
    expiries = zip(servers, found, strict=True)
    return {f"{host}:{port}": (at - time()) / _DAY_S for (host, port), at in expiries if at is not None}


def _tls_servers(settings: Settings) -> Iterable[tuple[str, int]]:
    urls = [URL(part.strip()) for part in settings.amqp_url.split(",")]
    if settings.management_url is not None:
        urls.append(URL(settings.management_url))
    yield from ((url.host or "", url.port or 0) for url in urls if url.scheme in ("amqps", "https"))
    if parse_redis_url(settings.redis_url).tls or settings.redis_url.lower().startswith("rediss:"):
        yield from ((host, port) for host, port, _ in redis_endpoints(settings.redis_url))


async def _expires_s(host: str, port: int, tls: SSLContext) -> float | None:
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host, port, ssl=tls)
            certificate = writer.get_extra_info("peercert") or {}
            writer.transport.abort()
    except (OSError, TimeoutError):
        return None
    return float(cert_time_to_seconds(certificate["notAfter"])) if "notAfter" in certificate else None
