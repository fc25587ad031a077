"""`delaybridge topology …`: what stands on the broker, shown, declared, checked, exported, moved.

The options stand before the command, and are the settings of the bridge: `delaybridge topology --topic orders apply`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from ssl import SSLContext
from typing import Annotated, TypeVar

import aio_pika
import orjson
import typer
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import AMQPError

from bridge.cli.pool_option import HELP, settings_of
from bridge.settings import amqp_urls
from bridge.settings.tls import client_context, tls_failure
from topology import plan
from topology.channels import with_lanes_found
from topology.declare import apply as put
from topology.definitions import export as definitions
from topology.drain import drain as move_all
from topology.errors import TopologyError
from topology.names import MOST_LANES, Names
from topology.show import show as drawing
from topology.verify import verify as look

app = typer.Typer(no_args_is_help=True, add_completion=False)

Result = TypeVar("Result")

CONNECT_TIMEOUT_S = 10


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the options before the command say."""

    amqp_url: str
    management_url: str | None
    tls: SSLContext
    names: Names
    checked: tuple[str, ...]
    direct: tuple[str, ...]
    delivery_limit: int

    def plan(self, *, slots: bool) -> plan.Plan:
        limit = self.delivery_limit
        try:
            return plan.merged(
                (
                    plan.core(self.names),
                    plan.slots(self.names) if slots else plan.Plan(),
                    *(plan.topic(self.names, name, delivery_limit=limit) for name in self.checked),
                    *(plan.topic(self.names, name, delivery_limit=limit, direct=True) for name in self.direct),
                )
            )
        except ValueError as exc:
            raise typer.BadParameter(str(exc)) from exc


@app.callback()
def options(
    context: typer.Context,
    *,
    amqp_url: Annotated[
        str, typer.Option(envvar="BRIDGE_AMQP_URL", help="Broker, with user, password and virtual host.")
    ] = "amqp://guest:guest@127.0.0.1:5672/",
    management_url: Annotated[
        str | None, typer.Option(envvar="BRIDGE_MANAGEMENT_URL", help="Management API, with user and password.")
    ] = None,
    tls_ca: Annotated[
        Path | None, typer.Option(envvar="BRIDGE_TLS_CA", help="Whom to believe, with amqps and https.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(envvar="BRIDGE_TLS_CERT", help="Who we are.")] = None,
    tls_key: Annotated[Path | None, typer.Option(envvar="BRIDGE_TLS_KEY", help="Its key.")] = None,
    prefix: Annotated[
        str, typer.Option(envvar="BRIDGE_PREFIX", help="Start of the names of all that delays.")
    ] = "delay",
    ready_prefix: Annotated[
        str, typer.Option(envvar="BRIDGE_READY_PREFIX", help="Put before a topic: its ready queue.")
    ] = "ready.",
    dead_prefix: Annotated[
        str, typer.Option(envvar="BRIDGE_DEAD_PREFIX", help="Put before a topic: its dead-letter queue.")
    ] = "dead.",
    lanes: Annotated[int, typer.Option(envvar="BRIDGE_LANES", min=1, max=MOST_LANES, help="Wheels side by side.")] = 1,
    delivery_limit: Annotated[
        int, typer.Option(envvar="BRIDGE_DELIVERY_LIMIT", min=1, help="Of the topics' ready queues.")
    ] = plan.DELIVERY_LIMIT,
    pool: Annotated[str | None, typer.Option(metavar="NAME", help=f"{HELP} Its broker and names.")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="A topic the checkpoint releases. Repeatable.")] = None,
    direct: Annotated[list[str] | None, typer.Option(help="A topic released directly. Repeatable.")] = None,
) -> None:
    if pool is not None:
        own = settings_of(pool)
        amqp_url, management_url = own.amqp_url, own.management_url
        prefix, ready_prefix, dead_prefix = own.prefix, own.ready_prefix, own.dead_prefix
    try:
        tls = client_context(tls_ca, tls_cert, tls_key)
        amqp_urls.checked_amqp_url(amqp_url)
        if management_url is not None:
            amqp_urls.checked_management_url(management_url)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from None
    context.obj = Asked(
        amqp_url=amqp_url,
        management_url=management_url,
        tls=tls,
        names=_names(prefix=prefix, ready=ready_prefix, dead=dead_prefix, lanes=lanes),
        checked=tuple(topic or ()),
        direct=tuple(direct or ()),
        delivery_limit=delivery_limit,
    )


@app.command()
def show(
    context: typer.Context,
    *,
    slots: Annotated[bool, typer.Option(help="With every slot, or only what stands from the start.")] = True,
) -> None:
    """Print the plan: exchanges, bindings, queues with their arguments. Asks no broker."""
    asked: Asked = context.obj
    typer.echo(drawing(asked.plan(slots=slots)))


@app.command()
def apply(
    context: typer.Context,
    *,
    slots: Annotated[bool, typer.Option(help="With every slot; without, a bridge declares them at its start.")] = True,
) -> None:
    """Declare the plan on the broker. What stands already stays as it is."""
    asked: Asked = context.obj
    whole = asked.plan(slots=slots)
    _connected(asked, lambda connection: put(connection, whole))
    typer.echo(f"{len(whole.exchanges)} exchanges, {len(whole.queues)} queues, {len(whole.bindings)} bindings stand.")


@app.command()
def verify(
    context: typer.Context,
    *,
    slots: Annotated[bool, typer.Option(help="With every slot, for where all were declared beforehand.")] = False,
) -> None:
    """Check the broker and what stands on it. Ends with 1 when a promise is broken. Changes nothing."""
    asked: Asked = context.obj
    whole = asked.plan(slots=slots)
    report = _connected(asked, lambda connection: look(connection, whole, management_url=asked.management_url))
    typer.echo(str(report))
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def export(
    context: typer.Context,
    *,
    vhost: Annotated[str, typer.Option(help="Virtual host the file is for; it has to exist.")] = "/",
    slots: Annotated[bool, typer.Option(help="With every slot, or only what stands from the start.")] = True,
) -> None:
    """Print the plan as a RabbitMQ definitions file. Asks no broker."""
    asked: Asked = context.obj
    exported = definitions(asked.plan(slots=slots), vhost)
    typer.echo(orjson.dumps(exported, option=orjson.OPT_INDENT_2).decode())


@app.command()
def drain(
    context: typer.Context,
    *,
    old_prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="The prefix to move away from.")],
    old_ready_prefix: Annotated[str | None, typer.Option(help="That of the old ready queues, if it differs.")] = None,
    old_dead_prefix: Annotated[str | None, typer.Option(help="That of the old dead queues, if it differs.")] = None,
) -> None:
    """Move every message from an old prefix to the present one, then take the old topology off the broker.

    Stop the bridges of the old prefix first. Name every topic with --topic or --direct: its ready queue is bound to
    the new names, or moved if its name changes. With the present prefix, the lanes beyond --lanes are moved.
    """
    asked: Asked = context.obj
    new = asked.names
    old = _names(prefix=old_prefix, ready=old_ready_prefix or new.ready, dead=old_dead_prefix or new.dead)
    same = replace(old, lanes=new.lanes) == new

    async def declare_and_move(connection: AbstractConnection) -> dict[str, int]:
        standing = await with_lanes_found(connection, new if same else old)
        if standing == new:
            raise typer.BadParameter(f"{old_prefix} is the present prefix, and has no more lanes than {new.lanes}")
        await put(connection, asked.plan(slots=False))
        return dict((await move_all(connection, standing, new, topics=asked.checked + asked.direct)).moved)

    moved = _connected(asked, declare_and_move)
    for queue, count in sorted(moved.items()):
        typer.echo(f"{count:>12}  from {queue}")
    gone = f"lanes of {old_prefix}: {new.lanes}" if same else f"{old_prefix} is gone"
    typer.echo(f"{sum(moved.values()):>12}  messages moved; {gone}.")


def _names(*, prefix: str, ready: str, dead: str, lanes: int = 1) -> Names:
    try:
        return Names(prefix=prefix, ready=ready, dead=dead, lanes=lanes)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc


def _connected(asked: Asked, do: Callable[[AbstractConnection], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with await aio_pika.connect(
            asked.amqp_url, timeout=CONNECT_TIMEOUT_S, ssl_context=asked.tls
        ) as connection:
            return await do(connection)

    try:
        return asyncio.run(run())
    except (TopologyError, AMQPError, OSError, TimeoutError) as exc:
        typer.echo(f"{type(exc).__name__}: {tls_failure(exc) or exc}", err=True)
        raise typer.Exit(2) from exc
