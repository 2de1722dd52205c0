from __future__ import annotations

import json

from spanwire.pipeline.watch.board import MAX_BOARD_ROUTES, StatusBoard
from spanwire.pipeline.watch.status import (
    ENDED,
    FAILED,
    MAX_RANGES,
    RETRYING,
    RUNNING,
    STARTING,
    STOPPED,
    RouteStatus,
)


def board() -> StatusBoard:
    made = StatusBoard("routes.yaml", "r1", "host", 1000)
    made.add(RouteStatus("orders", source="queue://ORDERS", targets="parquet", cursor="c"))
    return made


def route(of: StatusBoard) -> RouteStatus:
    return of.status(9000).routes[0]


def batch(number: int, rows: int, waiting: int = 0) -> dict[str, object]:
    return {
        "batchId": number, "numInputRows": rows, "processedRowsPerSecond": 50.0,
        "durationMs": {"addBatch": 1, "triggerExecution": 20}, "sources": [{"latestOffset": {"waiting": waiting}}],
    }  # fmt: skip


def test_a_route_counts_each_batch_once_and_keeps_its_description() -> None:
    made = board()
    assert route(made).state == STARTING
    made.on_start("orders")
    made.on_progress("orders", batch(0, 5, 70), 2000)
    made.on_progress("orders", batch(0, 5, 60), 2500)
    made.on_progress("orders", batch(1, 7, 40), 3000)
    assert route(made) == RouteStatus(
        "orders", RUNNING, "queue://ORDERS", "parquet", "c", batch=1, batches=2, rows=12, rows_per_s=50.0,
        batch_ms=20, lag_messages=40, progress_at_ms=3000,
    )  # fmt: skip
    assert made.status(9000).started_at_ms == 1000 and made.status(9000).at_ms == 9000


def test_a_route_that_waits_has_no_speed_and_its_present_lag() -> None:
    made = board()
    made.on_progress("orders", batch(0, 5, 70), 2000)
    made.on_progress("orders", {"batchId": 1, "sources": [{"latestOffset": {"waiting": 0}}]}, 4000)
    found = route(made)
    assert (found.batch, found.rows, found.rows_per_s, found.lag_messages, found.progress_at_ms) == (0, 5, 0.0, 0, 4000)


def test_a_failure_is_kept_through_the_next_start() -> None:
    made = board()
    made.on_start("orders")
    made.on_failure("orders", "the broker is away", False, 5000)
    assert (route(made).state, made.status(0).has_ended) == (RETRYING, False)
    made.on_start("orders")
    found = route(made)
    assert (found.state, found.last_error, found.failed_at_ms, found.failures) == (
        RUNNING,
        "the broker is away",
        5000,
        1,
    )
    made.on_failure("orders", "no column", True, 6000)
    assert (route(made).state, made.status(0).has_ended) == (FAILED, True)


def test_a_stop_ends_what_still_ran() -> None:
    made = board()
    made.on_start("late")
    made.on_end("orders")
    made.on_stop()
    assert [one.state for one in made.status(0).routes] == [ENDED, STOPPED]


def test_an_error_of_the_program_is_the_error_of_all_its_routes() -> None:
    made = board()
    made.on_end("early")
    made.on_fault("Spark does not start", 7000)
    made.on_stop()
    assert [(one.state, one.last_error) for one in made.status(0).routes] == [
        (FAILED, "Spark does not start"),
        (ENDED, ""),
    ]


def test_a_board_has_so_many_routes_and_forgets_first_what_is_over() -> None:
    made = StatusBoard("p", "r", "h", 0)
    for number in range(MAX_BOARD_ROUTES):
        made.on_start(f"q{number}")
    made.on_end("q7")
    made.on_start("new")
    names = [one.route for one in made.status(0).routes]
    assert len(names) == MAX_BOARD_ROUTES and "q7" not in names and "q0" in names
    made.on_start("newer")
    assert "q0" not in [one.route for one in made.status(0).routes]


def test_the_last_batches_of_a_cursor_are_kept_with_their_numbers() -> None:
    made = board()
    for number in range(MAX_RANGES + 2):
        offsets = {"startOffset": None if number == 0 else {"cursor": "c", "number": 5 * number}}
        ended = json.dumps({"cursor": "c", "number": 5 * number + 5})  # Spark gives an object or its text
        report = {**batch(number, 5), "sources": [{**offsets, "endOffset": ended}]}
        made.on_progress("orders", report, 1_000 + number)
        made.on_progress("orders", report, 9_000)
        assert route(made).ranges[-1] == (number, 5 * number, 5 * number + 5, 1_000 + number)
    assert len(route(made).ranges) == MAX_RANGES


def test_several_sources_have_no_numbers_of_one_cursor() -> None:
    made = board()
    offsets = {"startOffset": {"sources": {"a": 1}}, "endOffset": {"sources": {"a": 2}}}
    made.on_progress("orders", {**batch(0, 5), "sources": [offsets]}, 1_000)
    made.on_progress("orders", {**batch(1, 5), "sources": [{}, {}]}, 1_000)
    assert route(made).ranges == ()
