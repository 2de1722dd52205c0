"""One batch of a route to all its endpoints, for routes with more than one of them or with dead letters.

Which rows an endpoint gets is decided here, how it gets them in `writing`. A batch that Spark repeats is decided again,
and an endpoint that commits once and has had its part takes no other. So where there is one, rows behind steps that may
give others in another try are kept (`batch_rows`) before they part. In a route without one, rows are computed once
where the first of its endpoints branches off, and each takes one way of a choice; what steps behind that do is done
anew for each endpoint.
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

BRANCH: Final = "_spanwire_branch"  # which way of a choice a row takes


class RowKeeper(Protocol):
    """Keeps rows from one try of a batch to the next."""

    def keep(self, frame: DataFrame, step_keys: Sequence[str], memory: DataFrame | None = None) -> DataFrame:
        """These rows, or those that an earlier try has kept of the same way; then ``memory`` runs for its own sake."""
        ...


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows on their way: the keys of the steps behind them, and whether another try would give the same. ``memory`` is
    set while what stands behind them has one, and rows after that were not kept yet.
    """

    frame: DataFrame
    step_keys: tuple[str, ...]
    is_repeatable: bool
    memory: DataFrame | None = None

    def then(self, frame: DataFrame, key: str, is_repeatable: bool = True) -> Rows:
        """Behind one step more."""
        return Rows(frame, (*self.step_keys, key), self.is_repeatable and is_repeatable, self.memory)


class Delivery:
    """Delivers one batch; made anew for each."""

    def __init__(
        self,
        builder: StepBuilder,
        dead_letters_endpoint: Endpoint | None,
        writer: BatchWriter,
        keeper: RowKeeper | None = None,
    ) -> None:
        """Without a ``keeper`` endpoints may get other rows in another try."""
        self._builder: Final = builder
        self._dead_letters: Final = dead_letters_endpoint
        self._writer: Final = writer
        self._keeper: Final = keeper
        self._cached: Final[list[DataFrame]] = []

    def deliver(self, frame: DataFrame, before: list[Step], steps: list[Step], is_repeatable: bool) -> None:
        """All steps, to the last endpoint, with the rows that the steps ``before`` gave to the stream; ``repeat`` tells
        whether their source gives the same rows again.
        """
        step_keys = tuple(step_key(position, step) for position, step in enumerate(before))
        has_memory = any(isinstance(step, (Aggregate, Deduplicate)) for step in before)
        is_sure = is_repeatable and all(is_deterministic(step) for step in before)
        rows = Rows(frame, step_keys, is_sure, frame if has_memory else None)
        try:
            if is_branching(steps[0]):  # else it is a function, whose answers are kept
                rows = self._fix_rows(rows)
            self._walk(rows, steps, len(before))
        finally:
            for cached in self._cached:
                cached.unpersist()

    def _fix_rows(self, rows: Rows) -> Rows:
        """Rows that part here are computed once, and in all tries together where another one may give others."""
        if self._keeper is not None and not rows.is_repeatable:
            return Rows(self._keeper.keep(rows.frame, rows.step_keys, rows.memory), rows.step_keys, is_repeatable=True)
        cached = rows.frame.persist()
        self._cached.append(cached)
        return Rows(cached, rows.step_keys, rows.is_repeatable)

    def _walk(self, rows: Rows, steps: list[Step], position: int = 0) -> None:
        """From the step on that has this place among its neighbours. Endpoints take none: one may come or go, and the
        rows that are kept behind it are still known.
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
        """The same rows for each of several endpoints ahead, in each try."""
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
        """Each row takes its way before the first one is gone."""
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
        while len(self._cached) > cached:  # nobody behind the choice takes these
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
    """Whether endpoints need the same rows in each try of a batch: one that commits once, and any other."""
    endpoints = endpoints_of(route.steps) + ([] if route.dead_letters is None else [route.dead_letters])
    return len(endpoints) > 1 and any(map(is_committed_once, endpoints))


def must_keep(route: Route, is_repeatable: bool, index: int, steps: list[Step]) -> bool:
    """Whether rows are kept before the step of that index among those that are done batch by batch."""
    count = len(endpoints_of(steps[index:])) + (route.dead_letters is not None)
    return must_agree(route) and not is_repeatable and (index == 0 or count > 1)


def step_key(position: int, step: Step) -> str:
    """What tells the rows behind a step from those behind any other: its place among its neighbours, and all that it
    says, passwords as well; so it is no text for people. Of a step that branches only what parts the rows.
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
    """In lists and words, without the lines where things stand: a comment more in the file changes no rows."""
    if is_dataclass(content):
        names = [item.name for item in fields(content) if item.name != "location"]
        return [type(content).__name__, *([name, _plain(getattr(content, name))] for name in names)]
    if isinstance(content, dict):
        return [[name, _plain(value)] for name, value in sorted(content.items())]
    return [_plain(item) for item in content] if isinstance(content, (list, tuple)) else content


def is_deterministic(step: Step) -> bool:
    """Whether a step is sure to give the same rows for the same rows. SQL may ask for the time or a random number, a
    function for anything, and a table changes.
    """
    if isinstance(step, Filter):
        return is_repeated(step.condition)
    return isinstance(step, RemoveHeader) or (isinstance(step, SetHeader) and is_repeated(step.value))


def is_repeated(expression: Expression) -> bool:
    """Whether an expression has the same value for the same row."""
    return expression.language in (SELECTOR, CONSTANT)
