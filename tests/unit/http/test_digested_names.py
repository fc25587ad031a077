"""Tests which id a wire shows for a message whose own name the bridge does not allow."""

from __future__ import annotations

import pytest

from bridge.http.wires.digested_names import headers_of, shown
from bridge.model.message import Envelope, aside_id, id_of, own_life_id
from tests.records import record

LONG = "x" * 200


@pytest.mark.parametrize("name", ["order/42", "order 42", LONG, LONG + "x", "~"])
def test_wire_shows_the_name_that_the_sender_gave(name: str) -> None:
    envelope = Envelope(headers=headers_of("orders", name))
    assert shown(record(id=id_of(name)), envelope) == ("orders", name)


@pytest.mark.parametrize("name", ["order/42", LONG])
def test_message_whose_id_another_one_has_taken_is_found_by_the_id_that_its_wire_shows(name: str) -> None:
    envelope = Envelope(headers=headers_of("orders", name))
    for taken in (own_life_id(id_of(name), 1_795_000_000_000), aside_id(id_of(name), 2**47)):
        _, job_id = shown(record(id=taken), envelope)
        assert id_of(job_id) == taken
