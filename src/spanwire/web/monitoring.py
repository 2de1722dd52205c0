"""Handlers for monitoring: metrics and health."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse, Response

from spanwire.management.control_client import ControlError
from spanwire.management.health import Level, broker_checks, worst
from spanwire.web.calls import Call
from spanwire.web.metrics import BUSIEST, SERIES_NAMES, exposition
from spanwire.web.problems import ProblemError

HEALTH_TYPE: Final = "application/health+json"
STATUS_OF_LEVEL: Final = {Level.OK: "pass", Level.WARNING: "warn", Level.CRITICAL: "fail"}
# A certificate that ends would take all brokers out of service together, and clients without TLS are served.
NOT_FOR_READINESS: Final = frozenset({"certificates"})
ALL: Final = "all"
MAX_DIGITS: Final = 9  # of the number of destinations with series of their own


async def metrics(call: Call) -> Response:
    """Answer a scrape; ``?destinations=all`` or a number replaces the 100 busiest destinations.

    ``series=pending,enqueued`` leaves out other figures of theirs.
    """
    asked = call.request.query_params.get("destinations", str(BUSIEST))
    if asked != ALL and not (asked.isascii() and asked.isdigit() and len(asked) <= MAX_DIGITS):
        raise ProblemError(HTTPStatus.BAD_REQUEST, "destinations is a number or all")
    chosen = call.request.query_params.get("series")
    series = SERIES_NAMES if chosen is None else frozenset(chosen.split(","))
    if not series <= SERIES_NAMES:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"series has some of these names: {','.join(sorted(SERIES_NAMES))}")
    destinations = await call.view("destinations")
    text, content_type = exposition(
        await call.status(),
        [row for row in destinations if isinstance(row, dict)] if isinstance(destinations, list) else [],
        call.request.headers.get("accept", ""),
        None if asked == ALL else int(asked),
        series,
    )
    return Response(text, media_type=content_type)


async def live(call: Call) -> Response:
    """Answer 200 while the broker's event loop answers, else 503."""
    try:
        await call.snapshots.answer("ping")
    except ControlError:
        return _health("fail", HTTPStatus.SERVICE_UNAVAILABLE, {"broker": "fail"})
    return _health("pass", HTTPStatus.OK, {"broker": "pass"})


async def ready(call: Call) -> Response:
    """Answer 200 while the broker can serve clients, else 503; the checks have names and results alone."""
    try:
        checks = broker_checks(await call.status())
    except ControlError:
        return _health("fail", HTTPStatus.SERVICE_UNAVAILABLE, {"broker": "fail"})
    level = worst(check for check in checks if check.name not in NOT_FOR_READINESS)
    status = HTTPStatus.SERVICE_UNAVAILABLE if level >= Level.CRITICAL else HTTPStatus.OK
    return _health(STATUS_OF_LEVEL[level], status, {check.name: STATUS_OF_LEVEL[check.level] for check in checks})


def _health(result: str, status: HTTPStatus, checks: dict[str, str]) -> Response:
    content = {"status": result, "checks": {name: [{"status": value}] for name, value in checks.items()}}
    return JSONResponse(content, int(status), media_type=HEALTH_TYPE)
