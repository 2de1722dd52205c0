"""Connections of the NATS providers: without reconnects, because the bridge opens a new link."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from nats.aio.client import Client
from nats.errors import Error, NoServersError, ProtocolError, SecureConnRequiredError
from nats.js.errors import APIError, NoStreamResponseError
from nats.protocol.parser import AWAITING_MSG_PAYLOAD, Parser

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.addresses import Place, Scheme, context_of, place_of
from spanwire.bridges.providers.nats.messages import UNREADABLE
from spanwire.client.io.environment import short_reason
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.model.units import MIB

SCHEMES: Final = {"nats": Scheme(4222, False), "nats+ssl": Scheme(4222, True)}
CONNECT_S: Final = 30.0  # seconds for connection and login
ANSWER_S: Final = 20.0  # seconds for an answer of the server
CLOSE_S: Final = 2.0  # seconds; a server that is silent must not hold up the next attempt
PING_S: Final = 10  # seconds between two questions whether the server is there; two without an answer are a loss
ATTEMPTS: Final = 1  # of the library after a failed connection; with 0 it would try for good
MAX_REASON: Final = 300  # characters of an error
MAX_SUBJECT: Final = 255  # characters of a subject; a server has no limit but the line of the protocol
MAX_MESSAGE: Final = 64 * MIB  # bytes of a message; no server can be configured for more
MAX_LINE: Final = MIB  # bytes of a line of the protocol; the longest one tells of the other servers of a cluster
LIBRARY: Final = "nats"
T = TypeVar("T")
LIBRARY_ERRORS: Final = (Error, OSError, ValueError, RuntimeError)


def address_of(factory: ConnectionFactory) -> Place:
    """Return the address of a factory. Raises `ConfigurationError`."""
    place = place_of(factory, SCHEMES)
    if place.path:
        raise ConfigurationError(f"{place.shown}: a server of NATS has no path; write nats://host:port")
    return place


def check_subject(destination: Destination, has_wildcards: bool) -> None:
    """Raise `ConfigurationError` for a queue, or a name that no subject of NATS can have.

    ``has_wildcards`` allows the elements ``*`` and ``>``.
    """
    name = destination.name
    if destination.is_queue:
        raise ConfigurationError(f"NATS has subjects alone, and {destination} is a queue; write topic://{name}")
    elements = name.split(".")
    is_readable = name.isprintable() and " " not in name and len(name) <= MAX_SUBJECT
    if not is_readable or "" in elements or name.startswith("$") or ">" in elements[:-1]:
        raise ConfigurationError(
            f"{destination} is no subject of NATS, which has up to {MAX_SUBJECT} characters without spaces, no $ at "
            "its beginning, and no element between dots that is empty"
        )
    if not has_wildcards and ("*" in elements or ">" in elements):
        raise ConfigurationError(f"{destination} is a pattern, and a target is one subject")


class LimitedParser(Parser):  # type: ignore[misc]
    """Reads the protocol within limits.

    Whatever the library cannot read ends the connection. The library would read no more, and say nothing.
    """

    async def parse(self, data: bytes = b"") -> None:
        """Read octets. Raises `ProtocolError`."""
        try:
            await super().parse(data)
        except (ProtocolError, OSError) as error:
            self.nc.refuse(reason_of(error))
            raise
        except Exception as error:  # noqa: BLE001 - the library raises errors of many kinds for damage
            self.nc.refuse(reason_of(error))
            raise ProtocolError from None
        is_message = self.state == AWAITING_MSG_PAYLOAD
        if self.needed > MAX_MESSAGE if is_message else len(self.buf) > MAX_LINE:
            limit = (
                f"a message of more than {MAX_MESSAGE // MIB} MiB"
                if is_message
                else f"a line of more than {MAX_LINE} bytes"
            )
            self.nc.refuse(f"the server sends {limit}")
            raise ProtocolError


class NatsConnection(Client):  # type: ignore[misc]
    """One connection. ``on_failure`` gets errors that no call raises, the loss of the connection among them."""

    def __init__(self, factory: ConnectionFactory, on_failure: Callable[[JmsError], None]) -> None:
        super().__init__()
        logging.getLogger(LIBRARY).setLevel(logging.CRITICAL)  # its errors are raised as well, and the bridge logs them
        self.place: Final[Place] = address_of(factory)
        self.lost: Final[asyncio.Event] = asyncio.Event()
        self._factory: Final = factory
        self._on_failure: Final = on_failure
        self._cause: Exception | None = None  # the last error of the library
        self._ps = LimitedParser(self)

    async def open(self) -> None:
        """Connect and log in.

        Raises:
            JmsError: the server is not reachable, or refuses.
            ConfigurationError: a store cannot be read.
        """
        place = self.place
        host = f"[{place.host}]" if ":" in place.host else place.host
        login: dict[str, Any] = {"user": place.user_name}
        if place.password is not None:
            login["password"] = place.password.reveal()
        elif place.user_name is not None:  # a user without a password is a token, as in the URLs of NATS
            login = {"token": place.user_name}
        context = context_of(self._factory, place)
        try:
            async with asyncio.timeout(CONNECT_S):
                await self.connect(
                    f"nats://{host}:{place.port}",
                    name="spanwire",
                    tls=context,
                    tls_hostname=None if context is None else place.host,
                    error_cb=self._on_error,
                    closed_cb=self._on_closed,
                    allow_reconnect=False,
                    max_reconnect_attempts=ATTEMPTS,
                    reconnect_time_wait=0,
                    connect_timeout=int(CONNECT_S),
                    ping_interval=PING_S,
                    drain_timeout=int(CLOSE_S),
                    **login,
                )
        except TimeoutError:
            await self.end()
            raise JmsError(f"no connection to {place.shown}: no answer in time; is the server started?") from None
        except LIBRARY_ERRORS as error:
            await self.end()
            raise self._refusal(error) from None

    def _refusal(self, error: BaseException) -> JmsError:
        shown = self.place.shown
        if isinstance(error, NoServersError) and self._cause is not None:
            error = self._cause
        if isinstance(error, SecureConnRequiredError):
            return JmsError(f"{shown}: the server offers no TLS, and the URL asks for it; write nats://host:port")
        if isinstance(error, OSError):
            return JmsError(f"no connection to {shown}: {short_reason(error)}; is the server started?")
        return JmsError(f"{shown}: {reason_of(error)}")

    async def answer(self, subject: str, question: bytes = b"") -> bytes:
        """Return the answer to a request. Raises `JmsError`."""
        message = await self.while_there(self.request(subject, question, timeout=ANSWER_S))
        return bytes(message.data)

    async def flushed(self) -> None:
        """Wait until the server has read all that was sent. Raises `JmsError`."""
        await self.while_there(self.flush(int(ANSWER_S)))

    async def while_there(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a call, which the library would let wait after the loss of the connection.

        Raises:
            JmsError: the call failed, took too long, or the connection was lost.
        """
        task, lost = asyncio.ensure_future(work), asyncio.create_task(self.lost.wait())
        try:
            with translated(self.place):
                async with asyncio.timeout(ANSWER_S):
                    await asyncio.wait((task, lost), return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    return task.result()
        finally:
            task.cancel()
            lost.cancel()
            await asyncio.gather(task, lost, return_exceptions=True)
        raise JmsError(f"the connection to {self.place.shown} was lost")

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        if self.is_closed or self.lost.is_set():
            raise JmsError(f"the connection to {self.place.shown} was lost")

    async def end(self) -> None:
        """Close the connection, lost or not, without raising."""
        with contextlib.suppress(TimeoutError, *LIBRARY_ERRORS):
            async with asyncio.timeout(CLOSE_S):
                await self.close()

    def refuse(self, reason: str) -> None:
        """Note why the octets of the server cannot be read; the end of the connection follows."""
        self._on_failure(JmsError(f"{self.place.shown}: {reason}"))

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        try:
            found: dict[str, str] | None = await super()._process_headers(headers)
        except (ValueError, IndexError):
            return UNREADABLE
        return found

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Any:
        """Return a message. A publisher may choose a subject that is no UTF-8, which would end the reading."""
        plain = (text.decode("utf-8", "replace").encode() for text in (subject, reply))
        return super()._build_message(sid, *plain, data, headers)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Refuse a server without TLS where the URL asks for it: the library would send the password in the open."""
        if initial_connection and self.place.is_secure:
            if not info.get("tls_required") and not info.get("tls_available"):
                raise SecureConnRequiredError
            info["tls_required"] = True
        await super()._process_info(info, initial_connection)

    async def _on_error(self, error: Exception) -> None:
        self._cause = error
        if self.is_connected:
            self._on_failure(JmsError(f"{self.place.shown}: {reason_of(error)}"))

    async def _on_closed(self) -> None:
        self.lost.set()
        self._on_failure(JmsError(f"the connection to {self.place.shown} was lost"))


@contextlib.contextmanager
def translated(place: Place) -> Iterator[None]:
    """Raise errors of the library as `JmsError`."""
    try:
        yield
    except TimeoutError:
        raise JmsError(f"{place.shown}: no answer in {ANSWER_S:g} s") from None
    except LIBRARY_ERRORS as error:
        raise JmsError(f"{place.shown}: {reason_of(error)}") from None


def reason_of(error: BaseException) -> str:
    """Return the text of an error of the library on one line."""
    if isinstance(error, NoStreamResponseError):
        return "no stream takes the message; was it removed?"
    text = error.description if isinstance(error, APIError) and error.description else str(error)
    return (" ".join(text.removeprefix("nats: ").split()) or type(error).__name__)[:MAX_REASON]
