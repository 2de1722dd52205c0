"""Browsing and sending: decoded bodies, selectors, and every field of a message."""

from __future__ import annotations

import base64

import pytest
from starlette.testclient import TestClient

from spanwire.client.messages.typed_values import Int, Long
from spanwire.web.console.forms import Form
from spanwire.web.console.operations.sending import read_messages
from spanwire.web.console.pages.message_pages import decoded, excerpt, hexadecimal
from spanwire.web.problems import ProblemError
from spanwire.web.rest.requests import BadRequestError
from spanwire.web.routes import application
from tests.support.fake_broker_link import FakeBrokerLink

HOST = "http://127.0.0.1:8161"
OTTO = ("otto", "o-word")
MESSAGE = {
    "message_id": "ID:1", "kind": "TextMessage", "destination": "queue://A", "priority": 4, "persistent": True,
    "timestamp_ms": 1_700_000_000_000, "redelivery_count": 2, "properties": {"<b>": "<i>x</i>"},
    "body": '{"a": "<script>alert(1)</script>"}', "broker_path": ["one", "two"],
}  # fmt: skip


def page_of(link: FakeBrokerLink, path: str) -> str:
    answer = TestClient(application(link, is_loopback=True), base_url=HOST).get(path, auth=OTTO)
    assert answer.status_code == 200, answer.text
    return str(answer.text)


def test_a_queue_is_browsed_with_a_selector_and_bodies_are_escaped() -> None:
    link = FakeBrokerLink()
    link.answers["browse"] = {"messages": [MESSAGE], "looked": 5, "waiting": 5, "in_flight": 1}
    text = page_of(link, "/admin/messages?name=queue://A&selector=n%20%3E%201&limit=100")
    arguments = next(arguments for command, arguments in link.asked if command == "browse")
    assert (arguments["destination"], arguments["selector"], arguments["limit"]) == ("queue://A", "n > 1", 100)
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert '<time datetime="2023-11-14T22:13:20Z">2023-11-14 22:13:20 UTC</time>' in text


def test_pages_lead_behind_the_messages_of_one_answer() -> None:
    link = FakeBrokerLink()
    link.answers["browse"] = {"messages": [MESSAGE], "looked": 50, "waiting": 900, "in_flight": 0, "next": 100}
    text = page_of(link, "/admin/messages?name=queue://A&skip=50")
    assert next(arguments for command, arguments in link.asked if command == "browse")["skip"] == 50
    assert "skip=100" in text and "Behind the first 50" in text and "First page" in text
    link.answers["browse"] = {"messages": [MESSAGE], "looked": 1, "waiting": 100, "in_flight": 0, "next": 100}
    assert "Next page" not in page_of(link, "/admin/messages?name=queue://A&skip=50")


def test_a_viewer_sees_messages_without_bodies_and_without_operations() -> None:
    link = FakeBrokerLink()
    shown = {key: value for key, value in MESSAGE.items() if key != "body"}
    link.answers["headers"] = {"messages": [shown], "looked": 1, "waiting": 1, "in_flight": 0, "bodies": False}
    client = TestClient(application(link, is_loopback=True), base_url=HOST)
    for path in ("/admin/messages?name=queue://A", "/admin/message?name=queue://A&id=ID:1"):
        text = client.get(path, auth=("vera", "v-word")).text
        assert "You may see no bodies" in text
        assert "/admin/do/" not in text
    assert link.count("browse") == 0
    link.answers["headers"] = {"messages": [MESSAGE], "looked": 1, "waiting": 1, "in_flight": 0, "bodies": True}
    assert "alert(1)" in client.get("/admin/message?name=queue://A&id=ID:1", auth=("vera", "v-word")).text


def test_a_message_has_headers_properties_and_a_decoded_body() -> None:
    link = FakeBrokerLink()
    link.answers["browse"] = {"messages": [MESSAGE], "looked": 1, "waiting": 1, "in_flight": 0}
    text = page_of(link, "/admin/message?name=queue://A&id=ID:1")
    arguments = next(arguments for command, arguments in link.asked if command == "browse")
    assert arguments["selector"] == "JMSMessageID = 'ID:1'"
    for part in (
        "one → two",
        "<dt>&lt;b&gt;</dt><dd>&lt;i&gt;x&lt;/i&gt;</dd>",
        "<small>JSON</small>",
        "Failed deliveries",
    ):
        assert part in text, part


def test_a_wrong_selector_is_told_beside_the_field() -> None:
    link = FakeBrokerLink()
    client = TestClient(application(link, is_loopback=True), base_url=HOST)
    client.get("/admin/queues", auth=OTTO)
    link.refusal = "expected a value at column 4"
    text = client.get("/admin/messages?name=queue://A&selector=n%20%3E", auth=OTTO).text
    assert 'role="alert">expected a value at column 4</p>' in text
    assert 'name="selector" value="n &gt;"' in text


def test_an_empty_queue_and_a_selector_without_match_say_what_to_do() -> None:
    link = FakeBrokerLink()
    link.answers["browse"] = {"messages": [], "looked": 5, "waiting": 5, "in_flight": 0}
    assert "None of 5 messages matches" in page_of(link, "/admin/messages?name=queue://A&selector=n")
    link.answers["browse"] = {"messages": [], "looked": 0, "waiting": 0, "in_flight": 3}
    assert "No message waits; 3 are at consumers" in page_of(link, "/admin/messages?name=queue://A")


@pytest.mark.parametrize(
    ("body", "form", "shown"),
    [
        ("plain", "text", "plain"),
        ('{"a":1}', "JSON", '{\n  "a": 1\n}'),
        ("{broken", "text", "{broken"),
        ("[" * 50_000, "text", "[" * 50_000),
        ({"a": 1, "b": {"base64": "AAE="}}, "map", [("a", "1"), ("b", "00000000  00 01" + " " * 44 + "..")]),
        ([1, "x"], "stream", [("1", "1"), ("2", "x")]),
        (None, "none", ""),
    ],
)
def test_bodies_are_decoded_by_their_kind(body: object, form: str, shown: object) -> None:
    assert decoded({"body": body}) == (form, shown)


def test_bytes_are_shown_as_hexadecimal_digits() -> None:
    form, text = decoded({"body": {"base64": base64.b64encode(bytes(range(60, 80))).decode()}})
    assert form == "bytes"
    assert text == (
        "00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK\n"
        "00000010  4c 4d 4e 4f                                      LMNO"
    )
    assert "more bytes" in hexadecimal(base64.b64encode(bytes(100_000)).decode())
    assert len(excerpt({"body": "word " * 100_000})) <= 121


def form(**fields: str) -> Form:
    return Form(list(fields.items()))


def test_a_form_has_every_field_of_a_message() -> None:
    [message] = read_messages(
        form(body="hello", persistent="1", priority="9", lifetime_ms="60000", delay_ms="5", period_ms="10", repeat="3",
             cron="* * * * *", type="order", correlation_id="c", reply_to="topic://R", group="g", group_sequence="7",
             properties="a=1\nb = x=y")
    )  # fmt: skip
    assert (message.body, message.persistent, message.priority, message.lifetime_ms) == ("hello", True, 9, 60_000)
    assert (message.delay_ms, message.message_type, message.correlation_id) == (5, "order", "c")
    assert (str(message.reply_to), message.group, message.group_sequence) == ("topic://R", "g", 7)
    assert message.properties == {
        "a": "1", "b": "x=y", "AMQ_SCHEDULED_PERIOD": Long(10), "AMQ_SCHEDULED_REPEAT": Int(3),
        "AMQ_SCHEDULED_CRON": "* * * * *",
    }  # fmt: skip


def test_several_messages_are_numbered() -> None:
    messages = read_messages(form(body="x", count="3", counter="N"))
    assert [message.properties["N"] for message in messages] == [Int(1), Int(2), Int(3)]
    assert messages[0].persistent is False
    assert read_messages(form(kind="map", body='{"a": 1}'))[0].body == {"a": 1}
    assert read_messages(form(kind="stream", body="[1]"))[0].body == [1]
    assert read_messages(form(kind="bytes", body="AAE="))[0].body == b"\0\1"
    assert read_messages(form(kind="message", body="ignored"))[0].body is None


@pytest.mark.parametrize(
    "fields",
    [{"count": "0"}, {"count": "1001"}, {"count": "x"}, {"priority": "high"}, {"kind": "map", "body": "{"},
     {"kind": "map", "body": "[]"}, {"properties": "no value"}, {"properties": "=x"}, {"kind": "bytes", "body": "!"},
     {"count": "1000", "body": "x" * 20_000}, {"reply_to": "queue://"}],
)  # fmt: skip
def test_a_field_that_does_not_fit_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises((ProblemError, BadRequestError)):
        read_messages(form(**fields))
