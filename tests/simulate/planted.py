"""Plants a defect of the exploration in the bridge of this process."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1
from typing import Final

from bridge.store.scripts import SCRIPTS
from tests.explore.planted import Planted

_MOST_CPU_S: Final = 25
"""Several times what a simulation of a minute takes. With some defects a loop of the bridge never ends. The end of the
process is a finding then."""


@contextmanager
def planted_here(defect: Planted) -> Iterator[None]:
    """Changes the code, or the texts of the scripts. Other modules hold the script objects, so these are changed. Also
    limits the CPU time of this process, for good."""
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_CPU_S, _MOST_CPU_S))
    with defect.planted() as texts:
        for name, text in texts.items():
            object.__setattr__(SCRIPTS[name], "text", text)
            object.__setattr__(SCRIPTS[name], "sha", sha1(text.encode(), usedforsecurity=False).hexdigest())
        yield
