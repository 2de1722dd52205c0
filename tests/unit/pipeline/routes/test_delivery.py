from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import cast

import pytest
from pyspark.sql import DataFrame

from spanwire.pipeline.routes.batch_writer import BatchWriter
from spanwire.pipeline.routes.delivery import Delivery, must_agree, must_keep
from spanwire.pipeline.routes.query import split_steps
from spanwire.pipeline.routes.step_builder import StepBuilder
from spanwire.routes.model import Endpoint, Expression, Route, Step
from spanwire.routes.plan import step_text
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders

ONCE = "jms:queue:A?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"


class Frame:
    """Rows that are known by the steps behind them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.columns = ["text"]
        self.caching: list[str] = []

    def persist(self) -> Frame:
        self.caching.append("persist")
        return self

    def unpersist(self) -> None:
        self.caching.append("unpersist")

    def select(self, *_: str) -> Frame:
        return self

    def where(self, condition: str) -> Frame:
        return Frame(f"{self.name} > where {condition}")


class Builder:
    def apply(self, frame: Frame, step: Step) -> Frame:
        return Frame(f"{frame.name} > {step_text(step)}")

    def call_function(self, frame: Frame, step: Step, keep_errors: bool) -> Frame:
        assert keep_errors
        return Frame(f"{self.apply(frame, step).name} or its failure")

    def condition(self, _: Frame, expression: Expression) -> str:
        return expression.text


class World:
    """Keeps and writes rows by their names."""

    def __init__(self) -> None:
        self.kept_ways: list[tuple[str, ...]] = []
        self.kept_rows: list[str] = []
        self.memories: list[str | None] = []
        self.written: list[str] = []

    def keep(self, frame: DataFrame, step_keys: Sequence[str], memory: DataFrame | None = None) -> DataFrame:
        self.kept_ways.append(tuple(step_keys))
        self.kept_rows.append(cast(Frame, frame).name)
        self.memories.append(None if memory is None else cast(Frame, memory).name)
        return cast(DataFrame, Frame(f"kept({cast(Frame, frame).name})"))

    def write(self, frame: DataFrame, endpoint: Endpoint, is_rare: bool = False) -> None:
        self.written.append(cast(Frame, frame).name)


class FullDisk(World):
    """The first rows that are to be kept are the end of it."""

    def keep(self, frame: DataFrame, step_keys: Sequence[str], memory: DataFrame | None = None) -> DataFrame:
        super().keep(frame, step_keys, memory)
        raise OSError


class FullWriter(World):
    """The first rows that are to be written are the end of it."""

    def write(self, frame: DataFrame, endpoint: Endpoint, is_rare: bool = False) -> None:
        raise OSError


def route_of(*steps: str, source: str = "jms:queue:IN", dead: str = "") -> Route:
    text = f'- route: {{id: r, {dead} from: {{uri: "{source}", steps: [{", ".join(steps)}]}}}}'
    (route,) = read_routes(text.encode(), "r.yaml", Placeholders({}, {})).routes
    return route


def delivered(route: Route, world: World | None = None) -> World:
    world = World() if world is None else world
    before, steps = split_steps(route)
    frame = Frame(" > ".join(["in", *map(step_text, before)]))
    delivery = Delivery(cast(StepBuilder, Builder()), route.dead_letters, cast(BatchWriter, world), world)
    delivery.deliver(cast(DataFrame, frame), before, steps, is_repeatable=True)
    return world


def to(uri: str = ONCE) -> str:
    return f'{{to: "{uri}"}}'


DICE = '{setHeader: {name: x, sql: "rand()"}}'
SURE = '{filter: {selector: "a = 1"}}, {setHeader: {name: b, constant: "2"}}, {removeHeader: {name: c}}'


def test_rows_of_sure_steps_are_not_kept() -> None:
    world = delivered(route_of(SURE, to(), SURE, to("json:/x"), to()))
    assert world.kept_ways == []
    assert len(world.written) == 3


def test_rows_behind_dice_are_kept_before_they_part_and_not_again() -> None:
    world = delivered(route_of(DICE, to(), SURE, to("json:/x"), to()))
    assert world.kept_rows == ["in > set x to sql rand()"]
    assert all(name.startswith("kept(in > set x to sql rand())") for name in world.written)


def test_rows_that_go_to_one_endpoint_alone_need_not_be_kept() -> None:
    world = delivered(route_of(to("json:/x"), DICE, to()))
    assert world.kept_ways == []
    assert world.written == ["in", "in > set x to sql rand()"]


def test_copies_that_throw_dice_of_their_own_are_kept_where_they_part() -> None:
    branch = f"{{pipeline: {{steps: [{DICE}, {to()}, {to('json:/y')}]}}}}"
    world = delivered(route_of(f"{{multicast: {{steps: [{to('json:/x')}, {branch}]}}}}"))
    assert world.kept_rows == ["in > set x to sql rand()"]
    assert world.written == ["in", *["kept(in > set x to sql rand())"] * 2]


def ways(*steps: str) -> list[tuple[str, ...]]:
    return delivered(route_of(*steps)).kept_ways


def joined(path: str, password: str = "a") -> str:
    parameters = f'{{path: "{path}", "x.password": "{password}"}}'
    table = f'{{uri: "format:delta", parameters: {parameters}}}'
    return f'{{join: {{table: {table}, "on": "message.text = table.k", columns: {{text: "table.v"}}}}}}'


def branch(*steps: str, condition: str = 'selector: "a = 1"') -> str:
    return f"{{filter: {{{condition}, steps: [{', '.join([*steps, to(), to('json:/x')])}]}}}}"


def test_two_branches_that_read_alike_keep_rows_of_their_own() -> None:
    one, other = ways(branch(joined("/prices")), branch(joined("/prices")))
    assert one != other
    one, other = ways(*[branch(condition='sql: "rand() < 0.5"')] * 2)
    assert one != other


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (joined("/prices"), joined("/stock")),
        (joined("/prices", "a"), joined("/prices", "b")),
        (DICE, DICE.replace("rand()", "rand(1)")),
        *[
            (step.replace("TIME", "a"), step.replace("TIME", "b"))
            for step in (
                '{deduplicate: {key: "text", watermark: "1 hour", time: "TIME"}}',
                '{aggregate: {window: "1 hour", watermark: "1 hour", columns: {n: "count(1)"}, time: "TIME"}}',
            )
        ],
    ],
)
def test_rows_behind_a_step_that_was_changed_are_other_rows_though_the_plan_does_not_show_it(
    before: str, after: str
) -> None:
    assert ways(before, to(), to("json:/x")) == ways(before, to(), to("json:/x"))
    assert ways(before, to(), to("json:/x")) != ways(after, to(), to("json:/x"))


def test_kept_rows_are_known_again_when_endpoints_come_and_go_and_lines_move() -> None:
    before = ways(DICE, to(), branch(DICE), to("json:/x"))
    assert len(before) == 2
    assert ways("\n  " + DICE, to("json:/y"), to(), branch(DICE, to("json:/z")), to("json:/x")) == before


def test_what_a_step_with_a_memory_gave_runs_again_also_before_a_function_whose_answers_are_kept() -> None:
    memory = '{deduplicate: {key: "text", watermark: "1 hour"}}'
    assert delivered(route_of(memory, to(), to("json:/x"))).memories == ["in > first row of each text within 1 hour"]
    assert delivered(route_of(DICE, to(), branch(DICE))).memories == [None, None]
    route = route_of(memory, "{transform: {function: f.same}}", to(), dead=f'deadLetter: "{ONCE}",')
    world = FullDisk()
    with pytest.raises(OSError):
        delivered(route, world)
    assert world.memories == ["in > first row of each text within 1 hour"]
    assert world.kept_rows[0].endswith("text from the Python function f.same or its failure")


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        (route_of(to()), False),
        (route_of(to(), to("json:/x")), True),
        (route_of(to("jms:queue:A"), to("json:/x")), False),
        (route_of(to(), dead='deadLetter: "jms:queue:D",'), True),
        (route_of(to("json:/x"), dead=f'deadLetter: "{ONCE}",'), True),
        (route_of(to("format:delta?path=/t")), False),
        (route_of(to("format:delta?path=/t"), to("jms:queue:A")), True),
        (route_of(to("format:xml?path=/t"), to("jms:queue:A")), False),
    ],
)
def test_endpoints_must_agree_when_one_of_several_commits_once(route: Route, expected: bool) -> None:
    assert must_agree(route) is expected


@pytest.mark.parametrize(
    ("index", "count", "repeat", "kept"),
    [
        (0, 1, False, True),
        (1, 1, False, False),
        (1, 2, False, True),
        (0, 1, True, False),
        (1, 2, True, False),
    ],
)
def test_rows_are_kept_before_the_first_step_and_before_any_with_several_endpoints(
    index: int, count: int, repeat: bool, kept: bool
) -> None:
    route = route_of(to(), to("json:/x"))
    steps = [*route.steps[:1] * index, *route.steps[:count]]
    assert must_keep(route, repeat, index, steps) is kept


def test_rows_that_were_cached_are_given_back_also_after_a_failure() -> None:
    route = route_of(to("json:/x"), to("json:/y"))
    for world in (World(), FullWriter()):
        frame = Frame("in")
        delivery = Delivery(cast(StepBuilder, Builder()), None, cast(BatchWriter, world), None)
        with nullcontext() if type(world) is World else pytest.raises(OSError):
            delivery.deliver(cast(DataFrame, frame), [], route.steps, is_repeatable=True)
        assert frame.caching == ["persist", "unpersist"]
