"""Describes who makes a request, and checks topics that only the request's body names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from bridge.access.decision import Need, may, may_send_to
from bridge.access.errors import TooManyTopics
from bridge.access.refusals import report
from bridge.access.token import Scope, Token
from bridge.model.action import NO_TOKEN
from bridge.model.message import Target
from bridge.model.reach import EVERYWHERE, Reach

_LOOK: Final = Need(scope=Scope.LOOK)


@dataclass(frozen=True, slots=True)
class TopicMaker:
    """A token that may make at most `max_topics` topics. Implements `bridge.service.topics.maker.Maker`."""

    token_id: str
    max_topics: int

    def refuse(self, topic: str, made: int) -> NoReturn:
        refusal = TooManyTopics(topic, token_id=self.token_id, made=made, limit=self.max_topics)
        report(refusal)
        raise refusal


@dataclass(frozen=True, slots=True)
class Caller:
    """The client that makes a request. `token`: None if no token is required; then everything is allowed. `need`: the
    scope and the rights that the operation requires. `session`: the cookie of a browser's session, sent in place of the
    token; None: no session."""

    token: Token | None = None
    need: Need = _LOOK
    session: str | None = None

    def check(self, *topics: str, need: Need | None = None) -> None:
        """Checks that the token may use these topics. `need`: what this use requires of the token; None: what the
        request's operation requires.

        Raises:
            NotAllowed: the token may not use one of the topics.
        """
        if self.token is None:
            return
        for topic in topics:
            if (refusal := may(self.token, need or self.need, topic)) is not None:
                report(refusal)
                raise refusal

    def check_target(self, target: Target | None) -> None:
        """Checks that the token may send to this target. `target` None means the topic's ready queue, which is always
        allowed.

        Raises:
            NotAllowed: the token may not send to the target's exchange.
        """
        if self.token is None or target is None:
            return
        if (refusal := may_send_to(self.token, target.exchange)) is not None:
            report(refusal)
            raise refusal

    def sees(self, topic: str | None) -> bool:
        """Whether lists show entries about the topic to this caller. `topic` None: the entry is about no single topic,
        and only a caller who may use every topic sees it."""
        if self.token is None or self.token.every_topic:
            return True
        return topic is not None and self.token.reaches(topic)

    @property
    def reach(self) -> Reach:
        """The topics that the caller may use."""
        return EVERYWHERE if self.token is None else self.token.reach

    @property
    def who(self) -> str:
        """The id of the token; `NO_TOKEN` for a caller without a token."""
        return NO_TOKEN if self.token is None else self.token.id

    @property
    def name(self) -> str | None:
        """The name of the token; None for a caller without a token."""
        return None if self.token is None else self.token.name

    @property
    def maker(self) -> TopicMaker | None:
        """The caller's token as a `TopicMaker`, if it may make only a limited number of topics. None: there is no
        limit, so the topics that the caller makes are not counted."""
        if self.token is None or self.token.max_topics is None:
            return None
        return TopicMaker(self.token.id, self.token.max_topics)

    def max_body(self, limit_bytes: int) -> int:
        """The largest message body that the caller may send, in bytes. `limit_bytes`: the limit for all callers."""
        own = None if self.token is None else self.token.max_body
        return limit_bytes if own is None else min(own, limit_bytes)


ANYBODY: Final = Caller()
