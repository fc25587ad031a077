"""Plants a defect of the exploration in the bridge of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1

from bridge.store.scripts import SCRIPTS
from tests.explore.planted import Planted


@contextmanager
def planted_here(defect: Planted) -> Iterator[None]:
    """Changes the code, or the texts of the scripts. Other modules hold the script objects, so these are changed."""
    with defect.planted() as texts:
        for name, text in texts.items():
            object.__setattr__(SCRIPTS[name], "text", text)
            object.__setattr__(SCRIPTS[name], "sha", sha1(text.encode(), usedforsecurity=False).hexdigest())
        yield
