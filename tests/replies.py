"""Plays what the store keeps beside messages on a real Redis, so that each reader of an answer meets that answer."""

from __future__ import annotations

from uuid import uuid4

from bridge.model.action import Action
from bridge.model.lmstfy import LmstfyToken, TokenLimit
from bridge.model.values import Policy
from bridge.store.client import Store
from bridge.store.eviction import evicting
from bridge.store.inspection import inspect
from bridge.store.kept.actions import StoredActions
from bridge.store.kept.answers import Progress, StoredAnswers
from bridge.store.kept.given_names import GivenNames
from bridge.store.kept.intents import Found, Intent, Note, StoredIntents
from bridge.store.kept.kept_fields import Field, KeptFields
from bridge.store.kept.lmstfy import LmstfyStore
from bridge.store.kept.made_topics import MadeTopics
from bridge.store.kept.operations import StoredOperations
from bridge.store.kept.policies import StoredPolicies, read_policy
from bridge.store.kept.rates import Rate, Rates
from bridge.store.kept.schedules import StoredSchedules
from bridge.store.kept.sessions import StoredSessions
from bridge.store.kept.subscriptions import StoredSubscriptions
from bridge.store.kept.task_ids import TaskIds
from bridge.store.kept.tokens import StoredTokens
from bridge.store.kept.topic_list import TopicList
from bridge.store.kept.topics_by_id import TopicsById
from bridge.store.keys import Keys
from bridge.store.replies import text

T0_MS = 1_700_000_000_123


async def read_each(url: str, protocol: int) -> None:
    """Reads each kind of answer from a Redis of any kind, which is asked in this protocol."""
    store = Store(f"{url}?protocol={protocol}", timeout_ms=10_000)
    keys = Keys(f"replies-{uuid4().hex[:12]}")
    try:
        client = text(await store.command("CLIENT", "INFO"))
        assert f" resp={protocol}" in client or " resp=" not in client  # Redis 6 does not say it
        await _read_loops(store, keys)
        await _read_topics(store, keys)
        await _read_people(store, keys)
        await _read_limits(store, keys)
        await _read_servers(store, keys)
    finally:
        await store.close()


async def _read_loops(store: Store, keys: Keys) -> None:
    schedules = StoredSchedules(store, keys)
    assert (await schedules.wakes_ms(), await schedules.names(), await schedules.get("hourly")) == (None, [], None)
    for name, wake_ms in (("nightly", T0_MS + 9), ("hourly", T0_MS)):
        lease = await schedules.lease(name)
        assert lease
        await schedules.save(lease, state=b"{}", wake_ms=wake_ms, leave=True, spec=b'{"a":1}', message=b"m")
    assert (await schedules.wakes_ms(), await schedules.names()) == (T0_MS, ["hourly", "nightly"])
    found, brief = await schedules.get("hourly"), await schedules.get_many(["hourly", "none"], messages=False)
    assert found
    assert (found.spec, found.state, found.message) == (b'{"a":1}', b"{}", b"m")
    assert [one and one.message for one in brief] == [b"", None]
    assert not await schedules.file_is_applied()
    await schedules.note_file()
    assert await schedules.file_is_applied()
    taken = await schedules.take(5)
    assert sorted(lease.name for lease in taken) == ["hourly", "nightly"]
    assert await schedules.lease("hourly") is None
    await schedules.leave(taken[0])
    await schedules.remove(taken[1])

    own, other = (StoredIntents(store, keys, session) for session in ("own", "other"))
    assert await own.others(["of-1"], {"print-1"}, T0_MS) == []
    await own.begin({Note("of-1", "o-1", 1): Intent("print-1", 5)}, T0_MS)
    wanted = Note("of-1", "order 2 of 3", 1)
    await other.begin({wanted: Intent("print-1", 7), Note("of-1", "o-3", 2): Intent("print-3", 7)}, T0_MS)
    (intent,) = await own.others(["of-1", "of-2"], {"print-1"}, T0_MS + 1)
    assert intent == Found("other", wanted, Intent("print-1", 7), ended=False)
    assert (await own.take(intent), await own.take(intent)) == (True, False)

    operations = StoredOperations(store, keys)
    assert (await operations.all(), await operations.take()) == ([], None)
    assert await operations.begin("op-1", b"asked", 3)
    leased = await operations.take()
    assert leased
    leased = await operations.save(await operations.hold(leased), progress=b"p", work=b"w")
    assert leased
    stored = await operations.get("op-1", work=True)
    assert stored
    assert (stored.matched, stored.state, stored.ended_ms, stored.progress, stored.work) == (
        3,
        "running",
        0,
        b"p",
        b"w",
    )
    assert [one.id for one in await operations.all()] == ["op-1"]
    assert (await operations.cancel("op-1"), await operations.cancel("op-2")) == (True, False)


async def _read_topics(store: Store, keys: Keys) -> None:
    topics = TopicList(store, keys)
    assert await topics.names() == []
    await store.command("SADD", keys.topics, "b", "a")
    assert (await topics.names(), await topics.listed(["c", "a"])) == (["a", "b"], {"a"})

    places = TopicsById(store, keys)
    assert await places.of("o-1") == []
    assert (await places.note("o-1", "b", keep_ms=9_000), await places.of("o-1")) == (["b"], ["b"])

    policies = StoredPolicies(store, keys)
    assert await policies.get("a") is None
    await policies.put("a", Policy(max_retry=7))
    assert [read_policy(one).max_retry for one in await policies.get_many(["a", "b"])] == [7, None]
    former = await policies.get("a")
    assert [await policies.replace("a", former, Policy(max_retry=8)) for _ in range(2)] == [True, False]

    given = GivenNames(store, keys)
    assert await given.all() == {}
    await given.keep("a~1", "a b")
    assert await given.all() == {"a~1": "a b"}

    subscriptions = StoredSubscriptions(store, keys)
    assert (await subscriptions.version(), await subscriptions.get("a"), await subscriptions.all()) == (
        None,
        None,
        ({}, {}),
    )
    assert [await subscriptions.add("a", b'{"id":"s"}') for _ in range(2)] == [True, False]
    await subscriptions.end("s", T0_MS)
    assert await subscriptions.all() == ({"a": b'{"id":"s"}'}, {"s": T0_MS})
    assert (await subscriptions.get("a"), await subscriptions.ended_ms("s"), await subscriptions.ended_ms("t")) == (
        b'{"id":"s"}',
        T0_MS,
        0,
    )
    await subscriptions.hold("a", "s", 9_000)
    assert 0 < await subscriptions.held_ms("a", "s") <= 9_000
    assert await subscriptions.held_ms("b", "s") == 0
    await subscriptions.tell("a", "s", "failed", last_failure=b"{}")
    assert await subscriptions.tally("a", "s") == {"failed": "1", "last_failure": "{}"}
    assert (len(await subscriptions.version() or b""), await subscriptions.remove("a")) == (16, True)

    kept = KeptFields(store, keys)
    assert [await kept.add(Field("names", "a~2", "c")) for _ in range(2)] == [True, False]
    assert [field async for field in kept.all([], "main")] == [Field("names", "a~1", "a b"), Field("names", "a~2", "c")]


async def _read_people(store: Store, keys: Keys) -> None:
    tokens = StoredTokens(store, keys)
    assert (await tokens.version(), list(await tokens.all())) == (None, [])
    await tokens.put("t-1", b'{"a":1}')
    assert (len(await tokens.version() or b""), list(await tokens.all())) == (16, [b'{"a":1}'])
    assert [await tokens.remove("t-1") for _ in range(2)] == [True, False]

    sessions = StoredSessions(store, keys)
    until_ms = await sessions.add("t-1", "hash", None)
    assert until_ms > T0_MS
    assert (await sessions.lives("t-1", "hash"), await sessions.lives("t-1", "other")) == (True, False)

    actions = StoredActions(store, keys)
    assert await actions.before(None, 5) == []
    await actions.add(Action(what="pause", who="me", topic="a"), Action(what="resume", who="me", topic="a"))
    newest, oldest = await actions.before(None, 5)
    assert (newest.action.what, oldest.action.what, newest.at_ms >= oldest.at_ms > T0_MS) == ("resume", "pause", True)
    assert await actions.before((newest.at_ms, newest.place), 5) == [oldest]

    lmstfy, token = LmstfyStore(store, keys), LmstfyToken("main", "shop", "secret")
    assert [await lmstfy.add_token(token, "för me") for _ in range(2)] == [True, False]
    await store.command("HSET", keys.lmstfy_tokens("main", "shop"), b"\xff", b"\xff")
    assert await lmstfy.tokens("main", "shop") == {"secret": "för me", "\ufffd": "\ufffd"}
    assert await lmstfy.has_token(token)
    limit = TokenLimit(read=1, write=2, interval=3)
    assert (await lmstfy.limit(token), await lmstfy.add_limit(token, limit), await lmstfy.limit(token)) == (
        None,
        True,
        limit,
    )
    assert await lmstfy.limits() == [(token, limit)]
    assert await KeptFields(store, keys).limited_namespaces() == {"shop"}
    ends_ms = await lmstfy.take(token, "write", limit=1, length_ms=60_000)
    assert ends_ms > T0_MS
    assert await lmstfy.take(token, "write", limit=1, length_ms=60_000) == 0
    await lmstfy.give_back(token, "write", ends_ms)
    await lmstfy.keep_name("a~3", "shop", "q")
    assert await lmstfy.names() == {"a~3": ("shop", "q")}


async def _read_limits(store: Store, keys: Keys) -> None:
    answers = StoredAnswers(store, keys, kept_ms=60_000, most=3)
    begun = await answers.begin("me", b"k", b"f", b"h")
    assert (begun.progress, begun.moment_ms > T0_MS, begun.answer) == (Progress.BEGUN, True, b"")
    assert (await answers.begin("me", b"k", b"f", b"i")).progress is Progress.UNDER_WAY
    await answers.end("me", b"k", b"h", answer=b"201")
    assert (await answers.begin("me", b"k", b"f", b"i"))[::2] == (Progress.ANSWERED, b"201")

    rates = Rates(store, keys)
    assert await rates.admit("t-1", "send", Rate(1, interval_ms=60_000)) == 0
    assert 0 < await rates.admit("t-1", "send", Rate(1, interval_ms=60_000)) <= 60_000

    made = MadeTopics(store, keys)
    assert [await made.count("t-1", topic, 1) for topic in ("new", "newer")] == [0, 1]

    tasks = TaskIds(store, keys)
    first = await tasks.next()
    assert await tasks.next() == first + 1


async def _read_servers(store: Store, keys: Keys) -> None:
    await store.learn_clock()
    assert await evicting(store) is None
    inspected = await inspect(store, keys)
    assert {"redis_version", "maxmemory_policy"} <= inspected.servers[0].info.keys()
    assert inspected.servers[0].config.keys() == {"appendfsync", "save"}
    assert (inspected.buckets, inspected.topics) == (None, ("a", "b"))
    await Store.agree(store)
