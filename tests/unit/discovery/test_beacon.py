"""The datagrams by which brokers find each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.discovery.groups.beacon import (
    MAX_DATAGRAM_BYTES,
    MAX_GROUP_CHARACTERS,
    MAX_URI_CHARACTERS,
    Beacon,
    check_group,
    decode_beacon,
)
from spanwire.model.errors import ConfigurationError


def test_a_beacon_reads_as_activemq_writes_it() -> None:
    assert Beacon("default", "tcp://a:61616").encode() == b"default.ActiveMQ-4.alive.%localhost%tcp://a:61616"
    assert Beacon("sales", "ssl://b:1", alive=False).encode() == b"sales.ActiveMQ-4.dead.%localhost%ssl://b:1"


def test_what_was_written_is_read_again() -> None:
    for beacon in (Beacon("g", "tcp://a:1?x=%20y"), Beacon("g.h", "tcp://a:1", alive=False, name="hub")):
        assert decode_beacon(beacon.encode(), beacon.group) == beacon


def test_other_groups_are_not_heard() -> None:
    assert decode_beacon(Beacon("sales", "tcp://a:1").encode(), "default") is None
    assert decode_beacon(Beacon("default2", "tcp://a:1").encode(), "default") is None


@pytest.mark.parametrize(
    "nonsense",
    [
        b"",
        b"default.ActiveMQ-4.",
        b"default.ActiveMQ-4.alive.",
        b"default.ActiveMQ-4.alive.%localhost",
        b"default.ActiveMQ-4.alive.%localhost%",
        b"default.ActiveMQ-4.alive.localhost%tcp://a:1%",
        b"default.ActiveMQ-4.gone.%localhost%tcp://a:1",
        b"default.ActiveMQ-4.alive.%localhost%tcp://a:1 tcp://b:2",
        b"default.ActiveMQ-4.alive.%localhost%tcp://a:1\nWARN forged log line",
        b"default.ActiveMQ-4.alive.%localhost%\xff\xfe",
        b"default.ActiveMQ-4.alive.%localhost%tcp://" + b"a" * MAX_URI_CHARACTERS,
        b"default.ActiveMQ-4.alive.%" + b"n" * MAX_DATAGRAM_BYTES + b"%tcp://a:1",
    ],
)
def test_nonsense_is_not_heard(nonsense: bytes) -> None:
    assert decode_beacon(nonsense, "default") is None


@given(st.binary(max_size=200))
def test_whatever_is_sent_to_the_group_nothing_breaks(datagram: bytes) -> None:
    for data in (datagram, b"default.ActiveMQ-4." + datagram, b"default.ActiveMQ-4.alive.%" + datagram):
        found = decode_beacon(data, "default")
        assert found is None or found.uri.isprintable()


def test_the_longest_name_of_a_group_is_accepted() -> None:
    assert check_group("g" * MAX_GROUP_CHARACTERS) == "g" * MAX_GROUP_CHARACTERS


@pytest.mark.parametrize("group", ["", "a%b", "a\nb", "g" * (MAX_GROUP_CHARACTERS + 1)])
def test_a_group_that_no_beacon_can_name_is_refused(group: str) -> None:
    with pytest.raises(ConfigurationError, match="discovery group"):
        check_group(group)
