"""Publishers of FastStream: destinations with default values of their messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from faststream._internal.endpoint.publisher import PublisherUsecase
from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream.response.publish_type import PublishType
from faststream.response.response import PublishCommand

from spanwire.adapters.faststream.configs import SpanwirePublisherConfig
from spanwire.adapters.faststream.response import REQUEST_TIMEOUT_S, SpanwirePublishCommand


class Publisher(PublisherUsecase):
    """Sends to one destination what handlers return, or what a program publishes through it."""

    def __init__(self, config: SpanwirePublisherConfig, specification: Any) -> None:
        super().__init__(config, specification)
        self._config = config

    @property
    def destination(self) -> str:
        """The destination with the prefixes of the routers around the publisher."""
        return self._config.address.template(self._outer_config.prefix)

    async def publish(
        self,
        message: Any,
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
        """Send a message; None stands for the publisher's value. Raises `JmsError`."""
        cmd = SpanwirePublishCommand(
            message,
            destination=destination,
            headers=headers,
            correlation_id=correlation_id or self._outer_config.id_generator(),
            reply_to=reply_to,
            persistent=persistent,
            priority=priority,
            time_to_live_ms=time_to_live_ms,
            delay_ms=delay_ms,
            group_id=group_id,
            _publish_type=PublishType.PUBLISH,
        )
        await self._publish(cmd, _extra_middlewares=())

    async def request(
        self,
        message: Any,
        destination: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        timeout: float | None = REQUEST_TIMEOUT_S,
    ) -> Any:
        """Send a request and return the reply. Raises `TimeoutError` and `JmsError`."""
        cmd = SpanwirePublishCommand(
            message,
            destination=destination,
            headers=headers,
            correlation_id=correlation_id or self._outer_config.id_generator(),
            timeout=timeout,
            _publish_type=PublishType.REQUEST,
        )
        self._complete(cmd)
        return await self._basic_request(cmd, producer=self._outer_config.producer)

    async def _publish(self, cmd: PublishCommand, *, _extra_middlewares: Iterable[Any]) -> None:
        """Send what a handler has returned."""
        command = SpanwirePublishCommand.from_cmd(cmd)
        self._complete(command)
        await self._basic_publish(command, producer=self._outer_config.producer, _extra_middlewares=_extra_middlewares)

    def _complete(self, cmd: SpanwirePublishCommand) -> None:
        config = self._config
        cmd.destination = cmd.destination or self.destination
        cmd.add_headers(dict(config.headers), override=False)
        cmd.persistent = config.persistent if cmd.persistent is None else cmd.persistent
        cmd.priority = config.priority if cmd.priority is None else cmd.priority
        cmd.time_to_live_ms = config.time_to_live_ms if cmd.time_to_live_ms is None else cmd.time_to_live_ms


class ReplyPublisher(FakePublisher):
    """Sends what a handler returns to the ``reply_to`` of its request."""

    def __init__(self, producer: Any, destination: str) -> None:
        super().__init__(producer=producer)
        self._destination = destination

    def patch_command(self, cmd: PublishCommand) -> SpanwirePublishCommand:
        """Return the command with the destination of the reply."""
        command = SpanwirePublishCommand.from_cmd(super().patch_command(cmd))
        command.destination = self._destination
        return command
