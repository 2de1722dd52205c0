"""Dry runs: the order of dispatch, reasons, and questions from broker to broker."""

from __future__ import annotations

import asyncio
import json
from typing import Final

import pytest

from spanwire.broker.following.probe import MAX_ANSWERS
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.management.questions.route_probe import MAX_HOPS, RouteProbe, typed, walked
from spanwire.model.errors import ConfigurationError
from spanwire.network.reports.known_brokers import Peer
from spanwire.network.reports.route_rows import chosen, failed, merged, read_answer
from tests.support.network_dialogue import Network

Q: Final = "queue://Q"
Row = dict[str, object]


class Probed:
    """A broker that is asked."""

    def __init__(self, *policies: PolicyEntry) -> None:
        self.network = Network()
        self.site = self.network.site("A")
        self.client = self.site.client()
        self.probe = RouteProbe(self.site.broker, self.network.environment, None)

    def asks(self, destination: str = Q, **arguments: object) -> Row:
        """The only hop."""
        answer = asyncio.run(self.probe.dry_run({"destination": destination, **arguments}))
        (hop,) = answer["hops"]  # type: ignore[misc]
        assert answer["delivered"] == (hop["end"] == "delivered")  # type: ignore[has-type]
        return hop  # type: ignore[has-type, no-any-return]

    def reasons(self, destination: str = Q, **arguments: object) -> list[str]:
        answers = self.asks(destination, **arguments)["answers"]
        assert isinstance(answers, list)
        return [one["cause"] for one in answers]


def test_the_next_consumer_in_turn_gets_the_message_and_the_others_say_why_not() -> None:
    probed = Probed()
    probed.client.consumes(Q, selector="n > 5")
    probed.client.consumes(Q)
    probed.client.consumes(Q, prefetch=1, manual=True)
    assert probed.reasons() == ["selector", "", "dispatching"]
    assert probed.reasons(properties={"n": 6})[0] == ""
    probed.client.sends(Q, "1")  # the second one gets it
    assert [probed.reasons() for _ in range(2)] == [["", "selector", "dispatching"]] * 2
    probed.client.sends(Q, "2")  # now the window of the third one is full
    probed.network.settles()
    assert "window-full" in probed.reasons()


def test_a_dry_run_counts_and_changes_nothing() -> None:
    probed = Probed()
    inbox = probed.client.consumes(Q)
    before = probed.site.queue("Q")
    probed.asks()
    probed.network.settles()
    assert probed.site.queue("Q") == before
    assert inbox.texts == []


def test_a_queue_that_dispatches_nothing_holds_the_message() -> None:
    probed = Probed()
    assert probed.asks()["held"] == "queue://Q does not exist here"
    inbox = probed.client.consumes(Q)
    found = probed.site.broker.find_destination(inbox.info.destination)
    assert found is not None
    found.pause()  # type: ignore[attr-defined]
    hop = probed.asks()
    assert (hop["held"], hop["end"]) == ("the queue is paused", "held")
    found.resume()  # type: ignore[attr-defined]
    inbox.leaves()
    assert probed.asks()["held"] == "nobody consumes here"


def test_each_subscriber_of_a_topic_gets_the_message_or_says_why_not() -> None:
    probed = Probed()
    topic = "topic://T"
    probed.client.consumes(topic)
    probed.client.consumes(topic, selector="n > 5")
    probed.site.client("d").consumes(topic, durable="d")
    assert probed.reasons(topic) == ["", "selector", ""]
    assert probed.asks(topic)["end"] == "delivered"


def test_a_broker_tells_of_so_many_consumers() -> None:
    probed = Probed()
    for _ in range(MAX_ANSWERS + 5):
        probed.client.consumes(Q, selector="n > 5")
    hop = probed.asks()
    assert len(hop["answers"]) == MAX_ANSWERS  # type: ignore[arg-type]
    assert hop["untold"] == 5


def test_a_dry_run_asks_so_many_brokers_at_most() -> None:
    asked: list[str] = []

    async def everywhere(name: str, path: tuple[str, ...]) -> Row:
        asked.append(name)
        answers = [{"taken": True, "target_id": f"{name}{n}", "target": f"{name}{n}"} for n in range(3)]
        return {"broker": name, "id": name, "answers": answers}

    hops = asyncio.run(walked("A", everywhere))
    assert len(asked) == MAX_HOPS
    assert hops[-1]["silence"] == f"further brokers are not asked after {MAX_HOPS}"


def test_where_a_broker_tells_nothing_the_way_ends_unknown() -> None:
    probed = Probed()
    hop = probed.asks(**{"from": "other"})
    assert hop["end"] == "unknown"
    assert "opened no link" in str(hop["silence"])


@pytest.mark.parametrize(
    "properties", [[], 1, {"a": None}, {"a": [1]}, {"a": 1 << 63}, {str(number): 1 for number in range(101)}]
)
def test_properties_of_another_form_are_refused(properties: object) -> None:
    with pytest.raises(ConfigurationError):
        typed(properties)


@pytest.mark.parametrize("text", ["", "1", '{"target": "brokerA"}', '{"target": "brokerA", "path": [1]}'])
def test_a_malformed_question_of_another_broker_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        asyncio.run(Probed().probe.own(text))


def test_a_question_for_another_broker_is_not_answered() -> None:
    assert asyncio.run(Probed().probe.own('{"target": "other"}')) == []


def test_answers_of_other_brokers_are_checked_and_cut() -> None:
    hop = {
        "broker": "b" * 9_999, "id": 7, "answers": [{"taken": 1, "priority": 1 << 80, "text": "t", "body": "s"}, 3],
        "forwards": "x", "closed": [{}], "untold": -1,
    }  # fmt: skip
    (read,) = read_answer(json.dumps({"hops": [hop]}))
    assert (len(str(read["broker"])), read["id"], read["forwards"], read["untold"]) == (500, "", [], 0)
    assert read["answers"] == [
        {"location": "", "target_id": "", "target": "", "cause": "", "text": "t", "priority": 0, "taken": False}
    ]
    for text in ("", "[]", '{"hops": 1}', "[" * 100_000, " " * (1024 * 1024 + 1)):
        assert read_answer(text) == []
    assert merged([failed("a", "", "mute"), {**read, "broker": "a"}]) == [{**read, "broker": "a"}]


def test_the_broker_that_is_meant_is_asked_or_all_that_may_know_it() -> None:
    peers = [Peer("b", "tcp://b"), Peer("c", "tcp://c")]
    assert chosen("a", '{"target": "c"}', peers) == peers[1:]
    assert chosen("a", '{"target": "z"}', peers) == peers
    assert chosen("a", '{"target": "a"}', peers) == ()
    assert chosen("a", "no JSON", peers) == ()
