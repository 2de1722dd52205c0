"""Interprets the ``destinationPolicy`` of a configuration: settings by destination."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from spanwire.broker.policy.dead_letter_strategy import DEFAULT_DEAD_LETTER_QUEUE, DeadLetterStrategy, IndividualNames
from spanwire.broker.policy.policy_entry import AdvisoryPolicy, BridgePolicy, PolicyEntry, QueuePolicy
from spanwire.broker.queue.last_value_queue import key_property
from spanwire.broker.reserved_destinations import is_control
from spanwire.documents.element import Element
from spanwire.model.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, Destination
from spanwire.service.config.policies.topic_policies import TopicPolicyInterpreter
from spanwire.service.config.security.security import Inner
from spanwire.service.config.tables import attribute_table as words
from spanwire.service.config.tables import policy_attributes as attributes
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import Settings

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
        """Return all entries, with entries of ``defaultEntry`` last because of the lowest precedence."""
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
        """Return an entry as a list, empty for an entry without destinations."""
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
        queue = QueuePolicy(
            bridges=bridge_policy(element, self.inner, self.findings), **attributes.QUEUE.values(settings)
        )
        if queue.ring_size > 0 and key_property(queue):
            settings.error("ringSize and lastValue are two kinds of queues: remove one of them")
        return PolicyEntry(
            destination,
            dead_letter=self._dead_letter_strategy(element),
            queue=queue,
            advisories=AdvisoryPolicy(**attributes.ADVISORIES.values(settings)),
            topic=topics.topic_policy(element),
            slow_consumers=topics.slow_consumers(element),
            **attributes.ENTRY.values(settings),
        )

    def _dead_letter_strategy(self, entry: Element) -> DeadLetterStrategy:
        dead_letters = DeadLetterStrategy()
        for strategy in self.inner(entry, "deadLetterStrategy", words.DEAD_LETTER_STRATEGY):
            for shared in self.inner(strategy, "sharedDeadLetterStrategy", words.SHARED_DEAD_LETTERS):
                settings = Settings(shared, self.findings)
                dead_letters = DeadLetterStrategy(
                    self._dead_letter_queue(shared),
                    **attributes.DEAD_LETTERS.values(settings),
                )
            for individual in self.inner(strategy, "individualDeadLetterStrategy", words.INDIVIDUAL_DEAD_LETTERS):
                settings = Settings(individual, self.findings)
                dead_letters = DeadLetterStrategy(
                    individual=self._individual_names(individual), **attributes.DEAD_LETTERS.values(settings)
                )
            if self.inner(strategy, "discarding", words.DISCARDING_LETTERS):
                dead_letters = DeadLetterStrategy(discards=True)
        return dead_letters

    def _individual_names(self, element: Element) -> IndividualNames:
        names = IndividualNames(**attributes.INDIVIDUAL_NAMES.values(Settings(element, self.findings)))
        if not (names.queue_prefix + names.queue_suffix and names.topic_prefix + names.topic_suffix):
            line = element.line
            self.findings.error(
                line, "<individualDeadLetterStrategy> must have a prefix or a suffix for queues and topics"
            )
        return names

    def _dead_letter_queue(self, shared: Element) -> str:
        named = Settings(shared, self.findings).qualified("deadLetterQueue")
        holders = self.inner(shared, "deadLetterQueue", words.DEAD_LETTER_QUEUE)
        inner = [element for holder in holders for element in self.inner(holder, "queue", words.DESTINATION)]
        for element in inner:
            named = Settings(element, self.findings).physical_name(QUEUE)
        if named is not None and named.kind != QUEUE:
            self.findings.error(shared.line, "deadLetterQueue of <sharedDeadLetterStrategy> must be a queue")
        if named is not None and is_control(named):
            self.findings.error(shared.line, f"deadLetterQueue is {named.name}, which takes requests of programs alone")
        return DEFAULT_DEAD_LETTER_QUEUE if named is None else named.name


def bridge_policy(entry: Element, inner: Inner, findings: Findings) -> BridgePolicy | None:
    """Return the last ``conditionalNetworkBridgeFilterFactory`` of an entry.

    None if missing or without effect.
    """
    policy: BridgePolicy | None = None
    for factory in inner(entry, "networkBridgeFilterFactory", words.BRIDGE_FILTERS):
        inner(factory, "defaultNetworkBridgeFilterFactory", words.WITHOUT_SETTINGS)  # the default behaviour
        for element in inner(factory, "conditionalNetworkBridgeFilterFactory", words.CONDITIONAL_BRIDGE_FILTER):
            policy = BridgePolicy(**attributes.BRIDGES.values(Settings(element, findings)))
    return None if policy is None or not (policy.replays or policy.rate_limit) else policy
