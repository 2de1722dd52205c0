"""The route of messages of one virtual destination, determined once when the destination is created."""

from __future__ import annotations

from typing import Final

from spanwire.broker.policy.fan_out import selector_steps
from spanwire.broker.policy.virtual_settings import (
    CompositeDestination,
    MirroredQueues,
    VirtualSettings,
    VirtualTopic,
)
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.selector.expression import Selector
from spanwire.selector.parser import parse_selector


class ListeningRule:
    """One virtual topic. The queues under ``pattern`` listen to the topic."""

    __slots__ = ("pattern", "settings")

    def __init__(self, settings: VirtualTopic, pattern: Destination) -> None:
        self.settings: Final[VirtualTopic] = settings
        self.pattern: Final[Destination] = pattern


class ForwardRule:
    """One target of a composite destination.

    The target has a compiled selector and the steps of evaluating the selector.
    """

    __slots__ = ("destination", "keeps_address", "selector", "steps")

    def __init__(
        self, destination: Destination, selector: Selector | None, keeps_address: bool, steps: int = 0
    ) -> None:
        self.destination: Final[Destination] = destination
        self.selector: Final[Selector | None] = selector
        self.keeps_address: Final[bool] = keeps_address
        self.steps: Final[int] = steps


class VirtualRoute:
    """The route of messages of one destination.

    With ``stays`` the destination keeps the messages as well, with ``keeps_unmatched`` those that no forward wants.
    """

    __slots__ = ("forwards", "keeps_unmatched", "listeners", "mirror", "stays")

    def __init__(self) -> None:
        self.listeners: Final[list[ListeningRule]] = []
        self.forwards: Final[list[ForwardRule]] = []
        self.mirror: ForwardRule | None = None
        self.stays = True
        self.keeps_unmatched = False


class VirtualRoutes:
    """Finds routes by the settings of the broker."""

    def __init__(self, settings: VirtualSettings) -> None:
        """Compile the selectors of the settings.

        Raises:
            InvalidSelectorError: a filter is no selector.
        """
        self._topics: tuple[VirtualTopic, ...] = ()
        self._composites: tuple[CompositeDestination, ...] = ()
        self._mirrored: MirroredQueues | None = None
        self._counts_as_demand: Final[bool] = settings.counts_as_demand
        self._selectors: dict[str, Selector] = {}
        self.replace(settings)

    def replace(self, settings: VirtualSettings) -> None:
        """Replace the settings, except for the announcement of virtual destinations to other brokers.

        Raises:
            InvalidSelectorError: a filter is not a valid selector.
        """
        selectors: dict[str, Selector] = {}
        for composite in settings.composites:
            for forward in composite.forward_to:
                if forward.selector:
                    selectors[forward.selector] = parse_selector(forward.selector)
        self._selectors = selectors
        self._topics = settings.topics
        self._composites = settings.composites
        self._mirrored = settings.mirrored

    def sources(self, destination: Destination) -> list[Destination]:
        """Return the virtual destinations that forward to ``destination``.

        Without announcements to other brokers the list is empty.
        """
        sources: list[Destination] = []
        if not self._counts_as_demand or destination.is_pattern or destination.is_temporary:
            return sources
        for composite in self._composites:
            for forward in composite.forward_to:
                if forward.destination.matches(destination) and composite.destination not in sources:
                    sources.append(composite.destination)
        if destination.is_queue:
            for topic in self._topics:
                source = _listened_to(topic, destination)
                if source is not None and source not in sources:
                    sources.append(source)
        return sources

    def find(self, destination: Destination) -> VirtualRoute | None:
        """Return the route of a physical destination, or None for an ordinary destination."""
        if destination.is_advisory:
            return None
        route = VirtualRoute()
        for topic in self._topics:
            if topic.destination.matches(destination):
                name = topic.prefix + destination.name + topic.postfix
                route.listeners.append(ListeningRule(topic, Destination(QUEUE, name)))
        for composite in self._composites:
            if composite.destination.matches(destination):
                self._add_forwards(route, composite)
        mirrored = self._mirrored
        if mirrored is not None and destination.is_queue and (mirrored.temporary or not destination.is_temporary):
            topic_name = Destination(TOPIC, mirrored.prefix + destination.name + mirrored.postfix)
            route.mirror = ForwardRule(topic_name, None, not mirrored.copy_message)
        if route.stays and not route.listeners and not route.forwards and route.mirror is None:
            return None
        return route

    def _add_forwards(self, route: VirtualRoute, composite: CompositeDestination) -> None:
        for forward in composite.forward_to:
            selector = self._selectors[forward.selector] if forward.selector else None
            steps = selector_steps(forward.selector or None)
            route.forwards.append(ForwardRule(forward.destination, selector, not composite.copy_message, steps))
        if composite.send_when_not_matched:
            route.keeps_unmatched = True
        if composite.forward_only or composite.send_when_not_matched:
            route.stays = False


def awaited(listening: Destination, wanted: Destination) -> Destination | None:
    """Return the only queue name that matches two patterns, or None.

    Args:
        listening: the pattern of the queues of a virtual topic.
        wanted: the pattern of a consumer.
    """
    name = awaited_name(listening, wanted)
    if name is None:
        return None
    queue = Destination(QUEUE, name)
    return queue if not queue.is_pattern and wanted.matches(queue) else None


def awaited_name(listening: Destination, wanted: Destination) -> str | None:
    """Return the candidate of `awaited` without the final check, or None without a common name.

    The candidate takes a fourth of the time of `awaited`. Most candidates exist already, so the final check is rare.
    """
    parts: list[str] = []
    elements = wanted.elements
    for index, part in enumerate(listening.elements):
        asked = elements[index] if index < len(elements) else ""
        if asked == ">":
            parts.extend(listening.elements[index:])
            break
        if asked == "*":
            parts.append(part)
        elif part in ("*", asked):
            parts.append(asked)
        else:
            return None
    return ".".join(parts)


def _listened_to(settings: VirtualTopic, queue: Destination) -> Destination | None:
    """Return the virtual topic for the name of a queue, or None for an ordinary name."""
    name = queue.name
    if settings.postfix:
        if not name.endswith(settings.postfix):
            return None
        name = name[: len(name) - len(settings.postfix)]
    prefix = settings.prefix.removesuffix(".")
    segments = prefix.split(".") if prefix else []
    parts = name.split(".")
    if len(parts) <= len(segments):
        return None
    for index, segment in enumerate(segments):
        if segment not in ("*", parts[index]):
            return None
    topic = Destination(TOPIC, ".".join(parts[len(segments) :]))
    return topic if not topic.is_pattern and settings.destination.matches(topic) else None
