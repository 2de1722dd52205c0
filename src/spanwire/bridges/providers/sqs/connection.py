"""Requests to SQS: without retries of the library, because the bridge tries again with a new link."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from typing import Any, Final

from aiobotocore.config import AioConfig
from aiobotocore.httpsession import AIOHTTPSession
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.addresses import VERIFY_HOST, Place, Scheme, place_of
from spanwire.bridges.providers.sqs.messages import MAX_BYTES
from spanwire.bridges.providers.text_headers import number
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.model.units import MIB

SCHEMES: Final = {"sqs": Scheme(80, False), "sqs+ssl": Scheme(443, True)}
REGION: Final = "region"
LIBRARIES: Final = ("aiobotocore", "botocore")
AMAZON: Final = re.compile(r"sqs\.([a-z0-9-]+)\.amazonaws\.com")
CONNECT_S: Final = 20  # seconds for a connection
ANSWER_S: Final = 20  # seconds for an answer, beside the wait for messages
CLOSE_S: Final = 5.0  # seconds; a server that is silent must not hold up the next attempt
MAX_ANSWER: Final = 64 * MIB  # bytes of an answer; ten messages of the largest size, each character escaped in JSON
CONNECTIONS: Final = 4  # at a time: for messages, for those in work, for acknowledgements
LARGEST: Final = "MaximumMessageSize"  # attribute of a queue
DENIED: Final = "AccessDenied"  # in the error of a request that the user may not make
MAX_REASON: Final = 300  # characters of an error
LIBRARY_ERRORS: Final = (BotoCoreError, ClientError, HTTPClientError, OSError, ValueError, RuntimeError)


def address_of(factory: ConnectionFactory) -> Place:
    """Return the address of a factory, with the option `REGION`. Raises `ConfigurationError`."""
    place = place_of(factory, SCHEMES, (REGION,))
    if place.path:
        raise ConfigurationError(f"{place.shown}: the address has no path; the destination names the queue")
    if factory.key_store is not None or VERIFY_HOST in place.options:
        raise ConfigurationError(f"{place.shown}: SQS takes no keyStore, and always checks the name of the host")
    found = AMAZON.fullmatch(place.host)
    if REGION not in place.options:
        if found is None:
            raise ConfigurationError(f"{place.shown} names no region; add ?region=eu-central-1")
        place.options[REGION] = found[1]
    if (place.user_name is None) != (place.password is None):
        raise ConfigurationError(f"{place.shown}: the user is an access key, and the password its secret; set both")
    return place


class StraightSession(AIOHTTPSession):  # type: ignore[misc]
    """The library's HTTP without redirects, which it would follow with the messages to any address."""

    async def _get_session(self, proxy_url: Any) -> Any:
        return StraightRequests(await super()._get_session(proxy_url))


class StraightRequests:
    """Makes requests whose redirects are answers, and whose answers have a limit."""

    def __init__(self, session: Any) -> None:
        """``session`` is one of aiohttp."""
        self._session: Final = session

    async def request(self, method: str, **words: Any) -> Any:
        """Return the answer to a request."""
        return LimitedAnswer(await self._session.request(method, **{**words, "allow_redirects": False}))


class LimitedAnswer:
    """An answer of aiohttp, which would read one of any size."""

    def __init__(self, answer: Any) -> None:
        self._answer: Final = answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._answer, name)

    async def read(self) -> bytes:
        """Return the body. Raises `ValueError` for more than `MAX_ANSWER`."""
        octets = bytearray()
        async for part in self._answer.content.iter_any():
            octets += part
            if len(octets) > MAX_ANSWER:
                self._answer.close()
                raise ValueError(f"an answer has more than {MAX_ANSWER // MIB} MiB")
        return bytes(octets)


class SqsConnection:
    """A client of the library. After a failure of the connection no call succeeds; a refusal fails its call alone."""

    def __init__(self, factory: ConnectionFactory) -> None:
        for library in LIBRARIES:  # their errors are raised as well, and their details have bodies
            logging.getLogger(library).setLevel(logging.CRITICAL)
        self.place: Final[Place] = address_of(factory)
        self._trust: Final = factory.trust_store
        self._stack: Final = contextlib.AsyncExitStack()
        self._client: Any = None
        self._failure: str | None = None

    async def open(self, queue: str) -> str:
        """Return the URL of a queue. Raises `JmsError` for one that does not exist."""
        place = self.place
        host = f"[{place.host}]" if ":" in place.host else place.host
        settings: dict[str, Any] = {
            "region_name": place.options[REGION],
            "endpoint_url": f"{'https' if place.is_secure else 'http'}://{host}:{place.port}",
            "verify": self._trust or True,
            "config": AioConfig(
                http_session_cls=StraightSession,
                connect_timeout=CONNECT_S,
                read_timeout=ANSWER_S,
                max_pool_connections=CONNECTIONS,
                retries={"total_max_attempts": 1},
            ),
        }
        if place.password is not None:
            settings["aws_access_key_id"] = place.user_name
            settings["aws_secret_access_key"] = place.password.reveal()
        try:
            self._client = await self._stack.enter_async_context(get_session().create_client("sqs", **settings))
        except LIBRARY_ERRORS as error:
            raise JmsError(f"{place.shown}: {reason_of(error)}") from None
        return str((await self.ask("get_queue_url", QueueName=queue))["QueueUrl"])

    async def ask(self, operation: str, **words: Any) -> dict[str, Any]:
        """Return the answer to a request, which may refuse single entries (`Failed`). Raises `JmsError`."""
        self.check()
        try:
            async with asyncio.timeout(CONNECT_S + ANSWER_S):
                answer: dict[str, Any] = await getattr(self._client, operation)(**words)
        except TimeoutError:
            reason = f"no connection to {self.place.shown}: no answer in time; is the server started?"
        except ClientError as error:  # a refusal, which says nothing about requests of other tasks
            raise JmsError(f"{self.place.shown}: {reason_of(error)}") from None
        except LIBRARY_ERRORS as error:
            reason = f"{self.place.shown}: {reason_of(error)}"
        else:
            return answer
        self._failure = self._failure or reason
        raise JmsError(reason)

    async def largest_message(self, url: str) -> int:
        """Return the bytes of the largest message of a queue, as far as the user may ask for them."""
        try:
            answer = await self.ask("get_queue_attributes", QueueUrl=url, AttributeNames=[LARGEST])
        except JmsError as error:
            if DENIED not in str(error):
                raise
            return MAX_BYTES
        return min(MAX_BYTES, number((answer.get("Attributes") or {}).get(LARGEST), MAX_BYTES))

    def error_of(self, failed: dict[str, Any]) -> JmsError:
        """Return the error of a refused entry of a request."""
        return JmsError(f"{self.place.shown}: {failed.get('Message') or failed.get('Code')}"[:MAX_REASON])

    def check(self) -> None:
        """Raise `JmsError` after a failure."""
        if self._failure is not None:
            raise JmsError(self._failure)

    async def close(self) -> None:
        """Close the connections, without raising."""
        with contextlib.suppress(TimeoutError, *LIBRARY_ERRORS):
            async with asyncio.timeout(CLOSE_S):
                await self._stack.aclose()


def reason_of(error: BaseException) -> str:
    """Return the text of an error of the library on one line."""
    return (" ".join(str(error).split()) or type(error).__name__)[:MAX_REASON]
