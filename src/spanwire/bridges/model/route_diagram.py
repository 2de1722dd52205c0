"""A route as text for ``--dry-run``, without passwords."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.diagram import place, receiver_lines
from spanwire.bridges.model.route_definition import (
    FileSource,
    FileTarget,
    HttpTarget,
    RouteDefinition,
    RouteSource,
    RouteTarget,
    TimerSource,
    keeps_state,
)
from spanwire.client.addressing.redaction import redacted
from spanwire.routes.model import Choice, Filter, Multicast, Step, To, branches_of
from spanwire.routes.plan import step_text

INDENT: Final = "  "


def route_diagram(definition: RouteDefinition) -> str:
    """Return the diagram of a route."""
    lines = [f"route {definition.name}", f"  {source_text(definition.source)}"]
    lines += _lines(definition, definition.steps, 1)
    if definition.dead_letters is not None:
        lines.append(f"  messages that fail: to {target_text(definition.targets[definition.dead_letters])}")
    order = "send to all targets, "
    if keeps_state(definition.steps):
        order += "store groups and keys, "
    lines.append(f"  {definition.quality.value}: {order}then acknowledge at the source")
    lines.append(f"  batch: up to {definition.batch.size} messages, as many as the source has at hand")
    lines += receiver_lines(definition.consumers)
    lines.append("  after a failure: retry after pauses that grow from 1 s to 60 s, without limit")
    return "\n".join(lines) + "\n"


def source_text(source: RouteSource) -> str:
    """Return a source without secrets."""
    if isinstance(source, Source):
        parts = [f"{source.destination} at {place(source.factory)}"]
        if source.subscription is not None:
            parts.append(f"by the durable subscription {source.subscription} of the client {source.client_id}")
        if source.selector is not None:
            parts.append(f"only {source.selector}")
        return ", ".join(parts)
    if isinstance(source, FileSource):
        return f"files of {source.directory}"
    assert isinstance(source, TimerSource)
    return f"a tick every {source.period_ms} ms"


def target_text(target: RouteTarget) -> str:
    """Return a target without secrets."""
    if isinstance(target, Target):
        return f"{target.destination} at {place(target.factory)}"
    if isinstance(target, FileTarget):
        return f"files in {target.directory}"
    assert isinstance(target, HttpTarget)
    return f"{target.method} {redacted(target.url)}"


def targets_text(definition: RouteDefinition) -> str:
    """Return all targets of a route."""
    return ", ".join(target_text(target) for target in definition.targets) or "the log"


def _text(step: Step) -> str:
    if isinstance(step, Filter):
        word = "for messages" if step.is_branch else "only messages"
        return f"{word} where {step.condition.language} {step.condition.text}"
    return step_text(step)


def _lines(definition: RouteDefinition, steps: list[Step], depth: int) -> list[str]:
    lines: list[str] = []
    space = INDENT * depth
    for step in steps:
        if isinstance(step, To):
            word = "copy to" if step.is_tap else "to"
            lines.append(
                f"{space}  {word} {target_text(definition.targets[definition.endpoints.index(step.endpoint)])}"
            )
            continue
        lines.append(f"{space}  {_text(step)}")
        if isinstance(step, Choice):
            for condition, branch in step.branches:
                lines.append(f"{space}    when {condition.language} {condition.text}")
                lines += _lines(definition, branch, depth + 2)
            lines.append(f"{space}    otherwise")
            lines += _lines(definition, step.otherwise, depth + 2) or [f"{space}      nothing"]
        elif isinstance(step, Multicast):
            for number, branch in enumerate(step.branches, 1):
                lines.append(f"{space}    copy {number}")
                lines += _lines(definition, branch, depth + 2)
        else:
            for branch in branches_of(step):
                lines += _lines(definition, branch, depth + 1)
    return lines
