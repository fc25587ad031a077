"""Runs `delaybridge token …`: creates, lists and revokes the tokens of HTTP clients."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, TypeVar

import orjson
import typer

from bridge.access.sources import FileSource, StoreSource
from bridge.access.token import (
    MAX_PER_S,
    NAME_PATTERN,
    NAMESPACE_PATTERN,
    TARGET_PATTERN,
    Scope,
    Token,
    new_id,
    new_secret,
    sha256_of,
    written,
)
from bridge.cli import failures
from bridge.cli.columns import aligned
from bridge.cli.groups import App
from bridge.cli.logs import configure
from bridge.cli.pool_option import read_settings, settings_of
from bridge.cli.record import record
from bridge.cli.unavailable import end_unavailable
from bridge.model.action import ActionName
from bridge.model.durations import format_instant, parse_duration_ms
from bridge.model.errors import Unavailable
from bridge.model.values import LARGEST_BODY
from bridge.service.service import Service
from bridge.settings.settings import Settings
from bridge.store.kept.made_topics import MOST as MOST_TOPICS
from bridge.store.kept.tokens import StoredTokens

app = App(help="Create, list and revoke the tokens of HTTP clients.")
Result = TypeVar("Result")

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who will use the token; shown in lists.")],
    *,
    scope: Annotated[
        list[Scope], typer.Option(help="What the token allows; can be repeated. Every scope allows to read.")
    ],
    namespace: Annotated[
        list[str] | None, typer.Option(help="Allow the topics of this namespace; can be repeated.")
    ] = None,
    pool: Annotated[
        str | None, typer.Option(metavar="NAME", help="Allow the topics of all namespaces of this pool.")
    ] = None,
    bare_topics: Annotated[bool, typer.Option("--bare-topics", help="Allow the topics without a namespace.")] = False,
    every_topic: Annotated[bool, typer.Option("--every-topic", help="Allow all topics.")] = False,
    expires: Annotated[
        str | None, typer.Option(help="How long the token is valid, such as 90d or 12h. Default: for ever.")
    ] = None,
    sends_per_s: Annotated[
        int | None, typer.Option(help=f"Sends a second, 1 to {MAX_PER_S}; a batch counts as one send.")
    ] = None,
    pulls_per_s: Annotated[int | None, typer.Option(help=f"Pulls a second, 1 to {MAX_PER_S}.")] = None,
    max_body: Annotated[
        int | None, typer.Option(help=f"Largest body of a message in bytes, 1 to {LARGEST_BODY}.")
    ] = None,
    max_topics: Annotated[
        int | None,
        typer.Option(
            help=f"Topics that the token may make in each pool, 1 to {MOST_TOPICS}; a removed one counts no more."
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EXCHANGE",
            help="Allow messages for this exchange of another application; * is any text; can be repeated. "
            "Default: none.",
        ),
    ] = None,
    json: _Json = False,
) -> None:
    """Create a token and print it. It is shown only once: Redis keeps only a hash of it.

    Settings come from the environment (BRIDGE_…). Exit code 1: Redis did not answer.
    """
    pools = {} if pool is None else settings_of(pool).pools or {}
    routed = pools[pool].namespaces if pool in pools else ()
    namespaces = tuple(dict.fromkeys([*(namespace or ()), *routed]))
    _check(name, "NAME", NAME_PATTERN, "must be 1 to 100 printable ASCII characters, with no space at either end")
    for allowed_namespace in namespaces:
        _check(allowed_namespace, "--namespace", NAMESPACE_PATTERN, "must be 1 to 100 letters, digits, _ . -")
    for allowed_target in target or ():
        _check(allowed_target, "--target", TARGET_PATTERN, "must be 1 to 255 characters")
    _check_range(sends_per_s, "--sends-per-s", MAX_PER_S)
    _check_range(pulls_per_s, "--pulls-per-s", MAX_PER_S)
    _check_range(max_body, "--max-body", LARGEST_BODY)
    _check_range(max_topics, "--max-topics", MOST_TOPICS)
    if every_topic == bool(namespaces or bare_topics):
        raise typer.BadParameter("give either --every-topic, or --namespace and --bare-topics", param_hint="topics")
    now_ms, secret = int(time.time() * 1_000), new_secret()
    token = Token(
        id=new_id(),
        name=name,
        sha256=sha256_of(secret),
        scopes=tuple(dict.fromkeys(scope)),
        namespaces=namespaces,
        bare_topics=bare_topics,
        every_topic=every_topic,
        sends_per_s=sends_per_s,
        pulls_per_s=pulls_per_s,
        max_body=max_body,
        max_topics=max_topics,
        targets=tuple(dict.fromkeys(target or ())),
        created_ms=now_ms,
        expires_ms=None if expires is None else now_ms + _duration_ms(expires),
    )

    async def put(service: Service) -> None:
        await _stored(service).put(token.id, token.model_dump_json().encode())
        await record(service, ActionName.TOKEN_CREATE, target=token.id)

    _run(_writable(), put)
    if json:
        shown = {"token": written(token.id, secret), **token.model_dump(mode="json", exclude={"sha256"})}
        typer.echo(orjson.dumps(shown, option=orjson.OPT_INDENT_2))
    else:
        typer.echo(written(token.id, secret))
        typer.echo(f"Token {token.id} is valid from now on. This is the only time that it is shown.", err=True)


@app.command("list")
def list_tokens(*, json: _Json = False) -> None:
    """List the tokens without their secrets. `--json` prints their hashes, in the form of BRIDGE_TOKENS_FILE.

    Exit code 1: Redis did not answer, or the file can't be read.
    """
    settings = read_settings()

    async def read_tokens(service: Service) -> Mapping[str, Token]:
        file = settings.tokens_file
        return await (StoreSource(_stored(service)) if file is None else FileSource(file)).tokens()

    tokens = sorted(_run(settings, read_tokens).values(), key=lambda token: (token.name, token.created_ms))
    if json:
        dumped = [token.model_dump(mode="json") for token in tokens]
        typer.echo(orjson.dumps(dumped, option=orjson.OPT_INDENT_2))
        return
    head = ("id", "name", "scopes", "topics", "limits", "created", "expires")
    for line in aligned([head, *map(_row, tokens)]):
        typer.echo(line)


@app.command()
def revoke(token_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `token list` shows.")]) -> None:
    """Revoke a token. Every process refuses it within two seconds.

    Exit code 1: there is no such token, or Redis did not answer.
    """

    async def remove(service: Service) -> bool:
        removed = await _stored(service).remove(token_id)
        if removed:
            await record(service, ActionName.TOKEN_REVOKE, target=token_id)
        return removed

    if not _run(_writable(), remove):
        failures.end("token", f"there is no token {token_id[:100]!r}; `delaybridge token list` shows the ids")
    typer.echo(f"Token {token_id} is revoked.", err=True)


def _writable() -> Settings:
    """Returns the settings.

    Raises:
        BadParameter: the tokens are in a file and not in Redis.
    """
    settings = read_settings()
    if settings.tokens_file is not None:
        raise typer.BadParameter(
            f"the tokens are in {settings.tokens_file}: change that file, or unset the setting",
            param_hint="BRIDGE_TOKENS_FILE",
        )
    return settings


def _stored(service: Service) -> StoredTokens:
    return StoredTokens(service.context.store, service.context.records.keys)


def _run(settings: Settings, work: Callable[[Service], Awaitable[Result]]) -> Result:
    configure(settings)

    async def connected() -> Result:
        service = Service(settings)
        try:
            return await work(service)
        finally:
            await service.close()

    try:
        return asyncio.run(connected())
    except Unavailable as error:
        end_unavailable("token", error, settings)


def _check(value: str, option: str, pattern: str, rule: str) -> None:
    if not re.fullmatch(pattern, value):
        raise typer.BadParameter(f"{value[:100]!r} {rule}", param_hint=option)


def _check_range(value: int | None, option: str, most: int) -> None:
    if value is not None and not 1 <= value <= most:
        raise typer.BadParameter(f"{value} must be from 1 to {most}", param_hint=option)


def _duration_ms(text: str) -> int:
    try:
        duration_ms = parse_duration_ms(int(text) if text.isascii() and text.isdigit() else text)
    except ValueError as error:
        raise typer.BadParameter(f"{text[:100]!r} {error}", param_hint="--expires") from None
    if not 1_000 <= duration_ms <= 36_500 * 86_400_000:
        raise typer.BadParameter(f"{text[:100]!r} must be from 1s to 36500d", param_hint="--expires")
    return duration_ms


def _row(token: Token) -> Sequence[str]:
    topics = ["every topic"] if token.every_topic else [f"{namespace}/..." for namespace in token.namespaces]
    if token.bare_topics:
        topics.append("bare topics")
    limits = {
        "sends/s": token.sends_per_s,
        "pulls/s": token.pulls_per_s,
        "body bytes": token.max_body,
        "topics": token.max_topics,
    }
    if token.targets:
        topics.append(f"exchanges {' '.join(token.targets)}")
    expires = "never" if token.expires_ms is None else format_instant(token.expires_ms)
    return (
        token.id,
        token.name,
        " ".join(token.scopes),
        ", ".join(topics),
        ", ".join(f"{limit} {unit}" for unit, limit in limits.items() if limit is not None) or "none",
        format_instant(token.created_ms),
        expires,
    )
