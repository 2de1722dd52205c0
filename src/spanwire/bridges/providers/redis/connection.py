"""A connection to Redis for requests of the bridge: without reconnects, because the bridge opens a new link.

The library's client would send a request again after a loss, and so double messages; this uses its connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, Final

from redis.asyncio.connection import Connection
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as LostError
from redis.exceptions import TimeoutError as SlowError

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.addresses import Place, Scheme, context_of, place_of
from spanwire.client.io.environment import short_reason
from spanwire.model.errors import ConfigurationError, JmsError

SCHEMES: Final = {"redis": Scheme(6379, False), "rediss": Scheme(6379, True)}
MAX_LENGTH: Final = "maxLength"
TAKE_OVER: Final = "takeOverMs"
DIGITS: Final = 9  # of a number in a URL
MIN_TAKE_OVER_MS: Final = 100  # milliseconds; a bridge has to say more often that its entries are in work
TAKE_OVER_MS: Final = 10_000  # milliseconds until a bridge takes over entries of one that was killed
CONNECT_S: Final = 30.0  # seconds for connection and login
ANSWER_S: Final = 20.0  # seconds for an answer of the server
CLOSE_S: Final = 2.0  # seconds; a server that is silent must not hold up the next attempt
MAX_REASON: Final = 300  # characters of an error
LIBRARY_ERRORS: Final = (RedisError, OSError, ValueError, RuntimeError)


def address_of(factory: ConnectionFactory) -> Place:
    """Return the address of a factory; the path is the number of the database. Raises `ConfigurationError`."""
    place = place_of(factory, SCHEMES, (MAX_LENGTH, TAKE_OVER))
    if place.path and not is_number(place.path):
        raise ConfigurationError(f"{place.shown}: the path is the number of a database; write redis://host:port/0")
    for name, least in ((MAX_LENGTH, 1), (TAKE_OVER, MIN_TAKE_OVER_MS)):
        text = place.options.get(name)
        if text is not None and (not is_number(text) or int(text) < least):
            raise ConfigurationError(f"{place.shown}: {name} must be a number of at least {least}")
    return place


def is_number(text: str) -> bool:
    """Return True for a few digits."""
    return text.isascii() and text.isdigit() and len(text) <= DIGITS


class TlsConnection(Connection):  # type: ignore[misc]
    """A connection of the library with the stores of a factory."""

    def __init__(self, context: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self._context: Final = context

    def _connection_arguments(self) -> dict[str, Any]:
        return {**super()._connection_arguments(), "ssl": self._context, "server_hostname": self.host}


class RedisConnection:
    """One connection; requests wait for each other."""

    def __init__(self, factory: ConnectionFactory) -> None:
        self.place: Final[Place] = address_of(factory)
        self._factory: Final = factory
        self._turn: Final = asyncio.Lock()
        self._connection: Any = None
        self._failure: str | None = None

    async def open(self) -> None:
        """Connect and log in.

        Raises:
            JmsError: the server is not reachable, or refuses.
            ConfigurationError: a store cannot be read.
        """
        place = self.place
        settings: dict[str, Any] = {
            "host": place.host,
            "port": place.port,
            "db": int(place.path or 0),
            "username": place.user_name or None,
            "password": None if place.password is None else place.password.reveal(),
            "socket_connect_timeout": CONNECT_S,
            "socket_timeout": ANSWER_S,
            "protocol": 2,
        }
        context = context_of(self._factory, place)
        self._connection = Connection(**settings) if context is None else TlsConnection(context, **settings)
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._connection.connect()
        except (TimeoutError, SlowError):
            raise JmsError(f"no connection to {place.shown}: no answer in time; is the server started?") from None
        except AuthenticationError as error:
            raise JmsError(f"{place.shown}: {reason_of(error)}") from None
        except LIBRARY_ERRORS as error:
            cause = error if isinstance(error, OSError) else error.__cause__ or error.__context__
            reason = short_reason(cause) if isinstance(cause, OSError) else reason_of(error)
            raise JmsError(f"no connection to {place.shown}: {reason}; is the server started?") from None

    async def ask(self, *words: object) -> Any:
        """Return the answer to one request. Raises `JmsError`."""
        (answer,) = await self.ask_all([words])
        return answer

    async def ask_all(self, requests: list[tuple[object, ...]]) -> list[Any]:
        """Return the answers to requests that are sent together.

        Raises:
            JmsError: one of them was refused, or the connection was lost.
        """
        async with self._turn:
            self.check()
            whole = False
            try:
                with self._translated():
                    async with asyncio.timeout(ANSWER_S):
                        await self._connection.send_packed_command(self._connection.pack_commands(requests))
                        answers = [await self._answer() for _ in requests]
                whole = True
            finally:
                if not whole:  # later answers would be those of earlier requests
                    self._failure = self._failure or f"the connection to {self.place.shown} was lost"
        for answer in answers:
            if isinstance(answer, RedisError):
                raise JmsError(f"{self.place.shown}: {reason_of(answer)}")
        return answers

    async def _answer(self) -> Any:
        """Return an answer, or the error by which the server refuses one request."""
        try:
            return await self._connection.read_response(disconnect_on_error=False)
        except RedisError as error:
            if not self._connection.is_connected or isinstance(error, (LostError, SlowError)):
                raise
            return error

    async def transact(self, requests: list[tuple[object, ...]]) -> list[Any]:
        """Return the answers to requests that the server carries out as a whole, or not at all. Raises `JmsError`."""
        answers = await self.ask_all([("MULTI",), *requests, ("EXEC",)])
        for answer in answers[-1] or ():
            if isinstance(answer, RedisError):
                raise JmsError(f"{self.place.shown}: {reason_of(answer)}")
        return list(answers[-1] or ())

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        if self._failure is None and (self._connection is None or not self._connection.is_connected):
            self._failure = f"the connection to {self.place.shown} was lost"
        if self._failure is not None:
            raise JmsError(self._failure)

    async def close(self) -> None:
        """Close the connection, lost or not."""
        self._failure = self._failure or f"the connection to {self.place.shown} is closed"
        if self._connection is not None:
            with contextlib.suppress(TimeoutError, *LIBRARY_ERRORS):
                async with asyncio.timeout(CLOSE_S):
                    await self._connection.disconnect()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise errors of the library as `JmsError`, and remember them."""
        try:
            yield
        except (TimeoutError, SlowError):
            self._failure = f"{self.place.shown}: no answer in {ANSWER_S:g} s"
        except LIBRARY_ERRORS as error:
            self._failure = f"{self.place.shown}: {reason_of(error)}"
        if self._failure is not None:
            raise JmsError(self._failure)


def reason_of(error: BaseException) -> str:
    """Return the text of an error of the library on one line."""
    return (" ".join(str(error).split()) or type(error).__name__)[:MAX_REASON]
