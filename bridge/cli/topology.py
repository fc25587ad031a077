"""Runs `delaybridge topology …`: shows, declares, checks, exports and drains the topology.

Most options are settings of the bridge; `--topic` and `--direct` name topics. Options come before or after the command:
`delaybridge topology apply --topic orders`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from ssl import SSLContext
from typing import Annotated, TypeVar

import orjson
import typer

from bridge.cli import failures, tls_options
from bridge.cli.groups import App, OptionsAnywhere
from bridge.cli.local_servers import local_servers
from bridge.cli.pool_option import POOL_HELP, settings_of
from bridge.cli.progress import progress
from bridge.model.tls import client_context, tls_failure
from bridge.settings import amqp_urls
from topology import plan
from topology.channels import with_lanes_found
from topology.connect import PikaConnection, connected
from topology.declare import apply as declare_all
from topology.definitions import export as as_definitions
from topology.drain import drain as move_all
from topology.errors import TopologyError
from topology.names import MOST_LANES, Names
from topology.show import show as as_text
from topology.verify import verify as compare

app = App(OptionsAnywhere, help="Show, declare, check, export and drain the topology on RabbitMQ.")

Result = TypeVar("Result")

CONNECT_TIMEOUT_S = 10

_DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672"

_Json = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]

_SLOTS_HELP = "Include every slot; without them, a bridge declares slots as it needs them."


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options that all commands of `topology` share. `checked`: topics with checked release. `direct`: topics with
    direct release."""

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
def read_options(
    context: typer.Context,
    *,
    amqp_url: Annotated[
        str | None,
        typer.Option(
            envvar="BRIDGE_AMQP_URL",
            help="URL of RabbitMQ, with user, password and virtual host. "
            f"Default: that of a running `make run`, or {_DEFAULT_URL}.",
        ),
    ] = None,
    management_url: Annotated[
        str | None,
        typer.Option(envvar="BRIDGE_MANAGEMENT_URL", help="URL of the management API, with user and password."),
    ] = None,
    tls_ca: tls_options.Authorities = None,
    tls_cert: tls_options.Certificate = None,
    tls_key: tls_options.CertificateKey = None,
    prefix: Annotated[
        str, typer.Option(envvar="BRIDGE_PREFIX", help="Prefix of the exchanges and queues of the wheel.")
    ] = "delay",
    ready_prefix: Annotated[
        str, typer.Option(envvar="BRIDGE_READY_PREFIX", help="Prefix of a topic's ready queue.")
    ] = "ready.",
    dead_prefix: Annotated[
        str, typer.Option(envvar="BRIDGE_DEAD_PREFIX", help="Prefix of a topic's dead-letter queue.")
    ] = "dead.",
    lanes: Annotated[int, typer.Option(envvar="BRIDGE_LANES", min=1, max=MOST_LANES, help="Number of wheels.")] = 1,
    delivery_limit: Annotated[
        int, typer.Option(envvar="BRIDGE_DELIVERY_LIMIT", min=1, help="Delivery limit of ready queues.")
    ] = plan.DELIVERY_LIMIT,
    pool: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"{POOL_HELP} Uses its servers and prefixes.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic that the checkpoint releases. Can be repeated.")
    ] = None,
    direct: Annotated[list[str] | None, typer.Option(help="A topic with direct release. Can be repeated.")] = None,
) -> None:
    if pool is not None:
        settings = settings_of(pool)
        amqp_url, management_url = settings.amqp_url, settings.management_url
        prefix, ready_prefix, dead_prefix = settings.prefix, settings.ready_prefix, settings.dead_prefix
    elif amqp_url is None:
        local = local_servers()
        amqp_url = local.get("amqp_url", _DEFAULT_URL)
        management_url = management_url or local.get("management_url")
    try:
        tls = client_context(tls_ca, tls_cert, tls_key)
        amqp_urls.checked_amqp_url(amqp_url)
        if management_url is not None:
            amqp_urls.checked_management_url(management_url)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from None
    context.obj = Options(
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
    slots: Annotated[bool, typer.Option(help=_SLOTS_HELP)] = True,
) -> None:
    """Print the plan: exchanges with their bindings, and queues with their arguments. Needs no broker."""
    options: Options = context.obj
    typer.echo(as_text(options.plan(slots=slots)))


@app.command()
def apply(
    context: typer.Context,
    *,
    slots: Annotated[bool, typer.Option(help=_SLOTS_HELP)] = True,
    json: _Json = False,
) -> None:
    """Declare the plan on the broker. Existing objects stay as they are.

    Exit code 1: RabbitMQ refused an object, or did not answer.
    """
    options: Options = context.obj
    whole = options.plan(slots=slots)
    _connected(options, lambda connection: declare_all(connection, whole))
    counts = {
        "exchanges": len(whole.exchanges),
        "queues": len(whole.every_queue),
        "bindings": len(whole.bindings),
    }
    if json:
        typer.echo(orjson.dumps(counts))
    else:
        typer.echo(f"{', '.join(f'{count} {kind}' for kind, count in counts.items())} exist.")


@app.command()
def verify(
    context: typer.Context,
    *,
    slots: Annotated[bool, typer.Option(help="Also check every slot, if `apply` declared them.")] = False,
    json: _Json = False,
) -> None:
    """Compare the broker with the plan. Changes nothing.

    Exit code 1: an error was found, so a promise is broken; or RabbitMQ did not answer.
    """
    options: Options = context.obj
    whole = options.plan(slots=slots)
    report = _connected(options, lambda connection: compare(connection, whole, management_url=options.management_url))
    skipped = [*report.skipped]
    if not slots:
        skipped.append("slots; add --slots")
    if not options.checked + options.direct:
        skipped.append("queues of topics; name each with --topic or --direct")
    report = replace(report, skipped=tuple(skipped))
    if json:
        typer.echo(orjson.dumps({"ok": report.ok, **asdict(report)}))
    else:
        typer.echo(str(report))
    if not report.ok:
        raise typer.Exit(failures.FAILED)


@app.command()
def export(
    context: typer.Context,
    *,
    vhost: Annotated[str, typer.Option(help="Virtual host of the file; it must exist before the import.")] = "/",
    slots: Annotated[bool, typer.Option(help=_SLOTS_HELP)] = True,
) -> None:
    """Print the plan as a RabbitMQ definitions file. Needs no broker."""
    options: Options = context.obj
    exported = as_definitions(options.plan(slots=slots), vhost)
    typer.echo(orjson.dumps(exported, option=orjson.OPT_INDENT_2).decode())


@app.command()
def drain(
    context: typer.Context,
    *,
    old_prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="The old prefix.")],
    old_ready_prefix: Annotated[str | None, typer.Option(help="Prefix of the old ready queues, if it differs.")] = None,
    old_dead_prefix: Annotated[str | None, typer.Option(help="Prefix of the old dead queues, if it differs.")] = None,
    json: _Json = False,
) -> None:
    """Move every message from an old prefix to the present one, then delete the old topology.

    Stop the bridges of the old prefix first. Name every topic with --topic or --direct. The command binds each topic's
    ready queue to the new names, or moves the messages if the queue's name changes. If PREFIX is the present prefix,
    the command moves the lanes beyond --lanes. Exit code 1: an old queue has a consumer, or RabbitMQ refused a call or
    did not answer.
    """
    options: Options = context.obj
    new = options.names
    old = _names(prefix=old_prefix, ready=old_ready_prefix or new.ready, dead=old_dead_prefix or new.dead)
    same = replace(old, lanes=new.lanes) == new

    async def declare_and_move(connection: PikaConnection) -> None:
        existing = await with_lanes_found(connection, new if same else old)
        if existing == new:
            raise typer.BadParameter(
                f"{old_prefix} is the present prefix and has no lanes beyond --lanes {new.lanes}; name an old prefix"
            )
        await declare_all(connection, options.plan(slots=False))
        topics = options.checked + options.direct
        with progress("messages moved", moved.total):
            await move_all(connection, existing, new, topics=topics, moved=moved)

    moved: Counter[str] = Counter()
    _connected(options, declare_and_move)
    if json:
        typer.echo(orjson.dumps({"moved": moved}))
        return
    for queue, count in sorted(moved.items()):
        typer.echo(f"{count:>12}  from {queue}")
    outcome = f"{old_prefix} has {new.lanes} of its lanes left" if same else f"{old_prefix} is deleted"
    typer.echo(f"{sum(moved.values()):>12}  messages moved; {outcome}.")


def _names(*, prefix: str, ready: str, dead: str, lanes: int = 1) -> Names:
    try:
        return Names(prefix=prefix, ready=ready, dead=dead, lanes=lanes)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc


def _connected(options: Options, work: Callable[[PikaConnection], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with connected(options.amqp_url, timeout_s=CONNECT_TIMEOUT_S, tls=options.tls) as connection:
            return await work(connection)

    try:
        return asyncio.run(run())
    except (TopologyError, OSError, TimeoutError) as exc:
        broker = amqp_urls.without_password(options.amqp_url)
        failures.end("topology", f"{type(exc).__name__} at {broker}: {tls_failure(exc) or exc}")
