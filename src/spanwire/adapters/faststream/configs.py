"""Settings of broker, subscribers and publishers, in the form that FastStream composes of routers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faststream._internal.configs import (
    BrokerConfig,
    PublisherSpecificationConfig,
    PublisherUsecaseConfig,
    SubscriberSpecificationConfig,
    SubscriberUsecaseConfig,
)
from faststream._internal.constants import EMPTY
from faststream.exceptions import IncorrectState
from faststream.middlewares import AckPolicy

from spanwire.adapters.faststream.address import SpanwireAddress
from spanwire.client.aio import Connection


@dataclass(kw_only=True)
class SpanwireBrokerConfig(BrokerConfig):
    """Settings of a broker or router, and the connection of a started broker."""

    connection: Connection | None = field(default=None, init=False, repr=False)

    @property
    def connected(self) -> Connection:
        """The connection. Raises `IncorrectState` before the broker is connected."""
        if self.connection is None:
            raise IncorrectState("the broker is not connected; await broker.connect() first")
        return self.connection


@dataclass(frozen=True, kw_only=True)
class Subscription:
    """A subscriber's wishes to the broker; None stands for the client's default."""

    address: SpanwireAddress
    selector: str | None = None
    durable: str | None = None
    prefetch: int | None = None
    exclusive: bool | None = None
    priority: int | None = None


@dataclass(kw_only=True)
class SpanwireSubscriberConfig(SubscriberUsecaseConfig):
    """Settings of a subscriber."""

    subscription: Subscription

    @property
    def ack_policy(self) -> AckPolicy:
        """The policy of the subscriber, of its routers, or `AckPolicy.NACK_ON_ERROR`: a failed message comes again."""
        for policy in (self._ack_policy, self._outer_config.ack_policy):
            if policy is not EMPTY:
                return policy
        return AckPolicy.NACK_ON_ERROR


@dataclass(kw_only=True)
class SpanwirePublisherConfig(PublisherUsecaseConfig):
    """Settings of a publisher: the destination, and values of all of its messages."""

    address: SpanwireAddress
    headers: Mapping[str, Any]
    persistent: bool | None
    priority: int | None
    time_to_live_ms: int | None


@dataclass(kw_only=True)
class SpanwireSubscriberDocument(SubscriberSpecificationConfig):
    """The part of a subscriber in AsyncAPI."""

    address: SpanwireAddress


@dataclass(kw_only=True)
class SpanwirePublisherDocument(PublisherSpecificationConfig):
    """The part of a publisher in AsyncAPI."""

    address: SpanwireAddress
