"""Tests the parts of lmstfy's wire without servers: numbers, raw JSON, ids, names, metrics and ports."""

from __future__ import annotations

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from ulid import ULID

from bridge.access.access import Undecided
from bridge.http.wires.lmstfy import exposition
from bridge.http.wires.lmstfy.answers import Refusal, answer
from bridge.http.wires.lmstfy.exposition import Counter, Histogram, render
from bridge.http.wires.lmstfy.grants import parse_token
from bridge.http.wires.lmstfy.job_ids import JobIds
from bridge.http.wires.lmstfy.jobs import exists, shown
from bridge.http.wires.lmstfy.metrics import Metrics
from bridge.http.wires.lmstfy.mount import Mount, check_admin_port
from bridge.http.wires.lmstfy.names import topic_of
from bridge.http.wires.lmstfy.parameters import NotANumber, Query, parse_int, parse_uint
from bridge.http.wires.lmstfy.raw_json import NotAnArray, elements
from bridge.http.wires.lmstfy.wire import Wire
from bridge.model.message import State, valid_topic
from bridge.settings.settings import Settings
from tests.wires.camellia_service import BORN_MS, StandIn, message


class TestNumbers:
    @pytest.mark.parametrize("digits", ["", "+1", "-1", "1.5", " 1", "1 ", "1_0", "0x1", "١", "65536", "9" * 5_000])
    def test_a_malformed_unsigned_number_is_refused(self, digits: str) -> None:
        with pytest.raises(NotANumber):
            parse_uint(digits, 16)

    def test_numbers_are_read_as_in_go(self) -> None:
        assert [parse_uint(digits, 16) for digits in ("0", "007", "65535", "0" * 5_000 + "7")] == [0, 7, 65_535, 7]
        assert [parse_int(digits) for digits in ("+1", "-1", "9223372036854775807")] == [1, -1, 2**63 - 1]

    @pytest.mark.parametrize("digits", ["", "-", "+-1", "9223372036854775808", "1e3"])
    def test_a_malformed_signed_number_is_refused(self, digits: str) -> None:
        with pytest.raises(NotANumber):
            parse_int(digits)

    def test_the_first_of_several_values_counts_and_an_empty_value_is_invalid(self) -> None:
        query = Query.of(b"delay=5&delay=6&ttl=&x")
        assert (query.uint("delay", 1), query.uint("tries", 1)) == (5, 1)
        with pytest.raises(Refusal):
            query.uint("ttl", 1)

    @pytest.mark.parametrize(("word", "value"), [("1", True), ("T", True), ("True", True), ("f", False), ("0", False)])
    def test_each_boolean_word_has_its_value(self, word: str, value: bool) -> None:
        assert Query.of(f"freeze_tries={word}".encode()).boolean("freeze_tries") is value

    @pytest.mark.parametrize("word", ["", "yes", "tRUE", "2", "abc"])
    def test_a_word_that_is_no_boolean_is_ignored(self, word: str) -> None:
        assert Query.of(f"freeze_tries={word}".encode()).boolean("freeze_tries") is False


class TestRawJson:
    @pytest.mark.parametrize(
        ("document", "wanted"),
        [
            (b"[]", []),
            (b" null\n", []),
            (b'[ {"b" : 1,  "a":[2 ]} ,"x" , null,-1.50e+3]', [b'{"b" : 1,  "a":[2 ]}', b'"x"', b"null", b"-1.50e+3"]),
            (b"[" + b"9" * 10_000 + b"]", [b"9" * 10_000]),
            (b'["\xff",1]', [b'"\xff"', b"1"]),
            ('["你"]'.encode(), ['"你"'.encode()]),
        ],
        ids=lambda value: str(value)[:20],
    )
    def test_elements_keep_their_bytes(self, document: bytes, wanted: list[bytes]) -> None:
        assert elements(document, most=64) == wanted

    @pytest.mark.parametrize(
        "document",
        [
            *(b"", b"{}", b"1", b"nul", b"nulls", b"[", b"[1", b"[1,", b"[1,]", b"[,1]", b"[1 2]", b"[1]]"),
            *(b"[NaN]", b"['a']", b"[01]", b'["\n"]', b"\xef\xbb\xbf[]", b"[[[", b"[" * 100_000),
        ],
        ids=lambda value: str(value)[:20],
    )
    def test_anything_but_an_array_is_refused(self, document: bytes) -> None:
        with pytest.raises(NotAnArray):
            elements(document, most=64)


class TestIds:
    def test_ids_ascend_and_contain_their_delay(self) -> None:
        ids = JobIds()
        made = [ids.new(3, versioned=False) for _ in range(2_000)]
        assert sorted(set(made)) == made
        assert {ULID.from_str(job_id).bytes[-4:] for job_id in made} == {b"\x03\x00\x00\x00"}
        assert len(ids.new(2**32 - 1, versioned=True)) == 27


class TestNames:
    def test_long_names_have_distinct_topics(self) -> None:
        names = ["n" * 100, "n" * 101, "n" * 102, "n" * 255, "n" * 254 + "m"]
        topics = {topic_of("shop", name) for name in names}
        assert len(topics) == len(names)
        assert all(valid_topic(topic) for topic in topics)
        assert topic_of("shop", "n" * 100) == "shop/" + "n" * 100

    @pytest.mark.parametrize(
        ("given", "parsed"),
        [
            ("t", ("default", "t")),
            ("p:t", ("p", "t")),
            (":t", ("default", "t")),
            ("p:t:u", ("p", "t:u")),
            ("p:", ("p", "")),
        ],
    )
    def test_a_token_may_name_its_pool(self, given: str, parsed: tuple[str, str]) -> None:
        assert parse_token(given) == parsed


class TestJobs:
    @pytest.mark.parametrize(("left_ms", "ttl_s"), [(1, 1), (1_400, 1), (1_500, 2), (59_999, 60)])
    def test_a_running_ttl_is_never_shown_as_zero(self, left_ms: int, ttl_s: int) -> None:
        job = shown(message(expires_ms=BORN_MS + left_ms), "shop", "orders", BORN_MS, remain_tries=1)
        assert job["ttl"] == ttl_s
        assert list(job) == sorted(job)

    def test_acknowledged_expired_and_deleted_jobs_are_not_shown(self) -> None:
        for state in State:
            is_gone = state in (State.ACKED, State.EXPIRED, State.DELETED)
            assert exists(message(state=state).record, BORN_MS) is not is_gone
        assert not exists(message(state=State.LEASED, expires_ms=BORN_MS).record, BORN_MS)


def test_answers_escape_html_characters_as_go_does() -> None:
    assert answer(200, b="<&>", a="\u2028").body == rb'{"a":"\u2028","b":"\u003c\u0026\u003e"}'


def test_labels_beyond_the_limit_share_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "MOST_ROWS", 1)
    counter, histogram = Counter("c", "help", ("a", "b")), Histogram("h", "help", ("a",), [15])
    for name in ("first", "second", "third", "first"):
        counter.add(name, "queue")
        histogram.observe(name, value=1)

    assert counter.values == {("first", "queue"): 2, ("(other)", "(other)"): 2}
    assert {labels: counts for labels, (counts, _) in histogram.values.items()} == {
        ("first",): [2, 0],
        ("(other)",): [2, 0],
    }


def test_metrics_are_rendered_in_prometheus_text_format() -> None:
    counter, histogram = Counter("c", "help", ("a",)), Histogram("h", "help", (), [1.5, 15])
    counter.add('"\\\n')
    for value in (1, 15, 16):
        histogram.observe(value=value)
    assert render([counter, histogram]).splitlines() == [
        "# HELP c help",
        "# TYPE c counter",
        r'c{a="\"\\\n"} 1',
        "# HELP h help",
        "# TYPE h histogram",
        'h_bucket{le="1.5"} 1',
        'h_bucket{le="15"} 2',
        'h_bucket{le="+Inf"} 3',
        "h_sum 32",
        "h_count 3",
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "", "10.0.0.1"])
def test_a_reachable_admin_port_requires_accounts(host: str) -> None:
    with pytest.raises(Undecided, match="BRIDGE_LMSTFY_ACCOUNTS"):
        check_admin_port(Settings(lmstfy_admin_port=7778, lmstfy_admin_host=host))
    check_admin_port(Settings(lmstfy_admin_port=7778, lmstfy_admin_host=host, lmstfy_accounts={"ops": "s3cret"}))
    check_admin_port(Settings(lmstfy_admin_port=7778, lmstfy_admin_host=host, access="open"))
    check_admin_port(Settings(lmstfy_admin_port=7778))


@pytest.mark.parametrize(
    ("port", "path", "content_type", "text"),
    [
        (8080, "/api/sh.op/q", "application/json; charset=utf-8", "namespace name contains forbidden characters"),
        (8080, "/apis", "text/plain; charset=utf-8", "the rest"),
        (7777, "/v1/topics", "application/json; charset=utf-8", "api not found"),
        (7778, "/api/sh.op/q", "text/plain", "404 page not found"),
        (7778, "/pools", "application/json; charset=utf-8", "default"),
    ],
)
async def test_a_request_belongs_to_the_wire_by_port_or_by_path(
    *, port: int, path: str, content_type: str, text: str
) -> None:
    service = StandIn()
    service.settings = Settings(lmstfy_port=7777, lmstfy_admin_port=7778)
    app = Mount(PlainTextResponse("the rest"), wire=Wire(service.service))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=f"http://localhost:{port}") as client:
        answer = await client.get(path)
    assert answer.headers["content-type"] == content_type
    assert text in answer.text


def test_metrics_have_the_originals_names() -> None:
    names = {line.split()[2] for line in Metrics().render().splitlines() if line.startswith("# TYPE")}
    jobs = (
        *("publish", "consume", "consume_multi", "pool_add", "pool_get", "pool_delete", "timer_add"),
        *("queue_direct_push", "queue_pop", "deadletter_respawn", "publish_queue", "consume_queue"),
    )
    assert names == {
        *(f"infra_lmstfy_redis_{name}_jobs" for name in jobs),
        *(f"infra_lmstfy_redis_{name}_ms" for name in ("job_elapsed", "job_ack_elapsed")),
        *(f"infra_lmstfy_redis_{name}_sizes" for name in ("timer", "queue", "deadletter")),
        *(f"infra_lmstfy_http_{name}" for name in ("latency_milliseconds", "http_codes", "rate_limit")),
    }
