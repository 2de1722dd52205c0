"""Sends and logs the refusals of a client's commands."""

from __future__ import annotations

import logging
from typing import Final

from spanwire.model.errors import InvalidSelectorError, JmsError, SpanwireError
from spanwire.model.text import printable
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.exceptions import invalid_selector, rollback_only, throwable_of
from spanwire.protocols.openwire.output import OutputBuffer

MAX_LOGGED_REFUSALS: Final = 10  # logged refusals of one connection; a peer must not fill the log
MAX_LOGGED_TEXT: Final = 300  # characters of an error in the log; a peer's text may be long

logger = logging.getLogger(__name__)


class Refusals:
    """Writes refusals into a connection's output, and the first refusals into the log.

    ``connection_id`` is the id of a logged-in client, for a refusal without a command.
    """

    def __init__(self, output: OutputBuffer, remote_address: str) -> None:
        self.connection_id: str | None = None
        self._output: Final[OutputBuffer] = output
        self._remote_address: Final[str] = remote_address
        self._logged = 0

    def refuse(self, command: wire.BaseCommand, error: SpanwireError, refusal: JmsError | None) -> None:
        """Refuse a command for ``error``.

        ``refusal`` is the reason if a transaction could only be rolled back.
        """
        throwable = throwable_of(error)
        if isinstance(command, wire.ConsumerInfo) and isinstance(error, InvalidSelectorError):
            throwable = invalid_selector(command.selector or "", error)
        elif refusal is not None:
            throwable = rollback_only(refusal)
        self.log(wire.TYPE_NAMES[command.type_id()], error)
        self.send(throwable, command.command_id if command.response_required else None)

    def send(self, throwable: Throwable, correlation_id: int | None) -> None:
        """Send an ExceptionResponse if a response is due, else a ConnectionError."""
        if correlation_id is not None:
            self._output.answer(wire.ExceptionResponse(correlation_id=correlation_id, exception=throwable))
            return
        connection_id = None if self.connection_id is None else wire.ConnectionId(self.connection_id)
        self._output.answer(wire.ConnectionError(exception=throwable, connection_id=connection_id))

    def log(self, subject: str, error: SpanwireError) -> None:
        """Log the refusal of ``subject``, unless the connection has had enough lines in the log."""
        self._logged += 1
        if self._logged <= MAX_LOGGED_REFUSALS:
            logger.warning("%s of %s refused: %s", subject, self._remote_address, logged_text(error))


def logged_text(error: SpanwireError) -> str:
    """Return the text of an error for the log: one line, without unprintable characters of the peer."""
    return printable(str(error)[:MAX_LOGGED_TEXT])
