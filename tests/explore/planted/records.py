"""Defects of the scripts' rules about which copy is live, when it is due, and how records are indexed."""

from __future__ import annotations

from typing import Final

from tests.explore.planted.defect import EVERY, Change, Planted

PLANTED: Final = (
    Planted(
        name="a tombstone is forgotten at once",
        changes=(Change("delete", ", WAS_DELETED, DELETED, '', TOMBSTONE_MS)", ", WAS_DELETED, DELETED, '', 0)"),),
        scenario="delete",
        promise="4.",
    ),
    Planted(
        name="a delivery in place of its lease copy is taken for a ghost",
        changes=(
            Change("lease", "return r[DELIVERED] == nonce and r[EPOCH] == epoch + 1 and live(r)", "return false"),
        ),
        scenario="keep deliveries",
        promise="5.",
    ),
    Planted(
        name="a message has any number of deliveries",
        changes=(Change("fire", "if attempt > r[MAX_RETRY] + 1 then return answer('bury', r) end", ""),),
        scenario="deliver too often",
        promise="5.",
    ),
    Planted(
        name="two lives of an id count as one",
        changes=(
            Change(
                "fire",
                "return (r[BORN] and created_ms < r[BORN]) or (epoch == 1 and r[EPOCH] == 1 and r[NONCE] ~= nonce)",
                "return false",
            ),
        ),
        scenario="lose Redis and use an id again",
        promise="2.",
    ),
    Planted(
        name="a record leaves its former index",
        changes=(
            Change(
                "fire",
                "if stood and had_state ~= state then redis.call('ZREM', KEYS[FIRST_INDEX + had_state], ID) end",
                "",
            ),
        ),
        scenario="deliver",
        promise="index",
    ),
    Planted(
        name="the copy of an ended message is no ghost",
        changes=(Change("fire", "or (ended(r) and not (letter(r) and r[EPOCH] < epoch))", ""),),
        scenario="delete",
        promise="life: a: fire moved the record from deleted to waiting",
    ),
    Planted(
        name="the copy of a lease that was extended ends it",
        changes=(
            Change("fire", "math.max(r[DUE] - now, r[LEASE_UNTIL] - now,", "math.max(r[DUE] - now,"),
            Change("fire", "local leased = r[LEASE_UNTIL] > now", "local leased = false"),
        ),
        scenario="extend",
        promise="3.",
    ),
    Planted(
        name="the lease copy of a live lease is taken for a ghost",
        changes=(Change("superseded", "(r[EPOCH] > epoch or is_over)", "(r[EPOCH] >= epoch or is_over)"),),
        scenario="keep deliveries",
        promise="5.",
    ),
    Planted(
        name="a call of Redis takes effect after its caller was answered",
        changes=(Change(EVERY, "if ARGV[5] ~= '' and now > tonumber(ARGV[5]) then return { 'late', now, 0 } end", ""),),
        mended="cd237c68",
        simulated=False,
    ),
    Planted(
        name="a copy ahead is believed though its message waits for a later moment",
        changes=(
            Change(
                "fire", "if r[STATE] == WAITING and r[DUE] > now then return answer('ahead', r, r[DUE] - now) end", ""
            ),
        ),
        mended="1899c7e1",
        scenario="move in turn",
        promise="3.",
        simulated=False,
    ),
    Planted(
        name="a lease ends early if RabbitMQ was slow to confirm its copy",
        changes=(Change("fire", "if term > 0 then left = left + ", "if false then left = left + "),),
        mended="4191e1a5",
        scenario="lease while RabbitMQ is slow",
        promise="3.",
        simulated=False,
    ),
    Planted(
        name="a message that a failover has forgotten is a ghost of the one before",
        changes=(
            Change(
                "fire", "elseif named == 'message' and forgot(r, epoch, tonumber(created_ms)) then", "elseif false then"
            ),
            Change(
                "fire", "elseif of_forgotten(r, epoch, nonce, tonumber(created_ms), named) then", "elseif false then"
            ),
        ),
        mended="1ea4a3d6",
        scenario="fail over and use an id again in turn",
        promise="2.",
        simulated=False,
    ),
    Planted(
        name="a new record leaves a forgotten one of its id in the indexes",
        changes=(
            Change(
                EVERY,
                "if not had_state then\n    if redis.call('ZREM', FORGET_INDEX, ID) == 1 then",
                "if false then\n    if redis.call('ZREM', FORGET_INDEX, ID) == 1 then",
            ),
        ),
        mended="c387813d",
        scenario="use an id again in turn",
        promise="index",
        simulated=False,
    ),
    Planted(
        name="the time to live of a message cuts its lease short",
        changes=(Change("fire", "if expired(r) and r[LEASE_UNTIL] <= now then", "if expired(r) then"),),
        mended="1ea0ea21",
        scenario="expire while leased",
        promise="3.",
        simulated=False,
    ),
    Planted(
        name="a refused copy comes after a withdrawn claim",
        changes=(
            Change(
                "withdraw", "if r[EPOCH] == 1 and r[LAST] <= r[DUE] and not r[REFUSED] then", "if r[EPOCH] == 1 then"
            ),
        ),
        mended="36684545",
        simulated=False,
    ),
    Planted(
        name="a record is indexed by the state of another one",
        changes=(
            Change(
                EVERY,
                "had_state, had_due, had_forget, had_labels, timeline, sent_due = nil, nil, nil, nil, nil, nil",
                "had_labels, timeline, sent_due = nil, nil, nil",
            ),
        ),
        mended="c1e64307",
    ),
)
