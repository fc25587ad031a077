"""Tests which times backfills have covered."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bridge.service.schedules.spans import Span, added, covered

SPANS = st.lists(
    st.builds(lambda at, length: Span(at, at + length), st.integers(0, 60), st.integers(0, 10)), max_size=8
)


@given(SPANS)
def test_spans_cover_the_same_moments_as_each_alone(spans: list[Span]) -> None:
    joined: tuple[Span, ...] = ()
    for span in spans:
        joined = added(joined, span)
    for moment in range(80):
        assert covered(joined, moment) == any(span.from_ms <= moment <= span.to_ms for span in spans)
    assert all(one.to_ms + 1 < other.from_ms for one, other in pairwise(joined))
