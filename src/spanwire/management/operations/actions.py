"""An operator's sends, durable subscriptions, prepared branches and consumers (control socket)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from spanwire.broker.admin.operator_actions import ActionObserver
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.ports import Principal
from spanwire.broker.scheduler.schedule import Job
from spanwire.management.handles import OPERATOR, Operator
from spanwire.model.destination import QUEUE, TOPIC, Destination, parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError, InvalidDestinationError, SpanwireError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.info import ConnectionInfo
from spanwire.model.message import FORMAT_OPENWIRE_10, Message
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    DOUBLE_VALUE,
    LONG_VALUE,
    STRING_VALUE,
    TEXT,
    MessageView,
    PropertyValue,
)
from spanwire.transports.awaited_login import LoginBroker, awaited_login
from spanwire.transports.base import Clock

View = dict[str, object]
PROTOCOL: Final = "control socket"
JOBS_PER_TURN: Final = 50  # scheduled messages that are looked at in one turn
NO_END: Final = (1 << 63) - 1  # milliseconds
MAX_PRIORITY: Final = 9  # JMS 1.1, "Message Priority"
MAX_LONG: Final = (1 << 63) - 1


class ActingBroker(Protocol):
    """The part of the broker used here (``broker/admin/operator_actions.py``)."""

    @property
    def connection_id(self) -> str:
        """The id of the broker's connections for operators."""
        ...

    def send(self, principal: Principal, message: Message, observer: ActionObserver, now: Time) -> None:
        """Send a message."""
        ...

    def create_subscription(
        self, principal: Principal, client_id: str, name: str, topic: Destination, selector: str | None, now: Time
    ) -> None:
        """Create a durable subscription."""
        ...

    def finish_branch(self, xid: str, commit: bool, observer: ActionObserver, now: Time) -> None:
        """Commit or roll back a prepared branch."""
        ...

    def end_consumer(self, consumer_id: str, now: Time) -> None:
        """End a consumer."""
        ...

    def remove_job(self, job_id: str, now: Time) -> None:
        """Remove a scheduled message."""
        ...


class BrokerActions:
    """Checks the arguments of requests, and waits for the broker's answer."""

    def __init__(
        self,
        broker: ActingBroker,
        logins: LoginBroker,
        formats: MessageFormats,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._broker: Final = broker
        self._logins: Final = logins
        self._formats: Final = formats
        self._clock: Final = clock
        self._wake: Final = wake
        self._last_sequence = 0

    async def send(self, arguments: Mapping[str, object]) -> View:
        """Send the text ``body`` to ``destination`` with the rights of a user.

        The user is the holder of the handle; a request without a handle has ``user`` and ``password``.

        Returns:
            ``message_id``, once the message is stored.

        Raises:
            AuthenticationError: the broker refuses the user
            ConfigurationError: an argument is invalid
            JmsError: the broker refuses
        """
        principal = await self._principal(arguments)
        view = self._view(arguments)
        message = self._formats.format(FORMAT_OPENWIRE_10).encode_from_view(view)
        outcome = _Outcome()
        self._broker.send(principal, message, outcome, self._clock.now())
        self._wake()
        await outcome.answer
        return {"destination": view.destination.qualified_name, "message_id": str(view.message_id)}

    def _view(self, arguments: Mapping[str, object]) -> MessageView:
        destination = _single(arguments.get("destination"), QUEUE)
        self._last_sequence += 1
        producer_id = ProducerId(self._broker.connection_id, 1, 1)
        view = MessageView(TEXT, destination, MessageId(producer_id, self._last_sequence))
        view.body = _text(arguments, "body").encode("utf-8", "surrogatepass")
        view.persistent = arguments.get("persistent", True) is True
        view.timestamp_ms = self._clock.now().wall_ms
        priority, lifetime_ms = _number(arguments, "priority", 4), _number(arguments, "lifetime_ms", 0)
        if priority > MAX_PRIORITY:
            raise ConfigurationError(f"priority is a number from 0 to {MAX_PRIORITY}")
        view.priority = priority
        view.expiration_ms = view.timestamp_ms + lifetime_ms if lifetime_ms > 0 else 0
        view.correlation_id = _optional(arguments, "correlation_id")
        view.type = _optional(arguments, "type")
        view.group_id = _optional(arguments, "group")
        reply_to = _optional(arguments, "reply_to")
        view.reply_to = None if reply_to is None else _single(reply_to, QUEUE)
        properties = arguments.get("properties", {})
        if not isinstance(properties, dict):
            raise ConfigurationError("properties is an object of texts, numbers, true and false")
        view.properties = {str(name): _property(str(name), value) for name, value in properties.items()}
        return view

    async def create_subscription(self, arguments: Mapping[str, object]) -> View:
        """Create the durable subscription of ``client_id`` and ``name`` to ``topic``.

        A ``selector`` is optional. The user is that of `send`.

        Raises:
            AuthenticationError: the broker refuses the user
            ConfigurationError: an argument is invalid
            JmsError: the subscription exists, or the broker refuses
        """
        client_id, name = _text(arguments, "client_id"), _text(arguments, "name")
        topic = parse_destination(_text(arguments, "topic"), TOPIC)
        selector = _optional(arguments, "selector")
        principal = await self._principal(arguments)
        self._broker.create_subscription(principal, client_id, name, topic, selector, self._clock.now())
        self._wake()
        return {"client_id": client_id, "name": name, "topic": topic.qualified_name}

    async def _principal(self, arguments: Mapping[str, object]) -> Principal:
        """Return the user with the rights for an action. Raises `AuthenticationError`."""
        operator = arguments.get(OPERATOR)
        if isinstance(operator, Operator):
            return Principal(operator.user, operator.groups)
        info = ConnectionInfo(
            "", user_name=_optional(arguments, "user"), password=_optional(arguments, "password"), protocol=PROTOCOL
        )
        return await awaited_login(self._logins, info, self._clock)

    async def commit_branch(self, arguments: Mapping[str, object]) -> View:
        """Commit the prepared branch ``xid``.

        Raises:
            ConfigurationError: the argument is invalid
            JmsError: there is no such branch, or the broker refuses
        """
        return await self._finish(arguments, commit=True)

    async def roll_back_branch(self, arguments: Mapping[str, object]) -> View:
        """Roll back the prepared branch ``xid``. Raises as `commit_branch`."""
        return await self._finish(arguments, commit=False)

    async def _finish(self, arguments: Mapping[str, object], *, commit: bool) -> View:
        xid = _text(arguments, "xid")
        outcome = _Outcome()
        self._broker.finish_branch(xid, commit, outcome, self._clock.now())
        self._wake()
        await outcome.answer
        return {"xid": xid, "outcome": "committed" if commit else "rolled back"}

    async def end_consumer(self, arguments: Mapping[str, object]) -> View:
        """Ask the client to close the consumer ``consumer_id``, and remove the consumer after a second.

        Raises:
            ConfigurationError: the argument is invalid
            JmsError: there is no such consumer
        """
        consumer_id = _text(arguments, "consumer_id")
        self._broker.end_consumer(consumer_id, self._clock.now())
        self._wake()
        return {"consumer_id": consumer_id}

    async def remove_job(self, arguments: Mapping[str, object]) -> View:
        """Remove the scheduled message ``job_id``.

        Raises:
            ConfigurationError: the argument is invalid
            JmsError: there is no such job, or the store refuses
        """
        job_id = _text(arguments, "job_id")
        self._broker.remove_job(job_id, self._clock.now())
        self._wake()
        return {"job_id": job_id}


class ScheduledBroker(Protocol):
    """The views of scheduled messages (``broker/admin/broker_overview.py``)."""

    def jobs(self) -> list[Job]:
        """Return the scheduled messages."""
        ...


class JobRemoval:
    """Removes scheduled messages by time, in slices."""

    def __init__(self, overview: ScheduledBroker, broker: ActingBroker, clock: Clock, wake: Callable[[], None]) -> None:
        self._overview: Final = overview
        self._broker: Final = broker
        self._clock: Final = clock
        self._wake: Final = wake

    async def remove(self, arguments: Mapping[str, object]) -> View:
        """Remove the scheduled messages with the next delivery from ``from_ms`` to ``to_ms``, else all.

        Returns:
            ``removed``, the number of jobs.

        Raises:
            ConfigurationError: an argument is invalid
            JmsError: the store refuses
        """
        first, last = (_time(arguments, name, value) for name, value in (("from_ms", 0), ("to_ms", NO_END)))
        removed = 0
        for index, job in enumerate(self._overview.jobs(), 1):
            if first <= job.due_ms <= last:
                with contextlib.suppress(InvalidDestinationError):  # it was delivered meanwhile
                    self._broker.remove_job(job.job_id, self._clock.now())
                    removed += 1
            if index % JOBS_PER_TURN == 0:
                self._wake()
                await asyncio.sleep(0)
        self._wake()
        return {"removed": removed}


def _time(arguments: Mapping[str, object], name: str, default: int) -> int:
    value = arguments.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{name} is a time in milliseconds since 1970")
    return value


class _Outcome:
    """The broker's answer to an action."""

    def __init__(self) -> None:
        self.answer: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()

    def on_answered(self, error: SpanwireError | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(None)
        else:
            self.answer.set_exception(error)


def _single(name: object, kind: int) -> Destination:
    destination = parse_destination(name, kind) if isinstance(name, str) and name else None
    if destination is None:
        raise ConfigurationError("a destination is missing")
    return destination


def _text(arguments: Mapping[str, object], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} is no text")
    return value


def _optional(arguments: Mapping[str, object], name: str) -> str | None:
    return None if arguments.get(name) is None else _text(arguments, name)


def _number(arguments: Mapping[str, object], name: str, default: int) -> int:
    value = arguments.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_LONG >> 1:
        raise ConfigurationError(f"{name} is no whole number from 0 on")
    return value


def _property(name: str, value: object) -> PropertyValue:
    if isinstance(value, bool):
        return BOOLEAN_VALUE, value
    if isinstance(value, int) and -MAX_LONG <= value <= MAX_LONG:
        return LONG_VALUE, value
    if isinstance(value, float):
        return DOUBLE_VALUE, value
    if isinstance(value, str):
        return STRING_VALUE, value
    raise ConfigurationError(f"the property {name[:80]} is no text, number, true or false")
