"""Compares the picture of a message's life in docs/guarantees.md with the headers of the scripts."""

from __future__ import annotations

import pytest

from bridge.model.message import State
from tests.docs.life_picture import PAGE, page, picture


def test_picture_of_the_life_of_a_message_is_the_one_that_make_docs_draws() -> None:
    text = PAGE.read_text()

    assert text == page(text), "`make docs` draws it again"


@pytest.mark.parametrize("state", State, ids=lambda state: state.label)
def test_picture_leads_to_every_state(state: State) -> None:
    assert f"--> {state.label}:" in picture()


def test_page_without_the_picture_is_refused() -> None:
    with pytest.raises(LookupError, match="0 pictures"):
        page("# Guarantees\n")
