from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from py4j.protocol import Py4JNetworkError

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.supervisor import (
    DRAIN_S,
    IDLE_POLL_S,
    POLL_S,
    QUIET_POLLS,
    REPEATED,
    RouteEvent,
    SupervisedRoute,
    failure_text,
    is_permanent_failure,
    run_all,
)
from spanwire.routes.model import Patience


class Query:
    """A query that does what a test says."""

    def __init__(self) -> None:
        self.isActive = True
        self.lastProgress: object = None
        self.recentProgress: list[object] = []
        self.status: dict[str, object] = {"isTriggerActive": False}
        self.failure: Exception | None = None
        self.is_stopped = False

    def exception(self) -> Exception | None:
        return self.failure

    def stop(self) -> None:
        self.is_stopped, self.isActive = True, False

    def fail(self, text: str) -> None:
        self.failure, self.isActive = RuntimeError(text), False


class Startable:
    """Gives a new query for each start."""

    def __init__(self) -> None:
        self.queries: list[Query] = []

    def start(self) -> Query:
        self.queries.append(Query())
        return self.queries[-1]


class Refusing(Startable):
    """Starts as often as it may, then raises."""

    def __init__(self, starts: int, failure: Exception) -> None:
        super().__init__()
        self.left = starts
        self.failure = failure

    def start(self) -> Query:
        self.left -= 1
        if self.left < 0:
            raise self.failure
        return super().start()


class Clock:
    """Time that passes by waiting only; the batch at hand ends after so many waits."""

    def __init__(self, query: Query, ends_after: int) -> None:
        self.seconds = 0.0
        self.waits = 0
        self._query = query
        self._ends_after = ends_after

    def now(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self.waits += 1
        self._query.status["isTriggerActive"] = self.waits < self._ends_after


def supervised(patience: Patience) -> tuple[SupervisedRoute, Startable, list[RouteEvent]]:
    startable, news = Startable(), list[RouteEvent]()
    route = SupervisedRoute("r", startable, patience, news.append)
    route.start()
    return route, startable, news


def test_what_has_failed_is_started_again_ever_later_and_said_once() -> None:
    route, startable, news = supervised(Patience(retries=3, interval_ms=1000))
    now = 0.0
    for pause_s in (1.0, 2.0, 4.0):
        startable.queries[-1].fail("JmsError: the broker is away")
        route.poll(now)
        route.poll(now + pause_s - 0.1)
        count = len(startable.queries)
        now += pause_s
        route.poll(now)
        assert len(startable.queries) == count + 1
    assert [one.text for one in news] == ["JmsError: the broker is away; starting it again"]
    startable.queries[-1].fail("JmsError: the broker is away")
    route.poll(now)
    assert route.is_over and route.has_failed and news[-1].text == "JmsError: the broker is away"


def test_a_fixed_pause_does_not_grow_however_long_it_is() -> None:
    route, startable, _ = supervised(Patience(retries=-1, interval_ms=3_600_000, is_growing=False))
    now = 0.0
    for _ in range(20):
        startable.queries[-1].fail("JmsError: the broker is away")
        route.poll(now)
        count = len(startable.queries)
        route.poll(now + 3599.9)
        assert len(startable.queries) == count
        now += 3600.0
        route.poll(now)
        assert len(startable.queries) == count + 1


def test_a_batch_that_went_well_ends_the_count_of_failures() -> None:
    route, startable, news = supervised(Patience(retries=1, interval_ms=1000))
    for now in (0.0, 10.0, 20.0):
        startable.queries[-1].fail("x")
        route.poll(now)
        route.poll(now + 1.0)
        latest = '{"segment": 1, "behindMs": 40}'
        progress: dict[str, object] = {"batchId": int(now), "numInputRows": 3, "processedRowsPerSecond": 1.5}
        startable.queries[-1].lastProgress = progress | {"sources": [{"latestOffset": latest}]}
        startable.queries[-1].recentProgress = [startable.queries[-1].lastProgress]
        route.poll(now + 2.0)
    assert not route.is_over
    assert news[-1] == RouteEvent("r", "3 rows", 20, 3, 1.5, 40)


def test_a_batch_of_rows_that_were_kept_is_told_and_ends_the_count_of_failures() -> None:
    route, startable, news = supervised(Patience(retries=1, interval_ms=1000))
    for number in range(3):
        startable.queries[-1].fail("x")
        route.poll(10.0 * number)
        route.poll(10.0 * number + 1.0)
        found = {"batchId": number, "numInputRows": 0, "durationMs": {"addBatch": 7, "triggerExecution": 9}}
        startable.queries[-1].lastProgress = found
        route.poll(10.0 * number + 2.0)
    assert not route.is_over
    assert [one.text for one in news] == ["x; starting it again", REPEATED] * 3
    assert news[-1].batch == 2


def test_a_look_that_found_nothing_is_no_batch() -> None:
    route, startable, news = supervised(Patience(retries=1, interval_ms=1000))
    startable.queries[-1].fail("x")
    route.poll(0.0)
    route.poll(1.0)
    idle = {"batchId": 0, "numInputRows": 0, "durationMs": {"latestOffset": 3, "triggerExecution": 9}}
    startable.queries[-1].lastProgress = idle
    route.poll(2.0)
    startable.queries[-1].lastProgress = idle | {"numInputRows": 4, "timestamp": "later"}
    route.poll(3.0)
    assert [(one.text, one.batch) for one in news] == [("x; starting it again", None), ("4 rows", 0)]


def test_every_batch_is_told_of_once_however_many_there_were_between_two_looks() -> None:
    route, startable, news = supervised(Patience())
    query = startable.queries[-1]
    for number, rows in enumerate((5, 0, 7, 9)):
        query.lastProgress = {"batchId": number, "numInputRows": rows, "timestamp": f"t{number}"}
        query.recentProgress.append(query.lastProgress)
        if number in (0, 3):
            route.poll(0.0)
            route.poll(0.0)
    assert [(one.batch, one.rows) for one in news] == [(0, 5), (2, 7), (3, 9)]


def test_a_mistake_in_the_file_is_not_tried_again() -> None:
    route, startable, news = supervised(Patience())
    startable.queries[-1].fail("x\nspanwire.model.errors.ConfigurationError: spanwire: the column text is int\nat y")
    route.poll(0.0)
    assert route.has_failed and [one.text for one in news] == ["the column text is int"]


def test_stopping_waits_for_the_batch_at_hand_but_not_for_ever() -> None:
    for ends_after in (3, 10**9):
        route, startable, _ = supervised(Patience())
        query = startable.queries[-1]
        query.status["isTriggerActive"] = True
        clock = Clock(query, ends_after)
        route.stop(clock.now, clock.wait)
        assert query.is_stopped and clock.seconds <= DRAIN_S + 1 and clock.waits >= 3


class Waits(threading.Event):
    """Notes how long each wait would be, and does something before some of them."""

    def __init__(self, until: int, actions: dict[int, Callable[[], object]]) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._until = until
        self._actions = actions

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        self._actions.get(len(self.seconds), lambda: None)()
        if len(self.seconds) == self._until:
            self.set()
        return self.is_set()


def test_quiet_routes_are_polled_rarely_until_one_has_a_batch_or_fails() -> None:
    startables = [Startable(), Startable()]
    routes = [SupervisedRoute("r", startable, Patience(), lambda _: None) for startable in startables]

    def batch(number: int) -> None:
        for startable in startables:
            startable.queries[-1].lastProgress = {"batchId": number, "timestamp": number, "numInputRows": 1}

    first, second, failed, end = QUIET_POLLS * 2, QUIET_POLLS * 4, QUIET_POLLS * 6, QUIET_POLLS * 7
    actions: dict[int, Callable[[], object]] = {
        first: lambda: batch(0),
        second: lambda: batch(1),
        failed: lambda: startables[1].queries[-1].fail("x"),
    }
    waits = Waits(end, actions)
    assert run_all(routes, waits, lambda: 0.0)
    assert waits.seconds[: first + QUIET_POLLS] == [POLL_S] * (first + QUIET_POLLS)  # no batch yet, then the first one
    assert waits.seconds[first + QUIET_POLLS : second] == [IDLE_POLL_S] * (second - first - QUIET_POLLS)
    assert waits.seconds[second : second + QUIET_POLLS] == [POLL_S] * QUIET_POLLS
    assert waits.seconds[failed - 1] == IDLE_POLL_S
    assert set(waits.seconds[failed:]) == {POLL_S}  # it waits to be started again


def test_routes_run_until_all_have_ended() -> None:
    route, startable, _ = supervised(Patience())
    startable.queries.clear()

    class Ending(Startable):
        def start(self) -> Query:
            query = super().start()
            query.isActive = False
            return query

    other = SupervisedRoute("o", Ending(), Patience(), lambda news: None)
    assert run_all([other], threading.Event(), lambda: 0.0)
    assert other.is_over and not route.is_over


def test_the_line_for_people_is_found_in_sparks_many() -> None:
    assert failure_text(RuntimeError("a\n b spanwire: the queue is gone\n at c")) == "the queue is gone"
    assert failure_text(RuntimeError("x\n y.ConfigurationError: r.yaml:3: no column a\n z")) == "r.yaml:3: no column a"
    assert failure_text(RuntimeError("only this\nand that")) == "only this"
    proxied = "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):"
    lines = [
        '  File "x.py", line 1, in f',
        "py4j.protocol.Py4JJavaError: An error occurred",
        ": java.sql.SQLException: no suit",
    ]
    assert failure_text(RuntimeError("\n".join([proxied, *lines, "\tat y"]))) == "SQLException: no suit"


def test_the_source_in_a_traceback_is_no_line_for_people() -> None:
    lines = [
        "PythonException: An exception was thrown from the Python worker: Traceback (most recent call last):",
        '  File "step_builder.py", line 221, in call',
        '    raise RuntimeError(f"spanwire: {error}")',
        "RuntimeError: spanwire: routes.yaml:8: clean.normalise: ValueError: bad text",
        " SQLSTATE: 38000",
    ]
    assert failure_text(RuntimeError("\n".join(lines))) == "routes.yaml:8: clean.normalise: ValueError: bad text"


def test_a_method_that_a_jar_looks_for_in_vain_is_told_as_the_fault_of_the_jar() -> None:
    failure = RuntimeError("'void org.apache.spark.sql.LogicalRDD.<init>(scala.Seq, boolean)'\n=== Streaming Query ===")
    assert failure_text(failure) == (
        "a jar was built for another version of Spark; "
        "it calls 'void org.apache.spark.sql.LogicalRDD.<init>(scala.Seq, boolean)'"
    )
    assert is_permanent_failure(str(failure))
    assert not is_permanent_failure("'shop' is away (again)")


def test_what_needs_a_jar_is_not_tried_again() -> None:
    for text in ("x\n: java.lang.ClassNotFoundException: org.Driver\n", "[DATA_SOURCE_NOT_FOUND] Failed to find delta"):
        route, startable, news = supervised(Patience())
        startable.queries[-1].fail(text)
        route.poll(0.0)
        assert route.has_failed and len(news) == 1


def test_a_start_that_raises_is_a_failure_of_its_route_alone() -> None:
    startable, news = Refusing(1, ConfigurationError("r.yaml:3: Spark says: no path")), list[RouteEvent]()
    route = SupervisedRoute("r", startable, Patience(retries=2, interval_ms=1000), news.append)
    route.start()
    startable.queries[0].fail("x")
    route.poll(0.0)
    route.poll(1.0)
    route.poll(1.0 + 1.9)
    assert not route.is_over
    route.poll(1.0 + 2.0)
    assert route.is_over and route.has_failed
    assert [one.text for one in news] == [
        "x; starting it again",
        "r.yaml:3: Spark says: no path; starting it again",
        "r.yaml:3: Spark says: no path",
    ]


def test_the_other_routes_are_stopped_in_order_whatever_ends_the_work() -> None:
    class Deaf(Query):
        def stop(self) -> None:
            raise RuntimeError("Java is gone")

    class OfDeaf(Startable):
        def start(self) -> Query:
            self.queries.append(Deaf())
            return self.queries[-1]

    news, good, refusing = list[RouteEvent](), Startable(), Refusing(0, ConfigurationError("r.yaml:9: no such path"))
    routes = [SupervisedRoute(name, one, Patience(), news.append) for name, one in (("d", OfDeaf()), ("g", good))]
    refused = SupervisedRoute("f", refusing, Patience(), news.append)
    with pytest.raises(ConfigurationError, match="no such path"):
        run_all([*routes, refused], threading.Event(), lambda: 0.0)
    assert good.queries[0].is_stopped
    assert news == [RouteEvent("d", "Java is gone", is_failure=True)]


@pytest.mark.parametrize("sign", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("no answer")])
def test_the_end_of_java_is_told_of_no_route_and_by_whoever_runs_them_all(sign: Exception) -> None:
    class Gone(Query):
        def stop(self) -> None:
            super().stop()
            raise sign

    class OfGone(Startable):
        def start(self) -> Query:
            self.queries.append(Gone())
            return self.queries[-1]

    news, gone = list[RouteEvent](), [OfGone(), OfGone()]
    routes = [SupervisedRoute(str(number), one, Patience(), news.append) for number, one in enumerate(gone)]
    over = threading.Event()
    over.set()
    with pytest.raises(type(sign)):
        run_all(routes, over, lambda: 0.0)
    assert [one.queries[0].is_stopped for one in gone] == [True, True]
    assert news == []


def test_a_route_is_not_started_again_without_java() -> None:
    news, starts = list[RouteEvent](), Refusing(1, ConnectionRefusedError(111, "Connection refused"))
    route = SupervisedRoute("a", starts, Patience(interval_ms=0), news.append)
    route.start()
    starts.queries[0].fail("the connection was lost")
    route.poll(0.0)
    with pytest.raises(ConnectionRefusedError):
        route.poll(1.0)
    assert [one.text for one in news] == ["the connection was lost; starting it again"]


def test_all_routes_are_stopped_when_nobody_listens_any_more() -> None:
    def tell(news: RouteEvent) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    class Busy(Startable):
        def start(self) -> Query:
            query = super().start()
            query.lastProgress = {"batchId": 0, "numInputRows": 3}
            return query

    busy, quiet = [Busy(), Busy()], Startable()
    routes = [SupervisedRoute(str(number), one, Patience(), tell) for number, one in enumerate([*busy, quiet])]
    with pytest.raises(BrokenPipeError):
        run_all(routes, threading.Event(), lambda: 0.0)
    assert [one.queries[0].is_stopped for one in [*busy, quiet]] == [True] * 3


def test_what_java_raised_is_told_in_its_own_words() -> None:
    call = "An error occurred while calling o50.load.\n"
    assert failure_text(RuntimeError(f"{call}: java.io.IOException: No FileSystem for x\n\tat y")) == (
        "IOException: No FileSystem for x"
    )
    assert failure_text(RuntimeError(f"{call}: org.apache.spark.SparkException: it is over\n\tat y")) == "it is over"


def test_a_first_batch_without_rows_is_no_repetition() -> None:
    route, startable, news = supervised(Patience(retries=1, interval_ms=1000))
    found = {"batchId": 0, "numInputRows": 0, "durationMs": {"addBatch": 7, "triggerExecution": 9}}
    startable.queries[-1].lastProgress = found
    route.poll(1.0)
    assert news == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "An error occurred while calling o50.load.\n: java.io.IOException: Disk\n\tat x\n"
            "Caused by: org.apache.spark.SparkException: Job aborted\n\tat y",
            "IOException: Disk",
        ),
        (
            "An error occurred while calling o50.load.\n: org.apache.spark.SparkException: Job aborted\n\tat y",
            "Job aborted",
        ),
    ],
)
def test_of_the_causes_that_java_gives_the_first_that_says_more_than_spark_is_told(text: str, line: str) -> None:
    assert failure_text(RuntimeError(text)) == line
