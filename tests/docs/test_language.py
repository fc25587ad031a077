"""Tests that the documents have short sentences, and none of the words that hide the actor."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, PROJECT, sentences, without_code

LONGEST = 25  # words
_HIDING = re.compile(
    r"\b(anew|in vain|by turns|seen to|told|of its own|is one that|is none|stands|save that|likewise|hence|whence)\b",
    re.IGNORECASE,
)
_ELSEWHERE = {"benchmarks.md", "callbacks.md", "wires.md", "lmstfy.md", "tasks.md", "youzan.md"}
HELD = [document for document in DOCUMENTS if document.name not in _ELSEWHERE]


def _name(document: Path) -> str:
    return str(document.relative_to(PROJECT))


@pytest.mark.parametrize("document", HELD, ids=_name)
def test_sentence_is_at_most_25_words(document: Path) -> None:
    lengths = {sentence: len(sentence.split()) for sentence in sentences(document.read_text())}

    assert {sentence: length for sentence, length in lengths.items() if length > LONGEST} == {}


@pytest.mark.parametrize("document", HELD, ids=_name)
def test_no_line_has_a_word_that_hides_the_actor(document: Path) -> None:
    lines = without_code(document.read_text()).splitlines()

    assert [line for line in lines if _HIDING.search(line)] == []
