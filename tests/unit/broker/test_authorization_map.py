"""Access lists: which entries count for a destination, and for whom."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spanwire.broker.ports import ADMIN, READ, WRITE, Principal
from spanwire.broker.security.authorization_map import (
    MAX_GROUP_SETS,
    MAX_REMEMBERED,
    AccessList,
    AuthorizationEntry,
    AuthorizationMap,
    covers,
    overlap,
)
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import AuthorizationError

ACTIONS = (READ, WRITE, ADMIN)


def access(read: str = "", write: str = "", admin: str = "") -> AccessList:
    return AccessList(*(frozenset(text.split()) for text in (read, write, admin)))


def entry(text: str, read: str = "", write: str = "", admin: str = "") -> AuthorizationEntry:
    return AuthorizationEntry(parse_destination(text), access(read, write, admin))


def rights(lists: AuthorizationMap, groups: str, text: str | Destination) -> str:
    """The letters of the actions that are allowed."""
    destination = parse_destination(text) if isinstance(text, str) else text
    found = ""
    for action in ACTIONS:
        try:
            lists.check(Principal("u", frozenset(groups.split())), action, destination)
        except AuthorizationError:
            continue
        found += action[0]
    return found


def test_what_no_entry_names_is_refused() -> None:
    lists = AuthorizationMap([entry("queue://A", "g", "g", "g")])
    assert rights(lists, "g", "queue://A") == "rwa"
    assert [rights(lists, "g", text) for text in ("queue://B", "topic://A", "queue://A.B", "queue://a")] == [""] * 4
    assert rights(lists, "", "queue://A") == ""
    assert rights(lists, "h", "queue://A") == ""
    assert rights(AuthorizationMap([]), "g", "queue://A") == ""


def test_an_empty_list_is_nobody_and_an_asterisk_everybody() -> None:
    lists = AuthorizationMap([entry("queue://>", read="*", write="g")])
    assert rights(lists, "", "queue://A") == "r"
    assert rights(lists, "g", "queue://A") == "rw"


def test_a_group_named_asterisk_gives_nothing_by_itself() -> None:
    assert rights(AuthorizationMap([entry("queue://A", "g", "g", "g")]), "*", "queue://A") == ""


def test_the_entries_of_all_matching_patterns_are_united() -> None:
    lists = AuthorizationMap(
        [
            entry("queue://>", read="all"),
            entry("queue://A.>", write="writers"),
            entry("queue://A.*", admin="admins"),
            entry("queue://A.B", write="exact"),
            entry("queue://A.B", read="again"),
        ]
    )
    assert rights(lists, "all", "queue://A.B") == "r"
    assert rights(lists, "writers", "queue://A.B") == "w"
    assert rights(lists, "exact again admins", "queue://A.B") == "rwa"
    assert rights(lists, "writers admins", "queue://A.B.C") == "w"
    assert rights(lists, "writers", "queue://A") == "w", "> also matches no further element"


def test_the_default_entry_adds_to_every_destination_but_temporary_ones() -> None:
    lists = AuthorizationMap([entry("queue://A", read="g")], access("t", "t", "t"), access(write="d"))
    assert rights(lists, "d", "queue://A") == "w"
    assert rights(lists, "d", "topic://X.Y") == "w"
    assert rights(lists, "d", Destination(2, "ID:a:1")) == ""


@pytest.mark.parametrize("kind", [2, 3])
def test_temporary_destinations_have_a_list_of_their_own_or_are_free(kind: int) -> None:
    temporary = Destination(kind, "ID:c:1:1")
    entries = [entry("queue://>", "g", "g", "g"), entry("topic://>", "g", "g", "g")]
    assert rights(AuthorizationMap(entries), "", temporary) == "rwa"
    listed = AuthorizationMap(entries, access("r", "w", "a"))
    assert [rights(listed, group, temporary) for group in ("g", "r", "w", "a", "r w a")] == ["", "r", "w", "a", "rwa"]


@pytest.mark.parametrize("name", ["A..B", ".A", "A.", "a.B", "А.B", "A.B\u200b", "A.ß", "A .B"])
def test_s34_names_that_look_alike_are_other_names(name: str) -> None:
    lists = AuthorizationMap([entry("queue://A.B", "g", "g", "g")])
    assert rights(lists, "g", Destination(0, name)) == ""


def test_s34_empty_elements_count_as_elements() -> None:
    lists = AuthorizationMap([entry("queue://A.*", "g")])
    assert rights(lists, "g", Destination(0, "A.")) == "r"
    assert rights(lists, "g", Destination(0, "A..B")) == ""


@pytest.mark.parametrize(
    ("pattern", "other", "expected"),
    [
        ("A.>", "A.B", True),
        ("A.>", "A", True),
        ("A.>", "B.>", False),
        (">", "A.*", True),
        ("*", "A.>", True),
        ("*.B", "A.>", True),
        ("*.B", "A.*", True),
        ("*.B", "*.C", False),
        ("A.*", "A.B.>", True),
        ("A.*", "A.B.C.>", False),
        ("A.*.C", "A.>", True),
        ("*", "*.*", False),
        ("A.>.*", "A.>", True),
        ("A.>.*", "A.B.C", False),
    ],
)
def test_patterns_overlap_when_some_name_falls_under_both(pattern: str, other: str, expected: bool) -> None:
    assert overlap(Destination(0, pattern), Destination(0, other)) is expected
    if Destination(0, other).is_pattern:
        assert overlap(Destination(0, other), Destination(0, pattern)) is expected


def test_a_pattern_passes_when_something_under_it_is_allowed() -> None:
    lists = AuthorizationMap([entry("queue://A.B", read="g"), entry("topic://A.>", read="h")])
    assert rights(lists, "g", "queue://A.>") == "r"
    assert rights(lists, "g", "queue://B.>") == ""
    assert rights(lists, "h", "queue://A.>") == ""
    assert rights(lists, "h", "topic://A.*.C") == "r"


ELEMENTS = st.lists(st.sampled_from(["A", "B", "*", ">"]), min_size=1, max_size=4)
NAMES = [".".join(name) for count in range(1, 6) for name in itertools.product("ABC", repeat=count)]


@given(ELEMENTS, ELEMENTS)
@example(["*", ">"], [">"])
def test_a_pattern_covers_another_when_every_name_under_that_falls_under_it(left: list[str], right: list[str]) -> None:
    outer, pattern = Destination(0, ".".join(left)), Destination(0, ".".join(right))
    if ">" in left[:-1] or ">" in right[:-1] or not pattern.is_pattern:
        return
    under = [name for name in NAMES if pattern.matches(Destination(0, name))]
    assert covers(outer, pattern) is all(outer.matches(Destination(0, name)) for name in under)


@pytest.mark.parametrize(
    ("text", "groups", "expected"),
    [
        ("topic://A.t", "a", True),
        ("topic://B.t", "a", False),
        ("topic://A.>", "a", True),
        ("topic://A.*.c", "a", True),
        ("topic://>", "a", False),
        ("topic://*.t", "a", False),
        ("topic://>", "root", True),
        ("topic://>", "guest", False),
        ("queue://A.>", "a", False),
        ("queue://>", "everywhere", True),
    ],
)
def test_all_of_a_pattern_is_allowed_by_one_entry_that_covers_it(text: str, groups: str, expected: bool) -> None:
    entries = [entry("topic://A.>", "a"), entry("topic://>", "root"), entry("queue://A.b", "a")]
    lists = AuthorizationMap(entries, default=access("everywhere"))
    try:
        lists.check_all(Principal("u", frozenset(groups.split())), READ, parse_destination(text))
        found = True
    except AuthorizationError:
        found = False
    assert found is expected


def test_the_refusal_has_activemqs_words() -> None:
    lists = AuthorizationMap([])
    for action, verb in ((READ, "read from"), (WRITE, "write to"), (ADMIN, "create")):
        with pytest.raises(AuthorizationError) as raised:
            lists.check(Principal("user"), action, parse_destination("queue://WO.a"))
        assert str(raised.value) == f"User user is not authorized to {verb}: queue://WO.a"


def test_remembered_decisions_are_bounded_and_stay_right() -> None:
    lists = AuthorizationMap([entry("queue://A.>", "g", "g", "g")])
    for number in range(MAX_REMEMBERED + 5):
        assert rights(lists, "g", f"queue://A.{number}") == "rwa"
        assert rights(lists, "g", f"queue://B.{number}") == ""
    for number in range(MAX_GROUP_SETS + 5):
        assert rights(lists, f"h{number}", "queue://A.1") == ""
    assert rights(lists, "g", "queue://A.1") == "rwa"
    assert len(lists._decisions) <= MAX_GROUP_SETS
    assert all(len(kept.write) <= MAX_REMEMBERED for kept in lists._decisions.values())


def test_a_run_of_messages_is_decided_for_its_own_writer_destination_and_action() -> None:
    lists = AuthorizationMap([entry("queue://A", write="g"), entry("queue://B", write="h")])
    a, b = parse_destination("queue://A"), parse_destination("queue://B")
    g, h = Principal("g", frozenset({"g"})), Principal("h", frozenset({"h"}))
    for _ in range(3):
        lists.check(g, WRITE, a)
        for principal, action, destination in ((g, READ, a), (g, ADMIN, a), (h, WRITE, a), (g, WRITE, b)):
            with pytest.raises(AuthorizationError):
                lists.check(principal, action, destination)
        lists.check(h, WRITE, b)
        lists.check(g, WRITE, a)
