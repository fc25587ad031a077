"""Who makes a request: what it is about may be known only once its body has been read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bridge.access.decision import Need, may
from bridge.access.refusals import tell
from bridge.access.token import Scope, Token

_LOOK: Final = Need(scope=Scope.LOOK)


@dataclass(frozen=True, slots=True)
class Caller:
    """`token`: None where none is asked for, and everybody may do everything."""

    token: Token | None = None
    need: Need = _LOOK

    def check(self, *topics: str) -> None:
        """
        Raises:
            NotAllowed: one of them is no topic of the token's.
        """
        if self.token is None:
            return
        for topic in topics:
            if (refusal := may(self.token, self.need, topic)) is not None:
                tell(refusal)
                raise refusal

    def sees(self, topic: str) -> bool:
        return self.token is None or self.token.reaches(topic)

    def max_body(self, limit_bytes: int) -> int:
        """The largest body of a message that it may send, where the bridge has a limit for all."""
        own = None if self.token is None else self.token.max_body
        return limit_bytes if own is None else min(own, limit_bytes)


ANYBODY: Final = Caller()
