"""What stands behind an error, in plain words."""

from __future__ import annotations

from bridge.settings.tls import tls_failure


def test_an_error_that_stands_behind_itself_ends_the_search() -> None:
    one, other = ConnectionError("lost"), RuntimeError("closed")
    one.__cause__, other.__context__ = other, one
    assert tls_failure(one) is None
