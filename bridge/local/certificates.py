"""Names the files that a server needs for TLS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Certificates:
    """PEM files: the authority that signs clients' certificates, the server's own certificate, and its key."""

    ca: Path
    cert: Path
    key: Path

    @property
    def files(self) -> tuple[Path, Path, Path]:
        return self.ca, self.cert, self.key
