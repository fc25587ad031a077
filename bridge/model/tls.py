"""Sets up TLS towards RabbitMQ, its management API, Redis and a bridge, and says in plain words why TLS failed."""

from __future__ import annotations

import ssl
from _ssl import _test_decode_cert  # type: ignore[attr-defined]
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple


class Names(NamedTuple):
    """The names by which errors call the three TLS files: names of settings, or of options."""

    ca: str
    cert: str
    key: str


_OF_SERVERS: Final = Names("BRIDGE_TLS_CA", "BRIDGE_TLS_CERT", "BRIDGE_TLS_KEY")


def client_context(ca: Path | None, cert: Path | None, key: Path | None, names: Names = _OF_SERVERS) -> ssl.SSLContext:
    """Makes a context that trusts the authority in `ca`, or the system's authorities if `ca` is None. It presents
    `cert` to servers that ask for a client certificate.

    Raises:
        ValueError: a file can't be used; the text calls it by its name in `names`.
    """
    if ca is None and cert is None and key is None:
        return system_context()
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ValueError(f"{names.ca}: {ca}: {_reason(error)}") from None
    _load_certificate(context, names.cert, names.key, cert, key)
    return context


@cache
def system_context() -> ssl.SSLContext:
    """Returns the context that trusts the system's authorities. The process makes it once, as it takes 20 ms. All
    callers share it."""
    return ssl.create_default_context()


def check_server_files(settings: str, cert: Path | None, key: Path | None) -> None:
    """Checks that a server can use its certificate and key. `settings`: the common beginning of the names of both
    settings, such as `BRIDGE_HTTP`.

    Raises:
        ValueError: a file can't be used; the text names its setting.
    """
    _load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), f"{settings}_CERT", f"{settings}_KEY", cert, key)


def server_context(cert: Path, key: Path | None) -> ssl.SSLContext:
    """Makes the TLS context of a server with this certificate. Callers have checked the files."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key, password="")
    return context


def tls_failure(error: BaseException | None) -> str | None:
    """Returns in plain words which TLS failure caused the error. The text continues a sentence about the server. None:
    TLS did not cause the error."""
    seen: set[int] = set()
    # One error object may be raised to many waiting tasks, so the chain of causes may have a cycle.
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {error.verify_message}"
        if isinstance(error, ssl.SSLError):
            if error.reason == "WRONG_VERSION_NUMBER":
                return "it does not speak TLS on this port"
            return f"TLS failed: {(error.reason or str(error)).lower().replace('_', ' ')}"
        error = error.__cause__ or error.__context__
    return None


def expires_s(cert: Path) -> float:
    """Returns when the first certificate of a PEM file expires, in Unix seconds.

    Raises:
        ValueError: the file is not a PEM file of a certificate.
    """
    try:
        decoded = _test_decode_cert(str(cert))  # the only function of Python that reads a certificate without a peer
    except OSError as error:
        raise ValueError(f"{cert}: {_reason(error)}") from None
    return float(ssl.cert_time_to_seconds(str(decoded["notAfter"])))


def _load_certificate(
    context: ssl.SSLContext, cert_name: str, key_name: str, cert: Path | None, key: Path | None
) -> None:
    if cert is None and key is not None:
        raise ValueError(f"{cert_name}: is missing, but {key_name} is set; set both or neither")
    if cert is not None:
        try:
            # With a password given, OpenSSL does not ask for that of an encrypted key on the terminal.
            context.load_cert_chain(cert, key, password="")
        except OSError as error:
            files = f"{cert}" if key is None else f"{cert} and {key}"
            raise ValueError(f"{cert_name}, {key_name}: {files}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        reasons = {"KEY_VALUES_MISMATCH": "the key does not belong to the certificate"}
        return reasons.get(error.reason or "", "not a PEM file")
    return error.strerror or str(error)
