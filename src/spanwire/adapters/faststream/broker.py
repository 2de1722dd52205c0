"""The broker object of FastStream, over one connection of the asyncio client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

from fast_depends import dependency_provider
from faststream._internal.broker import BrokerUsecase
from faststream._internal.constants import EMPTY
from faststream._internal.context.repository import ContextRepo
from faststream._internal.di import FastDependsConfig
from faststream._internal.logger import make_logger_state
from faststream._internal.parser import DefaultCodec
from faststream.message import gen_cor_id
from faststream.middlewares import AckPolicy
from faststream.response.publish_type import PublishType
from faststream.security import BaseSecurity, SASLPlaintext
from faststream.specification.schema import BrokerSpec

from spanwire.adapters.faststream.configs import SpanwireBrokerConfig
from spanwire.adapters.faststream.log import SpanwireLog
from spanwire.adapters.faststream.producer import SpanwireProducer
from spanwire.adapters.faststream.registrator import SpanwireRegistrator
from spanwire.adapters.faststream.response import REQUEST_TIMEOUT_S, SpanwirePublishCommand
from spanwire.adapters.faststream.subscriber import log_context
from spanwire.client import Message
from spanwire.client.addressing.address import parse_url
from spanwire.client.aio import Connection, connect
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.tls.settings import ClientTlsSettings

DEFAULT_URL: Final = "tcp://localhost:61616"
PROTOCOL: Final = "openwire"
GRACEFUL_TIMEOUT_S: Final = 15.0  # FastStream's default for handlers that run at the stop
PING_TIMEOUT_S: Final = 5.0


class SpanwireBroker(SpanwireRegistrator, BrokerUsecase[Message, Connection, SpanwireBrokerConfig]):
    """A broker of FastStream: Spanwire, or ActiveMQ.

    Arguments:
        url: A URL of the client. ``failover:(…)`` connects again after a loss; after the loss of a plain ``tcp:`` the
            application ends.
        user_name: Login name.
        password: Password.
        client_id: JMS client id, for durable subscriptions.
        tls: Key store, trust store and host name verification for ``ssl:`` URLs.
        security: `SASLPlaintext` in place of ``user_name`` and ``password``.
        ack_policy: Policy of subscribers without one of their own.
        graceful_timeout: Seconds that a stop waits for handlers.

    The other arguments are those of FastStream's brokers. Raises `ConfigurationError` for a wrong URL.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        user_name: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
        tls: ClientTlsSettings | None = None,
        security: BaseSecurity | None = None,
        graceful_timeout: float | None = GRACEFUL_TIMEOUT_S,
        ack_policy: AckPolicy = EMPTY,
        decoder: Any = None,
        parser: Any = None,
        codec: Any = None,
        dependencies: Sequence[Any] = (),
        middlewares: Sequence[Any] = (),
        routers: Iterable[SpanwireRegistrator] = (),
        id_generator: Any = gen_cor_id,
        specification_url: str | Sequence[str] | None = None,
        protocol: str = PROTOCOL,
        protocol_version: str | None = None,
        description: str | None = None,
        tags: Iterable[Any] = (),
        logger: Any = EMPTY,
        log_level: int = logging.INFO,
        apply_types: bool = True,
        serializer: Any = EMPTY,
        provider: Any = None,
        context: ContextRepo | None = None,
    ) -> None:
        if isinstance(security, SASLPlaintext):
            user_name, password = security.username, security.password
        addresses = parse_url(url, user_name, password, client_id).addresses
        _check_security(security, all(address.is_secure for address in addresses))
        shown = specification_url or [address.url for address in addresses] or PROTOCOL
        super().__init__(
            url=url,
            user_name=user_name,
            password=password,
            client_id=client_id,
            tls=tls,
            routers=routers,
            config=SpanwireBrokerConfig(
                producer=SpanwireProducer(parser, decoder),
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                logger=make_logger_state(logger=logger, log_level=log_level, default_storage_cls=SpanwireLog),
                fd_config=FastDependsConfig(
                    use_fastdepends=apply_types,
                    serializer=serializer,
                    provider=provider or dependency_provider,
                    context=context or ContextRepo(),
                ),
                broker_dependencies=dependencies,
                graceful_timeout=graceful_timeout,
                ack_policy=ack_policy,
                id_generator=id_generator,
                extra_context={"broker": self},
            ),
            specification=BrokerSpec(
                description=description,
                url=[shown] if isinstance(shown, str) else list(shown),
                protocol=protocol,
                protocol_version=protocol_version,
                tags=tags,
                security=security,
            ),
        )

    async def start(self) -> None:
        """Connect, and begin to consume. Raises `JmsError`."""
        await self.connect()
        self.config.logger.log("connected", logging.INFO, log_context(None, ""))
        await super().start()

    async def stop(self, exc_type: Any = None, exc_val: Any = None, exc_tb: Any = None) -> None:
        """End the subscribers and the connection; a second call does nothing."""
        await super().stop(exc_type, exc_val, exc_tb)
        await self.config.producer.disconnect()
        connection = self.config.broker_config.connection
        self._connection = None
        self.config.broker_config.connection = None
        if connection is not None:
            await connection.close()

    async def ping(self, timeout: float | None = PING_TIMEOUT_S) -> bool:
        """Return True if the broker answers within ``timeout`` seconds."""
        connection = self.config.broker_config.connection
        if connection is None:
            return False
        try:
            async with asyncio.timeout(timeout), connection.session() as session:
                await session.create_producer()
        except (JmsError, OSError):  # TimeoutError is an OSError
            return False
        return True

    async def publish(
        self,
        message: Any = None,
        destination: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        persistent: bool | None = None,
        priority: int | None = None,
        time_to_live_ms: int | None = None,
        delay_ms: int | None = None,
        group_id: str | None = None,
    ) -> None:
        """Send a message.

        Arguments:
            message: Body: text, bytes, or a value that FastStream writes as JSON.
            destination: ``NAME`` or ``queue://NAME``, or ``topic://NAME``.
            headers: Properties: texts, numbers and booleans.
            correlation_id: JMSCorrelationID, generated by default.
            reply_to: JMSReplyTo.
            persistent: Delivery mode; None for persistent.
            priority: 0 to 9; None for 4.
            time_to_live_ms: Milliseconds until expiry, 0 for none.
            delay_ms: Milliseconds of delay in the broker's scheduler.
            group_id: JMSXGroupID; messages of one group go to one consumer in order.

        Raises:
            MessageFormatError: A header has a name or value that JMS does not allow.
            JmsError: The broker refused the message, or the connection has failed.
        """
        cmd = SpanwirePublishCommand(
            message,
            destination=destination,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            reply_to=reply_to,
            persistent=persistent,
            priority=priority,
            time_to_live_ms=time_to_live_ms,
            delay_ms=delay_ms,
            group_id=group_id,
            _publish_type=PublishType.PUBLISH,
        )
        await self._basic_publish(cmd, producer=self.config.producer)

    async def request(
        self,
        message: Any = None,
        destination: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        timeout: float | None = REQUEST_TIMEOUT_S,
    ) -> Any:
        """Send a request and return the reply, a `SpanwireMessage`.

        Raises:
            TimeoutError: No reply within ``timeout`` seconds.
            JmsError: The broker refused the request, or the connection has failed.
        """
        cmd = SpanwirePublishCommand(
            message,
            destination=destination,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            timeout=timeout,
            _publish_type=PublishType.REQUEST,
        )
        return await self._basic_request(cmd, producer=self.config.producer)

    async def _connect(self) -> Connection:
        connection = await connect(**self._connection_kwargs)
        config = self.config.broker_config
        config.connection = connection
        await config.producer.connect(connection, config.fd_config._serializer, config.broker_codec or DefaultCodec())
        return connection


def _check_security(security: BaseSecurity | None, is_secure: bool) -> None:
    """Raise `ConfigurationError` for what the client gets from the URL or from ``tls``."""
    if security is None:
        return
    if type(security) not in (BaseSecurity, SASLPlaintext):
        raise ConfigurationError(f"security is SASLPlaintext, not {type(security).__name__}")
    if security.ssl_context is not None:
        raise ConfigurationError("security has an ssl_context; write tls=ClientTlsSettings(…) in its place")
    if security.use_ssl and not is_secure:
        raise ConfigurationError("security has use_ssl=True, but the URL is not encrypted; write ssl://host:port")
