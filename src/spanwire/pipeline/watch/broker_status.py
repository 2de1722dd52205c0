"""Connections for publishing the status of a pipeline, and valid names of pipelines."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from spanwire.client import blocking
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.link.connections import connect_for_redelivery
from spanwire.pipeline.link.control_client import CONTROL, Control
from spanwire.pipeline.options import COMMON, Login, read_options
from spanwire.pipeline.sink.exactly_once import is_spanwire
from spanwire.pipeline.watch.publisher import StatusLink
from spanwire.pipeline.watch.status import PipelineStatus

MAX_BROKERS: Final = 10  # brokers that get the status of one pipeline, each with a thread of the driver
MAX_NAME: Final = 100  # characters of a pipeline's name
ANSWER_S: Final = 10.0  # seconds; a broker that is busy for longer gets a later status
UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9._:/@#+-]+")
OWN: Final = ("destination", "clientId")  # options of one endpoint, not of its broker


class BrokerStatusLink:
    """Publishes over one connection."""

    def __init__(self, connection: blocking.Connection) -> None:
        self._connection: Final = connection
        self._control: Final = Control(connection, ANSWER_S)

    def publish(self, status: PipelineStatus, text: str) -> bool:
        """Publish a status; return True if the pipeline must stop.

        Raises:
            JmsError: the broker is lost or refuses the status.
        """
        return self._control.publish(status.pipeline, status.run, text, has_ended=status.has_ended)

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(JmsError):
            self._connection.close()


def connect_status(login: Login) -> StatusLink | None:
    """Connect to a broker; return ``None`` if the broker is not Spanwire.

    Raises:
        JmsError: the broker is lost or refuses the login.
        ConfigurationError: the URL is invalid.
    """
    connection = connect_for_redelivery(login, None)
    if is_spanwire(connection):
        return BrokerStatusLink(connection)
    with contextlib.suppress(JmsError):
        connection.close()
    return None


def status_links(endpoints: Iterable[Mapping[str, str]]) -> list[Callable[[], StatusLink | None]]:
    """Return a connector for each broker of endpoints, which have the options of the data source."""
    logins: dict[tuple[str, str | None], Login] = {}
    for options in endpoints:
        values = {name: value for name, value in options.items() if name in COMMON and name not in OWN}
        try:
            login = read_options({**values, "destination": str(CONTROL)}).login
        except ConfigurationError:
            continue  # the route itself reports its options
        logins.setdefault((login.url, login.user), login)
    return [partial(connect_status, login) for login in list(logins.values())[:MAX_BROKERS]]


def nameable(text: str) -> str:
    """Return a text as a valid name of a pipeline."""
    return UNNAMEABLE.sub("_", text)[:MAX_NAME] or "_"
