"""Compares docs/operating/doctor.md with the checks: each of them, and nothing else."""

from __future__ import annotations

import re

from bridge.cli.doctor.checks.table import CHECKS
from tests.docs.doctor_page import PAGE, page
from tests.docs.documents import PROJECT, anchors


def test_page_of_the_doctor_is_the_one_that_make_docs_writes() -> None:
    assert PAGE.read_text() == page(), "`make docs` writes it again"


def test_every_check_has_an_anchor_and_every_anchor_a_check() -> None:
    numbered = {anchor for anchor in anchors(PAGE.read_text()) if re.match(r"\d", anchor)}
    assert {f"{PAGE.relative_to(PROJECT)}#{anchor}" for anchor in numbered} == {check.docs for check in CHECKS}


def test_every_document_that_a_remedy_names_exists() -> None:
    named = {
        path
        for check in CHECKS
        for path in re.findall(r"\b(?:docs|deploy)/[\w/.-]+\w", f"{check.cause} {check.remedy}")
    }
    assert named
    assert [path for path in named if not (PROJECT / path).is_file()] == []
