"""Weights of wildcards: never less than what one topic gets, and nothing when all have gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.destinations.wild_weights import NAMES_COMPARED, WildWeights, wild_topics
from spanwire.model.destination import Destination, parse_destination

NAMES = st.lists(st.sampled_from(["A", "B", "*"]), max_size=3)
WILDCARDS = st.builds(
    lambda names, last: parse_destination("topic://" + ".".join([*names, last])), NAMES, st.sampled_from("*>")
)
TOPICS = [parse_destination("topic://" + name) for name in ("A", "B", "A.A", "A.B", "A.B.A", "A.B.B.A", "B.A.A.A.A")]


@given(st.lists(st.tuples(st.lists(WILDCARDS, min_size=1, max_size=3), st.integers(1, 9)), max_size=8), WILDCARDS)
def test_no_topic_gets_more_than_the_most(consumers: list[tuple[list[Destination], int]], wanted: Destination) -> None:
    weights = WildWeights()
    for patterns, weight in consumers:
        weights.add(patterns, weight)
    for topic in TOPICS:
        own = [weight for patterns, weight in consumers if any(pattern.matches(topic) for pattern in patterns)]
        assert not wanted.matches(topic) or sum(own) <= weights.most(wanted)
    for patterns, weight in consumers:
        weights.add(patterns, -weight)
    assert weights.is_empty()


def test_wildcards_that_begin_otherwise_do_not_count_and_those_that_begin_alike_count_once() -> None:
    weights = WildWeights()
    deep = ".".join(["D"] * NAMES_COMPARED)
    weights.add(wild_topics(parse_destination(f"topic://A.B.*,A.B.>,A.B,C.*,{deep}.E.*").parts()), 3)
    for wanted, most in [("A.C.*", 0), ("A.B.C.>", 3), ("A.*", 3), (">", 9), ("C.*", 3), (f"{deep}.F.*", 3)]:
        assert weights.most(parse_destination("topic://" + wanted)) == most
