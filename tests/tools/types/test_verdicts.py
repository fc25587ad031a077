"""Tests that mypy finds each decision that does not name a verdict of its script."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import pytest

from bridge.store.messages import transitions
from bridge.store.messages.transitions import Transition
from bridge.store.messages.verdicts import AbandonVerdict, AnnounceVerdict, KeepVerdict
from tests.waiting import HUNG_AFTER_S

pytestmark = pytest.mark.timeout(HUNG_AFTER_S)

PROJECT = Path(__file__).parents[3]
HOMES = ("bridge/store/messages/verdicts.py", "bridge/model/values.py")
PACKAGES = ("backup", "loops", "model", "service", "store")
MEMBER = re.compile(r"^class (\w+Verdict)\(StrEnum\):\n", re.MULTILINE)

ALL = [one.verdicts for one in vars(transitions).values() if isinstance(one, Transition)]
UNHEARD: set[type[StrEnum]] = {AbandonVerdict, AnnounceVerdict, KeepVerdict}
"""Their scripts help another step, which decides. Whatever they answer, nothing follows from it."""

ACTED_ON = [verdicts for verdicts in dict.fromkeys(ALL) if verdicts not in UNHEARD]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    """What mypy finds once each enum has one more verdict: the modules with a wrong match, by the enum's name.

    It reads copies in place of the two modules, and the true ones of the packages that decide. It leaves out all other
    packages, as no verdict comes from these.
    """
    folder, shadows = tmp_path_factory.mktemp("verdicts"), []
    for home in HOMES:
        copy = folder / Path(home).name
        copy.write_text(MEMBER.sub(r'\g<0>    DEFER = "defer"\n', (PROJECT / home).read_text()))
        shadows += ["--shadow-file", home, str(copy)]
    packages = [word for name in PACKAGES for word in ("-p", f"bridge.{name}")]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=skip", f"--cache-dir={os.devnull}", *shadows, *packages],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    wrong: dict[str, set[str]] = {}
    for line in checked.stdout.splitlines():
        if "assert_never" in line:
            for name in re.findall(r"(\w+Verdict)\.DEFER", line):
                wrong.setdefault(name, set()).add(line.partition(":")[0])
    return wrong


@pytest.mark.parametrize("verdicts", ACTED_ON)
def test_a_verdict_that_no_rule_names_fails_the_type_check(
    found: Mapping[str, set[str]], verdicts: type[StrEnum]
) -> None:
    assert found.get(verdicts.__name__)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("FireVerdict", "bridge/loops/checkpoint/verdicts.py"),
        ("ReturnedVerdict", "bridge/loops/checkpoint/verdicts.py"),
        ("ReturnedVerdict", "bridge/loops/audit.py"),
        ("LeaseVerdict", "bridge/service/pulling/leasing.py"),
        ("ConfirmVerdict", "bridge/service/sending/send_groups.py"),
        ("EnterVerdict", "bridge/service/sending/send_groups.py"),
        ("DropVerdict", "bridge/service/dead/taken_ids.py"),
        ("DeleteVerdict", "bridge/service/changing.py"),
        ("DeleteVerdict", "bridge/service/bulk/changes.py"),
        ("AckVerdict", "bridge/loops/recorded_acks.py"),
    ],
)
def test_each_module_that_acts_on_a_verdict_has_its_own_match(
    found: Mapping[str, set[str]], name: str, module: str
) -> None:
    assert module in found[name]
