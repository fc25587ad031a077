"""Tests which values of `traceparent` name a trace."""

from __future__ import annotations

import pytest

from bridge.tracing.context import TraceContext, of_sender, read

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE}-{SPAN}-01"


def test_context_is_written_as_it_was_read() -> None:
    assert read(VALID) == TraceContext(int(TRACE, 16), int(SPAN, 16), sampled=True)
    assert str(read(VALID)) == VALID


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("ff", True)])
def test_flags_say_whether_the_sender_records_its_trace(flags: str, sampled: bool) -> None:
    found = of_sender({"traceparent": f"00-{TRACE}-{SPAN}-{flags}"})
    assert found is not None
    assert found.sampled is sampled


def test_later_version_may_have_more_fields() -> None:
    assert read(f"cc-{TRACE}-{SPAN}-01-what-the-future-brings") == read(VALID)
    assert read(f"01-{TRACE}-{SPAN}-01") == read(VALID)


@pytest.mark.parametrize(
    "value",
    ["", "00", VALID.upper(), f"{VALID}-more", f"{VALID}\n", f" {VALID}", f"ff-{TRACE}-{SPAN}-01",
     f"cc-{TRACE}-{SPAN}-01.more", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-{SPAN}-1",
     f"00-{TRACE[1:]}-{SPAN}-01", VALID.encode(), 7, None],
)  # fmt: skip
def test_invalid_value_names_no_trace(value: object) -> None:
    assert read(value) is None
    assert of_sender({"traceparent": value}) is None


def test_message_without_the_header_has_no_trace() -> None:
    assert of_sender({"tracestate": "a=1"}) is None
