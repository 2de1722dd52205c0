"""Names, patterns and composites (ActiveMQ wildcards)."""

from __future__ import annotations

from itertools import product

import pytest

from spanwire.broker.ports import Principal
from spanwire.model.destination import (
    MAX_NAME_BYTES,
    QUEUE,
    TEMP_QUEUE,
    TOPIC,
    Destination,
    parse_destination,
)
from spanwire.model.errors import AuthorizationError, InvalidDestinationError
from tests.support.dialogue.broker_dialogue import Stage

ALPHABET = ("a", "b", "*", ">", "")  # "" : an element between two dots with nothing in it
NAMES = [".".join(parts) for length in (1, 2, 3) for parts in product(("a", "b", "A"), repeat=length)]
PATTERNS = [".".join(parts) for length in (1, 2, 3) for parts in product(ALPHABET, repeat=length)]


def oracle(pattern: str, name: str) -> bool:
    """The rule as slowly as it can be said: a closing ``>`` stands for any number of elements, ``*`` for one."""
    wanted, given = pattern.split("."), name.split(".")
    if wanted[-1] == ">":
        return any(all_match(wanted[:-1], given[:count]) for count in range(len(given) + 1))
    return all_match(wanted, given)


def all_match(wanted: list[str], given: list[str]) -> bool:
    return len(wanted) == len(given) and all(w in ("*", g) for w, g in zip(wanted, given, strict=True))


def test_every_pattern_matches_what_the_rule_says() -> None:
    for pattern in PATTERNS:
        if not pattern:
            continue
        asked = Destination(QUEUE, pattern)
        for name in NAMES:
            assert asked.matches(Destination(QUEUE, name)) == oracle(pattern, name), (pattern, name)


@pytest.mark.parametrize("pattern", ["a.>", "*", ">", "*.a"])
def test_a_pattern_matches_its_own_kind_alone(pattern: str) -> None:
    assert not Destination(QUEUE, pattern).matches(Destination(TOPIC, "a.a"))
    assert not Destination(QUEUE, pattern).matches(Destination(TEMP_QUEUE, "a.a"))


def test_case_and_look_alikes_are_different_names() -> None:
    for other in ("orders", "ORDERS ", "ОRDERS", "ORDERS\u200b", "ＯRDERS", "ORDERS."):
        assert not Destination(QUEUE, "ORDERS").matches(Destination(QUEUE, other))


class OneName:
    """Duck-typed to `spanwire.broker.ports.Authorizer`: everybody may do everything but touch one name."""

    def __init__(self, denied: str) -> None:
        self.denied = denied

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        if destination.name == self.denied and principal.name == "u":
            raise AuthorizationError("no")

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        self.check(principal, action, destination)


@pytest.mark.parametrize("before", [True, False])
def test_wildcard_consumers_and_senders_reach_exactly_what_matches_and_is_allowed(before: bool) -> None:
    names = [name for name in NAMES if "A" not in name]
    denied = "a.b"
    for pattern in ("a.*", "*.b", ">", "a.>", "*.*", "*.>", "a.*.b", "*.*.*", "b.>", "*"):
        stage = Stage(authorizer=OneName(denied))
        admin = stage.peer("admin", user="admin")
        if before:
            for name in names:
                admin.creates(f"queue://{name}")
        listener = stage.peer("c", user="u").consumes(f"queue://{pattern}", prefetch=32_000)
        for name in names:
            admin.sends(f"queue://{name}", name)
        expected = sorted(name for name in names if oracle(pattern, name) and name != denied)
        assert sorted(listener.takes()) == expected, pattern
        listener.leaves()
        reached = {view.destination: view.enqueued for view in stage.broker.destination_views()}
        if oracle(pattern, denied):
            with pytest.raises(AuthorizationError):
                stage.peer("p", user="u").sends(f"queue://{pattern}", "x")
        else:
            stage.peer("p", user="u").sends(f"queue://{pattern}", "x")
        for view in stage.broker.destination_views():
            hit = oracle(pattern, view.destination.removeprefix("queue://")) and not oracle(pattern, denied)
            assert view.enqueued - reached[view.destination] == int(hit), (pattern, view.destination)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A", ["queue://A"]),
        ("topic://A", ["topic://A"]),
        ("A?consumer.exclusive=true", ["queue://A"]),
        ("A,B", ["queue://A", "queue://B"]),
        ("A,topic://B,A, queue://C", ["queue://A", "topic://B", "queue://C"]),
        ("topic://A,B", ["topic://A", "topic://B"]),
        ("A?x=1,B?y=2", ["queue://A", "queue://B"]),
        ("temp-queue://A,B", ["temp-queue://A", "temp-queue://B"]),
        ("queue://A,temp-topic://B?x=1", ["queue://A", "temp-topic://B"]),
    ],
)
def test_composites_and_options_are_taken_apart(text: str, expected: list[str]) -> None:
    assert [str(part) for part in parse_destination(text).parts()] == expected


@pytest.mark.parametrize(
    "text", ["", "queue://", "?x=1", "a\nb", "a\x00", "a\x7f", " a", "a ", "a\t", "\ud800", "é" * 600]
)
def test_names_that_would_be_ambiguous_are_refused(text: str) -> None:
    with pytest.raises(InvalidDestinationError):
        parse_destination(text)


@pytest.mark.parametrize("text", ["A,", ",", "A,,B", "A,queue://", "A, ,B", ",".join(f"A{n}" for n in range(65))])
def test_composites_with_a_bad_part_are_refused(text: str) -> None:
    with pytest.raises(InvalidDestinationError):
        parse_destination(text).parts()


def test_the_longest_name_is_counted_in_bytes() -> None:
    assert parse_destination("é" * (MAX_NAME_BYTES // 2)).name
    with pytest.raises(InvalidDestinationError, match=f"longer than {MAX_NAME_BYTES} bytes"):
        parse_destination("é" * (MAX_NAME_BYTES // 2) + "x")
