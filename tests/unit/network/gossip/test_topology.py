"""Which members a broker chooses: all, or some by a rule that all follow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanwire.network.gossip.topology import neighbours


def reached(names: list[str], limit: int) -> int:
    """How many brokers can be reached from the first one."""
    seen, around = {names[0]}, [names[0]]
    while around:
        for name in neighbours(around.pop(), set(names), limit):
            if name not in seen:
                seen.add(name)
                around.append(name)
    return len(seen)


@given(st.sets(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=40), st.integers(2, 12))
def test_choices_are_symmetric_bounded_and_connect_all(names: set[str], limit: int) -> None:
    chosen = {name: neighbours(name, names - {name}, limit) for name in names}
    for name, others in chosen.items():
        assert name not in others
        assert len(others) <= limit
        assert all(name in chosen[other] for other in others)
    assert reached(sorted(names), limit) == len(names)


def test_up_to_the_limit_all_are_chosen() -> None:
    assert neighbours("a", {"b", "c", "d"}, 3) == {"b", "c", "d"}
    assert len(neighbours("a", {"b", "c", "d", "e"}, 3)) == 2  # one more would not be chosen by both


def test_one_link_leads_round_the_ring() -> None:
    assert neighbours("c", {"a", "b"}, 1) == {"a"}
