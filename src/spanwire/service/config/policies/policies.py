"""Interprets the ``destinationPolicy`` of a configuration: settings by destination."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from spanwire.broker.dispatch.subscription import MAX_PREFETCH
from spanwire.broker.policy.dead_letter_strategy import DEFAULT_DEAD_LETTER_QUEUE, DeadLetterStrategy, IndividualNames
from spanwire.broker.policy.policy_entry import (
    DEFAULT_CURSOR_MARK,
    DEFAULT_EXPIRE_PERIOD_MS,
    DEFAULT_INACTIVE_MS,
    DEFAULT_STORE_MARK,
    DEFAULT_WARNING_INTERVAL_MS,
    AdvisoryPolicy,
    PolicyEntry,
)
from spanwire.broker.reserved_destinations import is_control
from spanwire.broker.scheduler.schedule import MAX_DELAY_MS
from spanwire.documents.element import Element
from spanwire.model.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, Destination
from spanwire.service.config.policies.bridge_policies import bridge_policy
from spanwire.service.config.policies.queue_policies import queue_policy
from spanwire.service.config.policies.topic_policies import TopicPolicyInterpreter
from spanwire.service.config.security.security import Inner
from spanwire.service.config.tables import attribute_table as words
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import MAX_LONG, Settings

MAX_INT: Final = 2**31 - 1  # a Java int, like most numbers there
MAX_DAY_MS: Final = 24 * 3600 * 1000
TEMPORARY: Final = {"tempQueue": Destination(TEMP_QUEUE, ">"), "tempTopic": Destination(TEMP_TOPIC, ">")}
EVERYTHING: Final = (Destination(QUEUE, ">"), Destination(TOPIC, ">"), *TEMPORARY.values())


@dataclass(frozen=True, slots=True)
class PolicyInterpreter:
    """Interprets the ``destinationPolicy`` elements of a broker."""

    findings: Findings
    inner: Inner

    def policies(self, broker: Element) -> tuple[PolicyEntry, ...]:
        """Return all entries; entries of ``defaultEntry`` come last, because they have the lowest precedence."""
        named_entries: list[PolicyEntry] = []
        defaults: list[PolicyEntry] = []
        for policy in self.inner(broker, "destinationPolicy", words.POLICY):
            maps = self.inner(policy, "policyMap", words.POLICY_MAP)
            for group in [policy, *maps]:
                for entries in self.inner(group, "policyEntries", words.POLICY_ENTRIES):
                    for element in self.inner(entries, "policyEntry", words.POLICY_ENTRY):
                        named_entries += self._named(element)
            for group in maps:
                for holder in self.inner(group, "defaultEntry", words.DEFAULT_POLICY):
                    for element in self.inner(holder, "policyEntry", words.POLICY_ENTRY):
                        entry = self._entry(element, EVERYTHING[0])
                        defaults += [replace(entry, destination=destination) for destination in EVERYTHING]
        return (*named_entries, *defaults)

    def _named(self, element: Element) -> list[PolicyEntry]:
        """Return an entry as a list; empty if it does not name its destinations."""
        settings = Settings(element, self.findings)
        named = [name for name in ("queue", "topic") if name in element.attributes]
        temporary = [name for name in TEMPORARY if settings.flag(name, False)]
        if len(named) + len(temporary) != 1:
            self.findings.error(element.line, "<policyEntry> must name either a queue or a topic")
            return []
        if temporary:
            return [self._entry(element, TEMPORARY[temporary[0]])]
        destination = settings.destination(named[0], QUEUE if named[0] == "queue" else TOPIC, pattern=True)
        return [] if destination is None else [self._entry(element, destination)]

    def _entry(self, element: Element, destination: Destination) -> PolicyEntry:
        settings = Settings(element, self.findings)
        topics = TopicPolicyInterpreter(self.findings, self.inner)
        attributes = element.attributes
        return PolicyEntry(
            destination,
            memory_limit_bytes=settings.size("memoryLimit", 0),
            queue_prefetch=settings.clamped("queuePrefetch", -1, 0, MAX_PREFETCH),
            topic_prefetch=settings.clamped("topicPrefetch", -1, 0, MAX_PREFETCH + 1),
            prefetch_extension=settings.flag("usePrefetchExtension", True),
            queue_browser_prefetch=settings.clamped("queueBrowserPrefetch", -1, 0, MAX_PREFETCH),
            expire_messages_period_ms=settings.number("expireMessagesPeriod", DEFAULT_EXPIRE_PERIOD_MS, 0, MAX_DAY_MS),
            dead_letter=self._dead_letter_strategy(element),
            producer_flow_control=settings.flag("producerFlowControl", True),
            send_fail_if_no_space=settings.flag("sendFailIfNoSpace", False)
            if "sendFailIfNoSpace" in attributes
            else None,
            send_fail_after_ms=settings.number("sendFailIfNoSpaceAfterTimeout", -1, -1, MAX_INT),
            blocked_producer_warning_interval_ms=settings.number(
                "blockedProducerWarningInterval", DEFAULT_WARNING_INTERVAL_MS, -1, MAX_INT
            ),
            cursor_memory_high_water_mark=settings.number("cursorMemoryHighWaterMark", DEFAULT_CURSOR_MARK, 1, 100),
            store_usage_high_water_mark=settings.number("storeUsageHighWaterMark", DEFAULT_STORE_MARK, 1, 100),
            queue=replace(
                queue_policy(settings, self.findings), bridges=bridge_policy(element, self.inner, self.findings)
            ),
            advisories=_advisories(settings),
            topic=topics.topic_policy(element),
            slow_consumers=topics.slow_consumers(element),
            max_destinations=settings.number("maxDestinations", -1, -1, MAX_INT),
            gc_inactive=settings.flag("gcInactiveDestinations", False),
            inactive_timeout_ms=self._inactive_timeout(settings),
            gc_with_network_consumers=settings.flag("gcWithNetworkConsumers", False),
        )

    def _inactive_timeout(self, settings: Settings) -> int:
        """Return the timeout; Classic accepts a misspelt attribute name as well."""
        misspelt = settings.number("inactiveTimoutBeforeGC", DEFAULT_INACTIVE_MS, 1, MAX_LONG)
        return settings.number("inactiveTimeoutBeforeGC", misspelt, 1, MAX_LONG)

    def _dead_letter_strategy(self, entry: Element) -> DeadLetterStrategy:
        dead_letters = DeadLetterStrategy()
        for strategy in self.inner(entry, "deadLetterStrategy", words.DEAD_LETTER_STRATEGY):
            for shared in self.inner(strategy, "sharedDeadLetterStrategy", words.SHARED_DEAD_LETTERS):
                settings = Settings(shared, self.findings)
                dead_letters = DeadLetterStrategy(
                    self._dead_letter_queue(shared),
                    process_expired=settings.flag("processExpired", True),
                    process_non_persistent=settings.flag("processNonPersistent", False),
                    expiration_ms=settings.number("expiration", 0, 0, MAX_DELAY_MS),
                )
            for individual in self.inner(strategy, "individualDeadLetterStrategy", words.INDIVIDUAL_DEAD_LETTERS):
                settings = Settings(individual, self.findings)
                dead_letters = DeadLetterStrategy(
                    process_expired=settings.flag("processExpired", True),
                    process_non_persistent=settings.flag("processNonPersistent", False),
                    individual=self._individual_names(individual),
                    expiration_ms=settings.number("expiration", 0, 0, MAX_DELAY_MS),
                )
            if self.inner(strategy, "discarding", words.DISCARDING_LETTERS):
                dead_letters = DeadLetterStrategy(discards=True)
        return dead_letters

    def _individual_names(self, element: Element) -> IndividualNames:
        default = IndividualNames()
        settings = Settings(element, self.findings)
        names = IndividualNames(
            self._part(element, "queuePrefix", default.queue_prefix),
            self._part(element, "topicPrefix", default.topic_prefix),
            self._part(element, "queueSuffix", default.queue_suffix),
            self._part(element, "topicSuffix", default.topic_suffix),
            settings.flag("useQueueForQueueMessages", True),
            settings.flag("useQueueForTopicMessages", True),
            settings.flag("destinationPerDurableSubscriber", False),
        )
        if not (names.queue_prefix + names.queue_suffix and names.topic_prefix + names.topic_suffix):
            line = element.line
            self.findings.error(
                line, "<individualDeadLetterStrategy> must have a prefix or a suffix for queues and topics"
            )
        return names

    def _part(self, element: Element, name: str, default: str) -> str:
        """Return a part of a destination's name."""
        text = element.value(name)
        if text:
            Settings(element, self.findings).destination(name, QUEUE, pattern=False)
        return default if text is None else text

    def _dead_letter_queue(self, shared: Element) -> str:
        named = Settings(shared, self.findings).qualified("deadLetterQueue")
        holders = self.inner(shared, "deadLetterQueue", words.DESTINATIONS)
        inner = [element for holder in holders for element in self.inner(holder, "queue", words.DESTINATION)]
        for element in inner:
            named = Settings(element, self.findings).physical_name(QUEUE)
        if named is not None and named.kind != QUEUE:
            self.findings.error(shared.line, "deadLetterQueue of <sharedDeadLetterStrategy> must be a queue")
        if named is not None and is_control(named):
            self.findings.error(shared.line, f"deadLetterQueue is {named.name}, which takes requests of programs alone")
        return DEFAULT_DEAD_LETTER_QUEUE if named is None else named.name


def _advisories(settings: Settings) -> AdvisoryPolicy:
    return AdvisoryPolicy(
        delivered=settings.flag("advisoryForDelivery", False),
        dispatched=settings.flag("advisoryForDispatched", False),
        consumed=settings.flag("advisoryForConsumed", False),
        discarded=settings.flag("advisoryForDiscardingMessages", False),
        slow_consumers=settings.flag("advisoryForSlowConsumers", False),
        fast_producers=settings.flag("advisoryForFastProducers", False),
        full=settings.flag("advisoryWhenFull", False),
        no_consumers=settings.flag("sendAdvisoryIfNoConsumers", False),
        whole_messages=settings.flag("includeBodyForAdvisory", False),
    )
