"""Decides whether callbacks may go to a URL when a subscription names it.

Each connection checks its addresses again, as the host may have other addresses by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.loops.callbacks.resolver import Resolver, UnknownHost
from bridge.model.addresses import Address, Allowed, Url, refusal_at_sight, refusal_of_any

_LOOK_UP_S = 3.0


async def why_not(url: Url, allowed: Sequence[Allowed]) -> str | None:
    """Returns why callbacks may not go to the URL. None: they may, or no address of the host is known yet. `allowed`:
    the hosts and networks of BRIDGE_PUSH_ALLOW."""
    if refusal := refusal_at_sight(url, allowed):
        return refusal
    resolver = Resolver()
    addresses: Sequence[Address] = ()
    try:
        async with asyncio.timeout(_LOOK_UP_S):
            addresses = await resolver.addresses(url.host)
    except (UnknownHost, TimeoutError):
        pass
    finally:
        resolver.close()
    return refusal_of_any(url, addresses, allowed)
