"""Tests the output of client commands."""

from __future__ import annotations

from bridge.cli.client.output import flat


def test_members_of_objects_are_named_with_those_above_and_bodies_are_json() -> None:
    message = {"topic": "orders", "headers": {"a": 1}, "body": {"n": "ü"}}
    assert flat({"name": "nightly", "body": None, "message": message}) == {
        "name": "nightly",
        "body": "null",
        "message.topic": "orders",
        "message.headers": {"a": 1},
        "message.body": '{"n": "ü"}',
    }
