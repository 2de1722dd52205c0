"""Which of several sources take part in a batch."""

from __future__ import annotations

from spanwire.pipeline.source.batch_plan import BatchPlan


def test_a_batch_takes_all_that_is_ready_up_to_its_limit() -> None:
    plan = BatchPlan()
    assert plan.choose({"b": 10, "a": 10, "c": 10}, 30) == ["a", "b", "c"]
    assert plan.choose({"b": 10, "a": 10, "c": 10}, 29) == ["a", "b"]
    assert plan.choose({}, 30) == []


def test_one_source_may_be_larger_than_the_limit_by_itself() -> None:
    assert BatchPlan().choose({"a": 100, "b": 1}, 10) == ["a"]


def test_a_busy_source_keeps_no_other_out() -> None:
    plan = BatchPlan()
    turns = [plan.choose({"a": 10, "b": 10, "c": 10}, 10) for _ in range(4)]
    assert turns == [["a"], ["b"], ["c"], ["a"]]


def test_a_source_that_was_left_out_comes_before_one_that_was_not() -> None:
    plan = BatchPlan()
    assert plan.choose({"a": 1}, 10) == ["a"]
    assert plan.choose({"a": 5, "z": 8}, 10) == ["z"]
