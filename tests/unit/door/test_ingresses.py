"""Tests that the names the door remembers have a bound."""

from __future__ import annotations

import pytest

from bridge.door.ingresses import _REMEMBERED, Ingresses
from bridge.door.methods import BadFrame
from topology.names import Names


def test_names_that_are_remembered_have_a_bound() -> None:
    ingresses = Ingresses(lambda exchange: f"in.{exchange}", own="delay")
    for number in range(3 * _REMEMBERED):
        assert ingresses.of(b"%d" % number) == b"in.%d" % number
    assert len(ingresses._known) <= _REMEMBERED


def test_exchange_whose_ingress_no_name_fits_is_refused() -> None:
    names = Names()
    with pytest.raises(BadFrame, match="at most"):
        Ingresses(names.ingress_of, own=names.prefix).of(b"e" * 255)


def test_name_that_is_no_text_stays() -> None:
    assert Ingresses(lambda exchange: f"in.{exchange}", own="delay").of(b"\xff") is None
