from __future__ import annotations

from pathlib import Path

from tests.events import What
from tests.history import History
from tests.torture.outcome import Outcome

SEND_AND_LOSE = (What.SENDING, What.ACCEPTED)


def outcome(*lost: str) -> Outcome:
    history = History(max_retry=3)
    for key in lost:
        for what in SEND_AND_LOSE:
            history.note(key, what)
    return Outcome(history.verdict(), {}, history, ["bridge-1: a bug"], ["1 seed 1"])


def test_a_failing_history_is_kept_beside_the_logs(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "bridge-1.log").write_text("a bug\n")

    kept = outcome("again-1#2").keep(tmp_path, "seed-1")

    assert [line.split()[1] for line in (kept / "lost-again-1_2").read_text().splitlines()] == ["sending", "accepted"]
    assert (kept / "errors").read_text() == "bridge-1: a bug\n"
    assert (kept / "progress").read_text() == "1 seed 1\n"
    assert (kept / "log" / "bridge-1.log").read_text() == "a bug\n"


def test_twenty_histories_are_shown_and_the_others_counted() -> None:
    error, *shown, more = outcome(*(f"m-{number}" for number in range(25))).wrong()

    assert error == "bridge-1: a bug"
    assert len(shown) == 20
    assert shown[0].startswith("lost m-0: ")
    assert more == "and 5 more"
