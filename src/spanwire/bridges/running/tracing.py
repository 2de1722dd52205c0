"""Notes of bridges and routes about traced messages, for spans ``forward``.

Only a tracing process has notes.

The context of a message is an ordinary property: the context reaches the target in the provider's form of properties,
and is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spanwire.bridges.engine.dialogue import (
    Action,
    Committed,
    Completed,
    DeadLettered,
    Disconnected,
    Event,
    HandedOver,
    Received,
    Refused,
    Send,
    Sent,
)
from spanwire.bridges.model.definition import BridgeDefinition, Quality, Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import Definition, RouteDefinition
from spanwire.bridges.ports import MessageRefusedError
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, MessageFormatError
from spanwire.model.observation.span_records import FORWARD, SpanRecord, SpanRecords
from spanwire.model.observation.trace_context import TraceContext, context_of
from spanwire.tracing.export import SpanExport
from spanwire.tracing.switch import is_switched_off, is_switched_on, span_export

SCOPE: Final = "spanwire.bridges"
MAX_TRACED: Final = 10_000  # traced messages of one bridge on their way; more than a batch can have
BRIDGE: Final = "messaging.spanwire.bridge.name"
SOURCE: Final = "messaging.spanwire.bridge.source"


class BridgeNotes:
    """Notes the traced messages of one bridge, from the receipt to the storage at the target."""

    def __init__(self, definition: BridgeDefinition, records: SpanRecords, clock: Callable[[], Time]) -> None:
        self._name: Final[str] = definition.name
        self._source: Final[str] = definition.source.destination.qualified_name
        self._target: Final[str] = definition.target.destination.qualified_name
        self._commits: Final[bool] = definition.quality is Quality.ONCE_AND_ONLY_ONCE
        self._acknowledges_first: Final[bool] = definition.quality is Quality.AT_MOST_ONCE
        self._records: Final[SpanRecords] = records
        self._clock: Final = clock
        self._on_way: Final[dict[str, tuple[TraceContext, int]]] = {}  # by message id, with wall milliseconds
        self._handed: list[str] = []  # messages of the batch that the link completes
        self._error = JmsError.__name__  # the last one of the link

    def on_event(self, action: Action, event: Event) -> None:
        """Take the outcome of an action of the bridge."""
        if isinstance(event, Received):
            self._remember(event.messages)
        elif isinstance(event, Sent) and isinstance(action, Send) and event.is_stored and not self._commits:
            self._note([message.message_id for message in action.messages], "")
        elif isinstance(event, HandedOver):
            self._handed = list(self._on_way)
        elif isinstance(event, Completed):
            self._note(self._handed, "")
            self._handed = []
        elif isinstance(event, Disconnected):
            self._note(self._handed, self._error)
            self._handed, self._error = [], JmsError.__name__
        elif isinstance(event, Committed):
            self._note(list(self._on_way), "")
        elif isinstance(event, DeadLettered):
            self.failed(MessageRefusedError.__name__)
        elif isinstance(event, Refused) and isinstance(action, Send) and self._acknowledges_first:
            self._on_lost(action.messages, event)

    def _on_lost(self, messages: list[BridgeMessage], event: Refused) -> None:
        """Note a refused message that does not come again, and the messages stored before it."""
        if event.is_prefix_stored:
            self._note([message.message_id for message in messages[: event.index]], "")
        self._note([messages[event.index].message_id], MessageRefusedError.__name__)

    def failed(self, error: str) -> None:
        """Note the failed messages with the class of the error.

        A batch that was handed over may be completed while the link closes, so its outcome is noted after that.
        """
        self._error = error
        self._note([message_id for message_id in self._on_way if message_id not in self._handed], error)

    def _remember(self, messages: list[BridgeMessage]) -> None:
        for message in messages:
            context = _context(message)
            if context is not None and len(self._on_way) < MAX_TRACED:
                self._on_way[message.message_id] = (context, self._clock().wall_ms)

    def _note(self, message_ids: list[str], error: str) -> None:
        now_ms = self._clock().wall_ms
        for message_id in message_ids:
            on_way = self._on_way.pop(message_id, None)
            if on_way is None:
                continue
            context, since_ms = on_way
            record = SpanRecord(FORWARD, context, "", since_ms, now_ms, self._target, message_id)
            record.attributes[BRIDGE] = self._name
            record.attributes[SOURCE] = self._source
            record.error = error
            self._records.add(record)


class RouteNotes:
    """Notes the traced messages of one route, from a batch's receipt to storage in a queue or topic.

    The steps of a route may make other messages of the received ones. A message with unchanged properties keeps the
    context. Files and requests have no spans, and failed attempts have no spans.
    """

    def __init__(self, definition: RouteDefinition, records: SpanRecords, clock: Callable[[], Time]) -> None:
        source = definition.source
        self._attributes: Final[dict[str, str | int]] = {BRIDGE: definition.name}
        if isinstance(source, Source):
            self._attributes[SOURCE] = source.destination.qualified_name
        self._targets: Final = [
            target.destination.qualified_name if isinstance(target, Target) else "" for target in definition.targets
        ]
        self._records: Final[SpanRecords] = records
        self._clock: Final = clock
        self._since_ms = 0

    def on_event(self, action: Action, event: Event) -> None:
        """Take the outcome of an action of the route."""
        if isinstance(event, Received):
            self._since_ms = self._clock().wall_ms
        elif isinstance(event, Sent) and isinstance(action, Send) and self._targets[action.target]:
            now_ms = self._clock().wall_ms
            for message in action.messages:
                context = _context(message)
                if context is not None:
                    record = SpanRecord(
                        FORWARD, context, "", self._since_ms, now_ms, self._targets[action.target], message.message_id
                    )
                    record.attributes.update(self._attributes)
                    self._records.add(record)

    def failed(self, error: str) -> None:
        """Take no note: a failed batch is received again."""


class BridgeTraces:
    """The traces of a process with bridges: notes, and the thread for sending."""

    def __init__(self, export: SpanExport, clock: Callable[[], Time]) -> None:
        self._export: Final = export
        self._clock: Final = clock

    def of(self, definition: Definition) -> BridgeNotes | RouteNotes:
        """Return the notes of one bridge or route."""
        if isinstance(definition, RouteDefinition):
            return RouteNotes(definition, self._export.records, self._clock)
        return BridgeNotes(definition, self._export.records, self._clock)

    def start(self) -> None:
        """Begin to send."""
        self._export.start()

    def stop(self) -> None:
        """Send the last spans, for a limited time."""
        self._export.stop()


def bridge_traces(
    environment: Mapping[str, str], clock: Callable[[], Time], is_asked: bool = False, endpoint: str | None = None
) -> BridgeTraces | None:
    """Return the traces of the process; None unless environment or broker (``is_asked``) want traces.

    Raises:
        ConfigurationError: the extra is missing, or a variable of the environment is refused.
    """
    if is_switched_off(environment) or not (is_asked or is_switched_on(environment)):
        return None
    return BridgeTraces(span_export(SpanRecords(), SCOPE, "bridges", endpoint), clock)


def _context(message: BridgeMessage) -> TraceContext | None:
    """Return the context of a traced message."""
    try:
        context = context_of(message.property_values())
    except MessageFormatError:
        return None
    return context if context is not None and context.is_sampled else None
