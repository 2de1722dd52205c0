"""The statistics plug-in (ActiveMQ, "StatisticsPlugin").

The plug-in answers requests for statistics with map messages.

A request is a message with JMSReplyTo to ``ActiveMQ.Statistics.Broker``, ``ActiveMQ.Statistics.Destination<NAME or
pattern>`` or ``ActiveMQ.Statistics.Subscription``. The broker does not deliver requests.

A user needs the right to write to the name of the request, and to the destination of the answers. The answers to a
pattern leave out a destination ``NAME`` without the right to write to ``ActiveMQ.Statistics.Destination.NAME``. All
times of messages in the broker are 0 in the answers, because measuring would slow down each message.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.connections import Connections
from spanwire.broker.connections.transaction import UncommittedLimit
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.pattern_index import COMPARED_PER_STEP
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import Alarm, Job, StoreReader
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.plugins.broker_filter import BrokerFilter
from spanwire.broker.plugins.statistics_entries import BrokerEntries, DestinationEntries, subscription_entries
from spanwire.broker.ports import StatisticsFormat
from spanwire.broker.queue.queue import Queue
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.broker.scheduler.scheduler import NoConnection
from spanwire.broker.security.access_control import AccessControl
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, ResourceAllocationError
from spanwire.model.info import ConnectionInfo
from spanwire.model.message import Message
from spanwire.model.message_view import LONG_VALUE, PropertyValue

PREFIX: Final = "ActiveMQ.Statistics"
OF_BROKER: Final = "ActiveMQ.Statistics.Broker"
OF_DESTINATIONS: Final = "ActiveMQ.Statistics.Destination"
OF_SUBSCRIPTIONS: Final = "ActiveMQ.Statistics.Subscription"
RESET: Final = "ActiveMQ.Statistics.Broker.Reset"
END_WITH_NULL: Final = "ActiveMQ.Statistics.Destination.List.End.With.Null"
FIRST_TIMESTAMP: Final = "ActiveMQ.Statistics.Destination.Include.First.Message.Timestamp"

MAX_REQUESTS: Final = 16  # requests under way
ANSWERS_PER_SLICE: Final = 100  # answers of some 1 KiB each
ROOM_SECONDS: Final = 1.0  # seconds between two checks for room for an answer
MAX_WAITS: Final = 60  # checks until a request is dropped: others wait behind it


class Request:
    """A request being answered.

    The order is: broker, destinations, matches of ``parts``, subscriptions, then an empty map with ``ends_with_null``.
    """

    def __init__(self, own: ConnectionState, reply_to: Destination, correlation_id: str | None) -> None:
        self.own: Final[ConnectionState] = own
        self.reply_to: Final[Destination] = reply_to
        self.correlation_id: Final[str | None] = correlation_id
        self.parts: Final[deque[Destination]] = deque()
        self.destinations: Final[deque[BrokerDestination]] = deque()
        self.subscriptions: Final[deque[Subscription]] = deque()
        self.client_ids: Final[dict[str, str | None]] = {}  # by connection
        self.first_timestamp = False
        self.ends_with_null = False
        self.begins_with_broker = False
        self.waits = 0  # checks without room for an answer


class StatisticsRequests(Job, StoreReader, Alarm):
    """Answers requests in order, in slices."""

    def __init__(
        self,
        statistics_format: StatisticsFormat,
        context: BrokerContext,
        destination_map: DestinationMap,
        connections: Connections,
        router: MessageRouter,
        formats: MessageFormats,
        access: AccessControl,
        usage: MemoryUsage,
        broker_entries: BrokerEntries,
        destination_entries: DestinationEntries,
    ) -> None:
        self._format: Final[StatisticsFormat] = statistics_format
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._connections: Final[Connections] = connections
        self._router: Final[MessageRouter] = router
        self._formats: Final[MessageFormats] = formats
        self._access: Final[AccessControl] = access
        self._broker_entries: Final[BrokerEntries] = broker_entries
        self._destination_entries: Final[DestinationEntries] = destination_entries
        self._output: Final[ConnectionOutput] = ConnectionOutput(NoConnection(), [], usage)
        self._requests: Final[deque[Request]] = deque()
        self._number = 0
        self._waits = False  # for room or for a message being read
        self._asked: Queue | None = None  # the queue whose oldest message was read
        self._oldest: Message | None = None

    def intercept(self, state: ConnectionState, message: Message) -> Message | None:
        """Begin to answer a request.

        Returns:
            ``message`` if the message is not a request, else None.

        Raises:
            JmsError: the request is refused.
        """
        name = message.destination.name
        if not name.startswith(PREFIX) or not (
            name.startswith(OF_DESTINATIONS) or name.startswith(OF_BROKER) or name.startswith(OF_SUBSCRIPTIONS)
        ):
            return message
        view = self._formats.view(message)
        reply_to = view.reply_to
        if reply_to is None:
            return message
        self._access.check_write(state, message.destination)
        if len(self._requests) >= MAX_REQUESTS:
            raise ResourceAllocationError(
                f"{len(self._requests)} requests for statistics wait for answers already: try again later"
            )
        info = ConnectionInfo(
            state.connection_id, user_name=state.principal.name, remote_address=state.info.remote_address
        )
        own = ConnectionState(self._output, info, state.principal, UncommittedLimit())
        request = Request(own, reply_to, view.correlation_id)
        if name.startswith(OF_DESTINATIONS):
            self._ask_destinations(request, message.destination, view.properties)
        elif name.startswith(OF_SUBSCRIPTIONS):
            self._ask_subscriptions(request)
        else:
            if RESET in view.properties:
                self._broker_entries.reset()
            request.begins_with_broker = True
        waits = len(self._requests) > 0
        self._requests.append(request)
        if not waits:
            refusal = self._slice()
            if refusal is not None:
                raise refusal
            if self._requests and not self._waits:
                self._context.schedule(self)
        return None

    def _ask_destinations(
        self, request: Request, destination: Destination, properties: dict[str, PropertyValue]
    ) -> None:
        asked = destination.name[len(OF_DESTINATIONS) :]
        asked = asked[1:] if asked.startswith(".") else asked
        name = asked.replace(END_WITH_NULL, "")
        request.ends_with_null = name != asked or END_WITH_NULL in properties
        request.first_timestamp = FIRST_TIMESTAMP in properties
        if not name:
            return
        request.parts.extend(Destination(destination.kind, name).parts())
        self._look_up(request)

    def _look_up(self, request: Request) -> None:
        """Find the destinations of the next parts, up to a pattern.

        A pattern may match many destinations, and takes a separate turn.
        """
        while request.parts:
            part = request.parts.popleft()
            request.destinations.extend(self._map.matching(part))
            if part.is_pattern:
                return

    def _ask_subscriptions(self, request: Request) -> None:
        """Collect subscriptions of queues, then non-durable subscriptions of topics, in ActiveMQ's order."""
        topics: list[Subscription] = []
        for state in self._connections.all():
            request.client_ids[state.connection_id] = state.info.client_id
            for subscription in state.receivers():
                if subscription.info.destination.is_queue:
                    request.subscriptions.append(subscription)
                elif subscription.info.subscription_name is None:
                    topics.append(subscription)
        request.subscriptions.extend(topics)

    def work(self) -> bool:
        """Run one slice. Return True while more can be done now."""
        self._slice()
        return len(self._requests) > 0 and not self._waits

    def wake(self) -> None:
        """Try again after a wait for room."""
        self._waits = False
        self._context.schedule(self)

    def _slice(self) -> JmsError | None:
        """Send some answers. Return the refusal that ended a request, if any."""
        refusal: JmsError | None = None
        budget = ANSWERS_PER_SLICE
        while self._requests and budget > 0:
            request = self._requests[0]
            try:
                while budget > 0 and self._has_more(request):
                    if request.parts and not request.destinations:
                        self._look_up(request)
                        return refusal
                    budget -= 1
                    if not self._may_hear_next(request):
                        request.destinations.popleft()
                    elif not self._answer_next(request):
                        return refusal
            except JmsError as error:  # the client is gone or may not write there
                refusal = error
                self._requests.popleft()
                continue
            if not self._has_more(request):
                self._requests.popleft()
        return refusal

    def _has_more(self, request: Request) -> bool:
        return (
            request.begins_with_broker
            or len(request.destinations) > 0
            or len(request.parts) > 0
            or len(request.subscriptions) > 0
            or request.ends_with_null
        )

    def _may_hear_next(self, request: Request) -> bool:
        """Return True if the user may get the next answer."""
        if request.begins_with_broker or not request.destinations:
            return True
        about = request.destinations[0].name
        asked = Destination(QUEUE if about.is_queue else TOPIC, f"{OF_DESTINATIONS}.{about.name}")
        return self._access.may_send(request.own.principal, asked)

    def _answer_next(self, request: Request) -> bool:
        """Send the next answer. Return False if room or a read must be waited for.

        Raises:
            ResourceAllocationError: the reply destination had no room for too long.
        """
        entries = self._entries(request)
        if entries is None:
            return False
        about_consumer = not request.begins_with_broker and not request.destinations and len(request.subscriptions) > 0
        correlation_id = None if about_consumer else request.correlation_id  # as ActiveMQ answers
        self._number += 1
        wall_ms = self._context.wall_ms
        answer = self._format.statistics(request.reply_to, entries, correlation_id, self._number, wall_ms)
        if not self._router.hand_in(request.own, answer):
            request.waits += 1
            if request.waits > MAX_WAITS:
                raise ResourceAllocationError(f"there is no room for answers in {request.reply_to}")
            self._waits = True
            self._context.wake_at(self, self._context.monotonic + ROOM_SECONDS)
            return False
        if request.begins_with_broker:
            request.begins_with_broker = False
        elif request.destinations:
            request.destinations.popleft()
            self._asked = None
        elif request.subscriptions:
            request.subscriptions.popleft()
        else:
            request.ends_with_null = False
        return True

    def _entries(self, request: Request) -> dict[str, PropertyValue] | None:
        """Return the entries of the next answer, empty at the end of a list, None while a message is read."""
        if request.begins_with_broker:
            destinations = self._map.all()
            self._context.steps += len(destinations) // COMPARED_PER_STEP
            return self._broker_entries.entries(destinations, self._connections.all())
        if request.destinations:
            return self._about(request.destinations[0], request.first_timestamp)
        if request.subscriptions:
            subscription = request.subscriptions[0]
            client_id = request.client_ids.get(subscription.info.consumer_id.connection_id)
            return subscription_entries(self._destination_entries, subscription, client_id)
        return {}

    def _about(self, destination: BrokerDestination, first_timestamp: bool) -> dict[str, PropertyValue] | None:
        if not first_timestamp or not isinstance(destination, Queue):
            return self._destination_entries.entries(destination)
        if not self._knows_oldest(destination):
            return None
        entries = self._destination_entries.entries(destination)
        if self._oldest is not None:
            entries["firstMessageTimestamp"] = (LONG_VALUE, self._oldest.timestamp_ms)
        return entries

    def _knows_oldest(self, queue: Queue) -> bool:
        """Find the oldest pending message. Return False during a read from the disk."""
        if self._asked is queue:
            return True
        self._oldest = None
        for sequence, message in queue.oldest(1):
            if message is None:
                self._asked = queue
                self._waits = True
                self._context.fetch(self, queue.name, [sequence])
                return False
            self._oldest = message
        return True

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take the oldest message from the store, None for a message removed meanwhile."""
        self._oldest = messages[0]
        self._waits = False
        self._context.schedule(self)


class StatisticsFilter(BrokerFilter):
    """Answers requests for statistics, and passes all other messages on."""

    def __init__(self, requests: StatisticsRequests) -> None:
        self._requests: Final[StatisticsRequests] = requests

    def send(self, state: ConnectionState, message: Message, now: Time) -> Message | None:
        """Return ``message``, or None if the answer to a request has begun."""
        return self._requests.intercept(state, message)
