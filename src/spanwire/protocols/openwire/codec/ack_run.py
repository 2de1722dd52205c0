"""Fast decoding of acknowledgements of single messages, which arrive in thousands.

Such acknowledgements of a consumer for a producer differ in numbers alone, so the octets of each acknowledgement are
the pattern for the next. A frame that equals a pattern elsewhere is decoded by reading its numbers, and neighbours in
one read become one `AckRun`. A consumer of several producers has a pattern for each. All other acknowledgements, such
as ranges, transactions, causes and requests for a response, are decoded in full.

    type id 1 | command id 4 | no response 1 | destination, consumer, type … first id … last id's producer
    | producer's sequence 8 | broker's sequence 8 | count 4 | no cause 1 (7+)

(7+) means: since version 7. A first id, if present, ends with the same two numbers.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from spanwire.model.acks import STANDARD_ACK, SequenceRun
from spanwire.protocols.openwire.codec._marshallers import (
    MESSAGE_ACK,
    BaseCommand,
    Command,
    CommandVisitor,
    ConsumerId,
    MessageAck,
    MessageId,
    ProducerId,
)

FIXED_START: Final = 6  # octets of type id, command id and response required
RESPONSE_OCTET: Final = 5
NUMBERS_OCTETS: Final = 16
COUNT_OCTETS: Final = 4
CAUSE_VERSION: Final = 7
TEXT_VIEW_VERSION: Final = 10
ID_OCTETS: Final = 39  # octets of a message id without its texts: flags and types 4, length 3, numbers 16 and 16
MARK_OCTETS: Final = 24  # octets before the last numbers at which producers differ: end of the connection id, numbers
MAX_PATTERN_OCTETS: Final = 2048  # octets of a pattern; bounds the memory of a connection
MAX_ACK_PATTERNS: Final = 32  # patterns of a connection; a further one replaces those of the oldest producer


class Prepared:
    """The connection's own knowledge of a pattern; each use derives its own class."""


class AckPattern:
    """The common fields of the acknowledgements of a run, and their common octets."""

    def __init__(
        self,
        command: MessageAck,
        consumer_id: ConsumerId,
        producer_id: ProducerId,
        frame: bytes,
        first_offset: i64,
        last_offset: i64,
    ) -> None:
        self.consumer_id: Final[ConsumerId] = consumer_id
        self.producer_id: Final[ProducerId] = producer_id
        self.prepared: Prepared | None = None
        self.last_offset: Final[i64] = last_offset  # of the numbers in the last id
        self._command: Final[MessageAck] = command
        self._size: Final[i64] = len(frame)
        self._first_offset: Final[i64] = first_offset  # of the numbers in the first id; 0 without a first id
        self._middle_offset: Final[i64] = first_offset + NUMBERS_OCTETS if first_offset > 0 else FIXED_START
        self._mark_offset: Final[i64] = max(FIXED_START, last_offset - MARK_OCTETS)
        self.mark: Final[i64] = read_i64_be(frame, self._mark_offset)
        self._start: Final[bytes] = frame[FIXED_START:first_offset] if first_offset > 0 else b""
        self._middle: Final[bytes] = frame[self._middle_offset : last_offset]

    def matches(self, octets: bytes, start: i64, end: i64) -> bool:
        """Return True if a frame differs from the pattern in its numbers alone, and wants no response."""
        if end - start != self._size or read_i64_be(octets, start + self._mark_offset) != self.mark:
            return False
        last = start + self.last_offset
        count = last + NUMBERS_OCTETS
        if octets[start + RESPONSE_OCTET] != 0 or read_i32_be(octets, count) != 1:
            return False
        if end - count > COUNT_OCTETS and octets[count + COUNT_OCTETS] != 0:
            return False
        if octets[start + self._middle_offset : last] != self._middle:
            return False
        first_offset = self._first_offset
        if first_offset == 0:
            return True
        first = start + first_offset
        return read_i64_be(octets, first) == read_i64_be(octets, last) and octets[start + FIXED_START : first] == (
            self._start
        )

    def acknowledgement(self, sequence: int) -> MessageAck:
        """Return the acknowledgement of one message as a command."""
        command = self._command
        return MessageAck(
            destination=command.destination,
            consumer_id=self.consumer_id,
            ack_type=command.ack_type,
            first_message_id=None if command.first_message_id is None else self._message_id(sequence),
            last_message_id=self._message_id(sequence),
            message_count=1,
        )

    def _message_id(self, sequence: int) -> MessageId:
        return MessageId(producer_id=self.producer_id, producer_sequence_id=sequence)


NO_PATTERNS: Final[list[AckPattern]] = []


class AckRun(BaseCommand):
    """Standard acknowledgements of single messages of a producer by a consumer; none asks for a response.

    ``sequences`` are the producer's sequence numbers in the order of the frames.
    """

    def __init__(self, pattern: AckPattern, sequence: i64) -> None:
        super().__init__()
        self.pattern: Final[AckPattern] = pattern
        self.sequences: Final[SequenceRun] = SequenceRun(sequence)

    def type_id(self) -> int:
        return MESSAGE_ACK

    def visit(self, visitor: CommandVisitor) -> None:
        for sequence in self.sequences.after(0):
            visitor.message_ack(self.pattern.acknowledgement(sequence))


class AckReader:
    """Recognises loose, uncached frames equal to an earlier acknowledgement except for the numbers.

    ``run`` is the run at the end of the decoded commands, if any; the decoder removes it when another command follows.
    """

    def __init__(self, version: int) -> None:
        self._end_octets: Final[i64] = COUNT_OCTETS + (1 if version >= CAUSE_VERSION else 0)
        self._id_octets: Final[i64] = ID_OCTETS + (1 if version >= TEXT_VIEW_VERSION else 0)
        self.run: AckRun | None = None
        self._last: AckPattern | None = None
        self._patterns: Final[dict[int, list[AckPattern]]] = {}  # by their marks, the oldest mark first
        self._count = 0  # of the patterns

    def add(self, commands: list[Command], octets: bytes, start: i64, end: i64) -> bool:
        """Decode a frame that matches a pattern, into ``run`` or a new run.

        Returns:
            False, without any effect, if the frame does not match.
        """
        pattern = self._last
        if pattern is None or not pattern.matches(octets, start, end):
            pattern = self._pattern_of(octets, start, end)
            if pattern is None:
                return False
            self._last = pattern
            self.run = None
        sequence = read_i64_be(octets, start + pattern.last_offset)
        run = self.run
        if run is None:
            run = AckRun(pattern, sequence)
            self.run = run
            commands.append(run)
        else:
            run.sequences.append(sequence)
        return True

    def _pattern_of(self, octets: bytes, start: i64, end: i64) -> AckPattern | None:
        """Return the pattern of a frame, other than the pattern of the last frame, or None.

        A consumer acknowledges messages of several producers by turns. With four producers and four consumers, the full
        decoding of an acknowledgement at each change of the producer took a tenth of all instructions for a message.
        With sixteen producers nine patterns were compared for a message, so patterns are found by marks.
        """
        mark_start: i64 = end - self._end_octets - NUMBERS_OCTETS - MARK_OCTETS
        if mark_start < start + FIXED_START:
            return None
        mark: int = read_i64_be(octets, mark_start)
        for pattern in self._patterns.get(mark, NO_PATTERNS):
            if pattern.matches(octets, start, end):
                return pattern
        return None

    def learn(self, command: MessageAck, octets: bytes, start: i64, end: i64) -> None:
        """Keep a fully decoded acknowledgement as a pattern.

        Only an acknowledgement that may form runs becomes a pattern.
        """
        self.run = None
        consumer_id = command.consumer_id
        last = command.last_message_id
        if consumer_id is None or last is None or not is_plain(command) or end - start > MAX_PATTERN_OCTETS:
            return
        producer_id = last.producer_id
        if producer_id is None or producer_id.connection_id is None or last.text_view is not None:
            return
        last_offset: i64 = end - start - self._end_octets - NUMBERS_OCTETS
        first_offset: i64 = 0
        if command.first_message_id is not None:
            first_offset = last_offset - self._id_octets - len(producer_id.connection_id)
            if first_offset < FIXED_START or read_i64_be(octets, start + first_offset) != last.producer_sequence_id:
                return
        pattern = AckPattern(command, consumer_id, producer_id, octets[start:end], first_offset, last_offset)
        self._last = pattern
        if self._count >= MAX_ACK_PATTERNS:
            oldest = next(iter(self._patterns))
            self._count -= len(self._patterns.pop(oldest))
        self._patterns.setdefault(pattern.mark, []).append(pattern)
        self._count += 1


def is_plain(command: MessageAck) -> bool:
    """Return True if ``command`` acknowledges exactly one message, without a transaction or response."""
    if command.response_required:
        return False
    if command.ack_type != STANDARD_ACK or command.message_count != 1 or command.transaction_id is not None:
        return False
    first = command.first_message_id
    last = command.last_message_id
    if command.poison_cause is not None or last is None:
        return False
    return first is None or (
        first.producer_sequence_id == last.producer_sequence_id
        and first.producer_id == last.producer_id
        and first.text_view is None
    )
