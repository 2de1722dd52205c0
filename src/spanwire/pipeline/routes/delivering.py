"""One batch of a route to all its endpoints, for routes with more than one of them or with dead letters.

Which rows an endpoint gets is decided here, how it gets them in `writing`. A batch that Spark repeats is decided again,
and an endpoint that commits once and has had its part takes no other: steps that then give other rows lose and double.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spanwire.pipeline.routes.building import (
    StepBuilder,
    dead_letters,
    for_endpoint,
    split_by_answer,
    split_by_body,
)
from spanwire.pipeline.routes.model import (
    BROKER,
    CallFunction,
    Choice,
    Endpoint,
    Filter,
    Multicast,
    Step,
    To,
    is_branching,
)
from spanwire.pipeline.routes.writing import BatchWriter


class Delivery:
    """Delivers one batch; made anew for each."""

    def __init__(self, builder: StepBuilder, dead: Endpoint | None, writer: BatchWriter) -> None:
        self._builder: Final = builder
        self._dead: Final = dead
        self._writer: Final = writer
        self._kept: Final[list[DataFrame]] = []

    def deliver(self, frame: DataFrame, steps: list[Step]) -> None:
        """All steps, to the last endpoint."""
        try:
            self._walk(self._keep(frame), steps)
        finally:
            for kept in self._kept:
                kept.unpersist()

    def _keep(self, frame: DataFrame) -> DataFrame:
        """Rows that several endpoints get are computed once."""
        kept = frame.persist()
        self._kept.append(kept)
        return kept

    def _walk(self, frame: DataFrame, steps: list[Step]) -> None:
        for step in steps:
            if is_branching(step):
                self._branch(frame, step)
            elif isinstance(step, CallFunction) and self._dead is not None:
                answered = self._keep(self._builder.answered(frame, step, keeps_errors=True))
                frame, failed = split_by_answer(answered)
                self._fail(failed)
            else:
                frame = self._builder.applied(frame, step)

    def _branch(self, frame: DataFrame, step: Step) -> None:
        if isinstance(step, To):
            self._to(frame, step.endpoint)
        elif isinstance(step, Filter):
            self._walk(frame.where(self._builder.condition(frame, step.condition)), step.steps)
        elif isinstance(step, Choice):
            self._choice(frame, step)
        elif isinstance(step, Multicast):
            for branch in step.branches:
                self._walk(frame, branch)

    def _choice(self, frame: DataFrame, step: Choice) -> None:
        taken: Column = F.lit(False)
        for condition, branch in step.branches:
            matches = self._builder.condition(frame, condition)
            self._walk(frame.where(matches & ~taken), branch)
            taken = taken | matches
        self._walk(frame.where(~taken), step.otherwise)

    def _to(self, frame: DataFrame, endpoint: Endpoint) -> None:
        if self._dead is not None and endpoint.kind == BROKER:
            frame, failed = split_by_body(frame)
            self._fail(failed)
        self._writer.write(for_endpoint(frame, endpoint), endpoint)

    def _fail(self, failed: DataFrame) -> None:
        assert self._dead is not None
        self._writer.write(for_endpoint(dead_letters(failed), self._dead), self._dead, is_rare=True)
