"""A former source of a query: acknowledges the committed batch, and releases the cursor."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from spanwire.model.errors import JmsError
from spanwire.pipeline.link.control_answers import Reservation
from spanwire.pipeline.options import ReadOptions
from spanwire.pipeline.source.cursor_source import CursorControl, open_cursor
from spanwire.pipeline.source.source_link import SourceLink

logger = logging.getLogger(__name__)


class EndingControl(CursorControl, Protocol):
    """The requests that end a cursor."""

    def acknowledge(self, name: str, epoch: int, end: int) -> Reservation:
        """Acknowledge all messages below ``end``."""
        ...

    def release(self, name: str, epoch: int) -> int:
        """End the cursor and return the number of messages that are pending again."""
        ...


class EndingConnection(Protocol):
    """Opens `EndingControl`."""

    def control(self) -> EndingControl:
        """Return the control client, over a new connection if necessary."""
        ...

    def close(self) -> None:
        """Close the connection. Raises nothing."""
        ...


class EndedLink(SourceLink):
    """Ends a cursor in one attempt, because the broker may be gone for ever; has no rows."""

    def __init__(self, options: ReadOptions, run: str, connection: EndingConnection) -> None:
        self._options: Final[ReadOptions] = options
        self._run: Final[str] = run
        self._connection: Final[EndingConnection] = connection
        self.is_drained = False

    def begin(self) -> int:
        """Return 0; not called, because the checkpoint has the number of the source."""
        return 0

    def next_end(self, start: int, max_rows: int) -> int:
        """Acknowledge below ``start``, release the cursor and return ``start``."""
        name, url = self._options.cursor, self._options.login.url
        assert name is not None
        try:
            control = self._connection.control()
            epoch = open_cursor(control, self._options, self._run).epoch
            control.acknowledge(name, epoch, start)
            released = control.release(name, epoch)
        except JmsError as error:
            logger.warning("%s: the cursor %s, which the query has no more, cannot be ended: %s", url, name, error)
        else:
            logger.info("%s: the cursor %s is released, and %d messages are pending again", url, name, released)
        self._connection.close()
        self.is_drained = True
        return start

    def read_ahead(self, end: int, max_rows: int) -> None:
        """Do nothing."""

    def rows(self, start: int, end: int) -> int:
        """Return 0."""
        return 0

    def stop_at_current_end(self) -> None:
        """Do nothing."""

    def lag(self) -> int:
        """Return 0."""
        return 0

    def disconnect(self) -> None:
        """Close the connection."""
        self._connection.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
