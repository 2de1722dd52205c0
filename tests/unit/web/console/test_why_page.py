"""The page of the question why: the answer, links to objects and forms, refusals, and links from other pages."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from spanwire.management.tables.operation_table import Role
from spanwire.web.console.pages.why_page import Advice, advised
from spanwire.web.routes import application
from tests.support.fake_broker_link import LINK, SUMMARY, FakeBrokerLink

HOST = "http://127.0.0.1:8161"


def explanation(broker: str = "orders", cause: str = "paused", **parts: object) -> dict[str, object]:
    row: dict[str, object] = {
        "broker": broker, "subject": "queue://A", "cause": cause, "sentence": "queue://A is paused", "evidence": [],
        "advice": [],
    }  # fmt: skip
    return row | parts


def seen(place: str, broker: str = "orders") -> dict[str, object]:
    return {"text": f"seen at {place}", "broker": broker, "object": place, "time_ms": 1_800_000_000_000}


def answering(*explanations: dict[str, object], kind: str = "queue") -> FakeBrokerLink:
    link = FakeBrokerLink()
    link.answers["why"] = {"broker": "orders", "kind": kind, "explanations": list(explanations)}
    return link


def page_of(link: FakeBrokerLink, query: str, user: str = "vera") -> str:
    client = TestClient(application(link, is_loopback=True), base_url=HOST)
    answer = client.get(f"/admin/why{query}", auth=(user, f"{user[0]}-word"))
    assert answer.status_code == 200, answer.text
    text: str = answer.text
    return text


def test_the_form_asks_nobody_before_it_is_filled_in() -> None:
    link = answering()
    text = page_of(link, "")
    assert "Name what does not move." in text
    assert link.count("why") == 0


def test_an_answer_has_the_sentence_the_evidence_with_place_and_time_and_the_advice() -> None:
    link = answering(explanation(evidence=[seen("queue://A")], advice=["wait for the end"]))
    text = page_of(link, "?kind=queue&name=A")
    assert "queue://A is paused" in text and ">paused</span>" in text
    assert 'datetime="2027-01-15T08:00:00Z"' in text and "seen at queue://A" in text
    assert "<li>wait for the end</li>" in text
    asked = next(arguments for command, arguments in link.asked if command == "why")
    assert {name: value for name, value in asked.items() if name != "handle"} == {"kind": "queue", "name": "A"}


def test_all_words_of_the_question_reach_the_broker() -> None:
    link = answering(explanation())
    page_of(link, "?name=m&kind=message&client_id=c&queue=queue://A&network=true")
    asked = next(arguments for command, arguments in link.asked if command == "why")
    del asked["handle"]
    assert asked == {"name": "m", "kind": "message", "client_id": "c", "queue": "queue://A", "network": "true"}


def test_places_at_this_broker_are_links_to_their_pages_and_those_of_others_are_not() -> None:
    places = ("queue://A", "topic://T", "connection ID:c", "link to-billing to billing", "consumer ID:c:1:1")
    text = page_of(answering(explanation(evidence=[seen(one) for one in places])), "?name=A")
    for target in (
        "/admin/queue?name=queue%3A%2F%2FA", "/admin/topic?name=topic%3A%2F%2FT", "/admin/connection?name=ID%3Ac",
        "/admin/link?name=to-billing",
    ):  # fmt: skip
        assert f'href="{target}"' in text, target
    assert ">consumer ID:c:1:1</a>" not in text
    other = page_of(answering(explanation(broker="tax", evidence=[seen("queue://A", "tax")])), "?name=m")
    assert "at broker tax" in other and 'href="/admin/queue?' not in other


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wait", Advice("wait")),
        ("spanwire queue resume 'A B'",
         Advice("", "spanwire queue resume 'A B'", "/admin/do/queues/resume?name=queue%3A%2F%2FA%20B")),
        ("send it back: spanwire queue retry DLQ --selector 'x = 1'",
         Advice("send it back: ", "spanwire queue retry DLQ --selector 'x = 1'",
                "/admin/do/queues/retry?name=queue%3A%2F%2FDLQ&selector=x%20%3D%201")),
        ("if it hangs: spanwire consumer end ID:c:1:1",
         Advice("if it hangs: ", "spanwire consumer end ID:c:1:1",
                "/admin/do/consumers/end?consumer_id=ID%3Ac%3A1%3A1")),
        ("spanwire disconnect ID:c",
         Advice("", "spanwire disconnect ID:c", "/admin/do/connections/disconnect?client=ID%3Ac")),
        ("look: spanwire why connection ID:c",
         Advice("look: ", "spanwire why connection ID:c", "/admin/why?kind=connection&name=ID%3Ac")),
        ("bring it up; spanwire why link L tells what it lacks",
         Advice("bring it up; ", "spanwire why link L", "/admin/why?kind=link&name=L", " tells what it lacks")),
        ("ask there: spanwire why message m at broker tax", Advice("ask there: spanwire why message m at broker tax")),
        ("spanwire why queue it's", Advice("spanwire why queue it's")),
        ("spanwire transaction list, and others", Advice("spanwire transaction list, and others")),
    ],
)  # fmt: skip
def test_a_command_that_a_page_can_do_is_a_link_to_it(text: str, expected: Advice) -> None:
    assert advised(text, Role.ADMIN) == expected


def test_a_viewer_gets_no_link_to_a_form_that_refuses_him() -> None:
    assert advised("spanwire queue resume A", Role.VIEW) == Advice("spanwire queue resume A")
    assert advised("spanwire disconnect ID:c", Role.OPERATE).target == ""
    assert advised("spanwire why queue A", Role.VIEW).target != ""


def test_a_refused_question_is_told_beside_the_form() -> None:
    link = answering()
    link.refusal = "this broker has no queue NONE"
    text = page_of(link, "?kind=queue&name=NONE")
    assert 'role="alert">this broker has no queue NONE<' in text
    assert 'value="NONE"' in text


def test_an_unknown_message_leads_to_other_brokers_and_to_the_ledger() -> None:
    text = page_of(answering(explanation(cause="unknown"), kind="message"), "?name=m")
    assert "kind=message&amp;network=true" in text.replace("name=m&amp;", "") and 'href="/admin/ledger"' in text
    assert "Ask again" in text


def test_pages_of_objects_lead_to_their_question() -> None:
    link = answering(explanation())
    other = {**LINK, "uri": "tcp://tax:61616", "remote": "tax"}
    link.answers["summary"] = {**SUMMARY, "network_connectors": [LINK, other]}
    connection = {"connection_id": "ID:c", "client_id": "c", "slow": False, "blocked": False}
    link.answers["connections"] = [connection]
    durable = {"name": "prices", "client_id": "lyon", "topic": "topic://T", "active": False, "pending": 1}
    link.answers["subscriptions"] = [durable]
    message = {"message_id": "m-1", "kind": "TextMessage", "body": "x", "properties": {}}
    link.answers["browse"] = link.answers["headers"] = {"messages": [message], "looked": 1, "waiting": 1}
    client = TestClient(application(link, is_loopback=True), base_url=HOST)
    for path, words in (
        ("/admin/queue?name=queue://A", "kind=queue&amp;name=queue%3A%2F%2FA"),
        ("/admin/topic?name=topic://T", "kind=topic&amp;name=topic%3A%2F%2FT"),
        ("/admin/message?name=queue://A&id=m-1", "kind=message&amp;name=m-1&amp;queue=queue%3A%2F%2FA"),
        ("/admin/connection?name=ID:c", "kind=connection&amp;name=ID%3Ac"),
        ("/admin/link?name=to-billing", "kind=link&amp;name=to-billing%20tcp%3A%2F%2Ftax%3A61616"),
        ("/admin/subscribers", "kind=subscription&amp;name=prices&amp;client_id=lyon"),
    ):
        text = client.get(path, auth=("vera", "v-word")).text
        targets = re.findall(r'href="(/admin/why[^"]*)"', text)
        assert f"/admin/why?{words}" in targets, (path, targets)
        assert client.get(f"/admin/why?{words.replace('&amp;', '&')}", auth=("vera", "v-word")).status_code == 200
