"""Requests to the control destination ``ActiveMQ.Spanwire.Control``.

Exactly-once programs use cursors and sinks by such requests, and pipelines publish their status.

``docs/reference/control-destination.md`` describes requests and answers. A request goes to no consumer. The answer is
sent once the store has all reported changes.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Final

from spanwire.broker.admin.published_statuses import PublishedStatuses
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import LocalTransaction, Transaction
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.exactly_once.batch_targets import BatchTargets
from spanwire.broker.exactly_once.cursor import Cursor
from spanwire.broker.exactly_once.cursors import CursorFollower, Cursors, no_room
from spanwire.broker.exactly_once.part_names import PartNames
from spanwire.broker.exactly_once.part_removal import PartRemoval, RemovalFollower, SinkEnd, SinkTakeOver, abort_of
from spanwire.broker.exactly_once.request import Postponed, PostponedTaker, Request
from spanwire.broker.exactly_once.request_values import begun, committed, held, queue_of, reserved, text_of
from spanwire.broker.exactly_once.sink import PartKey, Sink
from spanwire.broker.exactly_once.sink_commit import CommitFollower, Committed, SinkCommit
from spanwire.broker.exactly_once.sinks import Sinks
from spanwire.broker.network_ports import LateAnswer, NetworkGossip, NetworkQuestions, NetworkReporter
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.request_errors import (
    LIMIT,
    MALFORMED,
    UNAUTHORIZED,
    UNAVAILABLE,
    ControlRefusal,
    refusal,
    refusal_of,
    word_of,
)
from spanwire.broker.reserved_destinations import CONTROL, check_apart
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.broker.routing.message_takers import ControlTaker
from spanwire.broker.security.access_control import BRIDGE_TOPIC, AccessControl, ReadableNames
from spanwire.model.environment import IdGenerator, Time
from spanwire.model.errors import (
    IllegalStateError,
    JmsError,
    ProtocolError,
    ResourceAllocationError,
)
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import Message
from spanwire.model.message_view import BOOLEAN_VALUE, LONG_VALUE, STRING_VALUE, TEXT, MessageView, PropertyValue

MAX_DEFERRED: Final = 64  # waiting requests about one sink, while it is closed
URGENT: Final = ("acknowledge", "release")  # actions that make room: no wait for the disk if they write little
MAX_ID: Final = 1_000  # characters of a message id in a question
MAX_QUESTION_ID: Final = 64  # characters of the id of a question
QUESTIONS: Final = ("why", "trace", "route")  # about messages; the network answers them
MAX_QUESTION: Final = 64 * 1024  # bytes of a question of another kind than why
QUIET: Final = ("cursors", "sinks", "publish", "pipelines", "stop", "network", "gossip", *QUESTIONS)  # no writes

Answer = dict[str, PropertyValue]


class LaterAnswer(LateAnswer):
    """Answers one request of the control destination later."""

    def __init__(self, control: Control, request: Request) -> None:
        self._control: Final[Control] = control
        self._request: Final[Request] = request

    def give(self, text: str, now: Time) -> None:
        """Answer with ``text``."""
        self._control.answer_late(self._request, text.encode("utf-8", "replace"), now)


class Control(ControlTaker, CommitFollower, RemovalFollower, PostponedTaker, CursorFollower):
    """Carries out and answers requests."""

    def __init__(
        self,
        context: BrokerContext,
        cursors: Cursors,
        sinks: Sinks,
        statuses: PublishedStatuses,
        destination_map: DestinationMap,
        destinations: Destinations,
        router: MessageRouter,
        formats: MessageFormats,
        access: AccessControl,
        unsynced: UnsyncedBytes,
        usage: MemoryUsage,
        ids: IdGenerator,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._cursors: Final[Cursors] = cursors
        self._sinks: Final[Sinks] = sinks
        self._statuses: Final[PublishedStatuses] = statuses
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._router: Final[MessageRouter] = router
        self._formats: Final[MessageFormats] = formats
        self._access: Final[AccessControl] = access
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._usage: Final[MemoryUsage] = usage
        self._ids: Final[IdGenerator] = ids
        self._postponed: Final[Postponed] = Postponed(context, unsynced)
        self._postponed.taker = self
        cursors.follower = self
        self.reporter: NetworkReporter | None = None  # set by a service that knows links
        self.questions: NetworkQuestions | None = None  # likewise
        self.gossip: NetworkGossip | None = None  # likewise
        self._connection_id = ""
        self._last_sequence = 0
        self._commits: Final[dict[SinkCommit, Request]] = {}  # under way
        self._reserves: Final[dict[str, Request]] = {}  # by cursor, waiting for the end of a search
        self._removals: Final[dict[PartRemoval, Request]] = {}  # under way
        self._deferred: Final[dict[str, deque[Request]]] = {}  # waiting requests by sink, while it is closed

    def take(self, state: ConnectionState, message: Message, transaction: Transaction | None) -> None:
        """Carry out a request message, or stage a part for a transaction.

        Raises:
            JmsError: the message is no valid request, or the answer could not be sent.
        """
        self._access.check_write(state, message.destination)
        if state.forwards:
            raise IllegalStateError(f"requests to {message.destination} are not forwarded by bridges: ask this broker")
        try:
            view = self._formats.view(message)
        except ProtocolError as error:
            raise refusal(MALFORMED, f"the request cannot be decoded: {error}") from None
        action = text_of(view.properties, "action")
        if transaction is not None:
            self._stage(state, view, action, transaction)
            return
        if view.reply_to is None:
            raise IllegalStateError(f"a request to {message.destination} needs JMSReplyTo")
        for part in view.reply_to.parts():
            check_apart(part)
        self._access.check_write(state, view.reply_to)
        target = self._map.find(view.reply_to)
        if target is not None and target.usage.is_full():
            raise ResourceAllocationError(f"there is no room for an answer in {view.reply_to}")
        self._do(Request(state, view, message.format_id, view.reply_to), True)

    def go_on(self, request: Request) -> None:
        """Carry out a request after its wait."""
        self._do(request, False)

    def _stage(self, state: ConnectionState, view: MessageView, action: str, transaction: Transaction) -> None:
        request = Request(state, view, 0, view.destination)
        if action != "stage" or not isinstance(transaction, LocalTransaction):
            raise refusal(MALFORMED, "only stage is asked for in a transaction, and only in a local one")
        if transaction.stager is not None:
            raise refusal(MALFORMED, "a transaction stages one part: commit it, and begin another")
        key = PartKey(
            request.name("query"), request.number("batch"), request.number("partition"), request.number("attempt")
        )
        transaction.stager = self._sinks.stage(state, key, request.number("epoch"))

    def _do(self, request: Request, may_wait: bool) -> None:
        """Carry out and answer a request. Commits, and requests that wait for the disk, are answered later."""
        try:
            if may_wait and self._postponed.waits() and not self._goes_first(request):
                self._postponed.add(request)
                return
            answer = self._carry_out(request)
        except JmsError as error:
            self._refuse(request, refusal_of(error))
            return
        if answer is not None:
            self._answer(request, answer)

    def _goes_first(self, request: Request) -> bool:
        action = request.text("action")
        return action in QUIET or (action in URGENT and self._cursors.table.is_light(request.text("cursor")))

    def _carry_out(self, request: Request) -> Answer | None:
        action = request.text("action")
        if action in ("open", "reserve", "acknowledge", "release", "cursors"):
            return self._about_cursor(request, action)
        if action in ("begin", "commit", "abort", "forget", "sinks"):
            return self._about_sink(request, action)
        if action in ("publish", "pipelines", "stop"):
            return self._about_pipeline(request, action)
        if action in ("network", "gossip") or action in QUESTIONS:
            return self._about_network(request, action)
        if action == "stage":
            raise refusal(MALFORMED, "stage belongs into the transaction whose messages are to be staged")
        raise refusal(MALFORMED, f"there is no action {action[:40]!r}")

    def _about_cursor(self, request: Request, action: str) -> Answer | None:
        state = request.state
        if action == "cursors":
            rows = self._cursors.table.rows(state, request.name_or_none("cursor"))
            request.body = json.dumps(rows).encode("ascii")
            return {}
        name = request.name("cursor")
        if action == "open":
            return held(self._open(request, name), True)
        epoch = request.number("epoch")
        if action == "release":
            count = self._cursors.release(state, name, epoch)
            return {"epoch": (LONG_VALUE, epoch + 1), "released": (LONG_VALUE, count)}
        if action == "acknowledge":
            return held(self._cursors.acknowledge(state, name, epoch, request.number("to")), False)
        cursor = self._cursors.reserve(
            state,
            name,
            epoch,
            request.number("messages"),
            request.number_or("bytes", 0),
            request.number_or("acknowledge", -1),
        )
        if cursor.search is not None:
            self._reserves[name] = request
            return None
        return reserved(cursor)

    def on_reserved(self, cursor: Cursor, has_room: bool) -> None:
        """Answer a request to reserve messages that a selector chooses."""
        request = self._reserves.pop(cursor.name)
        if has_room:
            self._answer(request, reserved(cursor))
        else:
            self._refuse(request, no_room(cursor))

    def _open(self, request: Request, name: str) -> Cursor:
        state, run, selector = request.state, request.name("run"), request.text("selector")
        if not selector.strip():
            selector = ""
        exclusive = request.flag("exclusive")
        if request.text("queue"):
            return self._cursors.open_on_queue(state, name, queue_of(request.text("queue")), run, exclusive, selector)
        client_id, subscription = request.parameter("clientId"), request.parameter("subscription")
        if not client_id or not subscription:
            raise refusal(MALFORMED, "open needs queue, or clientId and subscription")
        return self._cursors.open_on_subscription(state, name, client_id, subscription, run, exclusive, selector)

    def _about_sink(self, request: Request, action: str) -> Answer | None:
        state = request.state
        if action == "sinks":
            request.body = json.dumps(self._sinks.rows(state, request.name_or_none("query"))).encode("ascii")
            return {}
        query = request.name("query")
        if self._sinks.is_closed(query):
            self._defer(request, query, action)
            return None
        if action == "begin":
            run, target = request.name("run"), request.text("target")
            sink = self._sinks.find_or_add(state, query, run, target)
            if run != sink.run:
                return self._remove(request, SinkTakeOver(self, self._sinks, sink, self._context, run, target))
            self._sinks.take_target(sink, target)
            return begun(sink)
        epoch = request.number("epoch")
        if action == "forget" and self._sinks.lacks(query):
            return {"messages": (LONG_VALUE, 0)}
        sink = self._sinks.current(state, query, epoch)
        if action == "forget":
            return self._remove(request, SinkEnd(self, self._sinks, sink, self._context))
        batch = request.number("batch")
        if action == "abort":
            return self._remove(request, abort_of(self, self._sinks, sink, self._context, batch))
        return self._commit(request, sink, batch)

    def _about_pipeline(self, request: Request, action: str) -> Answer:
        state = request.state
        if action == "pipelines":
            request.body = json.dumps(self._statuses.rows(state)).encode("ascii")
            return {}
        run = request.name("run")
        if action == "stop":
            self._statuses.stop(state, run)
            return {}
        pipeline, has_ended = request.name("pipeline"), request.flag("ended")
        must_stop = self._statuses.publish(state, pipeline, run, has_ended, request.view.body)
        return {"stop": (BOOLEAN_VALUE, must_stop)}

    def _about_network(self, request: Request, action: str) -> Answer | None:
        """Answer another broker with the right of links, or a user with a right to see some destinations."""
        if self.reporter is None:
            raise refusal(UNAVAILABLE, "this broker does not report its links")
        seconds, state, body = request.number_or("seconds", 0), request.state, request.view.body or b""
        is_broker = self._access.may_administer(state, BRIDGE_TOPIC) or self._access.may_administer(state, CONTROL)
        if action in QUESTIONS:
            if not is_broker:
                raise refusal(UNAUTHORIZED, "only brokers of the network, and administrators, may ask about messages")
            text = str(body[:MAX_QUESTION], "utf-8", "replace") if action != "why" else request.text("message")[:MAX_ID]
            asked, question = request.text("asked"), request.text("question")[:MAX_QUESTION_ID]
            later, asks = LaterAnswer(self, request), self.questions
            if asks is None or not asks.answer_later(action, text, asked, seconds, question, later):
                raise refusal(UNAVAILABLE, "too many questions are being answered: ask again later")
            return None
        if action == "gossip":
            if not is_broker or self.gossip is None:
                raise refusal(UNAUTHORIZED, "only brokers of the network, and administrators, may gossip")
            request.body = self.gossip.exchange(body, state.info.remote_address).encode("ascii")
        elif is_broker:
            self.reporter.take(body, state.info.remote_address)
            request.body = self.reporter.report(seconds, None).encode("ascii")
        else:
            names = ReadableNames(self._access, state.principal)
            request.body = self.reporter.report(0, names.may_read).encode("ascii")
        return {}

    def _remove(self, request: Request, removal: PartRemoval) -> Answer | None:
        self._removals[removal] = request
        removal.begin()
        return None

    def on_removed(self, removal: PartRemoval) -> None:
        """Answer an abort, a new run or the end of a sink, and carry out the requests that waited for the end."""
        request = self._removals.pop(removal)
        is_begun = isinstance(removal, SinkTakeOver)
        self._answer(request, begun(removal.sink) if is_begun else {"messages": (LONG_VALUE, removal.messages)})
        self._go_on_behind(removal.sink)

    def on_removal_refused(self, removal: PartRemoval, error: JmsError) -> None:
        """Refuse it, and carry out the requests that waited for its end."""
        self._refuse(self._removals.pop(removal), refusal_of(error))
        self._go_on_behind(removal.sink)

    def _defer(self, request: Request, query: str, action: str) -> None:
        """Let a request wait for the end of the request that closed the sink.

        Raises:
            JmsError: the request would be refused now already.
        """
        if action == "begin":
            self._sinks.check_begin(request.state, query, request.name("run"))
        else:
            self._sinks.current(request.state, query, request.number("epoch"))
        deferred = self._deferred.get(query)
        if deferred is None:
            deferred = deque()
            self._deferred[query] = deferred
        if len(deferred) >= MAX_DEFERRED:
            raise refusal(
                LIMIT, f"{MAX_DEFERRED} requests wait for the end of another one about sink {query}: try again later"
            )
        deferred.append(request)

    def _commit(self, request: Request, sink: Sink, batch: int) -> Answer | None:
        if batch <= sink.batch:
            return committed(Committed(0, True))
        commit = SinkCommit(
            self,
            self._sinks,
            sink,
            batch,
            PartNames(request.view.body),
            self._context,
            BatchTargets(self._map, self._destinations),
            self._router,
            self._unsynced,
            self._usage,
            request.state.output,
        )
        self._commits[commit] = request
        commit.begin()
        return None

    def on_committed(self, commit: SinkCommit, result: Committed) -> None:
        """Answer a commit, and carry out the requests that waited for its end."""
        self._answer(self._commits.pop(commit), committed(result))
        self._go_on_behind(commit.sink)

    def on_refused(self, commit: SinkCommit, error: JmsError) -> None:
        """Refuse a commit, and carry out the requests that waited for its end."""
        self._refuse(self._commits.pop(commit), refusal_of(error))
        self._go_on_behind(commit.sink)

    def _go_on_behind(self, sink: Sink) -> None:
        for waiting in self._deferred.pop(sink.query, ()):
            self._do(waiting, False)

    def _refuse(self, request: Request, error: ControlRefusal) -> None:
        self._answer(
            request,
            {
                "status": (STRING_VALUE, "error"),
                "error": (STRING_VALUE, word_of(error)),
                "reason": (STRING_VALUE, str(error)),
            },
        )

    def answer_late(self, request: Request, body: bytes, now: Time) -> None:
        """Answer a question that was passed on."""
        self._context.begin_request(now)
        request.body = body
        self._answer(request, {})

    def _answer(self, request: Request, properties: Answer) -> None:
        if not self._connection_id:
            self._connection_id = self._ids.next_id()
        self._last_sequence += 1
        view = MessageView(
            TEXT, request.reply_to, MessageId(ProducerId(self._connection_id, 1, 1), self._last_sequence)
        )
        correlation_id = request.view.correlation_id
        view.correlation_id = correlation_id if correlation_id else str(request.view.message_id)
        view.timestamp_ms = self._context.wall_ms
        view.properties["status"] = (STRING_VALUE, "ok")
        view.properties.update(properties)
        view.body = request.body
        try:
            answer = self._formats.format(request.format_id).encode_from_view(view)
            self._router.hand_in_when_stored(request.state, answer)
        except (JmsError, ProtocolError):
            return  # the client is gone with its temporary queue, or may no longer write there
