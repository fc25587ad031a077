"""Tests the plain description of the cause of a TLS error."""

from __future__ import annotations

from bridge.model.tls import tls_failure


def test_cyclic_exception_chain_has_no_plain_cause() -> None:
    one, other = ConnectionError("lost"), RuntimeError("closed")
    one.__cause__, other.__context__ = other, one
    assert tls_failure(one) is None
