"""Defines a topic's policy as clients write it and as they read it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field, StrictBool, Tag

from bridge.http.v1.requests import Request
from bridge.http.v1.scalars import Delay, Lease, Retries, Ttl
from bridge.model.values import Backoff, Policy, Release

ReleaseName = Literal["checked", "direct"]


class GrowingRequest(Request):
    """A back-off that grows: `first` before the first retry, then `factor` times the one before, up to `max`."""

    first: Delay
    factor: Annotated[float, Field(strict=True, ge=1, le=1_000, allow_inf_nan=False)] = 2.0
    max: Delay


def _form(value: Any) -> str:
    return "<steps>" if isinstance(value, list) else "<growing>"


_Steps = Annotated[list[Delay], Field(min_length=1, max_length=100)]
BackoffRequest = Annotated[
    Annotated[GrowingRequest, Tag("<growing>")] | Annotated[_Steps, Tag("<steps>")], Discriminator(_form)
]


class PolicyRequest(Request):
    """The whole policy. A field that is left out or null takes the bridge's setting."""

    release: Annotated[
        ReleaseName,
        Field(
            description="`checked`: the checkpoint checks each due message; `direct`: RabbitMQ delivers it unchecked"
        ),
    ] = "checked"
    max_retry: Annotated[
        Retries | None, Field(description="Failed deliveries that are retried; after one more, a dead letter")
    ] = None
    ttl: Annotated[Ttl | None, Field(description="Time to live, counted from the due time")] = None
    lease: Annotated[Lease | None, Field(description="How long a pull leases a message")] = None
    backoff: Annotated[
        BackoffRequest | None,
        Field(description="Delay before each retry: growing, or a list of steps whose last one repeats; none: at once"),
    ] = None
    paused: Annotated[StrictBool, Field(description="`true`: due messages are not released")] = False

    def policy(self) -> Policy:
        return Policy(
            release=Release(self.release),
            max_retry=self.max_retry,
            ttl_ms=self.ttl,
            lease_ms=self.lease,
            backoff=backoff_of(self.backoff),
            paused=self.paused,
        )


class GrowingOut(BaseModel):
    first_ms: int
    factor: float
    max_ms: int


class StepsOut(BaseModel):
    steps_ms: list[int]


class PolicyOut(BaseModel):
    release: ReleaseName
    max_retry: int | None
    ttl_ms: int | None
    lease_ms: int | None
    backoff: GrowingOut | StepsOut | None
    paused: bool


def policy_json(policy: Policy) -> dict[str, Any]:
    """The policy as `PolicyOut` documents it."""
    return {
        "release": policy.release.value,
        "max_retry": policy.max_retry,
        "ttl_ms": policy.ttl_ms,
        "lease_ms": policy.lease_ms,
        "backoff": None if policy.backoff is None else backoff_json(policy.backoff),
        "paused": policy.paused,
    }


def backoff_of(request: GrowingRequest | list[int] | None) -> Backoff | None:
    """The back-off that a request describes."""
    if request is None:
        return None
    if isinstance(request, list):
        return Backoff(steps_ms=tuple(request))
    return Backoff(first_ms=request.first, factor=request.factor, max_ms=request.max)


def backoff_json(backoff: Backoff) -> dict[str, Any]:
    """The back-off as `GrowingOut` or `StepsOut` document it."""
    if backoff.steps_ms:
        return {"steps_ms": list(backoff.steps_ms)}
    return {"first_ms": backoff.first_ms, "factor": backoff.factor, "max_ms": backoff.max_ms}
