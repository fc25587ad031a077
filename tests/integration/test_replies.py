"""Tests that the store reads the answers of Redis under both of its protocols."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridge.local.redis import RedisNode
from bridge.store.replies import Reply, UnexpectedReply, binary, fields, flag, number, scored, several, whole
from tests.replies import read_each

BOTH_PROTOCOLS = pytest.mark.parametrize("protocol", [2, 3])


@BOTH_PROTOCOLS
async def test_every_answer_of_redis_is_read(redis_node: RedisNode, protocol: int) -> None:
    await read_each(redis_node.url, protocol)


@pytest.mark.parametrize(
    ("read", "reply"),
    [
        (binary, 7),
        (whole, 1.5),
        (number, None),
        (flag, [1]),
        (several, b"abc"),
        (fields, b"abc"),
        (fields, [b"name", 7]),
        (scored, [[b"member", None]]),
    ],
)
def test_an_answer_of_another_kind_is_refused_by_its_words(read: Callable[[Reply], object], reply: Reply) -> None:
    with pytest.raises(UnexpectedReply, match="never has"):
        read(reply)
