"""Descriptions of the links to other brokers, and the reasons of messages that do not cross a link."""

from __future__ import annotations

from dataclasses import dataclass

from spanwire.broker.explanation.explanation import (
    CONDUIT,
    EXCLUDED,
    LINK_DOWN,
    NO_DEMAND,
    PATH,
    TTL,
    Explanation,
    age_text,
    counted,
    quoted,
)
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.message import Message
from spanwire.model.routing import lets_through, within

RUNNING = "running"


@dataclass(frozen=True)
class LinkDescription:
    """One link as seen by the connector.

    ``destinations`` have demand at the remote broker. ``connection_id`` is the connection of the bridge at this broker,
    "" while the link is down. ``refusals`` are the refusals of the remote broker by message id.
    """

    name: str
    remote: str
    remote_id: str
    uri: str
    state: str
    reason: str
    since_s: float
    message_ttl: int
    conduit: bool
    excluded: tuple[Destination, ...] = ()
    included: tuple[Destination, ...] = ()
    destinations: tuple[Destination, ...] = ()
    connection_id: str = ""
    refusals: tuple[tuple[str, str], ...] = ()
    is_static: bool = False

    @property
    def title(self) -> str:
        """The name of the link for people."""
        return f"link {self.name} to {self.remote or self.uri}"

    def wants(self, destination: Destination) -> bool:
        """Return True if the remote broker has demand for ``destination``."""
        return any(one == destination or (one.is_pattern and one.matches(destination)) for one in self.destinations)


def crossing(link: LinkDescription, destination: Destination, message: Message | None) -> tuple[str, str]:
    """Return why a message of ``destination`` does not cross a link: cause and words, else ""."""
    if link.state != RUNNING:
        why = f": {link.reason}" if link.reason else ""
        return LINK_DOWN, f"it is {link.state} for {age_text(link.since_s)}{why}"
    if not lets_through(destination, link.excluded, link.included):
        what = "excludes" if any(one.matches(destination) for one in link.excluded) else "does not include"
        return EXCLUDED, f"its configuration {what} {destination.qualified_name}"
    if message is not None:
        path = message.broker_path
        if link.remote_id and link.remote_id in path:
            return PATH, "the message has come through that broker, and does not return"
        if not within(len(path), link.message_ttl):
            return TTL, f"the message has passed {counted(len(path), 'broker')}, and messageTTL is {link.message_ttl}"
    if not link.wants(destination):
        return NO_DEMAND, f"no consumer of {destination.qualified_name} is known beyond it"
    return "", ""


def add_links(
    explanation: Explanation, links: list[LinkDescription], destination: Destination, message: Message | None, now: Time
) -> str:
    """Add why no link takes a message, with advice.

    Return the cause if all links have the same cause, else "".
    """
    causes: dict[str, None] = {}
    for link in links:
        cause, text = crossing(link, destination, message)
        if not cause:
            causes[""] = None
            text = f"{destination.qualified_name} has demand there, and the bridge takes messages of it"
        else:
            causes[cause] = None
            advise_link(explanation, link, cause, destination)
        explanation.saw(text, link.title, now.wall_ms)
    return next(iter(causes)) if len(causes) == 1 else ""


def advise_link(explanation: Explanation, link: LinkDescription, cause: str, destination: Destination) -> None:
    """Add the remedy for the cause why a link does not take a message."""
    name, location = link.name, link.remote or link.uri
    if cause == LINK_DOWN:
        explanation.advise(f"bring the {link.title} up; spanwire why link {name} tells what it lacks")
    elif cause == EXCLUDED:
        explanation.advise(
            f"let network connector {name} forward {destination.qualified_name}: change its excludedDestinations or "
            f"dynamicallyIncludedDestinations"
        )
    elif cause == TTL:
        explanation.advise(f"consume here, or raise messageTTL of network connector {name} for later messages")
    elif cause == PATH:
        explanation.advise(
            f"consume here, or let messages return to {location}: set conditionalNetworkBridgeFilterFactory with "
            f"replayWhenNoConsumers on the policy of {destination.qualified_name}"
        )
    elif cause == NO_DEMAND:
        explanation.advise(
            f"start a consumer of {destination.qualified_name} at {location} or beyond, or list it in "
            f"staticallyIncludedDestinations of network connector {name}"
        )
        explanation.advise(
            f"if one consumes there, the user of network connector {name} lacks the right to read ActiveMQ.Advisory.> "
            f"at {location}, or advisorySupport is off there"
        )


def advise_window(explanation: Explanation, link: LinkDescription, destination: Destination) -> None:
    """Add the remedies for a window of a link that is full: the remote broker does not answer, or answers late."""
    name, location = quoted(link.name), link.remote or link.uri
    there = f", and spanwire why queue {quoted(destination.name)} at {location}" if destination.is_queue else ""
    explanation.advise(f"see what broker {location} waits for: spanwire why link {name} here{there}")
    explanation.advise(f"if the link is only slow, raise prefetchSize of network connector {link.name}")
    explanation.advise(f"to let other consumers have its messages, stop it: spanwire link stop {name}")


def advise_held(explanation: Explanation, link: LinkDescription, prefetch: int) -> None:
    """Add the remedy for a link that takes no message: its prefetch is 0, or an operator drains it."""
    if prefetch == 0:
        explanation.advise(f"set prefetchSize of network connector {link.name} to 1 or more")
    else:
        explanation.advise(
            f"wait for the end of the drain; a link that was stopped after it is started by spanwire link start "
            f"{quoted(link.name)}"
        )


def add_conduit(explanation: Explanation, message: Message, destination: Destination, now: Time) -> None:
    """Add why a message with no matching consumer here came over a link at all: a conduit hides selectors."""
    if not message.broker_path:
        return
    explanation.saw(
        f"it came over {counted(len(message.broker_path), 'link')}: a link with conduitSubscriptions forwards for any "
        f"consumer of {destination.qualified_name} and hides its selector ({CONDUIT})",
        destination.qualified_name,
        now.wall_ms,
    )
    explanation.advise(
        'set conduitSubscriptions="false" on the network connector that sent it, so that links forward by selectors'
    )
