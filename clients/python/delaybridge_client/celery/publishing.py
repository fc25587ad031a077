"""Publishes tasks that are due later to a bridge in place of their queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from celery import Celery
from celery.app.amqp import AMQP, task_message

from delaybridge_client.celery.delays import (
    Destination,
    delayed_headers,
    due_at,
    key_before_native_delay,
    own_headers,
    topic_of,
)
from delaybridge_client.errors import InvalidArgument

_CONFIRM: Final = "confirm_publish"
# An expiration would count from the release. The header `expires` has the moment, and the worker obeys it.
_REPLACED: Final = ("queue", "expiration")
_DEFAULTS: Final = {"delaybridge_namespace": "celery", "delaybridge_exchange": "delay.in", "delaybridge_least": 5.0}


def install(
    app: Celery,
    *,
    namespace: str = "celery",
    exchange: str = "delay.in",
    least: timedelta = timedelta(seconds=5),
) -> None:
    """Makes the app keep its delayed tasks in a bridge. Call this function after the app is configured.

    The bridge works on the virtual host of the app's broker. `namespace`: the namespace of the bridge's topics, which
    are named `<namespace>/<queue>`. `exchange`: the bridge's exchange for delayed messages, which begins with the
    bridge's prefix. `least`: the bridge gets delays from this on; Celery itself handles shorter delays.

    `install` switches publisher confirms on for everything that the app publishes: without them a broker that dies
    loses tasks.
    """
    app.conf.update(
        delaybridge_namespace=namespace,
        delaybridge_exchange=exchange,
        delaybridge_least=least.total_seconds(),
        broker_transport_options={**(app.conf.broker_transport_options or {}), _CONFIRM: True},
    )
    app.amqp_cls = DelayedAMQP
    app.__dict__.pop("amqp", None)  # the app may have cached an object of the former class


class _Made(task_message):  # type: ignore[misc] # Celery has no types
    """Celery's message of a task. `made_at`: the moment from which Celery counts the `countdown`."""

    made_at: datetime


class DelayedAMQP(AMQP):  # type: ignore[misc] # Celery has no types
    """Publishes delayed tasks to a bridge, and all other tasks to their queues. `install` makes an app use this
    class."""

    def as_task_v2(self, *args: Any, now: datetime | None = None, **options: Any) -> _Made:
        made_at = now or self.app.now()
        made = _Made(*super().as_task_v2(*args, now=made_at, **options))
        made.made_at = made_at
        return made

    def _create_task_sender(self) -> Callable[..., Any]:
        # Celery makes the function once for each app, and calls it for each message: after the routes, before signals.
        send = super()._create_task_sender()

        def send_task_message(producer: Any, name: str, message: Any, **options: Any) -> Any:
            if self.app.conf.task_protocol == 2:
                confirmed = bool(producer.connection.transport_options.get(_CONFIRM))
                message, options = self._routed(message, options, confirmed=confirmed)
            return send(producer, name, message, **options)

        return send_task_message

    def _routed(self, message: Any, options: dict[str, Any], *, confirmed: bool) -> tuple[Any, dict[str, Any]]:
        """Returns the message and Celery's options for its publish. If the task is due later, the options route the
        message to the bridge. `confirmed`: publisher confirms are on."""
        # Routing and serialising take time, which must not count into the delay.
        made_at = message.made_at if isinstance(message, _Made) else datetime.now(UTC)
        headers = own_headers({**message.headers, **(options.pop("headers", None) or {})})
        message = message._replace(headers=headers)
        moment = due_at(headers, now=made_at, least=self._least)
        destination = None if moment is None else self._destination(options)
        if moment is None or destination is None:
            return message, options
        if not confirmed:
            raise InvalidArgument(
                "broker_transport_options: set confirm_publish, or the broker may lose a task that waits"
            )
        routed = {name: value for name, value in options.items() if name not in _REPLACED} | {
            "exchange": self._setting("exchange"),
            "exchange_type": "topic",
            "routing_key": topic_of(self._setting("namespace"), destination.queue),
            "declare": options.get("declare") or list(destination.declare),
            "message_id": headers["id"],
        }
        return message._replace(headers=delayed_headers(headers, moment, destination)), routed

    def _destination(self, options: dict[str, Any]) -> Destination | None:
        """Returns the destination to which Celery would publish the task. None: Celery uses its native delayed
        delivery, and the queue is unknown."""
        queue, exchange = options.get("queue"), _name(options.get("exchange"))
        key = options.get("routing_key") or self.app.conf.task_default_routing_key
        own_key = key_before_native_delay(exchange, key)
        if own_key is not None:
            # Celery has taken the queue out of the options.
            queue = next((one for one in self.queues.values() if one.routing_key == own_key), None)
            if queue is None:
                return None
        elif queue is None and not exchange:
            queue = self.default_queue
        if isinstance(queue, str):
            queue = self.queues[queue]
        if queue is None:
            return Destination(exchange, key, queue=exchange)
        return Destination(queue.exchange.name, queue.routing_key or "", queue=queue.name, declare=(queue,))

    @property
    def _least(self) -> timedelta:
        return timedelta(seconds=self._setting("least"))

    def _setting(self, name: str) -> Any:
        full = f"delaybridge_{name}"
        return self.app.conf.get(full, _DEFAULTS[full])


def _name(exchange: Any) -> str:
    """Returns the name of an exchange. `exchange`: from Celery's options, a text or an object."""
    return str(getattr(exchange, "name", exchange) or "")
