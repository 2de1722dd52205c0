"""Browsing a queue or durable subscription over the control socket.

A browse shows pending messages and leaves the messages in place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.message import Message
from spanwire.protocols.readable import readable_or_fault
from spanwire.selector.expression import Selector
from spanwire.selector.parser import parse_selector

View = dict[str, object]
ReadStored = Callable[[Destination, list[int]], Awaitable[list[Message | None]]]
MAX_SHOWN: Final = 400  # messages of one answer; ActiveMQ's maxBrowsePageSize
MAX_SKIPPED: Final = 100_000  # messages before the first one shown; their pages are looked at in one turn
MAX_SCANNED: Final = 10_000  # messages compared with a selector; about 20 MB of sequences and references
SLICE: Final = 50  # messages read in one turn of the loop
MAX_OUT: Final = 100  # unacknowledged messages of a queue whose times are compared; bounds the work of a turn
MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024  # bytes of a message shown with its body; its JSON fits into an answer
MAX_BYTES: Final = 16 * 1024 * 1024  # bytes of all messages of one answer; an answer has at most 64 MiB


class BrowsedBroker(Protocol):
    """The part of the broker used here (``broker/broker.py``)."""

    @property
    def formats(self) -> MessageFormats:
        """The formats for reading messages."""
        ...

    def find_destination(self, destination: Destination) -> BrokerDestination | None:
        """Return the queue object of a destination."""
        ...

    def durable_subscriptions(self) -> list[DurableSubscription]:
        """Return all durable subscriptions."""
        ...


class ListedQueues(Protocol):
    """The part of the broker's views used here (``broker/admin/broker_overview.py``)."""

    def destinations(self) -> list[BrokerDestination]:
        """Return all queues and topics by name."""
        ...


class QueueAges:
    """Finds the oldest message of each queue."""

    def __init__(self, overview: ListedQueues, read_stored: ReadStored) -> None:
        self._overview: Final = overview
        self._read_stored: Final = read_stored

    async def ages(self, arguments: Mapping[str, object]) -> list[View]:
        """Return the queues with messages, each with the time of the oldest message.

        Returns:
            ``destination`` and ``oldest_ms``, milliseconds since 1970, over the first waiting message and
            `MAX_OUT` unacknowledged messages; messages without a time do not count.
        """
        views: list[View] = []
        queues = [queue for queue in self._overview.destinations() if isinstance(queue, Queue)]
        for index, queue in enumerate(queues, 1):
            if not queue.removed and queue.waiting() + queue.in_flight:
                oldest_ms = await self._oldest_ms(queue)
                if oldest_ms:
                    views.append({"destination": queue.name.qualified_name, "oldest_ms": oldest_ms})
            if index % SLICE == 0:
                await asyncio.sleep(0)
        return views

    async def _oldest_ms(self, queue: Queue) -> int:
        times = [reference.message.timestamp_ms for reference in queue.out(MAX_OUT)]
        for sequence, message in queue.oldest(1):
            found = (await self._read_stored(queue.name, [sequence]))[0] if message is None else message
            if found is not None:
                times.append(found.timestamp_ms)
        return min([time_ms for time_ms in times if time_ms > 0], default=0)


class QueueBrowsing:
    """Browses queues without access checks, because an operator is no client."""

    def __init__(self, broker: BrowsedBroker, read_stored: ReadStored, *, viewers_see_bodies: bool = False) -> None:
        """``viewers_see_bodies`` is the setting of ``<web>`` for users with the role of viewers only."""
        self._broker: Final = broker
        self._read_stored: Final = read_stored
        self._viewers_see_bodies: Final = viewers_see_bodies

    async def headers(self, arguments: Mapping[str, object]) -> View:
        """Return messages as `browse` does, but without bodies.

        The setting for users with the role of viewers only can show the bodies.
        """
        answer = await self.browse(arguments)
        shown = answer["messages"]
        assert isinstance(shown, list)
        if not self._viewers_see_bodies:
            answer["messages"] = [{key: value for key, value in one.items() if key != "body"} for one in shown]
        return {**answer, "bodies": self._viewers_see_bodies}

    async def browse(self, arguments: Mapping[str, object]) -> View:
        """Return at most ``limit`` messages of the queue ``destination`` that match ``selector``.

        ``skip`` messages at the front of the queue are left out.

        Returns:
            ``messages`` in the order of dispatch, ``waiting``, the number of pending messages,
            ``in_flight``, the number of messages at consumers (not shown), ``looked``, the number of messages compared
            with the selector, and ``next``, the number to skip for the messages behind these.

        Raises:
            ConfigurationError: an argument is invalid, or there is no such queue
            JmsError: the selector is invalid
        """
        name = arguments.get("destination")
        destination = parse_destination(str(name), QUEUE) if isinstance(name, str) and name else None
        if destination is None or not destination.is_queue:
            raise ConfigurationError("only queues can be browsed: name one")
        queue = self._broker.find_destination(destination)
        if not isinstance(queue, Queue):
            raise ConfigurationError(f"there is no queue {destination.name[:80]}; spanwire dstat queues lists them")
        return await self._browse(queue, arguments)

    async def browse_subscription(self, arguments: Mapping[str, object]) -> View:
        """Return messages of the durable subscription ``name`` of ``client_id``, else as `browse` does.

        Raises:
            ConfigurationError: there is no such durable subscription
            JmsError: the selector is invalid
        """
        client_id, name = arguments.get("client_id"), arguments.get("name")
        found = self._broker.durable_subscriptions()
        durable = next((one for one in found if (one.terms.client_id, one.terms.name) == (client_id, name)), None)
        if durable is None:
            raise ConfigurationError(
                f"client {str(client_id)[:80]} has no durable subscription {str(name)[:80]}; "
                "spanwire subscription list shows those that are there"
            )
        return await self._browse(durable.queue, arguments)

    async def _browse(self, queue: Queue, arguments: Mapping[str, object]) -> View:
        limit, selector = arguments.get("limit"), arguments.get("selector")
        parsed = parse_selector(selector) if isinstance(selector, str) and selector.strip() else None
        at_most = min(limit, MAX_SHOWN) if isinstance(limit, int) and limit > 0 else MAX_SHOWN
        asked = arguments.get("skip")
        skip = min(asked, MAX_SKIPPED) if isinstance(asked, int) and asked > 0 else 0
        views, scanned = await self._select(queue, parsed, at_most, skip)
        return {
            "messages": views,
            "waiting": queue.waiting(),
            "in_flight": queue.in_flight,
            "looked": scanned,
            "next": skip + scanned,
        }

    async def _select(self, queue: Queue, parsed: Selector | None, at_most: int, skip: int) -> tuple[list[View], int]:
        values = MessageEvaluationContext(self._broker.formats)
        pending = queue.oldest(at_most if parsed is None else MAX_SCANNED, skip)
        views: list[View] = []
        scanned = size = 0
        while scanned < len(pending) and len(views) < at_most and size < MAX_BYTES:
            for message in await self._messages(queue, pending[scanned : scanned + SLICE]):
                if len(views) >= at_most or size >= MAX_BYTES:
                    break
                scanned += 1
                if message is None or (parsed and not values.matches(parsed, message, message.redelivery_count)):
                    continue
                views.append(self._message_view(message))
                size += min(message.size, MAX_MESSAGE_BYTES)
            await asyncio.sleep(0)
        return views, scanned

    async def _messages(self, queue: Queue, page: list[tuple[int, Message | None]]) -> list[Message | None]:
        missing = [sequence for sequence, message in page if message is None]
        stored = dict(zip(missing, await self._read_stored(queue.name, missing), strict=True))
        return [stored.get(sequence) if message is None else message for sequence, message in page]

    def _message_view(self, message: Message) -> View:
        if message.size > MAX_MESSAGE_BYTES:
            return {
                "message_id": str(message.message_id),
                "fault": f"{message.size} bytes, too many to be shown; at most {MAX_MESSAGE_BYTES} are",
            }
        view = self._broker.formats.view(message)
        view.redelivery_count = message.redelivery_count
        path = {"broker_path": list(message.broker_path)} if message.broker_path else {}
        return {**readable_or_fault(view), **path}
