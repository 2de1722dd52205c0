"""Marks: the messages that an operator follows, and the knowledge about each."""

from __future__ import annotations

import zlib
from typing import Final

from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.following.observations import Observations
from spanwire.broker.policy.fan_out import selector_steps
from spanwire.model.destination import Destination
from spanwire.model.ids import MessageId
from spanwire.model.message import Message
from spanwire.selector.parser import parse_selector

MAX_MESSAGES: Final = 1_000  # messages of one mark; a person reads some, a program a thousand
MAX_SECONDS: Final = 3_600  # seconds of one mark: a forgotten one must not cost anything the next day
MAX_IDS: Final = 100  # ids of one mark
MAX_STEPS: Final = 20_000_000  # steps of a mark's selector over all messages; some ten seconds of the processor
MAX_COPIES: Final = 10_000  # copies at the targets of bridges of the messages of one mark; a route may make several
MAX_LOCATIONS: Final = 200  # destinations of one mark, of which a message may go from one to the next

OVER: Final = "its time is over"
TOO_DEAR: Final = "its selector has looked at too many messages: choose by id or rate, or a shorter selector"


class MarkSettings:
    """Terms of a mark, as requested by an operator.

    Args:
        mark_id: name of the mark at all brokers.
        destination: the queue or topic.
        selector: chooses messages by headers and properties; without it all.
        ids: the ids of the only messages; empty for all.
        one_in: marks one of so many messages, by their ids, so that all brokers choose the same.
        seconds: the mark ends after so many.
        messages: marks so many at most.

    Raises:
        InvalidSelectorError: the selector is invalid.
    """

    def __init__(
        self,
        mark_id: str,
        destination: Destination,
        selector: str | None = None,
        ids: tuple[str, ...] = (),
        one_in: int = 1,
        seconds: int = 60,
        messages: int = 100,
    ) -> None:
        self.mark_id: Final[str] = mark_id
        self.destination: Final[Destination] = destination
        self.selector_text: Final[str | None] = selector
        self.selector: Final = parse_selector(selector) if selector else None
        self.ids: Final[frozenset[str]] = frozenset(ids[:MAX_IDS])
        self.one_in: Final[int] = max(1, one_in)
        self.seconds: Final[int] = min(max(1, seconds), MAX_SECONDS)
        self.messages: Final[int] = min(max(1, messages), MAX_MESSAGES)


class Marked:
    """One marked message at this broker.

    ``consumer`` is the holder of the message, in words for people; "" while the message waits. ``origin`` is the
    destination of the last dispatch. ``sequences`` are the sequences in the store by destination, ``numbers`` those of
    cursors by their names, ``batches`` the known batches of pipelines.
    """

    __slots__ = (
        "batches", "consumer", "expiration_ms", "hops", "locations", "numbers", "origin", "sequences", "text",
    )  # fmt: skip

    def __init__(self, message: Message) -> None:
        self.text: Final[str] = str(message.message_id)
        self.hops: Final[int] = len(message.broker_path)
        self.expiration_ms: Final[int] = message.expiration_ms
        self.consumer = ""
        self.origin = ""
        self.locations: Final[dict[str, None]] = {}  # destinations where it waits
        self.sequences: Final[dict[str, int]] = {}
        self.numbers: Final[dict[str, int]] = {}
        self.batches: Final[dict[str, None]] = {}


class Mark:
    """An active mark with messages and observations. ``ended`` is the reason of the end, "" before."""

    def __init__(
        self, settings: MarkSettings, until: float, values: MessageEvaluationContext, max_steps: int = MAX_STEPS
    ) -> None:
        """``until`` is the end in monotonic seconds, ``max_steps`` the limit of the selector's cost."""
        self.settings: Final[MarkSettings] = settings
        self.until: Final[float] = until
        self.observations: Final[Observations] = Observations()
        self.marked: Final[dict[MessageId, Marked]] = {}
        self.by_text: Final[dict[str, Marked]] = {}  # the same messages by the texts of their ids
        self.copies: Final[dict[str, Marked]] = {}  # the same messages by their ids at the targets of bridges
        self.ended_at = 0.0  # monotonic seconds
        self.wanted: Final[dict[str, Destination]] = {}  # destinations and patterns where messages are looked for
        self.ended = ""
        self.is_closed = False  # no further message is marked
        self._values: Final[MessageEvaluationContext] = values
        self._weight: Final[int] = 1 + selector_steps(settings.selector_text)
        self._max_steps: Final[int] = max_steps
        self._steps = 0
        self.want(settings.destination)

    def want(self, destination: Destination) -> bool:
        """Look for messages at one more destination or pattern, too. Return False if there are too many."""
        name = destination.qualified_name
        if name not in self.wanted and len(self.wanted) >= MAX_LOCATIONS:
            return False
        self.wanted[name] = destination
        return True

    def wants(self, destination: Destination) -> bool:
        """Return True if marked messages may be at ``destination``."""
        if destination.qualified_name in self.wanted:
            return True
        for one in self.wanted.values():
            if one.is_pattern and one.matches(destination):
                return True
        return False

    def find(self, message: Message) -> Marked | None:
        """Return the record of a marked message; None for another message."""
        return self.marked.get(message.message_id)

    def take(self, message: Message, redelivery_count: int) -> Marked | None:
        """Mark a new or found message if the settings choose the message; return the marked message or None."""
        known = self.marked.get(message.message_id)
        if known is not None or self.is_closed or self.ended:
            return known
        settings = self.settings
        if settings.ids and str(message.message_id) not in settings.ids:
            return None
        if settings.one_in > 1 and zlib.crc32(str(message.message_id).encode()) % settings.one_in:
            return None
        selector = settings.selector
        if selector is not None:
            self._steps += self._weight
            if self._steps > self._max_steps:
                self.is_closed = True
                self.ended = TOO_DEAR
                return None
            if not self._values.matches(selector, message, redelivery_count):
                return None
        known = Marked(message)
        self.marked[message.message_id] = known
        self.by_text[known.text] = known
        self.is_closed = len(self.marked) >= settings.messages
        return known
