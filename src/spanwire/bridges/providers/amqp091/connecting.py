"""Connections of the AMQP 0-9-1 provider: without reconnects, because the bridge opens a new link."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from aiormq import Connection
from aiormq.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import AMQPError, ChannelInvalidStateError
from yarl import URL

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.addresses import Place, Scheme, context_of, place_of
from spanwire.bridges.providers.amqp091.frame_reader import read_carefully
from spanwire.client.io.environment import short_reason
from spanwire.model.errors import ConfigurationError, JmsError

SCHEMES: Final = {"amqp": Scheme(5672, False), "amqps": Scheme(5671, True)}
EXCHANGE: Final = "exchange"
TOPIC_EXCHANGE: Final = "amq.topic"  # exists in every virtual host
GUEST: Final = "guest"  # user and password of a fresh RabbitMQ, which takes them from its own machine alone
CONNECT_S: Final = 30.0  # seconds for connection and login
CLOSE_S: Final = 2.0  # seconds; a broker that is silent must not hold up the next attempt
HEARTBEAT_S: Final = 10  # seconds between two heartbeats; a dead broker is noticed after three
MAX_REASON: Final = 300  # characters of a broker's error
LIBRARY_ERRORS: Final = (AMQPError, ChannelInvalidStateError, OSError, RuntimeError)


def address_of(factory: ConnectionFactory) -> Place:
    """Return the address of a factory; the path is the virtual host. Raises `ConfigurationError`."""
    place = place_of(factory, SCHEMES, (EXCHANGE,))
    if place.options.get(EXCHANGE) == "":
        raise ConfigurationError(f"{place.shown}: exchange is empty; name the exchange of topics, or remove the option")
    return place


async def connect(factory: ConnectionFactory) -> AbstractConnection:
    """Connect and log in.

    Raises:
        JmsError: the broker is not reachable, or refuses.
        ConfigurationError: a store cannot be read.
    """
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # its errors are raised as well, and the bridge logs them
    read_carefully()
    place = address_of(factory)
    url = URL.build(
        scheme="amqps" if place.is_secure else "amqp",
        user=place.user_name or GUEST,
        password=GUEST if place.password is None else place.password.reveal(),
        host=place.host,
        port=place.port,
        path="/" + quote(place.path or "/", safe=""),
        encoded=False,
        query={"heartbeat": str(HEARTBEAT_S)},
    )
    connection = Connection(url, context=context_of(factory, place))
    try:
        async with asyncio.timeout(CONNECT_S):
            await connection.connect()
    except TimeoutError as error:
        raise unreachable(place, error) from None
    except LIBRARY_ERRORS as error:
        cause = error.__cause__ or error.__context__
        if isinstance(error, OSError) and not isinstance(error, AMQPError):
            raise unreachable(place, error) from None
        if isinstance(cause, OSError) and not isinstance(cause, AMQPError):
            raise unreachable(place, cause) from None
        raise JmsError(f"{place.shown}{_login_reason(place, error)}") from None
    return connection


def _login_reason(place: Place, error: BaseException) -> str:
    """Return why a login failed; some errors of the library name frames alone."""
    reason = reason_of(error)
    if "Connection.Close" in reason:
        return f": the broker refuses the virtual host {place.path or '/'!r}; does it exist, and may the user use it?"
    if "unexpectedly closed" in reason:
        return " closed the connection during the login; is it a connector of AMQP 0-9-1?"
    return f": {reason}"


def unreachable(place: Place, error: OSError) -> JmsError:
    """Return the error for an unreachable broker."""
    return JmsError(f"no connection to {place.shown}: {short_reason(error)}; is the broker started?")


@contextlib.contextmanager
def translated(place: Place) -> Iterator[None]:
    """Raise errors of the library as `JmsError`."""
    try:
        yield
    except LIBRARY_ERRORS as error:
        raise JmsError(f"{place.shown}: {reason_of(error)}") from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise JmsError(f"the connection to {place.shown} was lost") from None  # the library cancels what waits for it


def check_open(place: Place, connection: AbstractConnection, channel: AbstractChannel) -> None:
    """Raise `JmsError` if the connection or its channel is lost."""
    if connection.is_closed or channel.is_closed:
        raise JmsError(f"the connection to {place.shown} was lost")


def reason_of(error: BaseException | None) -> str:
    """Return the text of an error of the library on one line."""
    texts = [str(argument) for argument in getattr(error, "args", ()) if isinstance(argument, (str, int))]
    text = ": ".join(texts) or (type(error).__name__ if error is not None else "the connection was lost")
    return " ".join(text.split())[:MAX_REASON]


async def close(connection: AbstractConnection) -> None:
    """Close a connection, lost or not."""
    with contextlib.suppress(*LIBRARY_ERRORS):
        async with asyncio.timeout(CLOSE_S):
            await connection.close()
