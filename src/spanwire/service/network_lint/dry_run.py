"""Dry runs of messages through a network: every hop, and the reason against each other link.

    for run in dry_runs(files, "A", destination, goal="C"):
        …

`spanwire network route` and the console show the same runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError
from spanwire.selector.parser import parse_selector
from spanwire.service.network_lint.lint_routes import misleading_conduit
from spanwire.service.network_lint.network_files import NetworkFiles
from spanwire.service.network_lint.network_plan import NetworkPlan, PlannedLink

MAX_KNOWN: Final = 20  # brokers that an error names


@dataclass(frozen=True, slots=True)
class Hop:
    """A link that the message takes; a higher priority was preferred."""

    near: str
    far: str
    connector: str
    priority: int
    location: str


@dataclass(frozen=True, slots=True)
class ClosedLink:
    """A link that the message does not take, with the reason and its place in a file."""

    near: str
    far: str
    connector: str
    reason: str
    location: str
    is_way_back: bool


@dataclass(slots=True)
class DryRun:
    """One message on its way from ``start`` to a consumer at ``goal``.

    ``stray`` names brokers whose consumers could be sent the message instead, because a conduit looks at no selectors.
    """

    start: str
    goal: str
    arrived: bool
    hops: list[Hop] = field(default_factory=list)
    closed: list[ClosedLink] = field(default_factory=list)
    stray: list[tuple[str, ClosedLink]] = field(default_factory=list)


def dry_runs(
    files: NetworkFiles, start: str, destination: Destination, goal: str | None = None, selector: str | None = None
) -> Iterator[DryRun]:
    """Yield a run to ``goal``, or to each other broker.

    Args:
        files: the configurations of the brokers.
        start: name or id of the broker where the message is sent.
        destination: its queue or topic.
        goal: name or id of the broker with the consumer.
        selector: the selector of this consumer. A route depends on no selector, but where a conduit stands on the way,
            a consumer elsewhere without it can be sent the message.

    Raises:
        ConfigurationError: a file cannot be read, or has no such broker
        InvalidSelectorError: the selector is invalid
    """
    if files.errors:
        raise ConfigurationError("\n".join(files.errors))
    if selector:
        parse_selector(selector)
    begin = known(files, start)
    goals = [known(files, goal)] if goal else [name for name in files.plan.brokers if name != begin]
    for end in goals:
        yield _run(files.plan, begin, destination, end, has_selector=bool(selector))


def _run(plan: NetworkPlan, start: str, destination: Destination, goal: str, *, has_selector: bool) -> DryRun:
    route = plan.route(start, destination, goal)
    run = DryRun(start, goal, route.arrived)
    if route.arrived:
        run.hops = [
            Hop(link.near, link.far, link.settings.name, priority, link.location)
            for link, priority in zip(route.links, route.priorities, strict=True)
        ]
    run.closed = [_closed(one.link, one.reason) for one in route.refusals]
    if has_selector and destination.is_queue and route.arrived:
        for wrong in plan.brokers:
            conduit = misleading_conduit(plan, destination, start, wrong, goal)
            if conduit is not None:
                run.stray.append((wrong, _closed(conduit, "the conduit looks at no selectors")))
    return run


def _closed(link: PlannedLink, reason: str) -> ClosedLink:
    return ClosedLink(link.near, link.far, link.settings.name, reason, link.location, link.reverse)


def known(files: NetworkFiles, name: str) -> str:
    """Return the name of a broker by name or id. Raises `ConfigurationError`."""
    if name in files.plan.brokers:
        return name
    for broker in files.plan.brokers.values():
        if broker.broker_id == name:
            return broker.name
    names = ", ".join(list(files.plan.brokers)[:MAX_KNOWN])
    raise ConfigurationError(f"none of these files is that of broker {name!r}; known are {names}")
