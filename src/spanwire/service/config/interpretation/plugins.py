"""Interprets the ``plugins`` except for security, and ``populateJMSXUserID`` of the broker.

The plug-ins are about dead letters, redelivery, statistics, timestamps, delivery modes and the event log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spanwire.broker.plugins.discarding_plugin import (
    MAX_PATTERNS,
    DiscardingSettings,
    name_pattern,
)
from spanwire.broker.plugins.event_log import EventLogSettings
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.plugins.redelivery_plugin import (
    RedeliveryEntry,
    RedeliveryPolicy,
    RedeliverySettings,
)
from spanwire.broker.plugins.timestamp_plugin import TimeStampSettings
from spanwire.documents.element import Element
from spanwire.model.destination import QUEUE, TOPIC
from spanwire.model.errors import InvalidSelectorError
from spanwire.service.config.model import RuntimeSettings
from spanwire.service.config.policies.policies import TEMPORARY
from spanwire.service.config.tables import plugin_attributes as attributes
from spanwire.service.config.tables.handling import LATER, NO_EFFECT, YES, Rule, Words, all_of, honoured
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import Settings

DEFAULT_SEPARATOR: Final = "/"
NO_SEPARATORS: Final = ". , * > ? :"  # characters with a meaning in names
MULTIPLIER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
CLIENT_ONLY: Final = Rule(NO_EFFECT, note="it is about redelivery by clients")

STATISTICS: Final = Words({}, {})
DISCARDING: Final = Words(
    {
        "dropOnly": YES,
        **honoured(attributes.DISCARDING),
    },
    {},
    tables=(attributes.DISCARDING,),
)
PATH_SEPARATOR: Final = Words({"pathSeparator": YES}, {})
PERSISTENCE: Final = Words({**honoured(attributes.PERSISTENCE)}, {}, tables=(attributes.PERSISTENCE,))
TIME_STAMPS: Final = Words({**honoured(attributes.TIME_STAMPS)}, {}, tables=(attributes.TIME_STAMPS,))
EVENT_LOG: Final = Words({**honoured(attributes.EVENT_LOG)}, {}, tables=(attributes.EVENT_LOG,))
RUNTIME: Final = Words({**honoured(attributes.RUNTIME)}, {}, tables=(attributes.RUNTIME,))
REDELIVERY: Final = Words(
    {**honoured(attributes.REDELIVERY)}, {"redeliveryPolicyMap": YES}, tables=(attributes.REDELIVERY,)
)
REDELIVERY_MAP: Final = Words(
    {},
    {
        "redeliveryPolicyEntries": YES,
        "defaultEntry": YES,
        "entries": Rule(LATER, note="policies by another name", advice="write <redeliveryPolicyEntries>, remove it"),
    },
)
REDELIVERY_ENTRIES: Final = Words({}, {"redeliveryPolicy": YES})
REDELIVERY_POLICY: Final = Words(
    {
        **all_of(YES, "queue topic tempQueue tempTopic backOffMultiplier"),
        **honoured(attributes.REDELIVERY_POLICY),
        "preDispatchCheck": CLIENT_ONLY,
    },
    {"destination": Rule(LATER, note="policies by another name", advice="write queue= or topic=, remove it")},
    tables=(attributes.REDELIVERY_POLICY,),
)

Inner = Callable[[Element, str, Words], list[Element]]


@dataclass(frozen=True, slots=True)
class PluginInterpreter:
    """Interprets the ``plugins`` elements of a broker; ``inner`` returns checked inner elements."""

    findings: Findings
    inner: Inner

    def plugins(self, broker: Element, groups: list[Element]) -> PluginSettings:
        """Return the settings of the plug-ins; the order of plug-ins matters for dead letters."""
        dead_letters: list[DiscardingSettings | RedeliverySettings] = []
        for group in groups:
            discarding = self.inner(group, "discardingDLQBrokerPlugin", DISCARDING)
            redelivery = self.inner(group, "redeliveryPlugin", REDELIVERY)
            settings: dict[int, DiscardingSettings | RedeliverySettings] = {}
            settings |= {id(element): self._discarding(element) for element in discarding}
            settings |= {id(element): self._redelivery(broker, element) for element in redelivery}
            dead_letters += [settings.pop(id(child)) for child in group.children if id(child) in settings]
            dead_letters += settings.values()  # settings inside an element of the same name
        statistics = self._only(groups, "statisticsBrokerPlugin", STATISTICS)
        times = self._only(groups, "timeStampingBrokerPlugin", TIME_STAMPS)
        persistence = self._only(groups, "forcePersistencyModeBrokerPlugin", PERSISTENCE)
        separator = self._only(groups, "destinationPathSeparatorPlugin", PATH_SEPARATOR)
        event_log = self._only(groups, "loggingBrokerPlugin", EVENT_LOG)
        return PluginSettings(
            dead_letters=tuple(dead_letters),
            statistics=statistics is not None,
            times=None if times is None else TimeStampSettings(**attributes.TIME_STAMPS.values(self._settings(times))),
            persistent=None
            if persistence is None
            else attributes.PERSISTENCE.values(self._settings(persistence)).get("persistent", False),
            event_log=None
            if event_log is None
            else EventLogSettings(**attributes.EVENT_LOG.values(self._settings(event_log))),
            path_separator="" if separator is None else self._separator(separator),
            **attributes.USER_NAMES.values(self._settings(broker)),
        )

    def runtime(self, groups: list[Element]) -> RuntimeSettings | None:
        """Return the settings for a file that may change while the broker runs, or None."""
        element = self._only(groups, "runtimeConfigurationPlugin", RUNTIME)
        if element is None:
            return None
        return RuntimeSettings(**attributes.RUNTIME.values(self._settings(element)))

    def _settings(self, element: Element) -> Settings:
        return Settings(element, self.findings)

    def _only(self, groups: list[Element], name: str, known: Words) -> Element | None:
        """Return the only element with a name, and report further elements."""
        elements = [element for group in groups for element in self.inner(group, name, known)]
        for element in elements[1:]:
            self.findings.error(element.line, f"<{name}> is present twice; keep one")
        return elements[0] if elements else None

    def _separator(self, element: Element) -> str:
        """Return the separator: one character without a meaning in names."""
        text = self._settings(element).text("pathSeparator")
        if text is None:
            return DEFAULT_SEPARATOR
        if len(text) != 1 or text in NO_SEPARATORS or not text.isprintable():
            line = element.attributes["pathSeparator"].line
            self.findings.error(
                line,
                f"pathSeparator of <{element.name}> is {text[:8]!r}, it must be one character, none of {NO_SEPARATORS}",
            )
            return DEFAULT_SEPARATOR
        return text

    def _discarding(self, element: Element) -> DiscardingSettings:
        settings = self._settings(element)
        patterns = (settings.text("dropOnly") or "").split()
        line = element.attributes["dropOnly"].line if patterns else element.line
        if len(patterns) > MAX_PATTERNS:
            self.findings.error(line, f"dropOnly of <{element.name}> has more than {MAX_PATTERNS} patterns")
            patterns = []
        for pattern in patterns:
            try:
                name_pattern(pattern)
            except InvalidSelectorError as error:
                self.findings.error(line, f"dropOnly of <{element.name}>: {error}")
        return DiscardingSettings(drop_only=tuple(patterns), **attributes.DISCARDING.values(settings))

    def _redelivery(self, broker: Element, element: Element) -> RedeliverySettings:
        settings = self._settings(element)
        if not self._settings(broker).flag("schedulerSupport", False):
            self.findings.error(
                element.line, '<redeliveryPlugin> needs the scheduler: write schedulerSupport="true" at <broker>'
            )
        entries: list[RedeliveryEntry] = []
        default: RedeliveryPolicy | None = None
        for table in self.inner(element, "redeliveryPolicyMap", REDELIVERY_MAP):
            for group in self.inner(table, "redeliveryPolicyEntries", REDELIVERY_ENTRIES):
                for policy in self.inner(group, "redeliveryPolicy", REDELIVERY_POLICY):
                    entries += self._entry(policy)
            for holder in self.inner(table, "defaultEntry", REDELIVERY_ENTRIES):
                for policy in self.inner(holder, "redeliveryPolicy", REDELIVERY_POLICY):
                    default = self._policy(policy)
        return RedeliverySettings(
            tuple(entries),
            default,
            **attributes.REDELIVERY.values(settings),
        )

    def _entry(self, element: Element) -> list[RedeliveryEntry]:
        settings = self._settings(element)
        named = [name for name in ("queue", "topic") if name in element.attributes]
        temporary = [name for name in TEMPORARY if settings.flag(name, False)]
        if len(named) + len(temporary) != 1:
            self.findings.error(element.line, "<redeliveryPolicy> must name either a queue or a topic")
            return []
        if temporary:
            return [RedeliveryEntry(TEMPORARY[temporary[0]], self._policy(element))]
        kind = QUEUE if named[0] == "queue" else TOPIC
        destination = settings.destination(named[0], kind, pattern=True)
        return [] if destination is None else [RedeliveryEntry(destination, self._policy(element))]

    def _policy(self, element: Element) -> RedeliveryPolicy:
        settings = self._settings(element)
        return RedeliveryPolicy(multiplier=self._multiplier(element), **attributes.REDELIVERY_POLICY.values(settings))

    def _multiplier(self, element: Element) -> float:
        text = self._settings(element).text("backOffMultiplier")
        if text is None:
            return 5.0
        if not MULTIPLIER.fullmatch(text):
            line = element.attributes["backOffMultiplier"].line
            self.findings.error(line, f"backOffMultiplier of <redeliveryPolicy> is {text[:40]!r}, it must be a number")
            return 5.0
        return float(text)
