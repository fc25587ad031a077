"""Defines a topic's policy as clients write it and as they read it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field, StrictBool, Tag

from bridge.http.fields import parse
from bridge.http.v1.contract.requests import Request
from bridge.http.v1.contract.scalars import Bytes, Delay, Lease, Retries, Ttl
from bridge.model.values import Backoff, Effective, Policy, Release

ReleaseName = Literal["checked", "direct"]
Factor = Annotated[float, Field(strict=True, ge=1, le=1_000, allow_inf_nan=False)]


class GrowingRequest(Request):
    """A back-off that grows: `first` before the first retry, then `factor` times the one before, up to `max`."""

    first: Delay
    factor: Factor = 2.0
    max: Delay


def _form(value: Any) -> str:
    return "<steps>" if isinstance(value, list) else "<growing>"


class GrowingPatch(Request):
    """Changes of a back-off that grows. Where there was none, `first` and `max` are required."""

    first: Delay | None = None
    factor: Factor | None = None
    max: Delay | None = None


_Steps = Annotated[Annotated[list[Delay], Field(min_length=1, max_length=100)], Tag("<steps>")]
BackoffRequest = Annotated[Annotated[GrowingRequest, Tag("<growing>")] | _Steps, Discriminator(_form)]
BackoffPatch = Annotated[Annotated[GrowingPatch, Tag("<growing>")] | _Steps, Discriminator(_form)]
_BACKOFF = Field(
    description="Delay before each retry: growing, or a list of steps whose last one repeats, such as `[0]` for none"
)


class _PolicyFields(Request):
    release: Annotated[
        ReleaseName | None,
        Field(
            description="`checked`, the default: the checkpoint checks each due message; "
            "`direct`: RabbitMQ delivers it unchecked"
        ),
    ] = None
    max_retry: Annotated[
        Retries | None, Field(description="Failed deliveries that are retried; after one more, a dead letter")
    ] = None
    ttl: Annotated[Ttl | None, Field(description="Time to live, counted from the due time")] = None
    lease: Annotated[Lease | None, Field(description="How long a pull leases a message")] = None
    paused: Annotated[StrictBool | None, Field(description="`true`: due messages are not released")] = None
    keep_body_max: Annotated[
        Bytes | None, Field(description="The largest body that Redis keeps, in bytes; 0: it keeps none")
    ] = None


class PolicyRequest(_PolicyFields):
    """The whole policy. A field that is left out or null takes its default, which is the bridge's setting."""

    backoff: Annotated[BackoffRequest | None, _BACKOFF] = None

    def policy(self) -> Policy:
        return Policy(
            release=Release(self.release or Release.CHECKED),
            max_retry=self.max_retry,
            ttl_ms=self.ttl,
            lease_ms=self.lease,
            backoff=backoff_of(self.backoff),
            paused=bool(self.paused),
            keep_body_max=self.keep_body_max,
        )


class PolicyPatch(_PolicyFields):
    """Changes of a policy, as a JSON merge patch (RFC 7396). A field that is left out stays as it is, and null sets it
    to its default."""

    backoff: Annotated[BackoffPatch | None, _BACKOFF] = None

    def onto(self, policy: Policy) -> Policy:
        """Returns the policy with these changes.

        Raises:
            InvalidRequest: a new back-off that grows has no `first` or no `max`.
        """
        former = {
            "release": policy.release.value,
            "max_retry": policy.max_retry,
            "ttl": policy.ttl_ms,
            "lease": policy.lease_ms,
            "backoff": policy.backoff and _backoff_request(policy.backoff),
            "paused": policy.paused,
            "keep_body_max": policy.keep_body_max,
        }
        return parse(PolicyRequest, _merged(former, self.model_dump(exclude_unset=True))).policy()


def _merged(former: Any, patch: Any) -> Any:
    """Applies a merge patch as RFC 7396, section 2, defines it."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(former) if isinstance(former, dict) else {}
    for name, value in patch.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = _merged(kept.get(name), value)
    return kept


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
    keep_body_max: int | None


class EffectiveOut(BaseModel):
    """The values that count: the policy's own, and the bridge's settings for the rest."""

    max_retry: int
    ttl_ms: int | None
    lease_ms: int
    backoff: GrowingOut | StepsOut
    jitter: Annotated[float, Field(description="the share of the back-off that a retry waits longer at most")]
    defaults: Annotated[
        list[Literal["max_retry", "ttl_ms", "lease_ms", "backoff"]],
        Field(description="the fields that the policy does not set"),
    ]


def effective_json(policy: Effective) -> dict[str, Any]:
    """Returns the effective policy as `EffectiveOut` documents it."""
    return {
        "max_retry": policy.max_retry,
        "ttl_ms": policy.ttl_ms,
        "lease_ms": policy.lease_ms,
        "backoff": backoff_json(policy.backoff),
        "jitter": policy.jitter,
        "defaults": policy.defaulted,
    }


def policy_json(policy: Policy) -> dict[str, Any]:
    """Returns the policy as `PolicyOut` documents it."""
    return {
        "release": policy.release.value,
        "max_retry": policy.max_retry,
        "ttl_ms": policy.ttl_ms,
        "lease_ms": policy.lease_ms,
        "backoff": None if policy.backoff is None else backoff_json(policy.backoff),
        "paused": policy.paused,
        "keep_body_max": policy.keep_body_max,
    }


def backoff_of(request: GrowingRequest | list[int] | None) -> Backoff | None:
    """Returns the back-off that a request describes; None if it describes none."""
    if request is None:
        return None
    if isinstance(request, list):
        return Backoff(steps_ms=tuple(request))
    return Backoff(first_ms=request.first, factor=request.factor, max_ms=request.max)


def _backoff_request(backoff: Backoff) -> dict[str, Any] | list[int]:
    if backoff.steps_ms:
        return list(backoff.steps_ms)
    return {"first": backoff.first_ms, "factor": backoff.factor, "max": backoff.max_ms}


def backoff_json(backoff: Backoff) -> dict[str, Any]:
    """Returns the back-off as `GrowingOut` or `StepsOut` document it."""
    if backoff.steps_ms:
        return {"steps_ms": list(backoff.steps_ms)}
    return {"first_ms": backoff.first_ms, "factor": backoff.factor, "max_ms": backoff.max_ms}
