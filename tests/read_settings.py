"""Reads settings as a process with another environment would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bridge.settings.reading import read
from bridge.settings.settings import Settings


def read_in(environment: Mapping[str, str], **own: Any) -> Settings:
    """The settings of a process with these variables in addition to those of this one. Raises as `read`."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return read(**own)
