"""A connection for requests to the control destination, opened on demand and again after an error."""

from __future__ import annotations

import contextlib
from typing import Final

from spanwire.client import blocking
from spanwire.model.errors import JmsError
from spanwire.pipeline.link.connections import connect_for_redelivery
from spanwire.pipeline.link.control_client import Control
from spanwire.pipeline.options import Login


class ControlLink:
    """One connection with one `Control` and one reply queue for all requests; not thread-safe."""

    def __init__(self, login: Login) -> None:
        self._login: Final[Login] = login
        self._connection: blocking.Connection | None = None
        self._control: Control | None = None

    def control(self) -> Control:
        """Return the control client.

        Raises:
            JmsError: the broker is lost or refuses the login.
            ConfigurationError: the URL is invalid.
        """
        if self._connection is None:
            self._connection = connect_for_redelivery(self._login, None)
        if self._control is None:
            self._control = Control(self._connection)
        return self._control

    def close(self) -> None:
        """Close the connection. Raises nothing."""
        self._control = None
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(JmsError):
                connection.close()
