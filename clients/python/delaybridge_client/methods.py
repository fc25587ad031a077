"""Gives both clients a method for each operation. The method has the operation's arguments and result."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from delaybridge_client import operations
from delaybridge_client.operation import Operation
from delaybridge_client.sender import Sender, SyncSender

P = ParamSpec("P")
T = TypeVar("T")


class Method(Generic[P, T]):
    """A method of a client, which makes an operation and sends it. In a `Sender` the method returns a coroutine, in a
    `SyncSender` the result."""

    def __init__(self, make: Callable[P, Operation[T]]) -> None:
        self.make: Final = make

    @overload
    def __get__(self, sender: None, owner: type[Any]) -> Method[P, T]: ...

    @overload
    def __get__(self, sender: Sender, owner: type[Any]) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, sender: SyncSender, owner: type[Any]) -> Callable[P, T]: ...

    def __get__(self, sender: Sender | SyncSender | None, owner: type[Any]) -> Any:
        if sender is None:
            return self

        @wraps(self.make)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return sender.call(self.make(*args, **kwargs))

        return call


class Methods:
    """Has a method for each operation of the OpenAPI document, with the operation's name."""

    send = Method(operations.send)
    send_many = Method(operations.send_many)
    look_up = Method(operations.look_up)
    look_at_timeline = Method(operations.look_at_timeline)
    list_messages = Method(operations.list_messages)
    search = Method(operations.search)
    move = Method(operations.move)
    delete = Method(operations.delete)

    pull = Method(operations.pull)
    pull_by_priority = Method(operations.pull_by_priority)
    ack_many = Method(operations.ack_many)
    ack = Method(operations.ack)
    nack = Method(operations.nack)
    extend = Method(operations.extend)

    list_dead = Method(operations.list_dead)
    replay = Method(operations.replay)
    replay_many = Method(operations.replay_many)
    drop = Method(operations.drop)
    drop_many = Method(operations.drop_many)

    delete_many = Method(operations.delete_many)
    move_many = Method(operations.move_many)
    run_many_now = Method(operations.run_many_now)
    replay_matching = Method(operations.replay_matching)
    list_operations = Method(operations.list_operations)
    look_at_operation = Method(operations.look_at_operation)
    cancel_operation = Method(operations.cancel_operation)

    list_topics = Method(operations.list_topics)
    look_at_topic = Method(operations.look_at_topic)
    put_policy = Method(operations.put_policy)
    patch_policy = Method(operations.patch_policy)
    remove_topic = Method(operations.remove_topic)
    pause = Method(operations.pause)
    resume = Method(operations.resume)

    list_schedules = Method(operations.list_schedules)
    put_schedule = Method(operations.put_schedule)
    look_at_schedule = Method(operations.look_at_schedule)
    next_ticks = Method(operations.next_ticks)
    remove_schedule = Method(operations.remove_schedule)
    pause_schedule = Method(operations.pause_schedule)
    resume_schedule = Method(operations.resume_schedule)
    trigger_schedule = Method(operations.trigger_schedule)
    backfill_schedule = Method(operations.backfill_schedule)

    list_subscriptions = Method(operations.list_subscriptions)
    look_at_subscription = Method(operations.look_at_subscription)
    subscribe = Method(operations.subscribe)
    unsubscribe = Method(operations.unsubscribe)

    overview = Method(operations.overview)
    list_slots = Method(operations.list_slots)
    list_actions = Method(operations.list_actions)
    look_at_session = Method(operations.look_at_session)
    open_session = Method(operations.open_session)
    close_session = Method(operations.close_session)

    live = Method(operations.live)
    ready = Method(operations.ready)
    metrics = Method(operations.metrics)
