"""Steps of traced messages, noted for an exporter outside of the core (`spanwire.tracing`).

The core notes a step with ids and times and goes on. A thread of the shell takes the notes, makes spans and sends the
spans to a collector. The notes have a limit: further notes are dropped and counted, so that a slow or absent collector
costs neither memory nor a message.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.model.observation.trace_context import TraceContext

# Steps, in the order in which a message takes them. The exporter has their names and attributes.
SEND: Final = 0
STORE: Final = 1
DISPATCH: Final = 2
FORWARD: Final = 3
ACKNOWLEDGE: Final = 4
PROCESS: Final = 5  # a batch of many messages

MAX_RECORDS: Final = 10_000  # steps that wait for the exporter, about 5 MB; 10 s of a thousand traced steps a second


class SpanRecord:
    """A step of one message, or of a batch.

    Attributes:
        step: `SEND` and the others of this module.
        context: the trace of the span, and the span's parent. The root of a trace is its own parent.
        span_id: the id of the span; empty without references, so that the exporter may choose an id.
        start_ms: begin in wall milliseconds.
        end_ms: end in wall milliseconds.
        destination: qualified name of the queue or topic.
        message_id: JMSMessageID.
        attributes: further attributes by names of the reference.
        error: class of the error of a refused step; empty for success.
        links: contexts of the messages of a batch.
    """

    __slots__ = (
        "attributes",
        "context",
        "destination",
        "end_ms",
        "error",
        "links",
        "message_id",
        "span_id",
        "start_ms",
        "step",
    )

    def __init__(
        self,
        step: int,
        context: TraceContext,
        span_id: str,
        start_ms: int,
        end_ms: int,
        destination: str,
        message_id: str,
    ) -> None:
        self.step: Final[int] = step
        self.context: Final[TraceContext] = context
        self.span_id: Final[str] = span_id
        self.start_ms: Final[int] = start_ms
        self.end_ms: Final[int] = end_ms
        self.destination: Final[str] = destination
        self.message_id: Final[str] = message_id
        self.attributes: Final[dict[str, str | int]] = {}
        self.error = ""
        self.links: list[TraceContext] = []

    @property
    def is_root(self) -> bool:
        """True if the span begins a trace."""
        return self.span_id == self.context.span_id


class SpanRecords:
    """The notes of one process, oldest first. One thread adds, another one takes."""

    def __init__(self, limit: int = MAX_RECORDS) -> None:
        self._limit: Final[int] = limit
        self._records: Final[deque[SpanRecord]] = deque()
        self.dropped = 0  # notes above the limit, since the start

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: SpanRecord) -> None:
        """Note a step; at the limit drop and count the step."""
        if len(self._records) >= self._limit:
            self.dropped += 1
            return
        self._records.append(record)

    def take(self, most: int) -> list[SpanRecord]:
        """Remove and return the oldest notes, at most ``most``."""
        taken: list[SpanRecord] = []
        while len(taken) < most and self._records:
            taken.append(self._records.popleft())
        return taken
