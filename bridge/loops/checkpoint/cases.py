"""Keeps for each copy of a batch the answer of Redis, the decision, and the result."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.broker.copies.classify import Due, Returned
from bridge.broker.publications import Publication, Route
from bridge.loops.checkpoint.verdicts import Asked, Decision, Named, Perform
from bridge.service.protocol.steps import Result

Item = Due | Returned
"""A due copy, or a copy that its ready queue returned. Each has its delivery tag."""


@dataclass(slots=True)
class Case:
    """One copy of a batch. `outcome`: Redis' answer about the copy. `result`: the result of the decision's step. None:
    the step is not carried out yet, or only publishes (`steps.Result`). `arrived_ms`: when RabbitMQ confirmed a
    release, in Unix ms; None: unknown."""

    item: Item
    outcome: Asked
    decision: Decision
    result: Result[Named] = None
    arrived_ms: float | None = None

    @property
    def publication(self) -> Publication | None:
        return self.decision.step.publication if isinstance(self.decision, Perform) else None

    @property
    def dies_in(self) -> str | None:
        """The topic to whose dead-letter queue the copy goes; None: it goes elsewhere."""
        publication = self.publication
        if publication is None or publication.route is not Route.DEAD or publication.copy.envelope.target is not None:
            return None
        return publication.copy.topic
