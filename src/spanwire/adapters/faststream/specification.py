"""AsyncAPI channels of subscribers and publishers."""

from __future__ import annotations

from faststream._internal.endpoint.publisher import PublisherSpecification
from faststream._internal.endpoint.subscriber import SubscriberSpecification
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, PublisherSpec, SubscriberSpec

from spanwire.adapters.faststream.configs import (
    SpanwireBrokerConfig,
    SpanwirePublisherDocument,
    SpanwireSubscriberDocument,
)


class SpanwireSubscriberSpecification(SubscriberSpecification[SpanwireBrokerConfig, SpanwireSubscriberDocument]):
    """The channel of a subscriber. AsyncAPI has no bindings of OpenWire, so the channel has none."""

    @property
    def channel_labels(self) -> list[str]:
        """The name of the only channel."""
        return [self.config.address.with_prefix(self._outer_config.prefix).template]

    def get_schema(self) -> dict[str, SubscriberSpec]:
        """Return the channel by its name."""
        payload = resolve_payloads(self.get_payloads())
        return {
            self.name: SubscriberSpec(
                address=self.config.address.template(self._outer_config.prefix),
                description=self.description,
                operation=Operation(message=Message(title=f"{self.name}:Message", payload=payload), bindings=None),
                bindings=None,
            )
        }


class SpanwirePublisherSpecification(PublisherSpecification[SpanwireBrokerConfig, SpanwirePublisherDocument]):
    """The channel of a publisher."""

    @property
    def name(self) -> str:
        """The title, or a name from the destination."""
        title = self.config.title_
        return title or f"{self.config.address.with_prefix(self._outer_config.prefix).template}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        """Return the channel by its name."""
        payload = resolve_payloads(self.get_payloads(), "Publisher")
        return {
            self.name: PublisherSpec(
                address=self.config.address.template(self._outer_config.prefix),
                description=self.config.description_,
                operation=Operation(message=Message(title=f"{self.name}:Message", payload=payload), bindings=None),
                bindings=None,
            )
        }
