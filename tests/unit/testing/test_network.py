"""Linked brokers for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.testing import Network
from spanwire.testing.network import parse_links
from tests.service.started import StompClient


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("A->B", [("A", "B")]),
        ("A -> B->C", [("A", "B"), ("B", "C")]),
        ("A<->B", [("A", "B"), ("B", "A")]),
        ("A->B, C->B,A->B", [("A", "B"), ("C", "B")]),
    ],
)
def test_arrows_say_who_links_to_whom(text: str, links: list[tuple[str, str]]) -> None:
    assert parse_links(text) == links


@pytest.mark.parametrize("text", ["", "A", "A->", "->B", "A->B,", "A-B", "A=>B", 'A->B"', "A->A", "A->B->B"])
def test_what_is_no_network_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_links(text)
    assert "\n" not in str(caught.value)


def test_what_is_sent_to_one_broker_reaches_a_consumer_at_the_other() -> None:
    with (
        Network("A->B") as network,
        StompClient(network["A"].stomp_port) as producer,
        StompClient(network["B"].stomp_port) as consumer,
    ):
        consumer.send("SUBSCRIBE\ndestination:/queue/ORDERS\nid:1\n\n")
        network["A"].queue("ORDERS").wait_for(consumers=1)
        producer.send("SEND\ndestination:/queue/ORDERS\n\nhello")
        assert consumer.receive().endswith("hello")
        network["A"].queue("ORDERS").wait_for(pending=0, dequeued=1)


def test_attributes_are_those_of_the_network_connectors() -> None:
    with (
        Network("A->B->C", networkTTL="2") as network,
        StompClient(network["A"].stomp_port) as producer,
        StompClient(network["C"].stomp_port) as consumer,
    ):
        consumer.send("SUBSCRIBE\ndestination:/queue/ORDERS\nid:1\n\n")
        network["A"].queue("ORDERS").wait_for(consumers=1)
        producer.send("SEND\ndestination:/queue/ORDERS\n\nfar")
        assert consumer.receive().endswith("far")
    with pytest.raises(ConfigurationError, match="'networkTLL'; did you mean networkTTL"):
        Network("A->B", networkTLL="2").start()


def test_brokers_may_link_in_circles() -> None:
    with Network("A<->B") as network:
        assert {str(link["name"]) for broker in network.brokers for link in broker.links()} == {"A-B", "B-A"}
        assert [broker.left_open() for broker in network.brokers] == [[], []], "bridges are no clients"


def test_a_broker_that_comes_back_is_linked_again_and_what_waited_goes_on(tmp_path: Path) -> None:
    with (
        Network("A->B", directory=tmp_path) as network,
        StompClient(network["A"].stomp_port) as producer,
    ):
        network["B"].stop()
        producer.transact("SEND\ndestination:/queue/ORDERS\npersistent:true\nreceipt:r\n\nlate", "r")
        network["B"].start()
        network.wait_until_linked()
        with StompClient(network["B"].stomp_port) as consumer:
            consumer.send("SUBSCRIBE\ndestination:/queue/ORDERS\nid:1\n\n")
            assert consumer.receive().endswith("late")
