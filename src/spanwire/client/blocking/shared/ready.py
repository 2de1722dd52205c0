"""The lock of a blocking connection, taken while the connection is online."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Final

from spanwire.client.io.environment import check_process

if TYPE_CHECKING:
    from spanwire.client.blocking.shared.core_connection import CoreConnection


class Ready:
    """Context manager that takes the connection's lock, and waits on entry until the connection is online."""

    def __init__(self, connection: CoreConnection) -> None:
        self._connection: Final = connection

    def __enter__(self) -> None:
        connection = self._connection
        check_process(connection.process)
        connection.lock.acquire()
        if not connection.core.is_online:
            try:
                connection.wait_online()
            except BaseException:
                connection.lock.release()
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.lock.release()
