"""Fast decoding of responses without an error: a bridge gets a response for each forwarded message.

Such responses differ in one number alone, so neighbours in one read become one `AnswerRun`. All other responses, such
as responses with a result or an exception, are decoded in full.

    type id 1 | command id 4 | no response 1 | correlation id 4
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from spanwire.protocols.openwire.codec._marshallers import RESPONSE, BaseCommand, Command, CommandVisitor, Response

RESPONSE_OCTETS: Final = 10  # octets of a loose Response
RESPONSE_OCTET: Final = 5
CORRELATION_OFFSET: Final = 6


class AnswerRun(BaseCommand):
    """Responses without a request for a response; ``correlation_ids`` are in the order of the frames."""

    def __init__(self, correlation_id: int) -> None:
        super().__init__()
        self.correlation_ids: Final[list[int]] = [correlation_id]

    def type_id(self) -> int:
        return RESPONSE

    def visit(self, visitor: CommandVisitor) -> None:
        for correlation_id in self.correlation_ids:
            visitor.response(Response(correlation_id))


def add_answer(commands: list[Command], octets: bytes, start: i64, end: i64) -> bool:
    """Decode a plain Response, loose and uncached, into the run at the end of ``commands`` or a new run.

    Returns:
        False, without any effect, if the frame is another command.
    """
    if octets[start] != RESPONSE or end - start != RESPONSE_OCTETS or octets[start + RESPONSE_OCTET] != 0:
        return False
    correlation_id: int = read_i32_be(octets, start + CORRELATION_OFFSET)
    if commands:
        last = commands[-1]
        if isinstance(last, AnswerRun):
            last.correlation_ids.append(correlation_id)
            return True
    commands.append(AnswerRun(correlation_id))
    return True
