"""The end of a session while streaming queries run."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spanwire.pipeline.session import stop_queries


class Query:
    """A running query."""

    def __init__(self) -> None:
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


def session(*queries: Query) -> Any:
    context = SimpleNamespace(_jsc=object())
    return SimpleNamespace(sparkContext=context, streams=SimpleNamespace(active=list(queries)))


def test_queries_that_a_program_did_not_wait_for_are_stopped_with_a_warning() -> None:
    queries = (Query(), Query())
    with pytest.warns(UserWarning, match=r"ended 2 streaming queries .* query\.awaitTermination\(\)"):
        stop_queries(session(*queries))
    assert all(query.is_stopped for query in queries)


def test_a_session_without_running_queries_ends_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stop_queries(session())


def test_a_session_that_a_program_stopped_itself_is_asked_for_nothing() -> None:
    stop_queries(cast(Any, SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))))
