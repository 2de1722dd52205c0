"""The definition of a route that runs message by message: a source, steps, and several targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from spanwire.bridges.model.definition import (
    BatchLimits,
    BridgeDefinition,
    ConnectionFactory,
    Quality,
    RetryPolicy,
    Source,
    Target,
)
from spanwire.model.errors import ConfigurationError
from spanwire.routes.consumers import ONE, Consumers
from spanwire.routes.model import Endpoint, Gather, Idempotent, Process, Step, Throttle, branches_of


@dataclass(frozen=True, slots=True)
class TimerSource:
    """A message at each tick, without a body; ``repeat_count`` 0 stands for no limit."""

    name: str
    period_ms: int
    delay_ms: int
    repeat_count: int


@dataclass(frozen=True, slots=True)
class FileSource:
    """A message for each file of a directory, in the order of the names.

    A file is removed once it is sent, or else moved to the directory ``move`` below.
    """

    directory: str
    delete: bool
    move: str
    move_failed: str
    include: str | None
    delay_ms: int


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A file for each message; ``file_name`` is a text in the language simple, "" the id of the message.

    ``exists`` is Camel's word ``fileExist``: Override, Append, Fail or Ignore.
    """

    directory: str
    file_name: str
    exists: str


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A request for each message, with the message's body."""

    url: str = field(repr=False)  # a password may be in it
    method: str
    timeout_ms: int


RouteSource = Source | TimerSource | FileSource
RouteTarget = Target | FileTarget | HttpTarget


@dataclass(frozen=True, slots=True)
class RouteDefinition:
    """A route; ``targets`` are the targets of ``endpoints``, named in the steps.

    ``dead_letters`` is an index of ``targets``.
    """

    name: str
    source: RouteSource
    steps: list[Step]
    endpoints: list[Endpoint]
    targets: list[RouteTarget]
    dead_letters: int | None
    batch: BatchLimits
    retry: RetryPolicy
    auto_start: bool = True  # without it the route waits for an operator
    consumers: Consumers = ONE
    written_at: str = field(default="", compare=False)  # file and line, for errors

    @property
    def quality(self) -> Quality:
        """Return the quality of service: acknowledged at the source once all targets have the message."""
        return Quality.DUPLICATES_OK


Definition = BridgeDefinition | RouteDefinition


def error_about(definition: Definition, reason: object) -> ConfigurationError:
    """Return an error about a bridge or route, with file and line as far as known."""
    return ConfigurationError(f"{definition.written_at}: {reason}" if definition.written_at else str(reason))


def with_factories(definition: Definition, changed: Callable[[ConnectionFactory], ConnectionFactory]) -> Definition:
    """Return a bridge or route whose connection factories have been changed."""
    source = definition.source
    if isinstance(source, Source):
        source = replace(source, factory=changed(source.factory))
    if isinstance(definition, BridgeDefinition):
        assert isinstance(source, Source), "a bridge has a broker as source"
        return replace(definition, source=source, target=_with_factory(definition.target, changed))
    targets = [
        _with_factory(target, changed) if isinstance(target, Target) else target for target in definition.targets
    ]
    return replace(definition, source=source, targets=targets)


def _with_factory(target: Target, changed: Callable[[ConnectionFactory], ConnectionFactory]) -> Target:
    return replace(target, factory=changed(target.factory))


def functions_of(steps: list[Step]) -> list[str]:
    """Return the names of the functions that steps call, each once."""
    names: dict[str, None] = {}
    for step in steps:
        if isinstance(step, Process):
            names[step.name] = None
        for branch in branches_of(step):
            names |= dict.fromkeys(functions_of(branch))
    return list(names)


def keeps_state(steps: list[Step]) -> bool:
    """Return True if a step remembers messages beyond their batch."""
    return any(
        isinstance(step, (Gather, Idempotent)) or any(keeps_state(branch) for branch in branches_of(step))
        for step in steps
    )


def is_throttled(steps: list[Step]) -> bool:
    """Return True if a step lets so many messages pass in a period."""
    return any(
        isinstance(step, Throttle) or any(is_throttled(branch) for branch in branches_of(step)) for step in steps
    )
