"""Interprets the ``destinationInterceptors``: virtual topics, composite destinations, mirrored queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from spanwire.broker.policy.virtual_settings import (
    MAX_FORWARDS,
    CompositeDestination,
    ForwardTo,
    MirroredQueues,
    VirtualSettings,
    VirtualTopic,
)
from spanwire.documents.element import Element
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.service.config.tables import virtual_attributes as attributes
from spanwire.service.config.tables.attribute_table import NAMED_SETTINGS
from spanwire.service.config.tables.handling import NO_EFFECT, YES, Rule, Words, honoured, later
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import Settings

ONE_THREAD: Final = Rule(NO_EFFECT, ("false",), "one thread makes all copies")
ATOMIC: Final = Rule(NO_EFFECT, ("true", "false"), "a send is answered once all of its copies are stored")
EVERY_TOPIC: Final = VirtualTopic(Destination(TOPIC, ">"))  # a virtualTopic without a name

INTERCEPTORS: Final = Words(
    {},
    {
        "virtualDestinationInterceptor": YES,
        "mirroredQueue": YES,
        "bean": later("custom interceptors; Spanwire runs no Java classes", guards=True),
    },
)
INTERCEPTOR: Final = Words({}, {"virtualDestinations": YES})
VIRTUAL_DESTINATIONS: Final = Words({}, {"virtualTopic": YES, "compositeQueue": YES, "compositeTopic": YES})
VIRTUAL_TOPIC: Final = Words(
    {
        **honoured(attributes.VIRTUAL_TOPIC),
        "concurrentSend": ONE_THREAD,
        "transactedSend": ATOMIC,
    },
    {},
    tables=(attributes.VIRTUAL_TOPIC,),
)
COMPOSITE: Final = Words(
    {
        "name": YES,
        **honoured(attributes.COMPOSITE),
        "concurrentSend": ONE_THREAD,
    },
    {"forwardTo": YES},
    tables=(attributes.COMPOSITE,),
)
FORWARD_TO: Final = Words({}, {"queue": YES, "topic": YES, "filteredDestination": YES})
NAMED: Final = Words(NAMED_SETTINGS, {})
FILTERED: Final = Words(
    {"queue": YES, "topic": YES, **honoured(attributes.FILTERED)},
    {
        "destination": later("targets by another name", "write queue= or topic=, remove it"),
        "filter": later("a filter by a Java class", "write selector=, remove it"),
    },
    tables=(attributes.FILTERED,),
)
MIRRORED: Final = Words({**honoured(attributes.MIRRORED)}, {}, tables=(attributes.MIRRORED,))

Inner = Callable[[Element, str, Words], list[Element]]


@dataclass(frozen=True, slots=True)
class VirtualInterpreter:
    """Interprets the virtual destinations of a broker; ``inner`` returns checked inner elements."""

    findings: Findings
    inner: Inner

    def virtual(self, broker: Element) -> VirtualSettings:
        """Return the settings of the elements; without any, the default virtual topics."""
        settings = Settings(broker, self.findings)
        groups = self.inner(broker, "destinationInterceptors", INTERCEPTORS)
        switches = attributes.VirtualSwitches(**attributes.SWITCHES.values(settings))
        demand = attributes.DEMAND.values(settings)
        every_queue = MirroredQueues(**attributes.TEMPORARY.values(settings))
        mirrored = every_queue if switches.mirrored_queues else None
        if not groups:
            return VirtualSettings((VirtualTopic(),) if switches.topics else (), (), mirrored, **demand)
        topics: list[VirtualTopic] = []
        composites: list[CompositeDestination] = []
        for group in groups:
            for element in self.inner(group, "mirroredQueue", MIRRORED):
                mirrored = replace(every_queue, **attributes.MIRRORED.values(Settings(element, self.findings)))
            for interceptor in self.inner(group, "virtualDestinationInterceptor", INTERCEPTOR):
                for holder in self.inner(interceptor, "virtualDestinations", VIRTUAL_DESTINATIONS):
                    self._read(holder, topics, composites)
        return VirtualSettings(tuple(topics), tuple(composites), mirrored, **demand)

    def _read(self, holder: Element, topics: list[VirtualTopic], composites: list[CompositeDestination]) -> None:
        for element in self.inner(holder, "virtualTopic", VIRTUAL_TOPIC):
            topic = self._topic(element)
            if topic is not None:
                topics.append(topic)
        for name, kind in (("compositeQueue", QUEUE), ("compositeTopic", TOPIC)):
            for element in self.inner(holder, name, COMPOSITE):
                composite = self._composite(element, kind)
                if composite is not None:
                    composites.append(composite)

    def _topic(self, element: Element) -> VirtualTopic | None:
        topic = replace(EVERY_TOPIC, **attributes.VIRTUAL_TOPIC.values(Settings(element, self.findings)))
        if not topic.prefix and not topic.postfix:
            self.findings.error(element.line, "<virtualTopic> needs a prefix or a postfix for the queues that listen")
            return None
        return topic

    def _composite(self, element: Element, kind: int) -> CompositeDestination | None:
        settings = Settings(element, self.findings)
        if "name" not in element.attributes:
            self.findings.error(element.line, f"<{element.name}> has no name")
            return None
        name = settings.destination("name", kind, pattern=True)
        forwards: list[ForwardTo] = []
        for holder in self.inner(element, "forwardTo", FORWARD_TO):
            forwards += self._plain_forwards(holder)
            forwards += self._filtered_forwards(holder)
        if not forwards:
            self.findings.error(element.line, f"<{element.name}> has no <forwardTo> with a queue or topic in it")
        if len(forwards) > MAX_FORWARDS:
            self.findings.error(
                element.line,
                f"<{element.name}> forwards to {len(forwards)} destinations, {MAX_FORWARDS} are the most: "
                f"let queues listen to a virtual topic",
            )
        if name is None:
            return None
        return CompositeDestination(name, tuple(forwards), **attributes.COMPOSITE.values(settings))

    def _plain_forwards(self, holder: Element) -> list[ForwardTo]:
        forwards: list[ForwardTo] = []
        for name, kind in (("queue", QUEUE), ("topic", TOPIC)):
            for element in self.inner(holder, name, NAMED):
                destination = Settings(element, self.findings).physical_name(kind)
                if destination is not None:
                    forwards.append(ForwardTo(destination))
        return forwards

    def _filtered_forwards(self, holder: Element) -> list[ForwardTo]:
        forwards: list[ForwardTo] = []
        for element in self.inner(holder, "filteredDestination", FILTERED):
            named = [name for name in ("queue", "topic") if name in element.attributes]
            if len(named) != 1:
                self.findings.error(element.line, "<filteredDestination> must name either a queue or a topic")
                continue
            kind = QUEUE if named[0] == "queue" else TOPIC
            settings = Settings(element, self.findings)
            destination = settings.destination(named[0], kind, pattern=False)
            values = attributes.FILTERED.values(settings)
            if destination is not None:
                forwards.append(ForwardTo(destination, **values))
        return forwards
