"""Checks Redis by the state that it reports of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bridge.cli.doctor.checks.check import Check, Fault, Verdict, over
from bridge.cli.doctor.facts.facts import Facts
from bridge.cli.doctor.facts.missing import Missing
from bridge.cli.doctor.facts.redis import Redis, StoreAway
from bridge.store.eviction import evicting_policy, evicts
from bridge.store.inspection import ServerState

_MOST_SKEW_MS: Final = 500
_SAVES_NOTHING: Final = ('""', "")


def _away(facts: Facts, *, login: bool) -> Verdict:
    if isinstance(facts.redis, Missing):
        return facts.redis
    if isinstance(facts.redis, StoreAway) and facts.redis.login == login:
        return [Fault(facts.redis.reason)]
    return ()


def _redis(facts: Facts) -> Redis | Missing:
    return (
        Missing("there is no connection to Redis; see 301 and 302")
        if isinstance(facts.redis, StoreAway)
        else facts.redis
    )


def _info(facts: Facts) -> list[Mapping[str, str]] | Missing:
    redis = _redis(facts)
    if isinstance(redis, Missing):
        return redis
    infos = [server.info for server in redis.seen.servers]
    return infos if infos and all(infos) else Missing("Redis refuses INFO")


def eviction(infos: Sequence[Mapping[str, str]]) -> Iterator[Fault]:
    for policy in {evicting_policy(info) for info in infos}:
        if policy is not None:
            yield Fault(evicts(policy), "warning")


def persistence(redis: Redis) -> Iterator[Fault] | Missing:
    servers = redis.seen.servers
    if not servers or not all(server.info and server.config for server in servers):
        return Missing("Redis refuses INFO or CONFIG GET")
    return iter(dict.fromkeys(fault for server in servers for fault in _persistence(server)))


def _persistence(server: ServerState) -> Iterator[Fault]:
    config = server.config
    appends = server.info.get("aof_enabled") == "1"
    if not appends and config.get("save", "") in _SAVES_NOTHING:
        yield Fault("Redis writes nothing to the disk: appendonly is no, and save is empty")
    elif not appends:
        yield Fault(f"Redis writes only snapshots (save {config['save']}): appendonly is no", "warning")
    elif config.get("appendfsync") == "no":
        yield Fault("appendfsync is no: the kernel decides when changes reach the disk", "warning")


def replicas(infos: Sequence[Mapping[str, str]]) -> Iterator[Fault]:
    for info in infos:
        if info.get("role") == "slave":
            yield Fault(f"Redis is a replica of {info.get('master_host')}:{info.get('master_port')}")


def clock(redis: Redis) -> Iterator[Fault]:
    least_ms, most_ms = redis.seen.ahead_ms
    if least_ms > _MOST_SKEW_MS:
        yield Fault(f"the clock of Redis is {least_ms / 1_000:,.1f} s ahead of this machine's", "warning")
    elif most_ms < -_MOST_SKEW_MS:
        yield Fault(f"the clock of Redis is {-most_ms / 1_000:,.1f} s behind this machine's", "warning")


def buckets(redis: Redis) -> Iterator[Fault]:
    found = redis.seen.buckets
    if found not in (None, redis.own_buckets):
        yield Fault(f"Redis has the index in {found} buckets, and BRIDGE_INDEX_BUCKETS is {redis.own_buckets}")


CHECKS: Final = (
    Check(
        number=301,
        title="Redis does not answer",
        cause="Redis is stopped, frozen or loading, or the address, a firewall or TLS is wrong.",
        effect="Sends and pulls answer 503, and due messages of checked topics wait.",
        remedy="Start Redis, or correct host, port and scheme in `BRIDGE_REDIS_URL`.",
        decide=lambda facts: _away(facts, login=False),
    ),
    Check(
        number=302,
        title="Redis refuses the login",
        cause="Redis asks for a password, and `BRIDGE_REDIS_URL` has none or another.",
        effect="Sends and pulls answer 503, and due messages of checked topics wait.",
        remedy="Write the password into the URL, with percent-encoding: `redis://:password@host:6379/0`.",
        decide=lambda facts: _away(facts, login=True),
    ),
    Check(
        number=303,
        title="Redis evicts keys",
        cause="`maxmemory` is set, and `maxmemory-policy` is not `noeviction`.",
        effect="A full Redis drops records, deletes and policies. Deleted messages may be delivered.",
        remedy="Set `maxmemory-policy noeviction`, and give Redis enough memory (docs/operating/sizing.md).",
        decide=over(_info, eviction),
    ),
    Check(
        number=304,
        title="Redis may lose changes",
        cause="`appendonly` is `no`, or `appendfsync` is `no`.",
        effect="A crash of Redis loses records, deletes and policies. Messages stay, and come.",
        remedy="Set `appendonly yes` and `appendfsync everysec`, or `always` where a delete must survive.",
        decide=over(_redis, persistence),
    ),
    Check(
        number=305,
        title="Redis is a read-only replica",
        cause="`BRIDGE_REDIS_URL` names a replica, or the master failed over to another server.",
        effect="Sends and pulls answer 503, and due messages of checked topics wait.",
        remedy="Name the master, or let Sentinel find it: `redis+sentinel://…`.",
        decide=over(_info, replicas),
    ),
    Check(
        number=306,
        title="The clocks differ",
        cause="The clock of Redis or of this machine is wrong by more than half a second.",
        effect="The clock of Redis decides when a message is due. Clients see messages early or late.",
        remedy="Let NTP correct the wrong clock slowly.",
        decide=over(_redis, clock),
    ),
    Check(
        number=307,
        title="Redis has another number of buckets",
        cause="Another bridge has begun this Redis and prefix with another `BRIDGE_INDEX_BUCKETS`.",
        effect="`serve` ends with exit code 3.",
        remedy="Set `BRIDGE_INDEX_BUCKETS` to the number that Redis has, or take another `BRIDGE_REDIS_PREFIX`.",
        decide=over(_redis, buckets),
    ),
)
