"""``direct:`` of Camel: steps of one route for calls by other routes.

The steps of a route from ``direct:NAME`` take the place of each ``to: direct:NAME``, so the steps belong to the batch,
the state and the quality of service of the caller. Rows behind a filter, split, aggregate or idempotentConsumer of the
called route stay in the called route; the caller sees the changes before such a step. A ``wireTap`` calls with a copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from spanwire.routes.model import (
    ANY_ENGINE,
    COMPONENT,
    Choice,
    Endpoint,
    Filter,
    Gather,
    Idempotent,
    Multicast,
    Route,
    SplitBody,
    Step,
    To,
)

DIRECT: Final = "direct"
MAX_STEPS: Final = (
    2_000  # steps and calls of a route with all that it calls; routes that call each other twice grow fast
)


def without_direct(routes: list[Route]) -> list[Route]:
    """Return the routes from other sources than ``direct:``, with the steps of called routes.

    Raises:
        ConfigurationError: a called route is missing, is there twice, calls itself, or contradicts its caller.
    """
    called: dict[str, Route] = {}
    for route in routes:
        if is_direct(route.source):
            name = route.source.destination
            if name in called:
                raise route.location.error(f"there are two routes from direct:{name}")
            if not route.is_started:
                raise route.location.error(f"the route from direct:{name} starts with its callers; remove autoStartup")
            called[name] = route
    return [_Caller(route, called).route() for route in routes if not is_direct(route.source)]


def is_direct(endpoint: Endpoint) -> bool:
    """Return True for the endpoint of a call."""
    return endpoint.kind == COMPONENT and endpoint.format == DIRECT


class _Caller:
    """Puts called steps in the place of calls, for one route."""

    def __init__(self, route: Route, called: Mapping[str, Route]) -> None:
        self._route: Final = route
        self._called: Final = called
        self._steps = 0

    def route(self) -> Route:
        route = self._route
        if route.dead_letters is not None and is_direct(route.dead_letters):
            raise route.dead_letters.location.error(
                "dead letters go to a queue, topic, file or log, and not to direct:"
            )
        return replace(route, steps=self._replaced(route.steps, ()))

    def _replaced(self, steps: list[Step], path: tuple[str, ...]) -> list[Step]:
        result: list[Step] = []
        for position, step in enumerate(steps):
            self._count()
            if isinstance(step, To) and is_direct(step.endpoint):
                inner = self._steps_of(step.endpoint, path)
                result += [Multicast(step.endpoint.location, [inner])] if step.is_tap else inner
                continue
            if path and isinstance(step, (Filter, SplitBody, Gather, Idempotent)) and not step.is_branch:
                rest = self._replaced(steps[position + 1 :], path)
                return [*result, replace(step, steps=rest, is_branch=True)]
            result.append(self._with_inner(step, path))
        return result

    def _with_inner(self, step: Step, path: tuple[str, ...]) -> Step:
        if isinstance(step, Choice):
            branches = [(condition, self._replaced(inner, path)) for condition, inner in step.branches]
            return replace(step, branches=branches, otherwise=self._replaced(step.otherwise, path))
        if isinstance(step, Multicast):
            return replace(step, branches=[self._replaced(inner, path) for inner in step.branches])
        if isinstance(step, (Filter, SplitBody, Gather, Idempotent)) and step.is_branch:
            return replace(step, steps=self._replaced(step.steps, path))
        return step

    def _count(self) -> None:
        """Count a step or call; calls count because routes may only call."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise self._route.location.error(
                f"the route {self._route.name} has more than {MAX_STEPS} steps with those that it calls by direct:"
            )

    def _steps_of(self, endpoint: Endpoint, path: tuple[str, ...]) -> list[Step]:
        name = endpoint.destination
        route = self._called.get(name)
        if route is None:
            raise endpoint.location.unknown(
                "route from", f"direct:{name}", [f"direct:{known}" for known in self._called]
            )
        if name in path:
            raise endpoint.location.error(f"direct:{' → direct:'.join((*path, name))} is a circle")
        if route.dead_letters not in (None, self._route.dead_letters):
            raise route.location.error(
                f"the route from direct:{name} has a deadLetter, and the one of its caller {self._route.name} counts; "
                "remove it"
            )
        if route.engine not in (ANY_ENGINE, self._route.engine):
            raise route.location.error(f"the engine of its caller {self._route.name} counts; remove engine")
        return self._replaced(route.steps, (*path, name))
