"""Requests of the message servlet: destination, waiting time, form, properties."""

from __future__ import annotations

import pytest

from spanwire.web.rest.requests import (
    FORM,
    MAX_FIELDS,
    MAX_WAIT_MS,
    BadRequestError,
    Parameters,
    Posted,
    destination_of,
    form_fields,
    posted_message,
    wait_ms,
)

NOW_MS = 1_000_000


def parameters(**values: str) -> Parameters:
    return Parameters(values.items())


def posted(path: str = "FOO/BAR", content_type: str = "text/plain", body: bytes = b"", **values: str) -> Posted:
    return posted_message(path, parameters(**values), content_type, body, is_form=False, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("path", "values", "destination"),
    [
        ("FOO/BAR", {}, "topic://FOO.BAR"),
        ("FOO/BAR", {"type": "queue"}, "queue://FOO.BAR"),
        ("FOO/BAR", {"type": "Topic"}, "topic://FOO.BAR"),
        ("FOO.BAR", {"type": "queue"}, "queue://FOO.BAR"),
        ("FOO/BAR", {"destination": "OTHER", "type": "queue"}, "queue://OTHER"),
        ("FOO/BAR", {"destination": "queue://OTHER", "type": "topic"}, "queue://OTHER"),
        ("", {"destination": "topic://OTHER"}, "topic://OTHER"),
    ],
)
def test_a_destination_is_a_path_or_a_parameter(path: str, values: dict[str, str], destination: str) -> None:
    assert str(destination_of(path, parameters(**values))) == destination


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("", {}),
        ("A/../B", {}),
        ("../etc/passwd", {}),
        ("A//B", {}),
        ("A/./B", {}),
        ("A\0B", {}),
        ("A", {"type": "temp-queue"}),
        ("A", {"destination": "temp-queue://A"}),
        ("A", {"destination": "file:///etc/passwd"}),
        ("A", {"destination": "queue://A?consumer.exclusive=true"}),
        ("A", {"destination": "queue://A,queue://B"}),
    ],
)
def test_s17_a_name_that_is_no_destination_is_refused(path: str, values: dict[str, str]) -> None:
    with pytest.raises(BadRequestError):
        destination_of(path, parameters(**values))


def test_a_read_waits_as_long_as_asked_and_never_longer_than_twenty_seconds() -> None:
    assert wait_ms(parameters()) == MAX_WAIT_MS
    assert wait_ms(parameters(readTimeout="500")) == 500
    assert wait_ms(parameters(timeout="700")) == 700
    assert wait_ms(parameters(readTimeout="500", timeout="700")) == 500
    assert wait_ms(parameters(timeout="999999")) == MAX_WAIT_MS
    with pytest.raises(BadRequestError, match="timeout"):
        wait_ms(parameters(timeout="-1"))


def test_a_body_is_the_text_of_the_message() -> None:
    assert posted(body="grün".encode()).body == "grün"
    assert posted(content_type="text/plain; charset=ISO-8859-1", body="grün".encode("latin-1")).body == "grün"
    assert posted(body=b"two\nlines").body == "two\nlines"


def test_octets_make_a_bytes_message() -> None:
    assert posted(content_type="application/octet-stream", body=b"\xff\x00").body == b"\xff\x00"


def test_a_body_that_is_no_text_is_refused() -> None:
    with pytest.raises(BadRequestError, match="octet-stream"):
        posted(body=b"\xff\x00")
    with pytest.raises(BadRequestError, match="charset"):
        posted(content_type="text/plain; charset=klingon", body=b"x")


def test_a_form_has_its_message_in_the_field_body() -> None:
    fields = form_fields(FORM, b"destination=FOO.BAR&type=queue&body=gr%C3%BCn+und+blau&n=7")
    assert fields is not None
    message = posted_message("", Parameters(fields), FORM, b"", is_form=True, now_ms=NOW_MS)
    assert (str(message.destination), message.body, message.properties) == (
        "queue://FOO.BAR",
        "grün und blau",
        {"n": "7"},
    )


def test_a_form_without_fields_is_a_text() -> None:
    assert form_fields(FORM, b"hello") is None
    assert posted(content_type=FORM, body=b"hello").body == "hello"


@pytest.mark.parametrize("form", [b"a=%FF", b"a=\xff", b"&".join(b"a=1" for _ in range(MAX_FIELDS + 1))])
def test_a_wrong_form_is_refused(form: bytes) -> None:
    with pytest.raises(BadRequestError):
        form_fields(FORM, form)


def test_other_parameters_become_properties_and_one_given_twice_is_left_out() -> None:
    twice = Parameters([("a", "1"), ("b", "2"), ("b", "3"), ("clientId", "c"), ("type", "queue")])
    message = posted_message("A", twice, "text/plain", b"x", is_form=False, now_ms=NOW_MS)
    assert message.properties == {"a": "1", "clientId": "c"}


def test_jms_headers_have_parameters() -> None:
    message = posted(
        JMSCorrelationID="c", JMSReplyTo="queue://R", JMSType="t", JMSPriority="9", JMSTimeToLive="500",
        JMSDeliveryMode="non-persistent",
    )  # fmt: skip
    assert (message.correlation_id, str(message.reply_to), message.message_type) == ("c", "queue://R", "t")
    assert (message.priority, message.time_to_live_ms, message.persistent) == (9, 500, False)
    plain = posted()
    assert (plain.priority, plain.time_to_live_ms, plain.persistent, plain.properties) == (5, 0, True, {})
    assert posted(JMSExpiration=str(NOW_MS + 250)).time_to_live_ms == 250


@pytest.mark.parametrize(
    "values",
    [{"JMSExpiration": "5"}, {"JMSPriority": "high"}, {"JMSDeliveryMode": "maybe"}, {"JMSReplyTo": "queue://"}],
)
def test_a_wrong_header_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(BadRequestError):
        posted_message("A", parameters(**values), "text/plain", b"", is_form=False, now_ms=NOW_MS)


def test_a_parameter_with_a_meaning_is_there_once() -> None:
    with pytest.raises(BadRequestError, match="2 times"):
        destination_of("A", Parameters([("type", "queue"), ("type", "topic")]))
