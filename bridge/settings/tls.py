"""TLS towards RabbitMQ, its management API and Redis: whom to believe, who we are, and what is wrong in plain words."""

from __future__ import annotations

import ssl
from pathlib import Path


def client_context(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """Believes what `ca` has signed for the host, or what the system believes; shows `cert` where it is asked.

    Raises:
        ValueError: names the setting whose file can't be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ValueError(f"BRIDGE_TLS_CA: {ca}: {_reason(error)}") from None
    _show(context, "BRIDGE_TLS", cert, key)
    return context


def check_server_files(cert: Path | None, key: Path | None) -> None:
    """
    Raises:
        ValueError: names the setting whose file can't be used.
    """
    _show(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "BRIDGE_HTTP", cert, key)


def plainly(error: BaseException | None) -> str | None:
    """What TLS says is wrong, where that is behind the error."""
    seen: set[int] = set()
    # aiormq raises one error to many who wait, and what is raised twice may stand behind itself.
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not to be believed: {error.verify_message}"
        if isinstance(error, ssl.SSLError):
            if error.reason == "WRONG_VERSION_NUMBER":
                return "it does not speak TLS at this port"
            return f"TLS failed: {(error.reason or str(error)).lower().replace('_', ' ')}"
        error = error.__cause__ or error.__context__
    return None


def _show(context: ssl.SSLContext, settings: str, cert: Path | None, key: Path | None) -> None:
    if cert is None and key is not None:
        raise ValueError(f"{settings}_CERT: missing, and {settings}_KEY is set")
    if cert is not None:
        try:
            # An encrypted key would else be asked about on the terminal.
            context.load_cert_chain(cert, key, password="")
        except OSError as error:
            files = f"{cert}" if key is None else f"{cert} and {key}"
            raise ValueError(f"{settings}_CERT, {settings}_KEY: {files}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return {"KEY_VALUES_MISMATCH": "the key is of another certificate"}.get(error.reason or "", "no PEM file")
    return error.strerror or str(error)
