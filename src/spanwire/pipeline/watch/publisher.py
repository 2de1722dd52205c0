"""Publishes the status of a board to brokers, with one thread for each broker.

Unreachable brokers, brokers other than Spanwire and refusals disturb no route. The reply to a publication has the flag
for stopping the pipeline.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.link.control_answers import MALFORMED, UNAUTHORIZED, ControlError
from spanwire.pipeline.watch.board import StatusBoard
from spanwire.pipeline.watch.status import PipelineStatus, encode

PUBLISH_S: Final = 5.0  # seconds between two publications; an operator's stop waits as long
MAX_PAUSE_S: Final = 60.0  # seconds until the next attempt after failures
END_S: Final = 2.0  # seconds in which the last status may reach the brokers; the command ends without it then
PERMANENT: Final = (MALFORMED, UNAUTHORIZED)  # an older broker, or a user without the right

logger = logging.getLogger(__name__)


class StatusLink(Protocol):
    """A connection to one broker."""

    def publish(self, status: PipelineStatus, text: str) -> bool:
        """Publish a status; return True if the pipeline must stop."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class BrokerPublisher:
    """Publishes to one broker; connects when necessary."""

    def __init__(
        self,
        board: StatusBoard,
        connect: Callable[[], StatusLink | None],
        request_stop: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        """``connect`` returns ``None`` for a broker that takes no status."""
        self._board: Final = board
        self._connect: Final = connect
        self._request_stop: Final = request_stop
        self._now_ms: Final = now_ms
        self._link: StatusLink | None = None
        self._failures = 0
        self.has_given_up = False

    def publish(self) -> float:
        """Publish the present status; return the seconds until the next publication."""
        try:
            if self._link is None:
                self._link = self._connect()
            if self._link is None:
                self.has_given_up = True
            else:
                status = self._board.status(self._now_ms())
                if self._link.publish(status, encode(status)):
                    self._request_stop()
            self._failures = 0
        except (JmsError, ConfigurationError, OSError) as error:
            self._fail(error)
        return min(PUBLISH_S * (1 << self._failures), MAX_PAUSE_S)

    def close(self) -> None:
        """Close the connection."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _fail(self, error: Exception) -> None:
        self.close()
        self._failures = min(self._failures + 1, 16)
        if isinstance(error, ConfigurationError) or (isinstance(error, ControlError) and error.code in PERMANENT):
            self.has_given_up = True
            logger.warning("the status of the pipeline is not published: %s", error)


def run_publisher(publisher: BrokerPublisher, end: threading.Event) -> None:
    """Publish until ``end`` is set, and once more then."""
    while not publisher.has_given_up:
        is_last = end.is_set()
        pause_s = publisher.publish()
        if is_last:
            break
        end.wait(pause_s)
    publisher.close()


@contextmanager
def publishing(
    board: StatusBoard,
    connects: Sequence[Callable[[], StatusLink | None]],
    request_stop: Callable[[], None],
    now_ms: Callable[[], int],
    fault_text: Callable[[Exception], str] = str,
) -> Iterator[None]:
    """Publish the board to each broker inside the context, and the last status at the end."""
    end = threading.Event()
    threads = [
        threading.Thread(
            target=run_publisher,
            args=(BrokerPublisher(board, connect, request_stop, now_ms), end),
            name="spanwire-status",
            daemon=True,
        )
        for connect in connects
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    except Exception as error:
        board.on_fault(fault_text(error), now_ms())
        raise
    finally:
        board.on_stop()
        end.set()
        for thread in threads:
            thread.join(END_S)
