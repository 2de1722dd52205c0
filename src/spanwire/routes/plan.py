"""Describes routes for ``--dry-run``, without passwords.

The options of a broker are known, so only its address may contain a password. The options of other endpoints depend on
the format and may contain credentials under any name: only names are shown, and values known to be harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from spanwire.routes.masking import HIDDEN, jdbc_address, without_secrets
from spanwire.routes.model import (
    BROKER,
    Aggregate,
    CallFunction,
    Choice,
    Deduplicate,
    Delay,
    Endpoint,
    Filter,
    Gather,
    Idempotent,
    Join,
    Log,
    Multicast,
    Nesting,
    Process,
    RemoveHeader,
    Route,
    SetHeader,
    Split,
    SplitBody,
    Step,
    Throttle,
    To,
    Transform,
)

HARMLESS: Final = frozenset(
    "batchsize compression dateformat delimiter driver encoding fetchsize header inferschema maxfilespertrigger mode "
    "multiline numpartitions parquet.enable.dictionary sep startingoffsets subscribe timestampformat topic".split()
)
INDENT: Final = "  "


class RouteFile(Protocol):
    """The part of a route file that a plan shows."""

    @property
    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        ...


def plan_of(file: RouteFile) -> str:
    """Return the description of a file's routes, one line per step."""
    return "\n".join(line for route in file.routes for line in route_lines(route)) + "\n"


def route_lines(route: Route) -> list[str]:
    """Return the lines of one route."""
    lines = [f"route {route.name}", f"{INDENT}from {describe(route.source)}"]
    lines += _step_lines(route.steps, 1)
    if route.dead_letters is not None:
        lines.append(f"{INDENT}rows that fail: to {describe(route.dead_letters)}")
    return lines


def describe(endpoint: Endpoint) -> str:
    """Return an endpoint with options."""
    shown = {name: value for name, value in endpoint.options.items() if name not in ("destination", "path")}
    if endpoint.kind == BROKER:
        target = endpoint.options["destination"]
        words = [f"{name}={_of_broker(name, value)}" for name, value in sorted(shown.items())]
    else:
        target = without_secrets(endpoint.uri)
        words = [f"{name}={_of_format(name, value)}" for name, value in sorted(shown.items())]
    return target + (f" ({', '.join(words)})" if words else "")


def _of_broker(name: str, value: str) -> str:
    if name.lower().endswith("password"):
        return HIDDEN
    return without_secrets(value) if name == "url" else value


def _of_format(name: str, value: str) -> str:
    if name.lower() in HARMLESS:
        return value
    return jdbc_address(value) if name == "url" else HIDDEN


def _step_lines(steps: list[Step], depth: int) -> list[str]:
    lines: list[str] = []
    for step in steps:
        lines.append(INDENT * depth + step_text(step))
        if isinstance(step, Nesting) and step.is_branch:
            lines += _step_lines(step.steps, depth + 1)
        elif isinstance(step, Choice):
            for condition, branch in step.branches:
                lines.append(f"{INDENT * (depth + 1)}when {condition.language} {condition.text}")
                lines += _step_lines(branch, depth + 2)
            lines.append(f"{INDENT * (depth + 1)}otherwise")
            lines += _step_lines(step.otherwise, depth + 2) or [f"{INDENT * (depth + 2)}nothing"]
        elif isinstance(step, Multicast):
            for number, branch in enumerate(step.branches, 1):
                lines.append(f"{INDENT * (depth + 1)}copy {number}")
                lines += _step_lines(branch, depth + 2)
    return lines


def step_text(step: Step) -> str:
    """Return a step in one line."""
    if isinstance(step, Filter):
        word = "for rows" if step.is_branch else "only rows"
        return f"{word} where {step.condition.language} {step.condition.text}"
    if isinstance(step, To):
        return f"{'tap' if step.is_tap else 'to'} {describe(step.endpoint)}"
    if isinstance(step, Choice):
        return "choice"
    if isinstance(step, Multicast):
        return "multicast"
    return _row_step_text(step)


def _row_step_text(step: Step) -> str:
    if isinstance(step, SetHeader):
        return f"set {step.name} to {step.value.language} {step.value.text}"
    if isinstance(step, RemoveHeader):
        return f"remove {step.name}"
    if isinstance(step, (SplitBody, Gather, Idempotent, Throttle, Delay, Log, Process)):
        return _message_step_text(step)
    if isinstance(step, Transform) and step.body is not None:
        return f"set the text to {step.body.language} {step.body.text}"
    if isinstance(step, Transform):
        word = "select" if step.only else "set"
        return f"{word} {_pairs(step.columns)}"
    if isinstance(step, CallFunction):
        return f"text from the Python function {step.module}.{step.name}"
    if isinstance(step, Split):
        return f"a row for each element of {step.sql}"
    if isinstance(step, Aggregate):
        slide = f" every {step.slide}" if step.slide else ""
        by = f" by {_pairs(step.by)}" if step.by else ""
        return f"aggregate windows of {step.window}{slide}, {step.watermark} late at most{by}: {_pairs(step.columns)}"
    if isinstance(step, Deduplicate):
        return f"first row of each {step.key} within {step.watermark}"
    assert isinstance(step, Join)
    return f"{'left join' if step.is_left else 'join'} {describe(step.table)} on {step.on}: {_pairs(step.columns)}"


def _message_step_text(step: SplitBody | Gather | Idempotent | Throttle | Delay | Log | Process) -> str:
    if isinstance(step, Process):
        return f"the convertor {step.name}"
    if isinstance(step, SplitBody):
        return f"a message for each part by {step.language} {step.text!r}"
    if isinstance(step, Gather):
        limits = [] if step.size is None else [f"{step.size} messages"]
        limits += [] if step.timeout_ms is None else [f"{step.timeout_ms} ms after the first"]
        return f"gather messages with the same {step.key.text}: {step.strategy}, complete by {' or '.join(limits)}"
    if isinstance(step, Idempotent):
        return f"first message of each {step.key.text}, {step.size} keys at a time"
    if isinstance(step, Throttle):
        return f"{step.count} messages in {step.period_ms} ms at most"
    if isinstance(step, Delay):
        return f"not before {step.delay_ms} ms after the arrival"
    return f"log {step.message.text}"


def _pairs(pairs: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} = {sql}" for name, sql in pairs)
