"""Tests that properties of other AMQP clients are read and written without an error."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from pamqp import decode, encode
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from bridge.broker.client import pamqp_patch
from bridge.broker.copies.properties import UNREADABLE

pamqp_patch.install()


def read(content: bytes) -> Basic.Properties:
    header = ContentHeader()
    header.unmarshal(content)
    return header.properties


def written(headers: dict[str, Any]) -> bytes:
    return ContentHeader(properties=Basic.Properties(headers=headers, message_id="m-1")).marshal()


@pytest.mark.parametrize("value", [0.1, 1e300, -2.5e-300, b"\xff\xfe", [b"\xff", {"deep": 1e300}], "text", 2**62])
def test_header_is_written_as_it_was_read(value: object) -> None:
    properties = read(written({"kept": value}))

    assert (properties.headers, properties.message_id) == ({"kept": value}, "m-1")


def test_unreadable_properties_are_absent_with_the_reason() -> None:
    header = ContentHeader(body_size=7).marshal()[:12]
    late = struct.pack(">Q", 1_753_000_000_000_000)

    properties = read(header + struct.pack(">H", 0x0040) + late)

    assert properties.timestamp is None
    assert properties.headers is not None
    assert "is out of range" in str(properties.headers[UNREADABLE])


@pytest.mark.parametrize(("levels", "readable"), [(5, True), (60, False)])
def test_tables_nested_too_deep_are_unreadable(levels: int, readable: bool) -> None:
    value: Any = "core"
    for _ in range(levels):
        value = {"t": value}

    assert (read(written({"deep": value})).message_id == "m-1") == readable


def test_unpatched_types_are_written_as_before() -> None:
    assert decode.embedded_value(encode.encode_table_value(True)) == (2, True)
