"""Delivers one batch of a route with several endpoints or dead letters.

This module decides which rows an endpoint receives, `batch_writer` how. A repeated batch is decided again, but an
endpoint that commits once accepts no other rows after its commit. With such an endpoint, rows after nondeterministic
steps are kept on disk (`batch_rows`) before the rows are divided. Without such an endpoint, rows are computed once
where the first endpoint branches off, and each row takes one branch of a choice; later steps run again for each
endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Final, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spanwire.pipeline.routes.batch_writer import BatchWriter, is_committed_once
from spanwire.pipeline.routes.step_builder import (
    StepBuilder,
    dead_letters,
    endpoint_rows,
    split_by_answer,
)
from spanwire.routes.model import (
    BROKER,
    CONSTANT,
    SELECTOR,
    Aggregate,
    CallFunction,
    Choice,
    Deduplicate,
    Endpoint,
    Expression,
    Filter,
    Multicast,
    RemoveHeader,
    Route,
    SetHeader,
    Step,
    To,
    endpoints_of,
    is_branching,
)

BRANCH: Final = "_spanwire_branch"  # the number of the branch of a choice


class RowKeeper(Protocol):
    """Keeps rows from one attempt of a batch to the next."""

    def keep(self, frame: DataFrame, step_keys: Sequence[str], memory: DataFrame | None = None) -> DataFrame:
        """Return the rows, or the rows of an earlier attempt with equal keys; then run ``memory``."""
        ...


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows between two steps, the keys of earlier steps, and whether another attempt returns equal rows.

    ``memory`` is set after a step with state, until the rows are kept.
    """

    frame: DataFrame
    step_keys: tuple[str, ...]
    is_repeatable: bool
    memory: DataFrame | None = None

    def then(self, frame: DataFrame, key: str, is_repeatable: bool = True) -> Rows:
        """Return the rows after one more step."""
        return Rows(frame, (*self.step_keys, key), self.is_repeatable and is_repeatable, self.memory)


class Delivery:
    """Delivers one batch; created for each batch."""

    def __init__(
        self,
        builder: StepBuilder,
        dead_letters_endpoint: Endpoint | None,
        writer: BatchWriter,
        keeper: RowKeeper | None = None,
    ) -> None:
        """Without a ``keeper`` endpoints may receive other rows in another attempt."""
        self._builder: Final = builder
        self._dead_letters: Final = dead_letters_endpoint
        self._writer: Final = writer
        self._keeper: Final = keeper
        self._cached: Final[list[DataFrame]] = []

    def deliver(self, frame: DataFrame, before: list[Step], steps: list[Step], is_repeatable: bool) -> None:
        """Run all steps up to the last endpoint.

        Args:
            frame: the rows after the steps ``before``, which ran in the stream.
            is_repeatable: True if the source returns equal rows again.
        """
        step_keys = tuple(step_key(position, step) for position, step in enumerate(before))
        has_memory = any(isinstance(step, (Aggregate, Deduplicate)) for step in before)
        is_sure = is_repeatable and all(is_deterministic(step) for step in before)
        rows = Rows(frame, step_keys, is_sure, frame if has_memory else None)
        try:
            if is_branching(steps[0]):  # otherwise the step is a function whose results are kept
                rows = self._fix_rows(rows)
            self._walk(rows, steps, len(before))
        finally:
            for cached in self._cached:
                cached.unpersist()

    def _fix_rows(self, rows: Rows) -> Rows:
        """Compute rows once before they are divided, and keep them if another attempt may return other rows."""
        if self._keeper is not None and not rows.is_repeatable:
            return Rows(self._keeper.keep(rows.frame, rows.step_keys, rows.memory), rows.step_keys, is_repeatable=True)
        cached = rows.frame.persist()
        self._cached.append(cached)
        return Rows(cached, rows.step_keys, rows.is_repeatable)

    def _walk(self, rows: Rows, steps: list[Step], position: int = 0) -> None:
        """Run the steps; ``position`` counts the steps of a list without endpoints.

        Endpoints are not counted, so that kept rows are still found after an endpoint was added or removed.
        """
        for index, step in enumerate(steps):
            key = step_key(position, step)
            position += not isinstance(step, To)
            if is_branching(step):
                rows = self._fix_if_shared(rows, steps[index:])
                self._branch(rows, step, key)
            elif isinstance(step, CallFunction) and self._dead_letters is not None:
                called = self._builder.call_function(rows.frame, step, keep_errors=True)
                rows = self._fix_rows(rows.then(called, key, is_repeatable=False))
                good, failed = split_by_answer(rows.frame)
                rows = rows.then(good, "answered")
                self._fail(failed)
            else:
                rows = rows.then(self._builder.apply(rows.frame, step), key, is_deterministic(step))

    def _fix_if_shared(self, rows: Rows, steps: list[Step]) -> Rows:
        """Fix the rows if several endpoints follow."""
        count = len(endpoints_of(steps)) + (self._dead_letters is not None)
        return self._fix_rows(rows) if self._keeper is not None and not rows.is_repeatable and count > 1 else rows

    def _branch(self, rows: Rows, step: Step, key: str) -> None:
        if isinstance(step, To):
            self._to(rows.frame, step.endpoint)
        elif isinstance(step, Filter):
            chosen = rows.frame.where(self._builder.condition(rows.frame, step.condition))
            self._walk(rows.then(chosen, key, is_deterministic(step)), step.steps)
        elif isinstance(step, Choice):
            self._choice(rows, step, key)
        elif isinstance(step, Multicast):
            for number, branch in enumerate(step.branches, 1):
                self._walk(rows.then(rows.frame, f"{key} copy {number}"), branch)

    def _choice(self, rows: Rows, step: Choice, key: str) -> None:
        """Assign each row to a branch before the first branch runs."""
        branch_numbers: Column = F.lit(len(step.branches))
        for number, (condition, _) in reversed(list(enumerate(step.branches))):
            branch_numbers = F.when(self._builder.condition(rows.frame, condition), number).otherwise(branch_numbers)
        is_sure = all(is_repeated(condition) for condition, _ in step.branches)
        divided = rows.then(rows.frame.withColumn(BRANCH, branch_numbers), key, is_sure)
        cached = len(self._cached)
        if not is_sure and len(endpoints_of([step])) + (self._dead_letters is not None) > 1:
            divided = self._fix_rows(divided)
        for number, branch in enumerate([*[branch for _, branch in step.branches], step.otherwise]):
            if branch:
                chosen = divided.frame.where(F.col(BRANCH) == number).drop(BRANCH)
                self._walk(divided.then(chosen, f"way {number}"), branch)
        while len(self._cached) > cached:  # no step after the choice uses these frames
            self._cached.pop().unpersist()

    def _to(self, frame: DataFrame, endpoint: Endpoint) -> None:
        if self._dead_letters is not None and endpoint.kind == BROKER:
            frame, failed, together = self._builder.split_sendable(frame, endpoint)
            self._cached.append(together)
            self._fail(failed)
        self._writer.write(endpoint_rows(frame, endpoint), endpoint)

    def _fail(self, failed: DataFrame) -> None:
        assert self._dead_letters is not None
        self._writer.write(
            endpoint_rows(dead_letters(failed, self._dead_letters), self._dead_letters),
            self._dead_letters,
            is_rare=True,
        )


def must_agree(route: Route) -> bool:
    """Return True if endpoints need the same rows in each attempt: one commits once, and there are others."""
    endpoints = endpoints_of(route.steps) + ([] if route.dead_letters is None else [route.dead_letters])
    return len(endpoints) > 1 and any(map(is_committed_once, endpoints))


def must_keep(route: Route, is_repeatable: bool, index: int, steps: list[Step]) -> bool:
    """Return True if rows are kept before the step ``index`` of the steps that run batch by batch."""
    count = len(endpoints_of(steps[index:])) + (route.dead_letters is not None)
    return must_agree(route) and not is_repeatable and (index == 0 or count > 1)


def step_key(position: int, step: Step) -> str:
    """Return a key that distinguishes the rows after a step from the rows after any other step.

    The key has the position and the content of the step, including passwords, so the key must not be shown. Of a
    branching step the key has only the condition.
    """
    content: object = step
    if isinstance(step, Filter):
        content = step.condition
    elif isinstance(step, Choice):
        content = [condition for condition, _ in step.branches]
    elif isinstance(step, (Multicast, To)):
        content = None
    return json.dumps([position, type(step).__name__, _plain(content)])


def _plain(content: object) -> object:
    """Return the content as lists and texts without locations; a comment in the file changes no rows."""
    if is_dataclass(content):
        names = [item.name for item in fields(content) if item.name != "location"]
        return [type(content).__name__, *([name, _plain(getattr(content, name))] for name in names)]
    if isinstance(content, dict):
        return [[name, _plain(value)] for name, value in sorted(content.items())]
    return [_plain(item) for item in content] if isinstance(content, (list, tuple)) else content


def is_deterministic(step: Step) -> bool:
    """Return True if a step certainly returns equal rows for equal rows.

    SQL may use the time or a random number, a function anything, and a table may change.
    """
    if isinstance(step, Filter):
        return is_repeated(step.condition)
    return isinstance(step, RemoveHeader) or (isinstance(step, SetHeader) and is_repeated(step.value))


def is_repeated(expression: Expression) -> bool:
    """Return True if an expression has equal values for equal rows."""
    return expression.language in (SELECTOR, CONSTANT)
