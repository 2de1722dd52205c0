"""Dead letters by cause, and the addresses of ActiveMQ's console."""

from __future__ import annotations

import asyncio
from xml.etree import ElementTree

from starlette.testclient import TestClient

from spanwire.management.browsing import QueueBrowsing
from spanwire.model.destination import Destination
from spanwire.model.message import Message
from spanwire.selector.parser import parse_selector
from spanwire.web.console.pages.classic_addresses import REDIRECTS
from spanwire.web.console.pages.dead_letters import (
    CAUSE,
    MAX_GROUPS,
    MAX_IDS,
    MAX_LOOKED,
    MAX_START,
    NO_CAUSE,
    groups_of,
    is_dead_letter_queue,
    selector_of,
)
from spanwire.web.routes import application
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.fake_broker_link import FakeBrokerLink, destination

HOST = "http://127.0.0.1:8161"
OTTO, VERA = ("otto", "o-word"), ("vera", "v-word")


def letter(cause: str | None, origin: str = "queue://A", sent: int = 5) -> dict[str, object]:
    properties = {} if cause is None else {"dlqDeliveryFailureCause": cause}
    return {"message_id": "ID:1", "original_destination": origin, "timestamp_ms": sent, "properties": properties}


def client_of(link: FakeBrokerLink) -> TestClient:
    return TestClient(application(link, is_loopback=True), base_url=HOST, follow_redirects=False)


def test_letters_whose_causes_differ_by_a_number_are_one_group() -> None:
    expired = [letter(f"expired at {number}", "queue://B", 100 - number) for number in range(10, 13)]
    first, second, third = groups_of([letter(None), *expired, letter("refused"), letter("refused", "topic://T")])
    assert (first.title, first.count, first.oldest_ms, first.newest_ms) == ("expired at 10", 3, 88, 90)
    assert first.selector.startswith("(dlqDeliveryFailureCause LIKE 'expired at 0%' ESCAPE '\\' OR ")
    assert dict(second.origins) == {"queue://A": 1, "topic://T": 1}
    assert (third.title, third.selector) == ("no cause is known", "dlqDeliveryFailureCause IS NULL")


def test_each_selector_of_a_group_is_one() -> None:
    for cause in (None, "", "it's 100", "it's", "%_\\50", "50%_\\", "x" * 1_000):
        parse_selector(selector_of(cause))


def test_the_selector_of_a_group_chooses_its_messages_and_no_others() -> None:
    long = "x" * MAX_START
    causes = [
        "",
        "no",
        "no 7",
        "no 8 of",
        "not",
        "no_",
        "4 of 5",
        "40",
        "it's",
        long,
        long + "y",
        long + "5",
        long[1:],
        None,
    ]
    stage = Stage()
    producer = stage.peer("p")
    for cause in causes:
        producer.sends("queue://Q", "x", properties={} if cause is None else {CAUSE: cause})
    browsing = QueueBrowsing(stage.broker, _unread)
    groups = groups_of([letter(cause) for cause in causes])
    assert sum(group.count for group in groups) == len(causes)
    assert sorted(group.count for group in groups if group.count > 1) == [2, 2, 3]
    for group in groups:
        found = asyncio.run(browsing.browse({"destination": "Q", "selector": group.selector}))["messages"]
        assert isinstance(found, list)
        shown = [one["properties"].get(CAUSE) or NO_CAUSE for one in found]
        assert sorted(shown) == sorted(group.causes.elements())


async def _unread(destination: Destination, sequences: list[int]) -> list[Message | None]:
    return [None for _ in sequences]


def test_letters_of_an_origin_are_chosen_by_their_ids() -> None:
    mixed = [letter("refused", "queue://B"), letter("expired", "queue://B"), letter("refused")]
    first, second = groups_of(mixed, "origin")
    assert (first.title, first.count, dict(first.causes)) == ("queue://B", 2, {"refused": 1, "expired": 1})
    assert second.selector == "JMSMessageID = 'ID:1'"
    many = groups_of([letter(None)] * (MAX_IDS + 1), "origin")
    assert (many[0].count, many[0].selector) == (MAX_IDS + 1, "")


def test_letters_are_grouped_by_age_and_a_selector_chooses_exactly_these() -> None:
    now, hour = 1_800_000_000_000, 3_600_000
    ages = (1, 2, 30, 24 * 30)
    groups = groups_of([letter(None, sent=now - hour * age) for age in ages], "age", now)
    assert [group.title for group in groups] == [
        "sent within an hour", "sent within a day", "sent within a week", "sent before more than a week",
    ]  # fmt: skip
    for group, age in zip(groups, ages, strict=True):
        chosen = [one for one in groups if _selects(one.selector, now - hour * age)]
        assert chosen == [group]


def test_causes_that_differ_in_numbers_alone_are_counted_as_one_in_a_group_of_an_age() -> None:
    expired = [letter(f"Message Expired. Expiration:{number}", sent=1) for number in (17, 18, 19)]
    (group,) = groups_of([*expired, letter("refused", sent=1)], "age", 2)
    assert group.similar_causes().most_common() == [("Message Expired. Expiration:17", 3), ("refused", 1)]


def _selects(selector: str, sent: int) -> bool:
    """Does a selector of two comparisons with the time of the send choose a message?"""
    parse_selector(selector)
    return all(
        sent >= int(part.split()[2]) if part.split()[1] == ">=" else sent < int(part.split()[2])
        for part in selector.split(" AND ")
    )


def test_groups_are_bounded() -> None:
    letters = [letter(f"{'abcdefghij'[number // 10 % 10]}{'abcdefghij'[number % 10]}{'x' * (number // 100)}")
               for number in range(MAX_GROUPS + 50)]  # fmt: skip
    groups = groups_of(letters)
    assert len(groups) == MAX_GROUPS + 1
    assert (groups[0].title, groups[0].count, groups[0].selector) == ("others", 50, "")


def test_a_queue_has_dead_letters_by_its_policy_or_its_name() -> None:
    assert is_dead_letter_queue({"destination": "queue://X", "dead_letters": True})
    for name in ("ActiveMQ.DLQ", "DLQ", "DLQ.A", "ActiveMQ.DLQ.Queue.A"):
        assert is_dead_letter_queue({"destination": f"queue://{name}"})
    assert not is_dead_letter_queue({"destination": "queue://DLQX"})


def test_the_page_offers_each_group_to_an_operator() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination("queue://ActiveMQ.DLQ", 3), destination("queue://DLQ.EMPTY", 0)]
    link.answers["browse"] = {"messages": [letter("refused")], "looked": 1, "waiting": 3}
    client = client_of(link)
    text = client.get("/admin/dead-letters", auth=OTTO).text
    assert "of which the first 1 are grouped" in text
    assert next(arguments for command, arguments in link.asked if command == "browse")["limit"] == MAX_LOOKED
    assert "/admin/do/queues/retry?name=queue%3A%2F%2FActiveMQ.DLQ&amp;selector=dlqDeliveryFailureCause" in text
    assert "DLQ.EMPTY" in text
    assert client.get("/admin/dead-letters", auth=VERA).status_code == 403
    link.answers["destinations"] = []
    assert "No dead letters" in client_of(link).get("/admin/dead-letters", auth=OTTO).text


def test_letters_behind_those_of_one_answer_are_grouped_on_further_pages() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination("queue://DLQ.A", 1_000), destination("queue://DLQ.B", 3)]
    link.answers["browse"] = {"messages": [letter("refused")] * MAX_LOOKED, "looked": MAX_LOOKED, "waiting": 1_000}
    client = client_of(link)
    text = client.get("/admin/dead-letters", auth=OTTO).text
    assert "of which the first 400 are grouped" in text
    following = "/admin/dead-letters?by=cause&amp;queue=queue%3A%2F%2FDLQ.A&amp;skip=400"
    assert f'href="{following}"' in text
    link.asked.clear()
    text = client.get(following.replace("&amp;", "&"), auth=OTTO).text
    assert "those from 401 to 800 are grouped" in text and "DLQ.B" not in text and "skip=800" in text
    asked = [arguments for command, arguments in link.asked if command == "browse"]
    assert [one["skip"] for one in asked] == [400]
    link.answers["browse"] = {"messages": [letter("refused")] * 200, "looked": 200, "waiting": 1_000}
    text = client.get("/admin/dead-letters?queue=queue://DLQ.A&skip=800", auth=OTTO).text
    assert "those from 801 to 1,000 are grouped" in text and "Group the next ones" not in text
    assert client.get("/admin/dead-letters?queue=queue://DLQ.A&skip=many", auth=OTTO).status_code == 200


def test_scripts_read_the_xml_of_activemq() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination('queue://A<"&\x01', 3, 10), destination("topic://T", 0, 4)]
    link.answers["subscriptions"] = [
        {"client_id": "c", "name": "n", "topic": "topic://T", "active": False, "pending": 4}
    ]
    client = client_of(link)
    assert client.get("/admin/xml/queues.jsp").headers["www-authenticate"].startswith("Basic")
    answer = client.get("/admin/xml/queues.jsp", auth=VERA)
    assert answer.headers["content-type"] == "text/xml; charset=utf-8"
    [queue] = ElementTree.fromstring(answer.content)
    assert queue.attrib["name"].startswith('A<"&')
    assert queue[0].attrib == {"size": "3", "consumerCount": "1", "enqueueCount": "10", "dequeueCount": "7"}
    [topic] = ElementTree.fromstring(client.get("/admin/xml/topics.jsp", auth=VERA).content)
    assert (topic.attrib["name"], topic[0].attrib["enqueueCount"]) == ("T", "4")
    [subscriber] = ElementTree.fromstring(client.get("/admin/xml/subscribers.jsp", auth=VERA).content)
    assert (subscriber.attrib["clientId"], subscriber.attrib["active"]) == ("c", "false")
    assert subscriber[0].attrib["pendingQueueSize"] == "4"


def test_bookmarks_of_activemq_lead_to_the_same() -> None:
    client = client_of(FakeBrokerLink())
    for name, target in REDIRECTS.items():
        assert client.get(f"/admin/{name}", auth=OTTO).headers["location"] == target
    answer = client.get("/admin/browse.jsp?JMSDestination=A%26B", auth=OTTO)
    assert answer.headers["location"] == "/admin/messages?name=queue%3A%2F%2FA%26B"
    answer = client.get("/admin/send.jsp?JMSDestination=T&JMSDestinationType=topic", auth=OTTO)
    assert answer.headers["location"] == "/admin/send?name=topic%3A%2F%2FT"
    answer = client.get("/admin/topicSubscribers.jsp?JMSDestination=T", auth=OTTO)
    assert answer.headers["location"] == "/admin/topic?name=topic%3A%2F%2FT"
    answer = client.get("/admin/connection.jsp?connectionID=c-1", auth=OTTO)
    assert answer.headers["location"] == "/admin/connection?name=c-1"
