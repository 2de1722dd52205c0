"""Settings of a policy entry for dead letters: their destination, and the messages that become one."""

from __future__ import annotations

from dataclasses import dataclass

from spanwire.broker.reserved_destinations import is_control
from spanwire.model.destination import QUEUE, TOPIC, Destination, check_name
from spanwire.model.errors import InvalidDestinationError

DEFAULT_DEAD_LETTER_QUEUE = "ActiveMQ.DLQ"


@dataclass(frozen=True)
class IndividualNames:
    """Names of individual dead letter destinations: the destination's own name between prefix and suffix.

    Corresponds to ActiveMQ's individual strategy. The dead letter destination is a queue, or a topic if
    ``queue_for_queues`` or ``queue_for_topics`` is false. With ``per_durable_subscriber`` each durable subscription has
    a destination of its own; the name ends with client id and name of the subscription.
    """

    queue_prefix: str = "ActiveMQ.DLQ.Queue."
    topic_prefix: str = "ActiveMQ.DLQ.Topic."
    queue_suffix: str = ""
    topic_suffix: str = ""
    queue_for_queues: bool = True
    queue_for_topics: bool = True
    per_durable_subscriber: bool = False

    def made(self, destination: Destination) -> bool:
        """Return True for a dead letter destination of this strategy.

        Dead letters of such a destination are not sent again.
        """
        name = destination.name
        if self.queue_for_queues == destination.is_queue:
            if name.startswith(self.queue_prefix) and name.endswith(self.queue_suffix):
                return True
        if self.queue_for_topics == destination.is_queue:
            return name.startswith(self.topic_prefix) and name.endswith(self.topic_suffix)
        return False

    def of(self, destination: Destination, subscription_key: str) -> Destination:
        """Return the dead letter destination of ``destination``. The resulting name may be invalid."""
        if destination.is_queue:
            kind = QUEUE if self.queue_for_queues else TOPIC
            return Destination(kind, self.queue_prefix + destination.name + self.queue_suffix)
        name = self.topic_prefix + destination.name
        if self.per_durable_subscriber and subscription_key:
            name += "." + subscription_key
        return Destination(QUEUE if self.queue_for_topics else TOPIC, name + self.topic_suffix)


@dataclass(frozen=True)
class DeadLetterStrategy:
    """Handling of expired and undeliverable messages.

    All dead letters go into one queue. With ``individual`` each destination has its own; temporary destinations share
    the one queue in any case. With ``discards`` dead letters are dropped. Dead letters expire after ``expiration_ms``;
    0 means never.
    """

    queue_name: str = DEFAULT_DEAD_LETTER_QUEUE
    process_expired: bool = True
    process_non_persistent: bool = False
    individual: IndividualNames | None = None
    discards: bool = False
    expiration_ms: int = 0

    def target(self, destination: Destination, subscription_key: str = "") -> Destination | None:
        """Return the queue or topic for dead letters of ``destination``.

        ``subscription_key`` names the durable subscription, if any.

        Returns:
            None if ``destination`` is itself a dead letter destination, or if dead letters are discarded.
        """
        if self.discards:
            return None
        shared = Destination(QUEUE, self.queue_name)
        names = self.individual
        if destination == shared:
            return None
        if names is None or destination.is_temporary:
            return shared
        if names.made(destination):
            return None
        target = names.of(destination, subscription_key)
        try:
            check_name(target.name)
        except InvalidDestinationError:
            return shared
        return shared if target.is_pattern or target.is_composite or is_control(target) else target
