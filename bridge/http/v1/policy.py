"""A topic's policy, as callers write it and as they read it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field, StrictBool, Tag

from bridge.http.v1.requests import Request
from bridge.http.v1.scalars import Delay, Lease, Retries, Ttl
from bridge.model.values import Backoff, Policy, Release

ReleaseName = Literal["checked", "direct"]


class GrowingRequest(Request):
    """The first wait, what each is multiplied by for the next, and the longest."""

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
    """The whole policy: what is not given takes the bridge's setting."""

    release: ReleaseName = "checked"
    max_retry: Retries | None = None
    ttl: Ttl | None = None
    lease: Lease | None = None
    backoff: BackoffRequest | None = None
    paused: StrictBool = False

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
    """The policy in the form of `PolicyOut`."""
    return {
        "release": policy.release.value,
        "max_retry": policy.max_retry,
        "ttl_ms": policy.ttl_ms,
        "lease_ms": policy.lease_ms,
        "backoff": None if policy.backoff is None else backoff_json(policy.backoff),
        "paused": policy.paused,
    }


def backoff_of(given: GrowingRequest | list[int] | None) -> Backoff | None:
    if given is None:
        return None
    if isinstance(given, list):
        return Backoff(steps_ms=tuple(given))
    return Backoff(first_ms=given.first, factor=given.factor, max_ms=given.max)


def backoff_json(backoff: Backoff) -> dict[str, Any]:
    if backoff.steps_ms:
        return {"steps_ms": list(backoff.steps_ms)}
    return {"first_ms": backoff.first_ms, "factor": backoff.factor, "max_ms": backoff.max_ms}
