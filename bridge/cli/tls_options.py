"""Defines the options of commands that speak TLS to servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Authorities = Annotated[
    Path | None, typer.Option("--tls-ca", envvar="BRIDGE_TLS_CA", help="PEM file of trusted authorities, for TLS.")
]
Certificate = Annotated[
    Path | None, typer.Option("--tls-cert", envvar="BRIDGE_TLS_CERT", help="PEM file of the client certificate.")
]
CertificateKey = Annotated[
    Path | None, typer.Option("--tls-key", envvar="BRIDGE_TLS_KEY", help="PEM file of the client certificate's key.")
]
