"""Fast decoding of acknowledgements of single messages, which arrive in thousands.

Such acknowledgements of a consumer differ in their numbers alone, so the octets of one are the pattern for the next. A
frame that equals the pattern elsewhere is decoded by reading its numbers, and neighbours in one read become one
`AckRun`. All other acknowledgements, such as ranges, transactions, causes and requests for a response, are decoded in
full.

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
MAX_PATTERN_OCTETS: Final = 2048  # octets of a pattern; bounds the memory of a connection


class AckPattern:
    """The common fields of the acknowledgements of a run."""

    def __init__(self, command: MessageAck, consumer_id: ConsumerId, producer_id: ProducerId) -> None:
        self.consumer_id: Final[ConsumerId] = consumer_id
        self.producer_id: Final[ProducerId] = producer_id
        self._command: Final[MessageAck] = command

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
    """Recognises loose, uncached frames that equal the last acknowledgement except for their numbers.

    ``run`` is the run at the end of the decoded commands, if any; the decoder removes it when another command follows.
    """

    def __init__(self, version: int) -> None:
        self._end_octets: Final[i64] = COUNT_OCTETS + (1 if version >= CAUSE_VERSION else 0)
        self._id_octets: Final[i64] = ID_OCTETS + (1 if version >= TEXT_VIEW_VERSION else 0)
        self.run: AckRun | None = None
        self._pattern: AckPattern | None = None
        self._size: i64 = 0
        self._first_offset: i64 = 0  # of the numbers in the first id; 0 without a first id
        self._middle_offset: i64 = 0
        self._last_offset: i64 = 0
        self._start = b""
        self._middle = b""

    def add(self, commands: list[Command], octets: bytes, start: i64, end: i64) -> bool:
        """Decode a frame that matches the pattern, into ``run`` or a new run.

        Returns:
            False, without any effect, if the frame does not match.
        """
        pattern = self._pattern
        if pattern is None or end - start != self._size or octets[start + RESPONSE_OCTET] != 0:
            return False
        offset: i64 = start + self._last_offset
        count: i64 = offset + NUMBERS_OCTETS
        if read_i32_be(octets, count) != 1 or (self._end_octets > COUNT_OCTETS and octets[count + COUNT_OCTETS] != 0):
            return False
        if octets[start + self._middle_offset : offset] != self._middle:
            return False
        sequence = read_i64_be(octets, offset)
        first_offset = self._first_offset
        if first_offset > 0:
            first = read_i64_be(octets, start + first_offset)
            if first != sequence or octets[start + FIXED_START : start + first_offset] != self._start:
                return False
        run = self.run
        if run is None:
            run = AckRun(pattern, sequence)
            self.run = run
            commands.append(run)
        else:
            run.sequences.append(sequence)
        return True

    def learn(self, command: MessageAck, octets: bytes, start: i64, end: i64) -> None:
        """Use a fully decoded acknowledgement as the pattern from now on.

        Only an acknowledgement that may form runs becomes the pattern.
        """
        self.run = None
        self._pattern = None
        consumer_id = command.consumer_id
        last = command.last_message_id
        if consumer_id is None or last is None or not is_plain(command) or end - start > MAX_PATTERN_OCTETS:
            return
        producer_id = last.producer_id
        if producer_id is None or producer_id.connection_id is None or last.text_view is not None:
            return
        size: i64 = end - start
        last_offset: i64 = size - self._end_octets - NUMBERS_OCTETS
        first_offset: i64 = 0
        middle_offset: i64 = FIXED_START
        if command.first_message_id is not None:
            first_offset = size - self._end_octets - self._id_octets - len(producer_id.connection_id) - NUMBERS_OCTETS
            middle_offset = first_offset + NUMBERS_OCTETS
            if first_offset < FIXED_START or read_i64_be(octets, start + first_offset) != last.producer_sequence_id:
                return
        frame = octets[start:end]
        self._size = size
        self._first_offset = first_offset
        self._middle_offset = middle_offset
        self._last_offset = last_offset
        self._start = frame[FIXED_START:first_offset] if first_offset > 0 else b""
        self._middle = frame[middle_offset:last_offset]
        self._pattern = AckPattern(command, consumer_id, producer_id)


def is_plain(command: MessageAck) -> bool:
    """Return True if ``command`` acknowledges exactly one message, outside of a transaction."""
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
