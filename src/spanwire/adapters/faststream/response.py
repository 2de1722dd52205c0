"""Commands to publish, and answers of handlers."""

from __future__ import annotations

from typing import Any, Self

from faststream.response.publish_type import PublishType
from faststream.response.response import PublishCommand, Response

REQUEST_TIMEOUT_S = 30.0  # FastStream's default of its other brokers


class SpanwireResponse(Response):
    """An answer of a handler with JMS headers of its own; None stands for the publisher's value."""

    def __init__(
        self,
        body: Any,
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        persistent: bool | None = None,
        priority: int | None = None,
        time_to_live_ms: int | None = None,
        delay_ms: int | None = None,
        group_id: str | None = None,
    ) -> None:
        super().__init__(body, headers=headers, correlation_id=correlation_id)
        self.persistent = persistent
        self.priority = priority
        self.time_to_live_ms = time_to_live_ms
        self.delay_ms = delay_ms
        self.group_id = group_id

    def as_publish_command(self) -> SpanwirePublishCommand:
        """Return the command that sends the answer."""
        return SpanwirePublishCommand(
            self.body,
            headers=self.headers,
            correlation_id=self.correlation_id,
            persistent=self.persistent,
            priority=self.priority,
            time_to_live_ms=self.time_to_live_ms,
            delay_ms=self.delay_ms,
            group_id=self.group_id,
            _publish_type=PublishType.PUBLISH,
        )


class SpanwirePublishCommand(PublishCommand):
    """A message to send, as middlewares see it. None stands for the client's default."""

    def __init__(
        self,
        body: Any,
        *,
        _publish_type: PublishType,
        destination: str = "",
        reply_to: str = "",
        correlation_id: str | None = None,
        headers: dict[str, Any] | None = None,
        persistent: bool | None = None,
        priority: int | None = None,
        time_to_live_ms: int | None = None,
        delay_ms: int | None = None,
        group_id: str | None = None,
        timeout: float | None = REQUEST_TIMEOUT_S,
    ) -> None:
        super().__init__(
            body,
            destination=destination,
            reply_to=reply_to,
            correlation_id=correlation_id,
            headers=headers,
            _publish_type=_publish_type,
        )
        self.persistent = persistent
        self.priority = priority
        self.time_to_live_ms = time_to_live_ms
        self.delay_ms = delay_ms
        self.group_id = group_id
        self.timeout = timeout

    @classmethod
    def from_cmd(cls, cmd: PublishCommand) -> Self:
        """Return a command of FastStream as one of this broker."""
        if isinstance(cmd, cls):
            return cmd
        return cls(
            cmd.body,
            destination=cmd.destination,
            reply_to=cmd.reply_to,
            correlation_id=cmd.correlation_id,
            headers=cmd.headers,
            _publish_type=cmd.publish_type,
        )
