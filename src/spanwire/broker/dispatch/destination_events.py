"""Advisory messages about queues, topics and messages: the kinds and the functions that send them.

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

EXPIRED_NEWS: Final = "Expired"
DEAD_LETTER_NEWS: Final = "MessageDLQd"
NO_CONSUMER_NEWS: Final = "NoConsumer"
SLOW_CONSUMER_NEWS: Final = "SlowConsumer"
FAST_PRODUCER_NEWS: Final = "FastProducer"
DISCARDED_NEWS: Final = "MessageDiscarded"
FULL_NEWS: Final = "FULL"
DELIVERED_NEWS: Final = "MessageDelivered"
CONSUMED_NEWS: Final = "MessageConsumed"
DISPATCHED_NEWS: Final = "MessageDispatched"
NEWS: Final = (
    EXPIRED_NEWS, DEAD_LETTER_NEWS, NO_CONSUMER_NEWS, SLOW_CONSUMER_NEWS, FAST_PRODUCER_NEWS, DISCARDED_NEWS,
    FULL_NEWS, DELIVERED_NEWS, CONSUMED_NEWS, DISPATCHED_NEWS,
)  # fmt: skip

MESSAGE_ID: Final = "orignalMessageId"
DESTINATION: Final = "orignalDestination"
CONSUMER_ID: Final = "consumerId"
PRODUCER_ID: Final = "producerId"
DISCARDED_COUNT: Final = "discardedCount"
USAGE_NAME: Final = "usageName"
USAGE_COUNT: Final = "usageCount"


class News(Protocol):
    """Publishes advisory messages. Without listeners no message is built."""

    def has_listeners(self, kind: str, about: Destination) -> bool:
        """Return True if a consumer listens to advisories of this kind about a destination."""
        ...

    def tell(self, kind: str, about: Destination, subject: object, properties: dict[str, object]) -> None:
        """Publish an advisory about a consumer, a producer or (``subject`` None) the destination itself."""
        ...

    def tell_of_message(
        self, kind: str, about: Destination, message: Message, whole: bool, properties: dict[str, object]
    ) -> None:
        """Publish an advisory about a message. With ``whole`` the advisory includes the message's body."""
        ...

    def pass_on(self, kind: str, about: Destination, message: Message) -> None:
        """Send the message itself to the listeners."""
        ...


class DestinationObserver(Protocol):
    """Sees the messages of one queue or topic. A destination without an observer pays one check for each message."""

    def before_accept(self, message: Message, sequence: int) -> None:
        """See a new message before the destination dispatches it. ``sequence`` is the store's, 0 if not stored."""
        ...

    def after_accept(self, message: Message, is_wanted: bool) -> None:
        """See the message again after its dispatch.

        ``is_wanted`` is True if the destination is a topic and a consumer without a durable subscription got it.
        """
        ...

    def sees_removals(self) -> bool:
        """Return True if `message_removed` must follow each removal, before the next one."""
        ...

    def message_removed(self, message: Message) -> None:
        """See a message that was acknowledged, expired, or became a dead letter."""
        ...

    def message_discarded(self, subscription: Subscription, message: Message) -> None:
        """See a message of a topic that was discarded for the slow consumer ``subscription``."""
        ...

    def consumer_removed(self, subscription: Subscription) -> None:
        """Forget a removed consumer of a topic."""
        ...


def told_name(home: MessageHolder, message: Message) -> Destination:
    """Return the destination that an advisory about a message of ``home`` names.

    For a durable subscription the destination is the topic, for the scheduler the final destination of the message.
    """
    return message.destination if home.destination.kind in (SUBSCRIPTION, SCHEDULE) else home.destination


def tell_expired(news: News, home: MessageHolder, message: Message) -> None:
    """Publish an advisory about an expired message. The policy cannot turn the advisory off."""
    about = told_name(home, message)
    if not news.has_listeners(EXPIRED_NEWS, about):
        return
    news.tell_of_message(
        EXPIRED_NEWS,
        about,
        message,
        home.policy.advisories.whole_messages,
        {MESSAGE_ID: str(message.message_id)},
    )


def tell_dead_letter(news: News, home: MessageHolder, message: Message) -> None:
    """Publish an advisory about a new dead letter. The policy cannot turn the advisory off."""
    news.tell_of_message(DEAD_LETTER_NEWS, told_name(home, message), message, home.policy.advisories.whole_messages, {})


def tell_of_traffic(
    news: News, kind: str, home: MessageHolder, message: Message, more: dict[str, object] | None = None
) -> None:
    """Publish an advisory about a message that was delivered, dispatched, consumed or discarded.

    ``more`` holds further properties of the advisory.
    """
    about = told_name(home, message)
    if not news.has_listeners(kind, about):
        return
    properties: dict[str, object] = {MESSAGE_ID: str(message.message_id), DESTINATION: about.qualified_name}
    if more is not None:
        properties.update(more)
    news.tell_of_message(kind, about, message, home.policy.advisories.whole_messages, properties)


def tell_full(news: News, home: MessageHolder, message: Message, producer: ProducerInfo | None) -> None:
    """Publish advisories about a send that finds no memory: the destination is full, the producer too fast.

    ``producer`` is None for a producer that was never announced.
    """
    told = home.policy.advisories
    about = told_name(home, message)
    if about.is_advisory:
        return
    if told.full:
        usage_name = f"Main:memory:{about.qualified_name}:memory"
        news.tell(FULL_NEWS, about, None, {USAGE_NAME: usage_name, USAGE_COUNT: LongNumber(home.usage.used_bytes)})
    if told.fast_producers:
        info = producer if producer is not None else ProducerInfo(message.message_id.producer_id, about)
        news.tell(FAST_PRODUCER_NEWS, about, info, {PRODUCER_ID: str(info.producer_id)})
