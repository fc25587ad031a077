"""Names the keys that the bridge adds to the ASGI scope of a request, for the bridge's log."""

from __future__ import annotations

from typing import Final

TOKEN_ID: Final = "token_id"
"""The id of the request's token."""

LOGGED_PATH: Final = "logged_path"
"""The path that the log shows in place of the request's path, which may contain a secret."""
