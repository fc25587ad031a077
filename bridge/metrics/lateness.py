"""Keeps how late this process's latest releases of each topic were, for the API's answer about one topic."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from bridge.model.recent import Recent

_LATEST: Final = 2_048
_MOST_WINDOWS: Final = 1_000  # of 64 KB each
_lateness_ms: Final = Recent[str, deque[float]](_MOST_WINDOWS)


def note(topic: str, late_ms: float) -> None:
    """Remembers one release of the topic. `late_ms`: how long after its due moment the message was released."""
    window = _lateness_ms.get(topic)
    if window is None:
        window = deque(maxlen=_LATEST)
    window.append(late_ms)
    _lateness_ms.note(topic, window)


def lateness_ms(topic: str) -> Mapping[str, float | None]:
    """Returns how late this process's latest releases of the topic were, at most 2,048 of them. In ms: the percentiles
    `p50`, `p90` and `p99`, and `max`. All are None if the topic had no release, or if a thousand other topics have had
    one since.
    """
    latest = sorted(_lateness_ms.get(topic) or ())
    if not latest:
        return dict.fromkeys(("p50", "p90", "p99", "max"))
    return {
        "p50": latest[len(latest) * 50 // 100],
        "p90": latest[len(latest) * 90 // 100],
        "p99": latest[len(latest) * 99 // 100],
        "max": latest[-1],
    }
