"""Defines the forms in which clients write and read a topic's policy."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from bridge.http import exact_json, reading
from bridge.http.structs import Answer, Request
from bridge.http.v1.contract.scalars import Bytes, Delay, Lease, Retries, Ttl
from bridge.model.values import Backoff, Effective, Policy, Release

Factor = Annotated[float, Meta(ge=1, le=1_000)]


class GrowingRequest(Request, kw_only=True):
    """A back-off that grows: `first` before the first retry, then `factor` times the previous wait, up to `max`."""

    first: Delay
    factor: Factor = 2.0
    max: Delay


class GrowingPatch(Request):
    """Changes of a back-off that grows. `first` and `max` are required if the policy had no growing back-off."""

    first: Delay | UnsetType | None = UNSET
    factor: Factor | UnsetType | None = UNSET
    max: Delay | UnsetType | None = UNSET


Steps = Annotated[list[Delay], Meta(min_length=1, max_length=100)]
_BACKOFF = Meta(
    description="Delay before each retry: growing, or a list of steps whose last one repeats, such as `[0]` for none"
)
_RELEASE = Meta(
    description="`checked`, the default: the checkpoint checks each due message; "
    "`direct`: RabbitMQ delivers it unchecked"
)
_RETRIES = Meta(description="Failed deliveries that are retried; after one more, a dead letter")
_TTL = Meta(description="Time to live, counted from the due time")
_LEASE = Meta(description="How long a pull leases a message")
_PAUSED = Meta(description="`true`: due messages are not released")
_KEPT = Meta(description="The largest body that Redis keeps, in bytes; 0: it keeps none")


class PolicyRequest(Request):
    """The whole policy. A field that is left out or null takes its default, which is the bridge's setting."""

    release: Annotated[Release | None, _RELEASE] = None
    max_retry: Annotated[Retries | None, _RETRIES] = None
    ttl: Annotated[Ttl | None, _TTL] = None
    lease: Annotated[Lease | None, _LEASE] = None
    paused: Annotated[bool | None, _PAUSED] = None
    keep_body_max: Annotated[Bytes | None, _KEPT] = None
    backoff: Annotated[GrowingRequest | Steps | None, _BACKOFF] = None

    def policy(self) -> Policy:
        return Policy(
            release=self.release or Release.CHECKED,
            max_retry=self.max_retry,
            ttl_ms=self.ttl,
            lease_ms=self.lease,
            backoff=backoff_of(self.backoff),
            paused=bool(self.paused),
            keep_body_max=self.keep_body_max,
        )


class PolicyPatch(Request):
    """Changes of a policy, as a JSON merge patch (RFC 7396). A field that is left out stays as it is, and null sets it
    to its default."""

    release: Annotated[Release | UnsetType | None, _RELEASE] = UNSET
    max_retry: Annotated[Retries | UnsetType | None, _RETRIES] = UNSET
    ttl: Annotated[Ttl | UnsetType | None, _TTL] = UNSET
    lease: Annotated[Lease | UnsetType | None, _LEASE] = UNSET
    paused: Annotated[bool | UnsetType | None, _PAUSED] = UNSET
    keep_body_max: Annotated[Bytes | UnsetType | None, _KEPT] = UNSET
    backoff: Annotated[GrowingPatch | Steps | UnsetType | None, _BACKOFF] = UNSET

    def onto(self, policy: Policy) -> Policy:
        """Returns `policy` with these changes.

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
        merged = _merged(former, msgspec.to_builtins(self))
        return reading.read(PolicyRequest, exact_json.dumps(merged)).policy()


def _merged(former: Any, patch: Any) -> Any:
    """Returns the value `former` after the merge patch (RFC 7396, section 2)."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(former) if isinstance(former, dict) else {}
    for name, value in patch.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = _merged(kept.get(name), value)
    return kept


class BackoffOut(Answer):
    """The delays before retries. A back-off that grows has `first_ms`, `factor` and `max_ms`; one of steps has
    `steps_ms`."""

    first_ms: int | UnsetType = UNSET
    factor: float | UnsetType = UNSET
    max_ms: int | UnsetType = UNSET
    steps_ms: list[int] | UnsetType = UNSET


class PolicyOut(Answer):
    release: Release
    max_retry: int | None
    ttl_ms: int | None
    lease_ms: int | None
    backoff: BackoffOut | None
    paused: bool
    keep_body_max: int | None


class EffectiveOut(Answer):
    """The values that apply to the topic: the policy's own, and the bridge's settings for all other fields."""

    max_retry: int
    ttl_ms: int | None
    lease_ms: int
    backoff: BackoffOut
    jitter: Annotated[
        float,
        Meta(description="a retry waits longer than its back-off by up to this share: 0.1 makes 10 s up to 11 s"),
    ]
    defaults: Annotated[
        list[str],
        Meta(description="the fields that the policy does not set"),
    ]


def effective_out(policy: Effective) -> EffectiveOut:
    return EffectiveOut(
        max_retry=policy.max_retry,
        ttl_ms=policy.ttl_ms,
        lease_ms=policy.lease_ms,
        backoff=backoff_out(policy.backoff),
        jitter=policy.jitter,
        defaults=list(policy.defaulted),
    )


def policy_out(policy: Policy) -> PolicyOut:
    return PolicyOut(
        release=policy.release,
        max_retry=policy.max_retry,
        ttl_ms=policy.ttl_ms,
        lease_ms=policy.lease_ms,
        backoff=None if policy.backoff is None else backoff_out(policy.backoff),
        paused=policy.paused,
        keep_body_max=policy.keep_body_max,
    )


def backoff_of(request: GrowingRequest | list[Delay] | None) -> Backoff | None:
    """Returns the back-off that a field of a request describes; None if the field is not given."""
    if request is None:
        return None
    if isinstance(request, list):
        return Backoff(steps_ms=tuple(request))
    return Backoff(first_ms=request.first, factor=request.factor, max_ms=request.max)


def _backoff_request(backoff: Backoff) -> dict[str, Any] | list[int]:
    if backoff.steps_ms:
        return list(backoff.steps_ms)
    return {"first": backoff.first_ms, "factor": backoff.factor, "max": backoff.max_ms}


def backoff_out(backoff: Backoff) -> BackoffOut:
    if backoff.steps_ms:
        return BackoffOut(steps_ms=list(backoff.steps_ms))
    return BackoffOut(first_ms=backoff.first_ms, factor=backoff.factor, max_ms=backoff.max_ms)
