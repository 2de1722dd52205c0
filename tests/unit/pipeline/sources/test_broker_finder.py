"""All brokers of a discovery group."""

from __future__ import annotations

from spanwire.model.errors import JmsError
from spanwire.pipeline.link.broker_finder import SEARCH_INTERVAL_S, BrokerFinder, find_in_group
from spanwire.pipeline.options import Login


class Group:
    """What a group announces, search after search."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def find(self, group: str) -> list[str]:
        self.asked.append(group)
        if not self.answers or not self.answers[0]:
            raise JmsError("no broker was discovered")
        return self.answers.pop(0)


def test_a_broker_that_falls_silent_stays_and_one_that_comes_is_found_later() -> None:
    now = 100.0
    group = Group(["tcp://a:1", "tcp://b:1"], ["tcp://b:1", "tcp://c:1"])
    finder = BrokerFinder(["discovery:(multicast://g)"], lambda: now, group.find)
    assert finder.first() == ["tcp://a:1", "tcp://b:1"]
    assert (finder.found(), len(group.asked)) == (["tcp://a:1", "tcp://b:1"], 1)
    now += SEARCH_INTERVAL_S
    finder.found()
    assert finder._thread is not None
    finder._thread.join()
    assert finder.found() == ["tcp://a:1", "tcp://b:1", "tcp://c:1"]
    assert len(group.asked) == 2


def test_a_group_without_brokers_is_searched_again_and_no_group_never() -> None:
    group = Group([])
    finder = BrokerFinder(["discovery:(multicast://g)"], lambda: 0.0, group.find)
    assert (finder.first(), group.asked) == ([], ["discovery:(multicast://g)"])
    alone = BrokerFinder([], lambda: 0.0, group.find)
    assert (alone.first(), alone.found(), alone._thread) == ([], [], None)


def test_each_broker_has_the_options_of_the_groups_url() -> None:
    login = Login("tcp://unused:1", None, None, None)
    url = "discovery:(static:(tcp://a:1,tcp://b:2))?jms.useCompression=true"
    assert find_in_group(login, url) == [
        "tcp://a:1?jms.useCompression=true",
        "tcp://b:2?jms.useCompression=true",
    ]
