"""The parts of this package, put together from settings."""

from __future__ import annotations

from bridge.breaker import Breaker, State
from bridge.broker.link import Link, translated
from bridge.broker.objects import Objects
from bridge.broker.publisher import Publisher
from bridge.broker.sifting import Sifter
from bridge.broker.taking import Taker
from bridge.broker.ways import Ways
from bridge.errors import BrokerUnavailable, BrokerUnfit
from bridge.settings import Settings
from topology import plan
from topology.names import Names
from topology.verify import check_server, verify

_VERIFY_TIMEOUT_S = 10.0


# Of the loops, whom nobody waits for: what takes longer is taken for lost and done again.
_RELEASE_TIMEOUT_MS = 10_000


class Broker:
    """RabbitMQ over three connections: for requests to publish, for the checkpoint to publish, and to consume.

    The broker blocks publishers by connection, and acks must go on; a request gives up far sooner than the checkpoint.
    """

    def __init__(self, settings: Settings) -> None:
        names = Names(prefix=settings.prefix, ready=settings.ready_prefix, dead=settings.dead_prefix)
        timeout_ms = settings.broker_timeout
        self._settings = settings
        self.breaker = Breaker()

        def link(purpose: str) -> Link:
            return Link(
                settings.amqp_url, purpose=purpose, timeout_ms=timeout_ms, check=check_server, breaker=self.breaker
            )

        self._publishing, self.consuming, self._releasing = link("publishing"), link("consuming"), link("releasing")
        self.objects = Objects(
            self._publishing, names, delivery_limit=settings.delivery_limit, publishers=(self._releasing,)
        )
        self.ways = Ways(self.objects, Publisher(self._publishing, timeout_ms=timeout_ms))
        self.releases = Ways(self.objects, Publisher(self._releasing, timeout_ms=_RELEASE_TIMEOUT_MS))
        self.taker = Taker(self.consuming, timeout_ms=timeout_ms)
        self.sifter = Sifter(self.consuming)

    async def start(self) -> list[str]:
        """Declares the core and looks the broker over; what an operator should look at.

        Raises:
            BrokerUnavailable
            BrokerUnfit: the promises can't be kept on it: too old, broken, or a feature flag missing.
        """
        await self.objects.ensure_wheel()
        async with translated(_VERIFY_TIMEOUT_S):
            report = await verify(
                await self._publishing.connection(),
                plan.core(self.objects.names),
                management_url=self._settings.management_url,
            )
        flags = [finding for finding in report.findings if finding.name.startswith("feature flag")]
        if flags:
            raise BrokerUnfit("; ".join(str(finding) for finding in flags))
        return [str(finding) for finding in report.findings]

    async def check(self) -> None:
        """
        Raises:
            BrokerUnavailable: it is away, or lets no publisher through.
        """
        await self.objects.ensure_wheel()
        if self.breaker.state is not State.CLOSED:
            # A connection that a frozen broker has not closed tells nothing.
            await self._publishing.ask()
        if await self._publishing.blocked():
            raise BrokerUnavailable("RabbitMQ blocks publishers: a memory or disk alarm")

    async def close(self) -> None:
        await self.consuming.drop()
        await self._releasing.drop()
        await self._publishing.drop()
