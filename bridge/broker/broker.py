"""The parts of this package, put together from settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import randrange

from bridge.broker.client import pamqp_patch
from bridge.broker.client.connection import BrokerConnection, translated
from bridge.broker.client.publisher import Publisher
from bridge.broker.declared.declare import NotAllowed
from bridge.broker.declared.declared import Declared
from bridge.broker.declared.findings import Finding, told
from bridge.broker.publications import CopyPublisher
from bridge.broker.ready.dead_letter_search import DeadLetterSearch
from bridge.broker.ready.taker import Taker
from bridge.model.breaker import Breaker, BreakerState
from bridge.model.errors import BrokerUnavailable, BrokerUnfit
from bridge.settings.settings import Settings
from topology import plan
from topology.names import Names
from topology.report import Finding as OfTopology
from topology.verify import check_server, managed, verify, vhost_of

_VERIFY_TIMEOUT_S = 10.0


# Of the loops, whom nobody waits for: what takes longer is taken for lost and done again.
_RELEASE_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class Look:
    """`mended`: what was missing and was declared again."""

    findings: list[Finding]
    mended: list[str]


class Broker:
    """RabbitMQ over three connections: for requests to publish, for the checkpoint to publish, and to consume.

    The broker blocks publishers by connection, and acks must go on; a request gives up far sooner than the checkpoint.
    """

    def __init__(self, settings: Settings) -> None:
        names = Names(
            prefix=settings.prefix, ready=settings.ready_prefix, dead=settings.dead_prefix, lanes=settings.lanes
        )
        timeout_ms = settings.broker_timeout
        pamqp_patch.install()
        self._settings = settings
        self.breaker = Breaker()

        nodes = settings.amqp_url.split(",")
        # Each process begins at another node, or the first would have all connections, and its end end them all.
        first = randrange(len(nodes))
        nodes = nodes[first:] + nodes[:first]

        def link(purpose: str) -> BrokerConnection:
            return BrokerConnection(
                nodes,
                purpose=purpose,
                timeout_ms=timeout_ms,
                check=check_server,
                breaker=self.breaker,
                tls=settings.tls,
            )

        self._publishing, self.consuming, self._releasing = link("publishing"), link("consuming"), link("releasing")
        self.declared = Declared(
            self._publishing, names, delivery_limit=settings.delivery_limit, publishers=(self._releasing,)
        )
        self.copy_publisher = CopyPublisher(
            self.declared, Publisher(self._publishing, timeout_ms=timeout_ms), bundles=settings.bundles
        )
        self.releases = CopyPublisher(
            self.declared, Publisher(self._releasing, timeout_ms=_RELEASE_TIMEOUT_MS), bundles=settings.bundles
        )
        self.taker = Taker(self.consuming, timeout_ms=timeout_ms)
        self.dead_letter_search = DeadLetterSearch(self.consuming)
        self._found: dict[str, list[OfTopology]] = {}  # by question: some are asked once only

    async def start(self) -> None:
        """Declares the core, and sees whether the broker is one to work with.

        Raises:
            BrokerUnavailable
            BrokerUnfit: the promises can't be kept on it: too old, broken, or a feature flag missing.
        """
        await self.declared.ensure_wheel()
        async with translated(_VERIFY_TIMEOUT_S):
            report = await verify(await self._publishing.connection(), plan.Plan())
        if report.findings:
            raise BrokerUnfit("; ".join(str(finding) for finding in report.findings))

    async def look(self, topics: Sequence[str], *, whole: bool) -> Look:
        """Looks over what stands, and declares what is missing of it. `whole`: also at what can't change in place.

        Raises:
            BrokerUnavailable
        """
        wanted = self.declared.wanted(topics)
        await self.declared.lanes.look()
        connection = await self._publishing.connection()
        if self._settings.management_url is not None:
            async with translated(_VERIFY_TIMEOUT_S):
                vhost = await vhost_of(connection)
                url, tls = self._settings.management_url, self._settings.tls
                answers = await managed(url, vhost, wanted, often=not whole, tls=tls)
                self._found |= answers
        found = [finding for findings in self._found.values() for finding in findings]
        unbound = [finding for finding in found if finding.found == "missing"]
        try:
            mended = await self.declared.mend(wanted) + [finding.name for finding in unbound]
        except NotAllowed:
            return Look(findings=told(found), mended=[])
        self.declared.know_standing(topics)
        return Look(findings=told(finding for finding in found if finding not in unbound), mended=mended)

    async def check(self) -> None:
        """
        Raises:
            BrokerUnavailable: it is away, or lets no publisher through.
        """
        await self.declared.ensure_wheel()
        if self.breaker.state is not BreakerState.CLOSED:
            # A connection that a frozen broker has not closed tells nothing.
            await self._publishing.ask()
        if await self._publishing.blocked():
            raise BrokerUnavailable("RabbitMQ blocks publishers: a memory or disk alarm")

    async def close(self) -> None:
        await self.consuming.drop()
        await self._releasing.drop()
        await self._publishing.drop()
