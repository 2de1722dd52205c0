"""Problems of a pipeline: reasons to alert an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.pipeline.watch.status import FAILED, OVER, RETRYING, PipelineStatus, RouteStatus

STALE_MS: Final = 30_000  # milliseconds; a pipeline publishes every 5 seconds, so several publications are missing


@dataclass(frozen=True, slots=True)
class LagLimits:
    """The largest lag of a route without a problem; 0 for none."""

    messages: int = 0
    seconds: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of one route, or of the whole pipeline if ``route`` is empty."""

    pipeline: str
    route: str
    text: str


def problems_of(status: PipelineStatus, age_ms: int, limits: LagLimits) -> list[Problem]:
    """Return the problems of a status that was published ``age_ms`` ago."""
    problems = []
    if age_ms > STALE_MS and not status.has_ended:
        problems.append(Problem(status.pipeline, "", f"has not published its status for {age_ms // 1000} s"))
    for route in status.routes:
        text = _problem_of(route, limits)
        if text:
            problems.append(Problem(status.pipeline, route.route, text))
    return problems


def _problem_of(route: RouteStatus, limits: LagLimits) -> str:
    if route.state in (FAILED, RETRYING):
        return f"{route.state}: {route.last_error}"
    if route.state in OVER:
        return ""
    if limits.messages and route.lag_messages is not None and route.lag_messages > limits.messages:
        return f"lags by {route.lag_messages} messages, more than {limits.messages}"
    if limits.seconds and route.lag_ms is not None and route.lag_ms > limits.seconds * 1000:
        return f"lags by {route.lag_ms / 1000:.0f} s, more than {limits.seconds} s"
    return ""
