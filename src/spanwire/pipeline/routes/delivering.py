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

from spanwire.pipeline.routes.building import (
    StepBuilder,
    dead_letters,
    for_endpoint,
    split_by_answer,
)
from spanwire.pipeline.routes.writing import BatchWriter, commits_once
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

    def kept(self, frame: DataFrame, way: Sequence[str], memory: DataFrame | None = None) -> DataFrame:
        """These rows, or those that an earlier try has kept of the same way; then ``memory`` runs for its own sake."""
        ...


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows on their way: the keys of the steps behind them, and whether another try would give the same. ``memory`` is
    set while what stands behind them has one, and rows after that were not kept yet.
    """

    frame: DataFrame
    way: tuple[str, ...]
    repeat: bool
    memory: DataFrame | None = None

    def then(self, frame: DataFrame, word: str, repeat: bool = True) -> Rows:
        """Behind one step more."""
        return Rows(frame, (*self.way, word), self.repeat and repeat, self.memory)


class Delivery:
    """Delivers one batch; made anew for each."""

    def __init__(
        self, builder: StepBuilder, dead: Endpoint | None, writer: BatchWriter, keeper: RowKeeper | None = None
    ) -> None:
        """Without a ``keeper`` endpoints may get other rows in another try."""
        self._builder: Final = builder
        self._dead: Final = dead
        self._writer: Final = writer
        self._keeper: Final = keeper
        self._cached: Final[list[DataFrame]] = []

    def deliver(self, frame: DataFrame, before: list[Step], steps: list[Step], repeat: bool) -> None:
        """All steps, to the last endpoint, with the rows that the steps ``before`` gave to the stream; ``repeat`` tells
        whether their source gives the same rows again.
        """
        way = tuple(step_key(place, step) for place, step in enumerate(before))
        has_memory = any(isinstance(step, (Aggregate, Deduplicate)) for step in before)
        is_sure = repeat and all(gives_the_same(step) for step in before)
        rows = Rows(frame, way, is_sure, frame if has_memory else None)
        try:
            if is_branching(steps[0]):  # else it is a function, whose answers are kept
                rows = self._kept(rows)
            self._walk(rows, steps, len(before))
        finally:
            for cached in self._cached:
                cached.unpersist()

    def _kept(self, rows: Rows) -> Rows:
        """Rows that part here are computed once, and in all tries together where another one may give others."""
        if self._keeper is not None and not rows.repeat:
            return Rows(self._keeper.kept(rows.frame, rows.way, rows.memory), rows.way, repeat=True)
        cached = rows.frame.persist()
        self._cached.append(cached)
        return Rows(cached, rows.way, rows.repeat)

    def _walk(self, rows: Rows, steps: list[Step], place: int = 0) -> None:
        """From the step on that has this place among its neighbours. Endpoints take none: one may come or go, and the
        rows that are kept behind it are still known.
        """
        for index, step in enumerate(steps):
            word = step_key(place, step)
            place += not isinstance(step, To)
            if is_branching(step):
                rows = self._settled(rows, steps[index:])
                self._branch(rows, step, word)
            elif isinstance(step, CallFunction) and self._dead is not None:
                answered = self._builder.answered(rows.frame, step, keeps_errors=True)
                rows = self._kept(rows.then(answered, word, repeat=False))
                good, failed = split_by_answer(rows.frame)
                rows = rows.then(good, "answered")
                self._fail(failed)
            else:
                rows = rows.then(self._builder.applied(rows.frame, step), word, gives_the_same(step))

    def _settled(self, rows: Rows, steps: list[Step]) -> Rows:
        """The same rows for each of several endpoints ahead, in each try."""
        count = len(endpoints_of(steps)) + (self._dead is not None)
        return self._kept(rows) if self._keeper is not None and not rows.repeat and count > 1 else rows

    def _branch(self, rows: Rows, step: Step, word: str) -> None:
        if isinstance(step, To):
            self._to(rows.frame, step.endpoint)
        elif isinstance(step, Filter):
            chosen = rows.frame.where(self._builder.condition(rows.frame, step.condition))
            self._walk(rows.then(chosen, word, gives_the_same(step)), step.steps)
        elif isinstance(step, Choice):
            self._choice(rows, step, word)
        elif isinstance(step, Multicast):
            for number, branch in enumerate(step.branches, 1):
                self._walk(rows.then(rows.frame, f"{word} copy {number}"), branch)

    def _choice(self, rows: Rows, step: Choice, word: str) -> None:
        """Each row takes its way before the first one is gone."""
        ways: Column = F.lit(len(step.branches))
        for number, (condition, _) in reversed(list(enumerate(step.branches))):
            ways = F.when(self._builder.condition(rows.frame, condition), number).otherwise(ways)
        is_sure = all(is_repeated(condition) for condition, _ in step.branches)
        parted = rows.then(rows.frame.withColumn(BRANCH, ways), word, is_sure)
        cached = len(self._cached)
        if not is_sure and len(endpoints_of([step])) + (self._dead is not None) > 1:
            parted = self._kept(parted)
        for number, branch in enumerate([*[branch for _, branch in step.branches], step.otherwise]):
            if branch:
                chosen = parted.frame.where(F.col(BRANCH) == number).drop(BRANCH)
                self._walk(parted.then(chosen, f"way {number}"), branch)
        while len(self._cached) > cached:  # nobody behind the choice takes these
            self._cached.pop().unpersist()

    def _to(self, frame: DataFrame, endpoint: Endpoint) -> None:
        if self._dead is not None and endpoint.kind == BROKER:
            frame, failed, together = self._builder.sendable(frame, endpoint)
            self._cached.append(together)
            self._fail(failed)
        self._writer.write(for_endpoint(frame, endpoint), endpoint)

    def _fail(self, failed: DataFrame) -> None:
        assert self._dead is not None
        self._writer.write(for_endpoint(dead_letters(failed, self._dead), self._dead), self._dead, is_rare=True)


def must_agree(route: Route) -> bool:
    """Whether endpoints need the same rows in each try of a batch: one that commits once, and any other."""
    endpoints = endpoints_of(route.steps) + ([] if route.dead_letters is None else [route.dead_letters])
    return len(endpoints) > 1 and any(map(commits_once, endpoints))


def must_keep(route: Route, repeat: bool, index: int, steps: list[Step]) -> bool:
    """Whether rows are kept before the step of that index among those that are done batch by batch."""
    count = len(endpoints_of(steps[index:])) + (route.dead_letters is not None)
    return must_agree(route) and not repeat and (index == 0 or count > 1)


def step_key(place: int, step: Step) -> str:
    """What tells the rows behind a step from those behind any other: its place among its neighbours, and all that it
    says, passwords as well; so it is no text for people. Of a step that branches only what parts the rows.
    """
    said: object = step
    if isinstance(step, Filter):
        said = step.condition
    elif isinstance(step, Choice):
        said = [condition for condition, _ in step.branches]
    elif isinstance(step, (Multicast, To)):
        said = None
    return json.dumps([place, type(step).__name__, _plain(said)])


def _plain(said: object) -> object:
    """In lists and words, without the lines where things stand: a comment more in the file changes no rows."""
    if is_dataclass(said):
        names = [one.name for one in fields(said) if one.name != "place"]
        return [type(said).__name__, *([name, _plain(getattr(said, name))] for name in names)]
    if isinstance(said, dict):
        return [[name, _plain(value)] for name, value in sorted(said.items())]
    return [_plain(one) for one in said] if isinstance(said, (list, tuple)) else said


def gives_the_same(step: Step) -> bool:
    """Whether a step is sure to give the same rows for the same rows. SQL may ask for the time or a random number, a
    function for anything, and a table changes.
    """
    if isinstance(step, Filter):
        return is_repeated(step.condition)
    return isinstance(step, RemoveHeader) or (isinstance(step, SetHeader) and is_repeated(step.value))


def is_repeated(expression: Expression) -> bool:
    """Whether an expression has the same value for the same row."""
    return expression.language in (SELECTOR, CONSTANT)
