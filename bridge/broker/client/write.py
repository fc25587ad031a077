"""Writes frames that aiormq does not encode, to channels that RabbitMQ still reads.

RabbitMQ ends the whole connection (504, expected 'channel.open') if a frame follows a channel's Close or Close-Ok. Once
aiormq has written such a frame, it still says for some turns of the event loop that the channel is open.
"""

from __future__ import annotations

from typing import Final

from aiormq import Channel
from aiormq.abc import ChannelFrame
from aiormq.exceptions import ChannelInvalidStateError

_CLOSING: Final = f"_{Channel.__name__}__close_event"
"""A private event: aiormq sets it when it writes a Close or a Close-Ok, and writes nothing more itself."""


def is_open(channel: Channel) -> bool:
    """Whether frames can still be written to the channel."""
    return not (channel.is_closed or getattr(channel, _CLOSING).is_set())


async def write(channel: Channel, payload: bytes) -> None:
    """Writes whole frames.

    Raises:
        ChannelInvalidStateError: the channel is closed or being closed, and nothing was written.
    """
    if not is_open(channel):
        raise ChannelInvalidStateError(f"channel {channel} is closed")
    await channel.write_queue.put(ChannelFrame(payload=payload, should_close=False))
