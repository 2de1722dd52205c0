"""Requests of a client over HTTP that are sent ahead of their answers."""

from __future__ import annotations

import pytest

from spanwire.model.errors import RemoteProtocolError
from spanwire.tunnel.requests import MAX_HEAD, Answer, RequestSocket

OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"


def answer(body: bytes = b"") -> bytes:
    return OK % (len(body), body)


def asking(*methods: str, max_body: int = 1000) -> RequestSocket:
    made = RequestSocket("broker:8080", "ID:c", max_body)
    for method in methods:
        made.request(method)
    return made


def test_a_request_names_the_broker_the_session_and_the_length_of_its_body() -> None:
    sent = RequestSocket("broker:8080", "ID:c", 1000).request("POST", b"<x/>")
    assert sent == b"POST / HTTP/1.1\r\nHost: broker:8080\r\nclientID: ID:c\r\nContent-Length: 4\r\n\r\n<x/>"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_answers_come_in_the_order_of_the_requests_however_they_arrive(size: int) -> None:
    socket = asking("GET", "POST", "GET")
    data = answer(b"one") + answer() + answer(b"three")
    answers = [one for start in range(0, len(data), size) for one in socket.receive(data[start : start + size])]
    assert answers == [Answer("GET", 200, b"one"), Answer("POST", 200, b""), Answer("GET", 200, b"three")]
    assert socket.unanswered == 0


def test_an_answer_to_head_has_no_body() -> None:
    socket = asking("HEAD", "GET")
    assert socket.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + answer(b"x"))[1].body == b"x"


def test_chunked_and_interim_answers_are_read() -> None:
    socket = asking("POST", "GET")
    data = b"HTTP/1.1 100 Continue\r\n\r\n" + answer()
    data += b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    assert [one.body for one in socket.receive(data)] == [b"", b"abc"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x00\x01\x40\x01ActiveMQ\x00\x00\x00\x0c", "a port of OpenWire; write tcp:// before the host"),
        (b"ERROR\nversion:1.2\n\n\x00", "no answer of HTTP came"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001, "longer than 1000"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * (2 * MAX_HEAD), "no answer of HTTP came"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", "closes the socket after one answer"),
        (b"", "closed the socket before its answer|no answer of HTTP came"),
    ],
)
def test_other_bytes_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        asking("GET", "GET").receive(data)


def test_a_refusal_is_one_line_without_markup() -> None:
    assert Answer("POST", 400, b"the class 'x' is none\nat y").refusal() == "HTTP 400 to POST: the class 'x' is none"
    assert Answer("GET", 500, b"<html>Jetty</html>").refusal() == "HTTP 500 to GET"
