"""Tests lmstfy's tokens and limits on a running bridge: how the admin port changes them, and how the API obeys."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pytest

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.waiting import pause
from tests.wires.lmstfy import BASIC, Answer, Lmstfy, Queue, another_bridge, ask, lmstfy_bridge

FORM = {**BASIC, "Content-Type": "application/x-www-form-urlencoded"}


async def until(queue: Queue, status: int) -> Answer:
    """Repeats the request until it has this status: other processes follow a change within a second."""
    async with asyncio.timeout(30):
        while (answer := await queue.ask("GET", "?timeout=1")).status != status:
            await pause()
    return answer


def refused(queue: Queue, action: str) -> dict[str, str]:
    return {"msg": f"token({queue.token}) {action} reach the limit rate, please retry later"}


class TestTokens:
    async def test_a_token_opens_one_namespace(self, lmstfy: Lmstfy) -> None:
        one, other = await lmstfy.queue(), await lmstfy.queue()
        assert await one.is_empty()
        crossed = await Queue(lmstfy, other.namespace, "orders", one.token).ask("GET")
        assert (crossed.status, crossed.json) == (401, {"error": "invalid token"})

    async def test_names_and_tokens_with_the_same_concatenation_are_distinct(self, lmstfy: Lmstfy) -> None:
        # The original's cache joins namespace and token, and so takes "ab" + "c…" for "a" + "bc…".
        stem, token = uuid4().hex, uuid4().hex
        made = await lmstfy.admin(f"POST /token/{stem}x?description=d&token={token}")
        assert made.status == 201
        assert await Queue(lmstfy, f"{stem}x", "orders", token).is_empty()
        assert (await Queue(lmstfy, stem, "orders", f"x{token}").ask("GET")).status == 401

    async def test_a_chosen_token_is_listed_in_clear_and_deleted(self, lmstfy: Lmstfy) -> None:
        namespace, token = f"ns-{uuid4().hex[:12]}", f"of-my-own-{uuid4().hex}"
        form = f"description=of+mine&token={token}".encode()
        made = await lmstfy.admin(f"POST /token/{namespace}?pool=", form, FORM)
        assert (made.status, made.json) == (201, {"token": token})
        again = await lmstfy.admin(f"POST /token/{namespace}?description=other&token=default:{token}")
        assert (again.status, again.json) == (400, {"error": "the token has already existed"})
        listed = await lmstfy.admin(f"GET /token/{namespace}")
        assert listed.json == {"tokens": {token: "of mine"}}
        assert (await lmstfy.admin(f"GET /token/{namespace}?pool=default")).json == {
            "tokens": {f"default:{token}": "of mine"}
        }
        queue = Queue(lmstfy, namespace, "orders", token)
        assert await queue.is_empty()
        assert (await lmstfy.admin(f"DELETE /token/{namespace}/{token}")).status == 204
        assert (await queue.ask("GET")).status == 401
        assert (await lmstfy.admin(f"GET /token/{namespace}")).json == {"tokens": {}}

    async def test_all_processes_refuse_a_deleted_token(self, lmstfy: Lmstfy, local_dir: Path) -> None:
        async with another_bridge(lmstfy, local_dir) as other:
            queue = await lmstfy.queue()
            elsewhere = Queue(other, queue.namespace, queue.name, queue.token)
            assert await elsewhere.is_empty()
            assert (await lmstfy.admin(f"DELETE /token/{queue.namespace}/{queue.token}")).status == 204
            assert (await until(elsewhere, 401)).json == {"error": "invalid token"}


class TestLimits:
    async def test_consumes_over_the_limit_are_refused_and_empty_ones_do_not_count(self, queue: Queue) -> None:
        await queue.ask("PUT", "/bulk", b"[1,2,3]")
        limit = f"/token/{queue.namespace}/{queue.token}/limit"
        added = await queue.lmstfy.admin(f"POST {limit}", b'{"read": 2, "interval": 600}')
        assert (added.status, added.json) == (201, {"limiter": {"read": 2, "write": 0, "interval": 600}})
        other = Queue(queue.lmstfy, queue.namespace, "other", queue.token)
        for _ in range(5):
            assert await other.is_empty()
        for _ in range(2):
            await queue.consume()
        answer = await queue.ask("GET")
        assert (answer.status, answer.json) == (429, refused(queue, "consume"))
        await queue.publish()  # publishes have no limit
        assert (await queue.ask("GET", "/peek")).status == 200  # nor do reads
        changed = await queue.lmstfy.admin(f"PUT {limit}", b'{"read": 3, "write": 0, "interval": 600}')
        assert (changed.status, changed.json) == (200, {"limiter": {"read": 3, "write": 0, "interval": 600}})
        await queue.consume()
        assert (await queue.ask("GET")).status == 429
        assert (await queue.lmstfy.admin(f"DELETE {limit}")).json == {"msg": "success"}
        await queue.consume()

    async def test_publishes_over_the_limit_are_refused_and_a_bulk_counts_once(self, queue: Queue) -> None:
        limit = f"/token/{queue.namespace}/{queue.token}/limit"
        assert (await queue.lmstfy.admin(f"PUT {limit}", b'{"write": 2, "interval": 600}')).status == 200
        assert (await queue.ask("PUT", "?tries=0")).status == 400
        assert (await queue.ask("PUT", "/bulk", b"[1,2,3]")).status == 201
        job_id = await queue.publish()
        for path in ("", "/bulk"):
            answer = await queue.ask("PUT", path, b"[1]")
            assert (answer.status, answer.json) == (429, refused(queue, "produce"))
        assert (await queue.ask("PUT", f"/job/{job_id}")).status == 201  # a republish has no limit
        metrics = await queue.lmstfy.admin("GET /metrics")
        assert queue.token not in metrics.text
        digest = sha256(queue.token.encode()).hexdigest()[:12]
        labels = f'pool="default",namespace="{queue.namespace}",token="{digest}",action="produce"'
        assert f"infra_lmstfy_http_rate_limit{{{labels}}} 2\n" in metrics.text

    async def test_a_new_window_allows_requests_again(self, queue: Queue) -> None:
        limit = f"/token/{queue.namespace}/{queue.token}/limit"
        await queue.ask("PUT", "/bulk", b"[1,2]")
        assert (await queue.lmstfy.admin(f"POST {limit}", b'{"read": 1, "interval": 1}')).status == 201
        await queue.consume()
        await until(queue, 200)

    async def test_limits_are_listed_and_deleted_with_their_token(self, queue: Queue) -> None:
        limit = f"/token/{queue.namespace}/{queue.token}/limit"
        await queue.lmstfy.admin(f"POST {limit}", b'{"read": 9, "write": 8, "interval": 7}')
        again = await queue.lmstfy.admin(f"POST {limit}", b'{"read": 1, "interval": 1}')
        assert (again.status, again.json) == (
            500,
            {"error": f"throttler token({queue.token}) has already exists"},
        )
        shown = await queue.lmstfy.admin(f"GET {limit}")
        assert (shown.status, shown.text) == (200, '{"read":9,"write":8,"interval":7}')
        listed = (await queue.lmstfy.admin("GET /limits?force_update=true")).json
        assert {
            "namespace": queue.namespace,
            "token": queue.token,
            "limiter": {"read": 9, "write": 8, "interval": 7},
        } in listed
        await queue.lmstfy.admin(f"DELETE /token/{queue.namespace}/{queue.token}")
        assert (await queue.lmstfy.admin(f"GET {limit}")).status == 404


class TestOtherCalls:
    async def test_info_lists_queues_by_namespace(self, queue: Queue) -> None:
        await queue.publish(query="delay=100")
        answer = await queue.lmstfy.admin("GET /info")
        assert f'    "{queue.namespace}": [\n        "orders"\n    ]' in answer.text
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"

    async def test_metrics_have_the_names_of_the_original(self, queue: Queue) -> None:
        await queue.publish(query="delay=100")
        await queue.publish()
        await queue.publish()
        await queue.ack((await queue.consume())["job_id"])
        text = (await queue.lmstfy.admin("GET /metrics")).text
        labels = f'pool="default",namespace="{queue.namespace}",queue="orders"'
        for line in (
            f"infra_lmstfy_redis_publish_queue_jobs{{{labels}}} 3",
            f"infra_lmstfy_redis_consume_queue_jobs{{{labels}}} 1",
            f"infra_lmstfy_redis_queue_sizes{{{labels}}} 1",
            f"infra_lmstfy_redis_deadletter_sizes{{{labels}}} 0",
            f"infra_lmstfy_redis_job_elapsed_ms_count{{{labels}}} 1",
            f'infra_lmstfy_redis_job_ack_elapsed_ms_bucket{{{labels},le="+Inf"}} 1',
            f'infra_lmstfy_http_http_codes{{pool="default",namespace="{queue.namespace}",api="/api/:namespace/:queue",'
            'method="PUT",code="201"} 3',
        ):
            assert f"{line}\n" in text

    async def test_the_access_log_can_be_switched_on_and_off(self, lmstfy: Lmstfy) -> None:
        for status, shown in (("enable", "enabled"), ("disable", "disabled")):
            assert (await lmstfy.admin(f"POST /accesslog?status={status}")).json == {"status": shown}
            assert (await lmstfy.admin("GET /accesslog")).json == {"status": shown}


class TestActions:
    async def test_calls_of_operators_are_recorded_and_no_secret_is(self, lmstfy: Lmstfy, local_dir: Path) -> None:
        async with another_bridge(lmstfy, local_dir, BRIDGE_ACCESS_LOG="true") as logged:
            queue = await logged.queue()
            topic = f"{queue.namespace}/{queue.name}"
            limit = f"/token/{queue.namespace}/{queue.token}/limit"
            assert (await logged.admin(f"POST {limit}", b'{"read": 9, "interval": 600}')).status == 201
            assert (await logged.admin(f"POST {limit}", b"[]")).status == 400
            assert (await logged.admin(f"PUT {limit}", b'{"read": 8, "interval": 600}')).status == 200
            assert (await logged.admin(f"DELETE {limit}")).status == 200
            assert (await logged.admin(f"GET {limit}")).status == 404
            assert (await queue.ask("PUT", "/deadletter?limit=5")).status == 200
            assert (await queue.ask("DELETE", "/deadletter?limit=5")).status == 204
            await queue.publish()
            while await queue.size() == 0:
                await pause()
            assert (await queue.ask("DELETE")).status == 204
            assert (await logged.admin("POST /accesslog?status=disable")).status == 200
            assert (await logged.admin(f"DELETE /token/{queue.namespace}/{queue.token}")).status == 204
            assert (await logged.admin(f"GET /token/{queue.token}/no/such/path")).status == 404
            answer = await ask(logged.own_port, "GET /v1/actions?limit=9")
            log = (local_dir / f"another-{logged.own_port}" / "bridge.log").read_text()
        found = [(one["who"], one["what"], one["topic"], one["target"], one["count"]) for one in answer.json["items"]]
        wanted = [
            ("lmstfy", "lmstfy_token_create", None, queue.namespace, None),
            ("lmstfy", "lmstfy_limit_put", None, queue.namespace, None),
            ("lmstfy", "lmstfy_limit_put", None, queue.namespace, None),
            ("lmstfy", "lmstfy_limit_delete", None, queue.namespace, None),
            ("lmstfy", "replay_many", topic, None, 0),
            ("lmstfy", "drop_many", topic, None, 0),
            ("lmstfy", "empty_ready", topic, None, 1),
            ("lmstfy", "lmstfy_access_log", None, None, None),
            ("lmstfy", "lmstfy_token_delete", None, queue.namespace, None),
        ]
        assert found == wanted[::-1]
        assert queue.token not in answer.text + log
        assert all(path in log for path in ("/token/:namespace/:token/limit", f"/api/{topic}", "(no such path)"))


class TestSettings:
    async def test_verification_can_be_switched_off_and_the_bridges_tokens_are_not_required(
        self, lmstfy: Lmstfy, local_dir: Path
    ) -> None:
        further = {
            "BRIDGE_ACCESS": "tokens",
            "BRIDGE_LMSTFY_SKIP_VERIFICATION": "true",
            "BRIDGE_LMSTFY_TTL_SECONDS": "50",
            "BRIDGE_LMSTFY_TRIES": "3",
            "BRIDGE_LMSTFY_DELAY_SECONDS": "1",
            "BRIDGE_LMSTFY_TIMEOUT_SECONDS": "30",
        }
        async with another_bridge(lmstfy, local_dir, **further) as open_one:
            assert (await ask(open_one.own_port, "GET /v1/topics")).status == 401
            path = f"/api/ns-{uuid4().hex[:12]}/orders"
            assert (await ask(open_one.own_port, f"PUT {path}", body=b"1")).status == 201
            job = (await ask(open_one.port, f"GET {path}")).json
            assert job["elapsed_ms"] >= 1_000
            assert (job["remain_tries"], 0 < job["ttl"] <= 50) == (2, True)
            assert (await ask(open_one.port, f"GET {path}?timeout=0", {"X-Token": "nowhere:t"})).status == 404

    async def test_sizes_need_a_token_where_the_bridge_asks_for_tokens(self, lmstfy: Lmstfy, local_dir: Path) -> None:
        queue = await lmstfy.queue()
        await queue.publish()
        async with another_bridge(lmstfy, local_dir, BRIDGE_ACCESS="tokens") as guarded:
            for sizes in (f"GET {queue.path}/size", f"GET {queue.path}/deadletter/size"):
                assert (await ask(lmstfy.port, sizes)).status == 200
                for headers in ({}, {"X-Token": "0" * 26}):
                    assert (await ask(guarded.port, sizes, headers)).status == 401
                assert (await ask(guarded.port, sizes, {"X-Token": queue.token})).status == 200

    async def test_without_accounts_the_admin_port_refuses_pages_of_other_sites(
        self, lmstfy: Lmstfy, local_dir: Path
    ) -> None:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        request, body = "POST /token/shop", b"description=of+a+page"
        async with another_bridge(lmstfy, local_dir, BRIDGE_LMSTFY_ACCOUNTS="{}") as bare:
            before = (await bare.admin("GET /token/shop", headers={})).json
            for foreign in ({"Origin": "http://elsewhere.example"}, {"Origin": "null"}, {"Host": "elsewhere.example"}):
                answer = await bare.admin(request, body, {**form, **foreign})
                assert (answer.status, "BRIDGE_ACCESS=open" in answer.json["error"]) == (403, True)
            assert (await bare.admin("GET /token/shop", headers={})).json == before
            assert (await bare.admin(request, body, {**form, "Origin": "http://localhost:3000"})).status == 201

    async def test_a_disabled_wire_is_on_no_port(self, lmstfy: Lmstfy, local_dir: Path) -> None:
        async with another_bridge(lmstfy, local_dir, BRIDGE_LMSTFY="false") as off:
            answer = await ask(off.own_port, "GET /api/shop/q")
            assert (answer.status, answer.json["title"]) == (404, "No such path")
            for port in (off.port, off.admin_port):
                with pytest.raises(ConnectionRefusedError):
                    await ask(port, "GET /api/shop/q")


class TestOutages:
    async def test_without_redis_requests_fail_in_time_and_promise_nothing(
        self, rabbit: RabbitNode, local_dir: Path
    ) -> None:
        with RedisNode(local_dir / "lmstfy-redis") as redis:
            async with lmstfy_bridge(rabbit, redis, local_dir / "lmstfy-outage") as lmstfy:
                queue = await lmstfy.queue()
                job_id = await queue.publish(query="delay=1")
                await asyncio.to_thread(redis.kill)
                for answer in (await queue.ask("PUT"), await queue.ask("GET", "?timeout=30"), await queue.ask("GET")):
                    assert (answer.status, answer.json) == (500, {"error": "internal error"})
                await asyncio.to_thread(redis.start)
                assert (await until(queue, 200)).json["job_id"] == job_id
