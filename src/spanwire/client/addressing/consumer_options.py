"""Options of a consumer, from the caller's arguments, the destination's options and the URL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.client.addressing.address import options_of
from spanwire.client.addressing.options import FLAG, MAX_PREFETCH, NUMBER, TEXT, ClientSettings, Known, Options
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError, IllegalStateError, InvalidDestinationError
from spanwire.model.written_destination import written_destination
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.messages.identities import wire_destination

DESTINATION_OPTIONS: Final[Known] = {
    "consumer.dispatchAsync": (FLAG, ""),
    "consumer.exclusive": (FLAG, ""),
    "consumer.maximumPendingMessageLimit": (NUMBER, ""),
    "consumer.noLocal": (FLAG, ""),
    "consumer.prefetchSize": (NUMBER, ""),
    "consumer.priority": (NUMBER, ""),
    "consumer.retroactive": (FLAG, ""),
    "consumer.selector": (TEXT, ""),
}
# Fields of a consumer that ActiveMQ's client takes from a name, too. This one sets them itself.
OF_THE_CLIENT: Final = frozenset(
    f"consumer.{name}"
    for name in (
        "browser clientId currentPrefetchSize lastDeliveredSequenceId networkSubscription noRangeAcks "
        "optimizedAcknowledge subscriptionName"
    ).split()
)
LOWEST_PRIORITY: Final = -128
HIGHEST_PRIORITY: Final = 127


@dataclass(frozen=True)
class ConsumerOptions:
    """Arguments of ``create_consumer``. None stands for the destination's option or the URL's."""

    selector: str | None = None
    no_local: bool | None = None
    prefetch: int | None = None
    exclusive: bool | None = None
    retroactive: bool | None = None
    priority: int | None = None
    subscription_name: str | None = None
    browser: bool = False
    max_octets: int = 0  # of messages that wait for a receive; further ones are not kept. 0 stands for no limit


def consumer_info(
    destination: Destination | str, requested: ConsumerOptions, settings: ClientSettings
) -> wire.ConsumerInfo:
    """Return the ConsumerInfo without its id.

    Options behind the name, as in ``queue://Q?consumer.prefetchSize=10``, apply.

    Raises:
        InvalidDestinationError: The destination does not suit a durable subscription or a browser.
        ConfigurationError: An option is unknown or out of range.
        IllegalStateError: A durable subscription without a client id.
    """
    target, options = parsed(destination)
    if requested.subscription_name is not None:
        if settings.client_id is None:
            raise IllegalStateError("a durable subscription needs a connection with a client_id")
        if target.is_queue or target.is_temporary:
            raise InvalidDestinationError(f"{target} is no topic; only topics have durable subscriptions")
    if requested.browser and not target.is_queue:
        raise InvalidDestinationError(f"{target} is no queue; only queues can be browsed")
    prefetch = requested.prefetch
    if prefetch is None:
        prefetch = options.number("consumer.prefetchSize", default_prefetch(target, requested, settings))
    if prefetch < 0:
        raise ConfigurationError(f"a prefetch of {prefetch} messages is negative; 0 pulls each message")
    exclusive = options.flag("consumer.exclusive", settings.exclusive_consumer)
    retroactive = options.flag("consumer.retroactive", settings.retroactive_consumer)
    priority = options.number("consumer.priority", 0, LOWEST_PRIORITY, HIGHEST_PRIORITY)
    return wire.ConsumerInfo(
        destination=wire_destination(target),
        browser=requested.browser,
        prefetch_size=min(prefetch, MAX_PREFETCH),
        maximum_pending_message_limit=options.number(
            "consumer.maximumPendingMessageLimit", settings.prefetch.maximum_pending
        ),
        dispatch_async=options.flag("consumer.dispatchAsync", settings.dispatch_async),
        selector=requested.selector or options.text("consumer.selector") or None,
        optimized_acknowledge=settings.optimize_acknowledge and not requested.browser,
        subscription_name=requested.subscription_name,
        no_local=options.flag("consumer.noLocal", False) if requested.no_local is None else requested.no_local,
        exclusive=exclusive if requested.exclusive is None else requested.exclusive,
        retroactive=retroactive if requested.retroactive is None else requested.retroactive,
        priority=priority if requested.priority is None else requested.priority,
    )


def parsed(destination: Destination | str) -> tuple[Destination, Options]:
    """Return a destination and the options behind its name.

    Options of a composite destination stay with its parts.
    """
    if isinstance(destination, Destination):
        return destination, Options(str(destination), {}, DESTINATION_OPTIONS)
    name, _, query = destination.partition("?")
    if "," in destination or not query:
        return written_destination(destination), Options(destination[:80], {}, DESTINATION_OPTIONS)
    options = options_of(query, name)
    for option in options:
        if option in OF_THE_CLIENT:
            raise ConfigurationError(
                f"{name[:80]}: {option} is set by the client itself; use the arguments of create_consumer and connect"
            )
    return written_destination(name), Options(name[:80], options, DESTINATION_OPTIONS)


def default_prefetch(target: Destination, requested: ConsumerOptions, settings: ClientSettings) -> int:
    """Return the prefetch of the policy for this kind of consumer."""
    policy = settings.prefetch
    if requested.browser:
        return policy.browser
    if requested.subscription_name is not None:
        return policy.optimized_durable_topic if settings.optimize_acknowledge else policy.durable_topic
    return policy.queue if target.is_queue else policy.topic
