"""Names the keys that the bridge adds to the ASGI scope of a request, for the bridge's log."""

from __future__ import annotations

from typing import Final

TOKEN_ID: Final = "token_id"
"""The key of the id of the request's token. Its value is None if the request names no existing token."""

LOGGED_PATH: Final = "logged_path"
"""The key of the path that the log shows. It replaces the request's path, which may contain a secret."""
