"""Redelivery by the broker: a rejected message returns to the destination after a delay.

After the last redelivery the message becomes a dead letter.

Source: ActiveMQ, "Message Redelivery and DLQ Handling", the redelivery plug-in. The message waits among the scheduled
messages. One unit of the store schedules the copy and removes the original, so exactly one of both exists at any time,
even after a crash. The property ``redeliveryDelay`` has the delay.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.policy.policy_map import wildcards_last
from spanwire.broker.ports import Principal
from spanwire.broker.routing.dead_letters import DROP, EXPIRED, KEEP, LATER, DeathRule
from spanwire.broker.scheduler.schedule import DELAY, JOB_ID, MAX_DELAY_MS, Redelivery
from spanwire.broker.scheduler.scheduler import Scheduler
from spanwire.model.destination import SCHEDULE, SUBSCRIPTION, Destination
from spanwire.model.environment import Environment
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.ledger import MOVED_OUT
from spanwire.model.message import Message
from spanwire.model.message_view import LONG_VALUE

REDELIVERY_DELAY: Final = "redeliveryDelay"
NO_MAXIMUM: Final = -1  # maximumRedeliveries without end
LEAST_DELAY_MS: Final = 1_000  # least value of both delays, as in ActiveMQ
MAX_STEPS: Final = 1_000  # steps of a growing delay; by then any has reached its maximum
OWN: Final = Principal("broker redelivery")  # owner of the waiting messages

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RedeliveryPolicy:
    """Number and delays of redeliveries (ActiveMQ's RedeliveryPolicy, with its defaults).

    ``maximum_delay_ms`` -1 is no limit.
    """

    maximum_redeliveries: int = 6
    initial_delay_ms: int = 1_000
    delay_ms: int = 1_000
    maximum_delay_ms: int = -1
    exponential: bool = False
    multiplier: float = 5.0
    collision_avoidance: bool = False
    collision_percent: int = 15

    def waits_ms(self, redelivery_count: int) -> int:
        """Return the delay in milliseconds after ``redelivery_count`` redeliveries."""
        delay_ms = self.initial_delay_ms
        for _ in range(min(redelivery_count, MAX_STEPS)):
            next_ms = self.delay_ms
            if delay_ms > 0 and self.exponential and self.multiplier > 1:
                next_ms = int(min(delay_ms * self.multiplier, float(MAX_DELAY_MS)))
                if self.maximum_delay_ms != -1 and next_ms > self.maximum_delay_ms:
                    next_ms = max(self.maximum_delay_ms, self.delay_ms)
            if next_ms == delay_ms:
                break
            delay_ms = next_ms
        return min(delay_ms, MAX_DELAY_MS)


@dataclass(frozen=True)
class RedeliveryEntry:
    """The redelivery policy for the destinations under a name or pattern."""

    destination: Destination
    policy: RedeliveryPolicy


@dataclass(frozen=True)
class RedeliverySettings:
    """The policies of the plug-in.

    Messages without a policy become dead letters with ``falls_back``, messages without further redeliveries with
    ``dead_letter_in_the_end``; otherwise such messages are dropped.
    """

    entries: tuple[RedeliveryEntry, ...] = ()
    default: RedeliveryPolicy | None = None
    falls_back: bool = True
    dead_letter_in_the_end: bool = True


class BrokerRedelivery(DeathRule):
    """Decides about redelivery and passes messages to the scheduler."""

    def __init__(
        self,
        settings: RedeliverySettings,
        context: BrokerContext,
        scheduler: Scheduler,
        formats: MessageFormats,
        environment: Environment,
    ) -> None:
        self._settings: Final[RedeliverySettings] = settings
        self._entries: Final[list[RedeliveryEntry]] = sorted(settings.entries, key=_wildcards_last)
        self._context: Final[BrokerContext] = context
        self._scheduler: Final[Scheduler] = scheduler
        self._formats: Final[MessageFormats] = formats
        self._environment: Final[Environment] = environment

    def fate(self, reference: MessageReference, cause: str) -> int:
        """Return `LATER` while the policy allows a redelivery. Expired messages are not redelivered."""
        if cause == EXPIRED or reference.destination.name.kind == SCHEDULE:
            return KEEP
        policy = self._policy(reference)
        if policy is None:
            return KEEP if self._settings.falls_back else DROP
        maximum = policy.maximum_redeliveries
        if maximum == NO_MAXIMUM or reference.redelivery_count < maximum:
            return LATER
        return KEEP if self._settings.dead_letter_in_the_end else DROP

    def deliver_later(self, reference: MessageReference, cause: str) -> bool:
        """Move a message from the destination into the schedule.

        Return False without room, or if decoding fails.
        """
        policy = self._policy(reference)
        if policy is None or not self._context.store_usage.has_room():
            return False
        destination = reference.destination
        count = reference.redelivery_count
        delay_ms = self._delay_ms(policy, count)
        redelivery = Redelivery(destination.name, count + 1, reference.message.broker_path)
        try:
            copy = self._copy(reference.message, delay_ms)
            job = self._scheduler.schedule.redelivery(copy, OWN, self._context.wall_ms + delay_ms, redelivery)
        except (JmsError, ProtocolError) as error:
            logger.warning(
                "message %s of %s is not redelivered, and the dead letter policy decides: %s",
                reference.message.message_id,
                destination.name,
                error,
            )
            return False
        removals = [(destination.name, reference.sequence)] if reference.sequence > 0 else []
        self._scheduler.bring_back(job, copy, removals)
        destination.forget(reference, MOVED_OUT)
        return True

    def _policy(self, reference: MessageReference) -> RedeliveryPolicy | None:
        destination = reference.destination.name
        if destination.kind == SUBSCRIPTION:
            destination = reference.message.destination
        for entry in self._entries:
            if entry.destination.matches(destination):
                return entry.policy
        return self._settings.default

    def _delay_ms(self, policy: RedeliveryPolicy, count: int) -> int:
        delay_ms = policy.waits_ms(count)
        if not policy.collision_avoidance or count == 0:
            return delay_ms
        dice = int.from_bytes(self._environment.random_bytes(4), "big") / 2**31 - 1.0  # from -1 to 1
        return delay_ms + int(delay_ms * dice * policy.collision_percent / 100)

    def _copy(self, message: Message, delay_ms: int) -> Message:
        message_format = self._formats.format(message.format_id)
        view = message_format.view(message)
        view.properties.pop(JOB_ID, None)
        view.properties[REDELIVERY_DELAY] = (LONG_VALUE, delay_ms)
        view.properties[DELAY] = (LONG_VALUE, delay_ms)
        return message_format.encode_from_view(view)


def _wildcards_last(entry: RedeliveryEntry) -> tuple[int, int, int]:
    return wildcards_last(entry.destination)
