"""The camellia wire, request by request: what is asked of the service and what is answered, to the letter."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI
from starlette.types import Message as AsgiMessage

from bridge.errors import Conflict, StoreUnavailable
from bridge.http.guard import Guard
from bridge.http.wires.camellia import router
from bridge.message import Envelope, State
from bridge.service.values import MAX_DELAY_MS, Draft
from tests.wires.camellia_service import BORN_MS, StandIn, message, topic_info

NONE_PULLED: dict[str, Any] = {"code": 200, "msg": None, "delayMsgList": []}
SUCCESS = {"code": 200, "msg": "success"}
ABC = {
    "topic": "orders",
    "msgId": "m-1",
    "msg": "abc",
    "produceTime": BORN_MS,
    "triggerTime": BORN_MS + 5_000,
    "expireTime": BORN_MS + 65_000,
    "maxRetry": 3,
    "retry": 0,
    "status": 1,
}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service() -> StandIn:
    return StandIn()


@pytest.fixture
def app(service: StandIn, clock: Clock) -> FastAPI:
    app = FastAPI()
    app.include_router(router(service.service, Guard(None), now_s=clock))
    return app


@pytest_asyncio.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://bridge/camellia") as client:
        yield client


async def post(client: httpx2.AsyncClient, call: str, **form: Any) -> Any:
    answer = await client.post(f"/delayQueue/{call}", data=form)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


class TestParameters:
    async def test_they_come_as_a_form(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        answer = await client.post(
            "/delayQueue/sendMsg",
            content="topic=orders&msg=%E4%BD%A0+%26&delayMillis=5000",
            headers={"content-type": "application/x-www-form-urlencoded; charset=utf-8"},
        )
        assert answer.json()["delayMsg"]["msg"] == "你 &"

    async def test_bytes_that_are_not_escaped_are_utf_8(self, client: httpx2.AsyncClient) -> None:
        answer = await client.post(
            "/delayQueue/sendMsg",
            content="topic=orders&msg=你&delayMillis=5000".encode(),
            headers={"content-type": "application/x-www-form-urlencoded"},
        )
        assert answer.json()["delayMsg"]["msg"] == "你"

    async def test_they_come_in_the_query_string(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        answer = await client.post("/delayQueue/sendMsg?topic=orders&msg=abc&msgId=m-1&delayMillis=5000")
        assert answer.json()["code"] == 200
        assert service.asked[0][1].id == "m-1"

    async def test_they_come_as_a_multipart_form(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        fields = {name: (None, value) for name, value in {"topic": "orders", "msgId": "m-1"}.items()}
        assert (await client.post("/delayQueue/ackMsg", files=fields)).json() == SUCCESS

    async def test_a_broken_multipart_form_is_a_bad_request(self, client: httpx2.AsyncClient) -> None:
        for content_type in ("multipart/form-data", "multipart/form-data; boundary=b"):
            answer = await client.post("/delayQueue/ackMsg", content=b"--c", headers={"content-type": content_type})
            assert answer.status_code == 400

    async def test_the_query_string_goes_first(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await client.post("/delayQueue/pullMsg?topic=a&batch=2", data={"topic": "b", "batch": "3"})
        await client.post("/delayQueue/pullMsg?batch=2", data={"topic": "b", "batch": "3"})
        # Strings given more than once are joined by commas, as Spring does it, and "a,b" is no topic here.
        assert [given[:2] for _, given in service.asked] == [(["b"], 2)]

    async def test_other_bodies_hold_no_parameters(self, client: httpx2.AsyncClient) -> None:
        answer = await client.post("/delayQueue/getMsg", json={"topic": "orders", "msgId": "m-1"})
        assert answer.status_code == 400

    async def test_one_that_is_missing_is_answered_as_by_spring_boot(
        self, client: httpx2.AsyncClient, service: StandIn
    ) -> None:
        answer = await client.post("/delayQueue/sendMsg", data={"topic": "orders", "msg": "abc"})
        assert answer.status_code == 400
        assert list(answer.json()) == ["timestamp", "status", "error", "path"]
        error = answer.json()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", error.pop("timestamp"))
        assert error == {"status": 400, "error": "Bad Request", "path": "/camellia/delayQueue/sendMsg"}
        assert service.asked == []

    @pytest.mark.parametrize(
        ("call", "missing"),
        [
            ("sendMsg", "topic"),
            ("sendMsg", "msg"),
            ("sendMsg", "delayMillis"),
            ("pullMsg", "topic"),
            ("longPollingMsg", "topic"),
            ("ackMsg", "topic"),
            ("ackMsg", "msgId"),
            ("deleteMsg", "topic"),
            ("deleteMsg", "msgId"),
            ("getMsg", "topic"),
            ("getMsg", "msgId"),
        ],
    )
    async def test_what_is_required(self, client: httpx2.AsyncClient, call: str, missing: str) -> None:
        form = {"topic": "orders", "msgId": "m-1", "msg": "abc", "delayMillis": "0"}
        del form[missing]
        assert (await client.post(f"/delayQueue/{call}", data=form)).status_code == 400

    @pytest.mark.parametrize("number", ["x", "1.5", "1e3", "", "1_0", "9223372036854775808", "--1"])
    async def test_a_number_that_is_none_is_a_bad_request(self, client: httpx2.AsyncClient, number: str) -> None:
        form = {"topic": "orders", "msg": "abc", "delayMillis": number}
        assert (await client.post("/delayQueue/sendMsg", data=form)).status_code == 400

    async def test_an_int_has_32_bits(self, client: httpx2.AsyncClient) -> None:
        form = {"topic": "orders", "batch": str(1 << 31)}
        assert (await client.post("/delayQueue/pullMsg", data=form)).status_code == 400

    async def test_a_number_may_have_a_sign_and_spaces(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=" +5 ")
        assert service.asked[0][1].delay_ms == 5

    @pytest.mark.parametrize(
        ("word", "asked"),
        [(word, "ack_ids") for word in ("true", "on", "YES", "1", " true ", "")]
        + [(word, "nack") for word in ("false", "Off", "no", "0")],
    )
    async def test_booleans(self, client: httpx2.AsyncClient, service: StandIn, word: str, asked: str) -> None:
        assert await post(client, "ackMsg", topic="orders", msgId="m-1", ack=word) == SUCCESS
        assert service.asked[0][0] == asked

    async def test_a_boolean_that_is_none_is_a_bad_request(self, client: httpx2.AsyncClient) -> None:
        form = {"topic": "orders", "msgId": "m-1", "ack": "maybe"}
        assert (await client.post("/delayQueue/ackMsg", data=form)).status_code == 400


class TestSend:
    async def test_the_answer_shows_the_message(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.live["m-1"] = message()
        answer = await post(client, "sendMsg", topic="orders", msgId="m-1", msg="abc", delayMillis=5000)
        assert answer == {**SUCCESS, "delayMsg": ABC}
        assert list(answer) == ["code", "msg", "delayMsg"]
        assert list(answer["delayMsg"]) == list(ABC)

    async def test_what_is_given_is_taken(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await post(
            client, "sendMsg", topic="a/b", msgId="m-1", msg="你好", delayMillis=5000, ttlMillis=60000, maxRetry=0
        )
        assert service.asked == [
            (
                "send",
                Draft(
                    topic="a/b",
                    envelope=Envelope(content_type="text/plain; charset=utf-8", body="你好".encode()),
                    id="m-1",
                    delay_ms=5_000,
                    ttl_ms=60_000,
                    max_retry=0,
                ),
            )
        ]

    async def test_defaults(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=0)
        await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=-5, ttlMillis=0, maxRetry=-1)
        await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=0, ttlMillis="", maxRetry="")
        drafts = [draft for _, draft in service.asked]
        assert [(draft.delay_ms, draft.ttl_ms, draft.max_retry) for draft in drafts] == [(0, 3_600_000, 10)] * 3
        assert all(re.fullmatch(r"[0-9a-f]{32}", draft.id) for draft in drafts)
        assert len({draft.id for draft in drafts}) == 3

    async def test_a_short_delay_is_kept(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=100)
        assert service.asked[0][1].delay_ms == 100

    async def test_the_longest_ttl_is_a_century(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=0, ttlMillis=(1 << 63) - 1)
        assert service.asked[0][1].ttl_ms == 100 * 365 * 86_400_000

    async def test_a_second_send_of_a_live_id_is_answered_with_the_first(
        self, client: httpx2.AsyncClient, service: StandIn
    ) -> None:
        service.live["m-1"] = message()
        answer = await post(client, "sendMsg", topic="orders", msgId="m-1", msg="other", delayMillis=9)
        assert answer == {**SUCCESS, "delayMsg": ABC}

    @pytest.mark.parametrize(
        "wrong",
        [
            {"topic": ""},
            {"topic": "a b"},
            {"topic": "a/b/c"},
            {"topic": "主题"},
            {"msg": ""},
            {"msg": "x" * (1024 * 1024 + 1)},
            {"msgId": ""},
            {"msgId": "a/b"},
            {"msgId": "é"},
            {"msgId": "x" * 201},
        ],
        ids=str,
    )
    async def test_what_is_wrong_is_code_400(
        self, client: httpx2.AsyncClient, service: StandIn, wrong: dict[str, str]
    ) -> None:
        form = {"topic": "orders", "msg": "abc", "delayMillis": "0", **wrong}
        assert await post(client, "sendMsg", **form) == {"code": 400, "msg": None, "delayMsg": None}
        assert service.asked == []


class TestPull:
    async def test_the_answer_lists_the_messages(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        first, second = message(state=State.LEASED, attempts=1), message("m-2", state=State.LEASED, attempts=2)
        service.pulls = [[first, second]]
        answer = await post(client, "pullMsg", topic="orders", batch=2, ackTimeoutMillis=1500)
        assert answer == {
            "code": 200,
            "msg": None,
            "delayMsgList": [{**ABC, "retry": 1, "status": 3}, {**ABC, "msgId": "m-2", "retry": 2, "status": 3}],
        }
        assert service.asked == [("pull", (["orders"], 2, 0, 1_500))]

    async def test_defaults(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        assert await post(client, "pullMsg", topic="orders") == NONE_PULLED
        assert await post(client, "pullMsg", topic="orders", batch=0, ackTimeoutMillis=0) == NONE_PULLED
        assert service.asked == [("pull", (["orders"], 1, 0, 30_000))] * 2

    async def test_a_large_batch_is_pulled_by_and_by(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.pulls = [[message(f"m-{at}-{number}") for number in range(100)] for at in range(10)]
        answer = await post(client, "pullMsg", topic="orders", batch=2_000)
        assert len(answer["delayMsgList"]) == 1_000
        assert [limit for _, (_, limit, _, _) in service.asked] == [100] * 10

    async def test_a_batch_ends_where_there_is_no_more(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.pulls = [[message(f"m-{number}") for number in range(100)], [message("last")]]
        answer = await post(client, "pullMsg", topic="orders", batch=500)
        assert len(answer["delayMsgList"]) == 101
        assert len(service.asked) == 2

    async def test_a_batch_cut_short_by_a_failure_is_handed_over(
        self, client: httpx2.AsyncClient, service: StandIn
    ) -> None:
        service.pulls = [[message(f"m-{number}") for number in range(100)], StoreUnavailable("away")]
        answer = await post(client, "pullMsg", topic="orders", batch=101)
        assert (answer["code"], len(answer["delayMsgList"])) == (200, 100)

    async def test_a_lease_is_at_most_999_days(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        await post(client, "pullMsg", topic="orders", ackTimeoutMillis=(1 << 63) - 1)
        assert service.asked[0][1][3] == MAX_DELAY_MS

    @pytest.mark.parametrize("topic", ["", "a b"])
    async def test_a_wrong_topic_is_code_400(self, client: httpx2.AsyncClient, topic: str) -> None:
        assert await post(client, "pullMsg", topic=topic) == {"code": 400, "msg": None, "delayMsgList": None}


class TestLongPoll:
    @pytest.mark.parametrize(("asked_ms", "wait_ms"), [(None, 10_000), (0, 10_000), (1_500, 1_500)])
    async def test_it_waits(
        self, client: httpx2.AsyncClient, service: StandIn, asked_ms: int | None, wait_ms: int
    ) -> None:
        form = {} if asked_ms is None else {"longPollingTimeoutMillis": asked_ms}
        assert await post(client, "longPollingMsg", topic="orders", **form) == {"code": 200, "delayMsgList": []}
        assert service.asked == [("pull", (["orders"], 1, wait_ms, 30_000))]

    async def test_more_of_a_batch_is_not_waited_for(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.pulls = [[message(f"m-{number}") for number in range(100)]]
        await post(client, "longPollingMsg", topic="orders", batch=101)
        assert [(limit, wait_ms) for _, (_, limit, wait_ms, _) in service.asked] == [(100, 10_000), (1, 0)]

    async def test_its_keys_are_sorted_and_nulls_left_out(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.pulls = [[message(state=State.LEASED, attempts=1)]]
        answer = await client.post("/delayQueue/longPollingMsg", data={"topic": "orders"})
        assert answer.text == (
            '{"code":200,"delayMsgList":[{"expireTime":1700000065000,"maxRetry":3,"msg":"abc","msgId":"m-1",'
            '"produceTime":1700000000000,"retry":1,"status":3,"topic":"orders","triggerTime":1700000005000}]}'
        )

    async def test_its_errors_have_a_code_alone(self, client: httpx2.AsyncClient) -> None:
        assert await post(client, "longPollingMsg", topic="a b") == {"code": 400}

    async def test_it_ends_when_the_client_goes_away(self, app: FastAPI, service: StandIn) -> None:
        polling, ended = asyncio.Event(), asyncio.Event()

        async def pull(*_: Any, **__: Any) -> None:
            polling.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async def receive() -> AsgiMessage:
            if not read:
                read.append(True)
                return {"type": "http.request", "body": b"", "more_body": False}
            await polling.wait()
            return {"type": "http.disconnect"}

        async def send(_: AsgiMessage) -> None:
            pass

        read: list[bool] = []
        service.pull = pull  # type: ignore[assignment,method-assign]
        path = "/camellia/delayQueue/longPollingMsg"
        await app(
            {"type": "http", "method": "POST", "path": path, "query_string": b"topic=orders", "headers": []},
            receive,
            send,
        )
        assert ended.is_set()


class TestAck:
    @pytest.mark.parametrize("form", [{}, {"ack": "true"}])
    async def test_it_acks_whatever_is_live(
        self, client: httpx2.AsyncClient, service: StandIn, form: dict[str, str]
    ) -> None:
        assert await post(client, "ackMsg", topic="orders", msgId="m-1", **form) == SUCCESS
        assert service.asked == [("ack_ids", ("orders", ["m-1"]))]

    async def test_false_gives_it_back_at_once(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        assert await post(client, "ackMsg", topic="orders", msgId="m-1", ack="false") == SUCCESS
        assert service.asked == [("nack", ("orders", "m-1", None, 0, None))]

    async def test_false_succeeds_on_what_is_not_leased(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.error = Conflict("the message is waiting", state="waiting")
        assert await post(client, "ackMsg", topic="orders", msgId="m-1", ack="false") == SUCCESS

    @pytest.mark.parametrize("names", [{"topic": "", "msgId": "m-1"}, {"topic": "orders", "msgId": ""}])
    async def test_empty_names_are_code_400(self, client: httpx2.AsyncClient, names: dict[str, str]) -> None:
        assert await post(client, "ackMsg", **names) == {"code": 400, "msg": None}


class TestDelete:
    @pytest.mark.parametrize(("form", "release"), [({}, False), ({"release": "true"}, True)])
    async def test_what_lives(
        self, client: httpx2.AsyncClient, service: StandIn, form: dict[str, str], release: bool
    ) -> None:
        service.live["m-1"] = message()
        assert await post(client, "deleteMsg", topic="orders", msgId="m-1", **form) == SUCCESS
        assert service.asked == [("get", ("orders", "m-1")), ("delete", ("orders", "m-1", release))]

    async def test_what_is_unknown_is_code_404(self, client: httpx2.AsyncClient) -> None:
        assert await post(client, "deleteMsg", topic="orders", msgId="m-1") == {"code": 404, "msg": None}

    @pytest.mark.parametrize("state", [State.ACKED, State.EXPIRED, State.DEAD, State.DELETED])
    async def test_what_has_ended_is_code_404(self, client: httpx2.AsyncClient, service: StandIn, state: State) -> None:
        service.live["m-1"] = message(state=state)
        assert await post(client, "deleteMsg", topic="orders", msgId="m-1") == {"code": 404, "msg": None}
        assert service.asked == [("get", ("orders", "m-1"))]


class TestGet:
    async def test_what_is_known(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.live["m-1"] = message()
        assert await post(client, "getMsg", topic="orders", msgId="m-1") == {**SUCCESS, "delayMsg": ABC}

    async def test_what_is_gone_is_code_404(self, client: httpx2.AsyncClient) -> None:
        answer = await post(client, "getMsg", topic="orders", msgId="m-1")
        assert answer == {"code": 404, "msg": None, "delayMsg": None}

    @pytest.mark.parametrize(
        ("state", "status"),
        [
            (State.WAITING, 1),
            (State.READY, 2),
            (State.LEASED, 3),
            (State.ACKED, 4),
            (State.EXPIRED, 5),
            (State.DEAD, 6),
            (State.DELETED, 7),
        ],
    )
    async def test_states(self, client: httpx2.AsyncClient, service: StandIn, state: State, status: int) -> None:
        service.live["m-1"] = message(state=state)
        answer = await post(client, "getMsg", topic="orders", msgId="m-1")
        assert answer["delayMsg"]["status"] == status

    async def test_a_message_of_another_wire_is_shown_as_its_text(
        self, client: httpx2.AsyncClient, service: StandIn
    ) -> None:
        service.live["m-1"] = message(expires_ms=0, envelope=Envelope(body=b'{"order":1}'))
        answer = await post(client, "getMsg", topic="orders", msgId="m-1")
        assert (answer["delayMsg"]["msg"], answer["delayMsg"]["expireTime"]) == ('{"order":1}', (1 << 63) - 1)

    @pytest.mark.parametrize("envelope", [None, Envelope()])
    async def test_a_body_that_was_not_kept_is_null(
        self, client: httpx2.AsyncClient, service: StandIn, envelope: Envelope | None
    ) -> None:
        service.live["m-1"] = message(envelope=envelope)
        assert (await post(client, "getMsg", topic="orders", msgId="m-1"))["delayMsg"]["msg"] is None


class TestUnavailable:
    @pytest.mark.parametrize(
        ("call", "answer"),
        [
            ("sendMsg", {"code": 500, "msg": None, "delayMsg": None}),
            ("pullMsg", {"code": 500, "msg": None, "delayMsgList": None}),
            ("longPollingMsg", {"code": 500}),
            ("ackMsg", {"code": 500, "msg": None}),
            ("deleteMsg", {"code": 500, "msg": None}),
            ("getMsg", {"code": 500, "msg": None, "delayMsg": None}),
        ],
    )
    async def test_it_is_code_500(
        self, client: httpx2.AsyncClient, service: StandIn, call: str, answer: dict[str, Any]
    ) -> None:
        service.error = StoreUnavailable("Redis is away")
        service.pulls = [service.error]
        assert await post(client, call, topic="orders", msgId="m-1", msg="abc", delayMillis=0) == answer


class TestTopicInfo:
    SIZES = {  # noqa: RUF012
        "sizeOf0To1min": 3,
        "sizeOf1minTo10min": 2,
        "sizeOf10minTo30min": 3,
        "sizeOf30minTo1hour": 4,
        "sizeOf1hourTo6hour": 5,
        "sizeOf6hourTo1day": 6,
        "sizeOf1dayTo7day": 7,
        "sizeOf7dayTo30day": 8,
        "sizeOf30dayToInfinite": 9,
    }
    ORDERS = {  # noqa: RUF012
        "topic": "orders",
        "waitingQueueSize": 47,
        "waitingQueueInfo": SIZES,
        "readyQueueSize": 2,
        "ackQueueSize": 3,
    }

    async def test_of_one(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.known_topics = [topic_info("orders")]
        answer = await client.get("/delayQueue/getTopicInfo", params={"topic": "orders"})
        assert answer.json() == {"code": 200, "data": self.ORDERS}
        assert sum(self.SIZES.values()) == self.ORDERS["waitingQueueSize"]

    @pytest.mark.parametrize("topic", ["unknown", "a b", ""])
    async def test_of_an_unknown_one(self, client: httpx2.AsyncClient, topic: str) -> None:
        answer = await client.get("/delayQueue/getTopicInfo", params={"topic": topic})
        assert answer.json()["data"] == {
            "topic": topic,
            "waitingQueueSize": 0,
            "waitingQueueInfo": dict.fromkeys(self.SIZES, 0),
            "readyQueueSize": 0,
            "ackQueueSize": 0,
        }

    async def test_the_topic_is_required(self, client: httpx2.AsyncClient) -> None:
        assert (await client.get("/delayQueue/getTopicInfo")).status_code == 400

    async def test_of_all(self, client: httpx2.AsyncClient, service: StandIn) -> None:
        service.known_topics = [topic_info("orders"), topic_info("mails")]
        answer = await client.get("/delayQueue/getTopicInfoList")
        assert answer.json() == {"code": 200, "data": [self.ORDERS, {**self.ORDERS, "topic": "mails"}]}


class TestMonitor:
    COUNTS = {  # noqa: RUF012
        "topic": "orders",
        "sendMsg": 2,
        "pullMsg": 2,
        "deleteMsg": 1,
        "ackMsg": 1,
        "getMsg": 1,
        "triggerMsgReady": 0,
        "triggerMsgEndLife": 0,
        "triggerMsgTimeout": 0,
    }
    PULL_GAP = {"topic": "orders", "count": 2, "avg": 15.0, "max": 20}  # noqa: RUF012
    READY_GAP = {"topic": "orders", "count": 0, "avg": 1.5, "max": 4}  # noqa: RUF012

    @pytest_asyncio.fixture
    async def used(self, client: httpx2.AsyncClient, service: StandIn) -> httpx2.AsyncClient:
        """A client whose wire has handled a few requests in its first minute."""
        service.known_topics = [
            topic_info("mails"),
            topic_info("orders", lateness_ms={"p50": 1.5, "p90": 2, "p99": 3, "max": 3.8}),
        ]
        due_ms = BORN_MS + 5_000
        service.live["m-1"] = message()
        service.pulls = [[message(lease_until_ms=due_ms + late_ms + 30_000) for late_ms in (10, 20)]]
        for _ in range(2):
            await post(client, "sendMsg", topic="orders", msg="abc", delayMillis=0)
        await post(client, "sendMsg", topic="orders", msg="", delayMillis=0)
        for call in ("pullMsg", "pullMsg", "ackMsg", "deleteMsg", "getMsg"):
            await post(client, call, topic="orders", msgId="m-1", batch=2)
        await post(client, "getMsg", topic="orders", msgId="unknown")
        return client

    async def test_the_first_minute_is_not_told_before_it_is_over(self, used: httpx2.AsyncClient, clock: Clock) -> None:
        clock.now_s = 59.9
        data = (await used.get("/delayQueue/getMonitorData")).json()["data"]
        assert data == {
            "requestStatsList": [],
            "pullMsgTimeGapStatsList": [],
            "readyQueueTimeGapStatsList": [self.READY_GAP],
        }

    async def test_the_last_full_minute_is_told(self, used: httpx2.AsyncClient, clock: Clock) -> None:
        clock.now_s = 60
        await post(used, "sendMsg", topic="mails", msg="abc", delayMillis=0)
        clock.now_s = 119
        assert (await used.get("/delayQueue/getMonitorData")).json() == {
            "code": 200,
            "data": {
                "requestStatsList": [self.COUNTS],
                "pullMsgTimeGapStatsList": [self.PULL_GAP],
                "readyQueueTimeGapStatsList": [self.READY_GAP],
            },
        }

    async def test_a_minute_without_requests_is_empty(self, used: httpx2.AsyncClient, clock: Clock) -> None:
        clock.now_s = 120
        assert (await used.get("/delayQueue/getMonitorData")).json()["data"]["requestStatsList"] == []

    async def test_the_string_is_one_flat_document(self, used: httpx2.AsyncClient, clock: Clock) -> None:
        clock.now_s = 60
        answer = await used.get("/delayQueue/getMonitorString")
        assert answer.headers["content-type"] == "text/plain;charset=UTF-8"
        sizes = {"waitingQueueSize": 47, "ackQueueSize": 3, "readyQueueSize": 2}
        assert json.loads(answer.text) == {
            "requestStats": [self.COUNTS],
            "pullMsgTimeGapStats": [self.PULL_GAP],
            "readyQueueTimeGapStats": [self.READY_GAP],
            "topicInfoStats": [{"topic": topic, **sizes} for topic in ("mails", "orders")],
            "waitingQueueStats": [{**TestTopicInfo.SIZES, "topic": topic} for topic in ("mails", "orders")],
        }


class TestHealth:
    @pytest.mark.parametrize("verb", ["GET", "POST", "PUT", "PATCH", "DELETE"])
    @pytest.mark.parametrize("name", ["status", "check", "online"])
    async def test_online(self, client: httpx2.AsyncClient, verb: str, name: str) -> None:
        answer = await client.request(verb, f"/health/{name}")
        assert (answer.status_code, answer.text) == (200, '{"code":200}')

    async def test_offline_is_500_until_no_call_has_come_for_20_seconds(
        self, client: httpx2.AsyncClient, clock: Clock
    ) -> None:
        clock.now_s = 15
        await post(client, "getMsg", topic="orders", msgId="m-1")
        clock.now_s = 35
        answer = await client.get("/health/offline")
        assert (answer.status_code, answer.text) == (500, '{"code":500}')
        await client.get("/delayQueue/getTopicInfoList")
        clock.now_s = 35.1
        assert (await client.get("/health/offline")).status_code == 200

    async def test_offline_shows_in_the_status_alone(self, client: httpx2.AsyncClient) -> None:
        await client.get("/health/offline")
        answer = await client.get("/health/status")
        assert (answer.status_code, answer.json()) == (500, {"code": 500})
        assert (await client.get("/health/check")).status_code == 200
        assert await post(client, "pullMsg", topic="orders") == NONE_PULLED
        await client.get("/health/online")
        assert (await client.get("/health/status")).status_code == 200
