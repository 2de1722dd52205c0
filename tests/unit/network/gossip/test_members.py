"""What brokers tell each other of the members: its bounds, its ages, and what of it is not believed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.network.gossip.members import MAX_ADDRESSES, MAX_AGE_S, MAX_GOSSIP_BYTES, Members, read_members
from spanwire.network.reports.known_brokers import MAX_BROKERS, MAX_TEXT

ADDRESS = "tcp://10.0.0.9:61616"


def told(*rows: dict[str, object]) -> str:
    return json.dumps({"brokers": list(rows)})


def row(name: str, age_s: float = 0.0, *addresses: str) -> dict[str, object]:
    return {"name": name, "id": f"ID:{name}", "age_s": age_s, "addresses": list(addresses or (ADDRESS,))}


def test_a_broker_tells_itself_and_what_it_was_told_with_its_age() -> None:
    members = Members("a", "ID:a")
    members.addresses = ("tcp://10.0.0.1:61616",)
    members.add(told(row("b", 2.0)), "b", 100.0)
    brokers = json.loads(members.tell(103.0))["brokers"]
    assert [(one["name"], one["age_s"]) for one in brokers] == [("a", 0.0), ("b", 5.0)]
    assert brokers[0]["addresses"] == ["tcp://10.0.0.1:61616"]


def test_a_member_of_whom_nobody_tells_any_more_is_forgotten() -> None:
    members = Members("a", "")
    members.add(told(row("b", 50.0)), "c", 0.0)
    assert "b" in members.members(9.0)
    assert "b" not in members.members(11.0)


def test_the_word_of_a_dead_broker_does_not_live_on_by_being_passed_round() -> None:
    first, second = Members("a", ""), Members("b", "")
    first.add(told(row("dead")), "dead", 0.0)
    for second_of_time in range(1, 80):
        second.add(first.tell(second_of_time), "a", second_of_time)
        first.add(second.tell(second_of_time), "b", second_of_time)
    assert "dead" not in first.members(80.0)
    assert "dead" not in second.members(80.0)


def test_nobody_tells_a_broker_who_it_is() -> None:
    members = Members("a", "")
    members.add(told(row("a")), "liar", 0.0)
    assert members.members(0.0) == {}


def test_what_a_broker_has_told_of_itself_goes_before_the_words_of_others() -> None:
    members = Members("a", "")
    members.add(told(row("b", 0.0, "tcp://10.0.0.2:61616")), "b", 0.0)
    members.add(told(row("b", 0.0, "tcp://6.6.6.6:22")), "liar", 1.0)
    assert members.members(1.0) == {"b": ("tcp://10.0.0.2:61616",)}


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"brokers": {}}', '{"brokers": [1, null, []]}', "[" * 20_000,
        told({"name": "", "age_s": 0, "addresses": []}),
        told({"name": "x" * (MAX_TEXT + 1), "age_s": 0, "addresses": []}),
        told({"name": "x\ny", "age_s": 0, "addresses": []}),
        told({"name": "x", "age_s": -1, "addresses": []}),
        told({"name": "x", "age_s": MAX_AGE_S + 1, "addresses": []}),
        told({"name": "x", "age_s": True, "addresses": []}),
        told({"name": "x", "age_s": 0, "addresses": "tcp://a:1"}),
        '{"brokers": [{"name": "x", "age_s": NaN, "addresses": []}]}',
        '{"brokers": [{"name": "x", "age_s": 1e999, "addresses": []}]}',
    ],
)  # fmt: skip
def test_what_has_another_form_is_left_out(text: str) -> None:
    assert read_members(text) == []


def test_only_addresses_where_brokers_can_link_are_kept_and_only_a_few() -> None:
    refused = ["file:///etc/passwd", "vm://x", "tcp://h", "tcp://u:p@h:1", "stomp://h:1", "failover:(tcp://h:1)", 7]
    (found,) = read_members(told({"name": "x", "age_s": 0, "addresses": refused}))
    assert found["addresses"] == ()
    many = [f"tcp://10.0.0.1:{port}" for port in range(1, 100)]
    (found,) = read_members(told({"name": "x", "age_s": 0, "addresses": many}))
    assert found["addresses"] == tuple(many[:MAX_ADDRESSES])


def test_an_address_is_kept_without_its_options() -> None:
    (found,) = read_members(told(row("x", 0.0, "tcp://10.0.0.1:61616?trace=true&wireFormat.maxFrameSize=1")))
    assert found["addresses"] == ("tcp://10.0.0.1:61616",)


def test_s37_a_flood_of_invented_members_is_bounded_and_pushes_out_nobody_else() -> None:
    members = Members("a", "")
    members.add(told(row("b")), "b", 0.0)
    members.add(told(row("behind-b", 1.0)), "b", 0.0)
    for turn in range(20):
        rows = [row(f"invented-{turn}-{number}", 0.0, *[ADDRESS] * 3) for number in range(1_000)]
        members.add(told(*rows), "10.0.0.66", float(turn) / 10)
    found = members.members(3.0)
    assert len(found) <= MAX_BROKERS
    assert {"b", "behind-b"} <= set(found)
    assert len(members.tell(3.0)) <= MAX_GOSSIP_BYTES


def test_a_question_beyond_the_bound_is_not_read() -> None:
    assert read_members(told(row("x")) + " " * MAX_GOSSIP_BYTES) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["brokers", "name", "id", "age_s", "addresses", "x"]), inner, max_size=5
    ),
    max_leaves=30,
)  # fmt: skip


@given(json_values, st.binary(max_size=40))
def test_no_text_brings_the_table_into_disorder(value: object, junk: bytes) -> None:
    members = Members("a", "")
    members.add(json.dumps({"brokers": [value]}), "x", 0.0)
    members.add(json.dumps(value), "x", 0.0)
    members.add(junk, "x", 0.0)
    for name, addresses in members.members(0.0).items():
        assert name != "a"
        assert len(addresses) <= MAX_ADDRESSES
    other = Members("b", "")
    other.add(members.tell(1.0), "a", 1.0)
    assert set(members.members(1.0)) <= set(other.members(1.0)) | {"b"}
