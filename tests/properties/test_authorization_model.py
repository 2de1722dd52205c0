"""Access lists and patterns against an oracle that tries every name.

All names of up to four elements over a small alphabet, one letter of which stands in no pattern; what the access map, a
wildcard consumer and a wildcard or composite send may do is worked out by trying them one by one with regular
expressions.
"""

from __future__ import annotations

import itertools
import re
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spanwire.broker.ports import ADMIN, READ, WRITE, Principal
from spanwire.broker.security.authorization_map import AccessList, AuthorizationEntry, AuthorizationMap
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import AuthorizationError
from spanwire.model.info import ConnectionInfo
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.seeds import share

ACTIONS: Final = (READ, WRITE, ADMIN)
LETTERS: Final = ("a", "b", "", "z")  # z stands in no pattern
NAMES: Final = [
    ".".join(elements)
    for length in (1, 2, 3, 4)
    for elements in itertools.product(LETTERS, repeat=length)
    if ".".join(elements)
]
POSSIBLE: Final = ["", *NAMES]  # the empty name falls under ".>" but is no destination: asking for it harms nobody
LIVE_NAMES: Final = [name for name in NAMES if name.count(".") < 2 or name in ("a.b.a", "a.a.z", "b.z.a.a", "a.b.a.b")]

element = st.sampled_from(["a", "b", "*", ""])
pattern = st.builds(
    lambda elements, rest: ".".join([*elements, *rest]) or "a",
    st.lists(element, max_size=3),
    st.sampled_from([[], [], [">"]]),
)
wildcard = pattern.filter(lambda text: Destination(QUEUE, text).is_pattern)
groups = st.frozensets(st.sampled_from(["g", "h"]))
lists = st.builds(AccessList, *[st.frozensets(st.sampled_from(["g", "h", "*"]), max_size=2)] * 3)
entries = st.lists(
    st.builds(
        lambda kind, name, access: AuthorizationEntry(Destination(kind, name), access),
        st.sampled_from([QUEUE, TOPIC]),
        pattern,
        lists,
    ),
    max_size=6,
)
default = st.none() | lists


class Oracle:
    """Tries each name with each entry."""

    def __init__(self, listed: list[AuthorizationEntry], default_list: AccessList | None) -> None:
        self._listed = [(entry.destination.kind, expression(entry.destination.name), entry.access) for entry in listed]
        self._default = default_list

    def allows(self, who: frozenset[str], action: str, kind: int, name: str) -> bool:
        lists = [access for of, matcher, access in self._listed if of == kind and matcher.fullmatch(name)]
        if self._default is not None:
            lists.append(self._default)
        return any({"*", *who} & getattr(access, action) for access in lists)


def expression(text: str) -> re.Pattern[str]:
    elements = text.split(".")
    rest = elements.pop() if elements[-1] == ">" else ""
    wild = rest or "*" in elements
    parts = [r"[^.]*" if part == "*" and wild else re.escape(part) for part in elements]
    if rest:
        return re.compile(r"\.".join(parts) + r"(\..*)?" if parts else ".*", re.DOTALL)
    return re.compile(r"\.".join(parts))


def allowed(lists: AuthorizationMap, who: frozenset[str], action: str, kind: int, name: str) -> bool:
    try:
        lists.check(Principal("u", who), action, Destination(kind, name))
    except AuthorizationError:
        return False
    return True


@pytest.mark.large
@given(entries, default, groups)
def test_every_name_is_decided_as_by_trying_every_entry(
    listed: list[AuthorizationEntry], default_list: AccessList | None, who: frozenset[str]
) -> None:
    oracle = Oracle(listed, default_list)
    lists = AuthorizationMap(listed, None, default_list)
    for _ in range(2):  # the second time from memory
        for kind, action, name in itertools.product((QUEUE, TOPIC), ACTIONS, NAMES):
            assert allowed(lists, who, action, kind, name) == oracle.allows(who, action, kind, name), (kind, name)


@given(entries, default, groups, pattern)
def test_a_pattern_passes_exactly_when_some_name_under_it_does(
    listed: list[AuthorizationEntry], default_list: AccessList | None, who: frozenset[str], wanted: str
) -> None:
    oracle = Oracle(listed, default_list)
    lists = AuthorizationMap(listed, None, default_list)
    names = [name for name in POSSIBLE if expression(wanted).fullmatch(name)]
    for kind in (QUEUE, TOPIC):
        expected = any(oracle.allows(who, READ, kind, name) for name in names)
        assert allowed(lists, who, READ, kind, wanted) == expected


class Door:
    """Everybody is who he says; "root" is in the group that may do everything."""

    def __init__(self, who: frozenset[str]) -> None:
        self._who = who

    def authenticate(self, info: ConnectionInfo) -> Principal:
        return Principal(info.user_name or "", frozenset({"root"}) if info.user_name == "root" else self._who)


def stage_of(listed: list[AuthorizationEntry], default_list: AccessList | None, who: frozenset[str]) -> Stage:
    root = AccessList(*[frozenset({"root"})] * 3)
    everything = [AuthorizationEntry(Destination(kind, ">"), root) for kind in (QUEUE, TOPIC)]
    return Stage(
        authorizer=AuthorizationMap([*everything, *listed], None, default_list),
        authenticator=Door(who),
        persistent=False,
    )


reading = st.builds(
    lambda kind, name, who: AuthorizationEntry(Destination(kind, name), AccessList(read=who)),
    st.just(QUEUE),
    pattern,
    st.sampled_from([frozenset({"g"}), frozenset({"g"}), frozenset({"h"})]),
)


@pytest.mark.large
@settings(max_examples=share(200))
@given(st.lists(reading, min_size=1, max_size=4), st.none(), st.just(frozenset({"g"})), wildcard, st.just("queue"))
@example(
    [AuthorizationEntry(Destination(TOPIC, "a.*"), AccessList(read=frozenset({"*"})))],
    AccessList(),
    frozenset(),
    ">",
    "topic",
)
def test_a_wildcard_consumer_gets_what_it_may_read_and_nothing_else(
    listed: list[AuthorizationEntry], default_list: AccessList | None, who: frozenset[str], wanted: str, scheme: str
) -> None:
    oracle = Oracle(listed, default_list)
    kind = QUEUE if scheme == "queue" else TOPIC
    stage = stage_of(listed, default_list, who)
    root = stage.peer("root", user="root")
    for name in LIVE_NAMES[::2]:
        root.creates(f"{scheme}://{name}")
    readable = [
        name for name in POSSIBLE if oracle.allows(who, READ, kind, name) and expression(wanted).fullmatch(name)
    ]
    peer = stage.peer("u", user="u")
    if not readable:
        with pytest.raises(AuthorizationError):
            peer.consumes(f"{scheme}://{wanted}")
        return
    listener = peer.consumes(f"{scheme}://{wanted}")
    for name in LIVE_NAMES:
        root.sends(f"{scheme}://{name}", name)
    stage.settle()
    assert sorted(listener.takes()) == sorted(name for name in LIVE_NAMES if name in set(readable))


@settings(max_examples=share(60))
@given(entries, default, groups, st.lists(pattern, min_size=1, max_size=3))
def test_a_send_reaches_all_it_names_or_nothing(
    listed: list[AuthorizationEntry], default_list: AccessList | None, who: frozenset[str], parts: list[str]
) -> None:
    """Wildcards stand for what exists, the other names are made: each must be allowed, else nothing happens at all."""
    oracle = Oracle(listed, default_list)
    stage = stage_of(listed, default_list, who)
    root = stage.peer("root", user="root")
    existing = ["a", "b", "a.b", "a.z", "b.a.b"]
    for name in existing:
        root.creates(f"queue://{name}")
    reached: set[str] = set()
    for part in parts:
        if Destination(QUEUE, part).is_pattern:
            reached |= {name for name in existing if expression(part).fullmatch(name)}
        else:
            reached.add(part)
    expected = all(oracle.allows(who, WRITE, QUEUE, name) for name in reached) and all(
        oracle.allows(who, ADMIN, QUEUE, name) for name in reached - set(existing)
    )
    peer = stage.peer("u", user="u")
    text = ",".join(f"queue://{part}" for part in parts)
    if expected:
        peer.sends(text, "1")
    else:
        with pytest.raises(AuthorizationError):
            peer.sends(text, "1")
    holding = {view.destination for view in stage.broker.destination_views() if view.pending}
    assert holding == ({f"queue://{name}" for name in reached} if expected else set())
    if not expected:
        assert {view.destination for view in stage.broker.destination_views()} == {f"queue://{n}" for n in existing}
