"""Whether callbacks may go to a URL, asked before there is one: each connection asks again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.loops.callbacks.dns import Names, NameUnknown
from bridge.model.addresses import Address, Allowed, Url, refusal_at_sight, refusal_of_any

_LOOK_UP_S = 3.0


async def why_not(url: Url, allowed: Sequence[Allowed]) -> str | None:
    """Why not, as far as its name leads anywhere now. None: they may, or nobody knows yet."""
    if why := refusal_at_sight(url, allowed):
        return why
    names = Names()
    addresses: Sequence[Address] = ()
    try:
        async with asyncio.timeout(_LOOK_UP_S):
            addresses = await names.addresses(url.host)
    except (NameUnknown, TimeoutError):
        pass
    finally:
        names.close()
    return refusal_of_any(url, addresses, allowed)
