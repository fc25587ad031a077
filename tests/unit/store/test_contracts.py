"""Tests that the header of each script agrees with the script's code and with the method that calls it."""

import re
from dataclasses import MISSING, fields
from importlib.resources import files
from typing import Any

import pytest
from redis.cluster import key_slot  # type: ignore[attr-defined]

from bridge.model.lmstfy import LmstfyToken
from bridge.model.message import Copy, Envelope, Record
from bridge.store.calls import Call
from bridge.store.client import Store, probe_call
from bridge.store.kept.answers import StoredAnswers
from bridge.store.kept.lmstfy import LmstfyStore
from bridge.store.kept.made_topics import MadeTopics
from bridge.store.kept.operations import Lease, StoredOperations
from bridge.store.kept.policies import StoredPolicies
from bridge.store.kept.rates import Rate, Rates
from bridge.store.kept.schedules import Lease as ScheduleLease
from bridge.store.kept.schedules import StoredSchedules
from bridge.store.kept.task_ids import TaskIds
from bridge.store.kept.tokens import StoredTokens
from bridge.store.kept.topics_by_id import TopicsById
from bridge.store.keys import INDEXES, Keys
from bridge.store.messages import transitions
from bridge.store.messages.outcomes import NoRule
from bridge.store.messages.records import Records
from bridge.store.messages.transitions import Transition
from bridge.store.scripts import SCRIPTS, Script
from tests.records import claim, draft
from tests.records import record as a_record

RECORD_LUA = (files("bridge.store") / "lua" / "_record.lua").read_text()
EACH_SCRIPT = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)


def own_text(script: Script) -> str:
    return script.text[script.text.index(f"-- {script.purpose}") :]


def header(script: Script) -> dict[str, str]:
    """The parts of the header by name, each joined into one line."""
    lines = []
    for line in own_text(script).splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    parts = re.split(r"(?:^| )(KEYS|ARGV|Returns|Life|Also|Promise): ", " ".join(lines))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def verdicts_of(script: Script) -> set[str]:
    """The words that the header's `Returns` names, without their explanations."""
    return {choice.split()[0] for choice in re.sub(r"\([^()]*\)", "", header(script)["Returns"]).split("|")}


def code(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


FACTS = {"epoch": 1, "nonce": 2, "attempt": 3, "max_retry": 4, "due_ms": 5, "expires_ms": 6, "created_ms": 7}
COPY = Copy(topic="ns/orders", id="o-1", **FACTS, envelope=Envelope())


def calls() -> dict[str, Call[Any]]:
    """One call of every method of `Records`."""
    copy = COPY
    record = a_record(topic="ns/orders", expires_ms=5)
    records = Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2)
    topic, message_id = record.topic, record.id
    announced = records.announce(copy, arrives_ms=1, now_ms=0)
    assert announced is not None
    return {
        "schedule": records.schedule(draft(topic=topic), claim()),
        "confirm": records.confirm(record),
        "enter": records.enter(record, direct=False, instant=False, envelope=b"", by="-"),
        "keep": records.keep(record, b""),
        "abandon": records.abandon(record),
        "withdraw": records.withdraw(record),
        "fire": records.fire(copy, paused_ms=0, adopt=False),
        "returned": records.returned(copy, by_ttl=False),
        "lease": records.lease(copy, next_nonce=9, lease_ms=1, arrives_in_ms=1),
        "lease_copy": records.lease_copy(copy, arrives_ms=1),
        "ack": records.ack(topic, message_id, epoch=1),
        "announce": announced,
        "nack": records.nack(record, next_nonce=9, due_ms=1, reason=""),
        "extend": records.extend(topic, message_id, epoch=None, lease_ms=1),
        "delete": records.delete(topic, message_id, release=False),
        "change": records.change(record, due_ms=1),
        "replace": records.replace(record, copy, draft(), envelope=b""),
        "retry": records.retry(record, next_nonce=9, due_ms=1, attempts=1, reason=""),
        "bury": records.bury(record, next_nonce=9, attempts=1, reason=""),
        "replay": records.replay(copy, next_nonce=9, max_retry=3, due_ms=1, expires_ms=0),
        "drop": records.drop(topic, message_id, epoch=None),
        "restore": records.restore(record, record, Envelope()),
        "look": records.look(topic, message_id),
        "timeline": records.timeline(topic, message_id),
        "weigh": records.weigh(topic, message_id),
        "superseded": records.superseded([copy]),
        "page": records.page(topic, 0, states="1", due_from_ms=0, due_to_ms=1, cursor=None, limit=1),
        "labelled": records.labelled(
            topic, 0, states="1", due_from_ms=0, due_to_ms=1, cursor=None, limit=1, labels="customer=42"
        ),
        "counts": records.counts(topic, 0, edges_ms=(1, 2)),
    }


def calls_beside_records() -> dict[str, Call[Any]]:
    keys = Keys("delay")
    store = Store("redis://127.0.0.1:1/0", timeout_ms=1)
    operations = StoredOperations(store, keys)
    schedules, lease = StoredSchedules(store, keys), ScheduleLease("nightly", now_ms=1, until_ms=2, until_s=3.0)
    answers = StoredAnswers(store, keys, kept_ms=1, most=1)
    lmstfy, holder = LmstfyStore(store, keys), LmstfyToken("default", "shop", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    return {
        "token": StoredTokens(store, keys).call("0f4c19a2b7de", b"{}"),
        "throttle": lmstfy.throttle(holder, "produce", limit=5, length_ms=1_000),
        "give_back": lmstfy.return_unit(holder, "produce", ends_ms=1),
        "policy": StoredPolicies(store, keys).call("ns/orders", None, b"{}"),
        "place": TopicsById(store, keys).place("o-1", "ns/orders", keep_ms=1),
        "count_topic": MadeTopics(store, keys).call("0f4c19a2b7de", "ns/orders", 5),
        "probe": probe_call(keys.probe(7)),
        "admit": Rates(store, keys).call("0f4c19a2b7de", "send", Rate(5)),
        "task_ids": TaskIds(store, keys).call(256),
        "begin_operation": operations.begin_call("01ARZ3NDEKTSV4RRFFQ69G5FAV", b"{}", 1_001),
        "take_operation": operations.take_call(1),
        "save_operation": operations.save_call(Lease("01ARZ3NDEKTSV4RRFFQ69G5FAV", 1, 1.0), b"{}", b"{}", "", ""),
        "hold_operation": operations.hold_call(Lease("01ARZ3NDEKTSV4RRFFQ69G5FAV", 1, 1.0)),
        "begin_request": answers.begin_call("0f4c19a2b7de", b"i" * 16, b"f" * 16, b"h" * 8),
        "end_request": answers.end_call("0f4c19a2b7de", b"i" * 16, b"h" * 8, b"", forgets=False),
        "cancel_operation": operations.cancel_call("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        "take_schedules": schedules.take_call(50),
        "lease_schedule": schedules.lease_call("nightly"),
        "leave_schedule": schedules.leave_call(lease),
        "save_schedule": schedules.save_call(lease, wake_ms=1, spec=b"{}", message=b"{}", state=b"{}", leave=True),
        "remove_schedule": schedules.remove_call(lease),
    }


ALL_CALLS = calls() | calls_beside_records()
TRANSITIONS = {one.script.name: one for one in vars(transitions).values() if isinstance(one, Transition)}


def test_every_script_has_one_method_of_its_name() -> None:
    methods = (
        {name for name in vars(Records) if not name.startswith("_")}
        - {"by"}
        - {field.name for field in fields(Records)}
    )

    assert methods == set(calls())
    assert set(SCRIPTS) == set(ALL_CALLS)
    assert all(call.script is SCRIPTS[name] for name, call in ALL_CALLS.items())


@EACH_SCRIPT
def test_a_script_header_has_all_its_parts(script: Script) -> None:
    assert header(script).keys() - {"Life", "Also"} == {"KEYS", "ARGV", "Returns", "Promise"}
    assert all(header(script).values())
    assert script.purpose.endswith(".") or own_text(script).splitlines()[1].startswith("-- ")


@EACH_SCRIPT
def test_a_script_uses_every_argument_of_its_header_and_no_other(script: Script) -> None:
    used = {int(number) for number in re.findall(r"ARGV\[(\d+)\]", code(script.text))}
    args = script.args

    if script.for_each:
        # The parameters of the function name the arguments of each message.
        named = re.search(rf"^local function {script.name}\(([^)]*)\)$", script.text, re.MULTILINE)
        assert named
        assert used == {1, 2, 3, 4, 5}
        assert tuple(re.split(r",\s+", named[1])) == args[5:]
        assert all(len(re.findall(rf"\b{name}\b", code(own_text(script)))) > 1 for name in args[5:])
    elif args[-1].endswith("..."):
        assert used == set(range(1, len(args)))
        assert "#ARGV" in script.text
    else:
        # The prelude of every script reads `retention_ms` and the like.
        assert used == set(range(1, len(args) + 1))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_call_sends_what_the_header_names(name: str) -> None:
    call, script = ALL_CALLS[name], SCRIPTS[name]

    if script.args[-1].endswith("..."):
        assert len(call.args) >= len(script.args)
    else:
        assert len(call.args) == len(script.args)
    assert len(call.keys) == len(script.keys)
    endings = {
        "record": "/m/o-1",
        "envelope": "/b/o-1",
        **{index: f"/{index}" for index in (*INDEXES, "forget", "labels")},
    }
    endings |= {"place": "/places/o-1", "tokens": "/tokens", "rate": "/rates/0f4c19a2b7de/send", "task_id": "/task-id"}
    endings |= {"policy": "/policy", "topics": "/topics", "made": "/made/{delay/topics}/0f4c19a2b7de"}
    endings |= {"operations": "/{:bulk}/operations", "operation_leases": "/{:bulk}/leases"}
    endings |= {"schedules": "/{:schedules}/names", "schedule_wakes": "/{:schedules}/wakes"}
    endings |= {
        "schedule_leases": "/{:schedules}/leases",
        "schedule_clock": "/{:schedules}/clock",
        "schedule": "/{:schedules}/of/nightly",
    }
    endings["operation"] = "/{:bulk}/operations/01ARZ3NDEKTSV4RRFFQ69G5FAV"
    endings |= {name: f"/idempotency/{{0f4c19a2b7de}}/{name}" for name in ("answers", "begun")}
    endings |= {"probe": "/{:probe:7}/probe", "set": "/{:probe:7}/probe/set"}
    endings["records..."] = endings["record"]
    endings["window"] = "/lmstfy/rates/default/shop/01ARZ3NDEKTSV4RRFFQ69G5FAV/produce"
    assert all(key.endswith(endings[name]) for key, name in zip(call.keys, script.keys, strict=True))


@pytest.mark.parametrize("name", SCRIPTS)
def test_all_keys_of_a_call_are_in_one_slot_of_a_cluster(name: str) -> None:
    assert len({key_slot(key.encode()) for key in ALL_CALLS[name].keys}) == 1


@EACH_SCRIPT
def test_every_verdict_a_script_can_answer_is_named_in_its_header(script: Script) -> None:
    text = code(own_text(script))
    answered = set(re.findall(r"answer\('(\w+)'", text)) | set(re.findall(r"verdict = '(\w+)'", text))
    for either, other in re.findall(r"answer\([^,']+ and '(\w+)' or '(\w+)'", text):
        answered |= {either, other}

    assert script.of_record == bool(answered)
    assert not script.of_record or answered == verdicts_of(script)


@pytest.mark.parametrize("name", [script.name for script in SCRIPTS.values() if script.of_record])
def test_the_verdicts_of_a_script_are_those_that_its_header_names(name: str) -> None:
    transition = TRANSITIONS[name]

    assert {str(verdict) for verdict in transition.verdicts} == verdicts_of(SCRIPTS[name])
    assert ALL_CALLS[name].read is transition.read


@pytest.mark.parametrize("name", [script.name for script in SCRIPTS.values() if script.of_record])
def test_an_answer_that_the_header_does_not_name_has_no_reading(name: str) -> None:
    with pytest.raises(NoRule, match=f"{name} answered 'defer'"):
        ALL_CALLS[name].read(ALL_CALLS[name], [b"defer", 1, 0])


@EACH_SCRIPT
def test_a_script_begins_with_the_functions_that_it_calls_and_no_other(script: Script) -> None:
    text = code(script.text)
    shared = set(re.findall(r"^local function (\w+)", RECORD_LUA, re.MULTILINE))
    defined = re.findall(r"^local function (\w+)", text, re.MULTILINE)
    used = {name for name in shared if len(re.findall(rf"\b{name}\b", text)) > defined.count(name)}

    assert set(defined) & shared == used


@EACH_SCRIPT
def test_named_numbers_are_replaced_by_their_values(script: Script) -> None:
    names = set(re.findall(r"\b[A-Z][A-Z_]+\b", re.sub(r"'[^']*'", "", code(script.text))))

    assert names <= {
        "KEYS",
        "ARGV",
        "RECORD",
        "ENVELOPE",
        "FORGET_INDEX",
        "LABEL_INDEX",
        "ID",
        "RETENTION_MS",
        "TOMBSTONE_MS",
    }


@EACH_SCRIPT
def test_a_script_touches_no_key_that_is_not_in_keys(script: Script) -> None:
    text = code(script.text)
    touched = set(re.findall(r"redis\.p?call\('(?!TIME)\w+',\s*(\w+)", text))

    assert touched <= {"KEYS", "RECORD", "ENVELOPE", "FORGET_INDEX", "LABEL_INDEX", "key"}
    assert "key" not in touched or re.search(r"local key = KEYS\[", text)
    # Every command is a literal, so the check above sees all of them.
    assert len(re.findall(r"redis\.p?call", text)) == len(re.findall(r"redis\.p?call\('[A-Z]+'", text))
    assert text.count("pcall") == text.count("redis.pcall")
    for number in re.findall(r"KEYS\[(\d+)\]", text):
        assert int(number) <= len(script.keys)


def test_a_messages_keys_share_one_slot_and_buckets_spread_over_many() -> None:
    one, several = Keys("delay"), Keys("delay", 16)
    ids = [f"o-{number}" for number in range(200)]

    assert {one.record("ns/orders", message_id)[2] for message_id in ids} == {"delay/{ns/orders}/waiting"}
    slots = {key_slot(several.record("ns/orders", message_id)[0].encode()) for message_id in ids}
    assert len(slots) == 16
    for message_id in ids:
        keys = several.record("ns/orders", message_id)
        assert len({key_slot(key.encode()) for key in keys}) == 1
        assert keys[2:] == several.indexes("ns/orders", several.bucket(message_id))
        assert keys[2] == several.home("ns/orders", message_id)
    assert {several.home("ns/orders", message_id) for message_id in ids} == set(several.homes("ns/orders"))


def test_a_messages_bucket_is_the_same_in_every_process_and_version() -> None:
    ids = ("o-1", "o-2", "01ARZ3NDEKTSV4RRFFQ69G5FAV")

    assert [Keys("delay", 16).bucket(message_id) for message_id in ids] == [10, 0, 13]


def test_a_record_and_a_draft_are_sent_where_the_header_names_their_fields() -> None:
    records = Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2)
    stored = a_record(epoch=1, nonce=2, created_ms=3, due_ms=4, expires_ms=5, max_retry=6, labels="l")
    sent = {
        "schedule": records.schedule(draft(delay_ms=1, labels="l"), claim(ttl_ms=2, max_retry=3, nonce=4, by="b")),
        "confirm": records.confirm(stored, ready=True, answer_by_ms=7, envelope=b"e"),
        "enter": records.enter(stored, direct=True, instant=False, envelope=b"e", by="b"),
    }
    own = {name: dict(zip(call.script.args[5:], call.args[5:], strict=True)) for name, call in sent.items()}
    assert own == {
        "schedule": {
            "mode": "in", "when_ms": 1, "ttl_ms": 2, "max_retry": 3, "nonce": 4, "fresh": 1, "given": "l", "by": "b",
        },
        "confirm": {
            "epoch": 1, "nonce": 2, "created_ms": 3, "ready": 1, "direct": 0, "answer_by_ms": 7, "envelope": b"e",
        },
        "enter": {
            "nonce": 2, "created_ms": 3, "due_ms": 4, "expires_ms": 5, "max_retry": 6, "direct": 1, "instant": 0,
            "envelope": b"e", "given": "l", "by": "b",
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "own"),
    [
        (
            "fire",
            {"paused_ms": 8, "adopt": True, "waited_ms": 9, "short_ms": 10},
            {"paused_ms": 8, "adopt": 1, "ahead_ms": 5, "named": "", "waited_ms": 9, "short_ms": 10, "by": "-"},
        ),
        ("returned", {"by_ttl": True}, {"by_ttl": 1, "by": "-"}),
        (
            "lease",
            {"next_nonce": 9, "lease_ms": 10, "arrives_in_ms": 11, "counted": False, "unacked": True},
            {
                "next_epoch": 2,
                "next_nonce": 9,
                "lease_ms": 10,
                "arrives_in_ms": 11,
                "counted": 0,
                "unacked": 1,
                "waited": 0,
                "by": "-",
            },
        ),
    ],
)
def test_the_facts_of_a_copy_are_sent_where_the_header_names_them(
    name: str, given: dict[str, Any], own: dict[str, int]
) -> None:
    records = Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2)
    call = getattr(records, name)(COPY, **given)
    assert dict(zip(call.script.args[5:], call.args[5:], strict=True)) == FACTS | own


@EACH_SCRIPT
def test_the_header_of_a_for_each_script_describes_further_messages(script: Script) -> None:
    described = "(then, for each further message, its record and envelope)" in header(script).get("KEYS", "")
    assert script.for_each == described
    if described:
        assert f"(then, for each further message, its id and all from {script.args[5]} on)" in header(script)["ARGV"]
        assert header(script)["Returns"].startswith("(for each)")


def test_a_missing_or_surplus_argument_raises() -> None:
    records = Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2)

    with pytest.raises(TypeError, match="extend takes"):
        records._call(transitions.EXTEND, "orders", "o-1", epoch=1)
    with pytest.raises(KeyError):
        records._call(transitions.EXTEND, "orders", "o-1", epoch=1, nonce=2, lease=3, by="")


def test_a_record_has_no_default_that_would_hide_a_field_a_script_leaves_out() -> None:
    assert all(field.default is MISSING for field in fields(Record))
