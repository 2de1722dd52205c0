"""Advisory messages about queues, topics and messages: the kinds, and functions for sending.

Names of topics and properties are ActiveMQ's ("Advisory Message"), spelling mistakes included.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.dispatch.message_reference import MessageHolder
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import LongNumber
from spanwire.model.destination import SCHEDULE, SUBSCRIPTION, Destination
from spanwire.model.info import ProducerInfo
from spanwire.model.message import Message

EXPIRED_ADVISORY: Final = "Expired"
DEAD_LETTER_ADVISORY: Final = "MessageDLQd"
NO_CONSUMER_ADVISORY: Final = "NoConsumer"
SLOW_CONSUMER_ADVISORY: Final = "SlowConsumer"
FAST_PRODUCER_ADVISORY: Final = "FastProducer"
DISCARDED_ADVISORY: Final = "MessageDiscarded"
FULL_ADVISORY: Final = "FULL"
DELIVERED_ADVISORY: Final = "MessageDelivered"
CONSUMED_ADVISORY: Final = "MessageConsumed"
DISPATCHED_ADVISORY: Final = "MessageDispatched"
MESSAGE_ADVISORIES: Final = (
    EXPIRED_ADVISORY, DEAD_LETTER_ADVISORY, NO_CONSUMER_ADVISORY, SLOW_CONSUMER_ADVISORY, FAST_PRODUCER_ADVISORY,
    DISCARDED_ADVISORY, FULL_ADVISORY, DELIVERED_ADVISORY, CONSUMED_ADVISORY, DISPATCHED_ADVISORY,
)  # fmt: skip

MESSAGE_ID: Final = "orignalMessageId"
DESTINATION: Final = "orignalDestination"
CONSUMER_ID: Final = "consumerId"
PRODUCER_ID: Final = "producerId"
DISCARDED_COUNT: Final = "discardedCount"
USAGE_NAME: Final = "usageName"
USAGE_COUNT: Final = "usageCount"


class MessageAdvisories(Protocol):
    """Publishes advisory messages. Without listeners no message is built."""

    def has_listeners(self, kind: str, about: Destination) -> bool:
        """Return True if advisories of ``kind`` about a destination have a listener."""
        ...

    def publish(self, kind: str, about: Destination, subject: object, properties: dict[str, object]) -> None:
        """Publish an advisory about a consumer, a producer or (``subject`` None) the destination itself."""
        ...

    def publish_message(
        self, kind: str, about: Destination, message: Message, whole: bool, properties: dict[str, object]
    ) -> None:
        """Publish an advisory about a message. With ``whole`` the advisory includes the message's body."""
        ...

    def pass_on(self, kind: str, about: Destination, message: Message) -> None:
        """Send the message itself to the listeners."""
        ...


class DestinationObserver(Protocol):
    """Sees the messages of one queue or topic.

    A destination without an observer pays one check for each message.
    """

    def before_accept(self, message: Message, sequence: int) -> None:
        """See a new message before the destination dispatches it.

        ``sequence`` is the store's, 0 if not stored.
        """
        ...

    def after_accept(self, message: Message, is_wanted: bool) -> None:
        """See the message again after the dispatch.

        ``is_wanted`` is True if a consumer without a durable subscription got the message from a topic.
        """
        ...

    def sees_removals(self) -> bool:
        """Return True if `message_removed` must follow each removal, before the next one."""
        ...

    def message_removed(self, message: Message, way: int) -> None:
        """See a message after its acknowledgement, expiry or transfer to a dead letter queue.

        ``way`` is its way out of the ledger. A topic shows each copy that a subscriber is done with.
        """
        ...

    def message_discarded(self, subscription: Subscription, message: Message) -> None:
        """See a discarded message of a topic; ``subscription`` is the slow consumer."""
        ...

    def consumer_added(self, subscription: Subscription) -> None:
        """See a new consumer before its first message."""
        ...

    def consumer_removed(self, subscription: Subscription) -> None:
        """Forget a removed consumer of a topic."""
        ...


def advised_destination(destination: MessageHolder, message: Message) -> Destination:
    """Return the destination named in an advisory about a message of ``destination``.

    For a durable subscription the result is the topic, for the scheduler the final destination of the message.
    """
    return message.destination if destination.name.kind in (SUBSCRIPTION, SCHEDULE) else destination.name


def publish_expired(advisories: MessageAdvisories, destination: MessageHolder, message: Message) -> None:
    """Publish an advisory about an expired message. The policy cannot turn the advisory off."""
    about = advised_destination(destination, message)
    if not advisories.has_listeners(EXPIRED_ADVISORY, about):
        return
    advisories.publish_message(
        EXPIRED_ADVISORY,
        about,
        message,
        destination.policy.advisories.whole_messages,
        {MESSAGE_ID: str(message.message_id)},
    )


def publish_dead_letter(advisories: MessageAdvisories, destination: MessageHolder, message: Message) -> None:
    """Publish an advisory about a new dead letter. The policy cannot turn the advisory off."""
    advisories.publish_message(
        DEAD_LETTER_ADVISORY,
        advised_destination(destination, message),
        message,
        destination.policy.advisories.whole_messages,
        {},
    )


def publish_traffic(
    advisories: MessageAdvisories,
    kind: str,
    destination: MessageHolder,
    message: Message,
    more: dict[str, object] | None = None,
) -> None:
    """Publish an advisory about a delivered, dispatched, consumed or discarded message.

    ``more`` holds further properties of the advisory.
    """
    about = advised_destination(destination, message)
    if not advisories.has_listeners(kind, about):
        return
    properties: dict[str, object] = {MESSAGE_ID: str(message.message_id), DESTINATION: about.qualified_name}
    if more is not None:
        properties.update(more)
    advisories.publish_message(kind, about, message, destination.policy.advisories.whole_messages, properties)


def publish_full(
    advisories: MessageAdvisories, destination: MessageHolder, message: Message, producer: ProducerInfo | None
) -> None:
    """Publish the advisories about a full destination and a fast producer.

    ``producer`` is None for an unannounced producer.
    """
    settings = destination.policy.advisories
    about = advised_destination(destination, message)
    if about.is_advisory:
        return
    if settings.full:
        usage_name = f"Main:memory:{about.qualified_name}:memory"
        advisories.publish(
            FULL_ADVISORY, about, None, {USAGE_NAME: usage_name, USAGE_COUNT: LongNumber(destination.usage.used_bytes)}
        )
    if settings.fast_producers:
        info = producer if producer is not None else ProducerInfo(message.producer_id, about)
        advisories.publish(FAST_PRODUCER_ADVISORY, about, info, {PRODUCER_ID: str(info.producer_id)})
