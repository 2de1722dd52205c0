"""The rules of broker paths, hops and priorities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.routing import MAX_PATH, NetworkFilter, demand_passes, network_priority, within

PATHS = st.lists(st.sampled_from("ABCDE"), max_size=6).map(tuple)


@pytest.mark.parametrize(("hops", "ttl", "allowed"), [(0, 1, True), (1, 1, False), (2, 3, True), (3, 3, False)])
def test_a_hop_is_allowed_while_fewer_were_made_than_the_ttl(hops: int, ttl: int, allowed: bool) -> None:
    assert within(hops, ttl) is allowed


@pytest.mark.parametrize("ttl", [-1, 1000])
def test_whatever_the_ttl_no_path_gets_longer_than_the_next_broker_takes(ttl: int) -> None:
    assert within(MAX_PATH - 1, ttl)
    assert not within(MAX_PATH, ttl)


@given(PATHS, st.integers(-1, 6), st.sampled_from("ABCDE"))
def test_a_message_goes_to_no_broker_it_has_left_and_no_farther_than_its_ttl(
    path: tuple[str, ...], ttl: int, target: str
) -> None:
    passes = NetworkFilter(target, ttl).passes(path)
    assert passes == (target not in path and (ttl < 0 or len(path) < ttl))


@given(PATHS, st.integers(-1, 6), st.sampled_from("ABCDE"))
def test_a_subscription_of_ones_own_consumers_is_no_demand(path: tuple[str, ...], ttl: int, own: str) -> None:
    assert demand_passes(path, own, ttl) == (own not in path and (ttl < 0 or len(path) < ttl))


def test_priorities_fall_with_distance_by_the_numbers_of_activemq() -> None:
    assert [network_priority(tuple("ABCD"[:hops]), -5) for hops in (1, 2, 3, 4)] == [-5, -8, -9, -10]


def test_a_priority_stays_a_java_byte() -> None:
    assert network_priority(tuple("A" * 64), -127) == -128
