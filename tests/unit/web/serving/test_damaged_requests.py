"""Requests whose bytes break the rules of HTTP, and a short run of the fuzzer of requests."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.fuzz.fuzz_requests import ADMINISTRATOR, PROTOCOLS, Faults, Protocol, World, loop

HEAD = b"POST /api/v1/queues/A/purge HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic " + ADMINISTRATOR + b"\r\n"
WAIT_S = 10.0  # for what ends at once
CHUNKED = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


VIEW = b"GET /api/v1/queues HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic " + ADMINISTRATOR + b"\r\n"


@pytest.fixture(params=PROTOCOLS, ids=["h11", "httptools"])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    found: Protocol = request.param
    return found


def statuses(protocol: Protocol, *pieces: bytes) -> list[int]:
    return asyncio.run(World(Faults(), protocol).converse(list(pieces)))


@pytest.mark.parametrize("is_divided", [False, True])
@pytest.mark.parametrize("body", [b"2\r\n{}x\r\n0\r\n\r\n", b"zz\r\n", b"-1\r\n{}"], ids=["length", "digits", "sign"])
def test_s24_a_damaged_chunk_gets_one_answer_and_no_traceback(
    protocol: Protocol, body: bytes, is_divided: bool, caplog: pytest.LogCaptureFixture
) -> None:
    head = HEAD + CHUNKED
    assert statuses(protocol, *([head, body] if is_divided else [head + body])) == [400]
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
        b"Transfer-Encoding: chunked, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Content-Length: +2\r\n\r\n{}",
        b"Content-Length: 0x2\r\n\r\n{}",
        b"X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"X: a\r\n\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ids=["length and chunks", "two lengths", "two codings", "unknown coding", "space", "sign", "hex", "LF", "CR"],
)
def test_s24_a_request_that_two_servers_may_read_differently_smuggles_no_other(protocol: Protocol, head: bytes) -> None:
    hidden = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
    found = statuses(protocol, HEAD + head + hidden)
    assert len(found) <= 1 or found[1] == 400
    assert 200 not in found[1:]


def test_requests_that_arrive_together_are_answered_one_after_the_other(protocol: Protocol) -> None:
    assert statuses(protocol, (VIEW + b"\r\n") * 3) == [200, 200, 200]


@pytest.mark.parametrize("behind", [0, 1, 3])
def test_s24_an_answer_without_end_ends_with_its_client_whatever_is_sent_behind_the_request(
    protocol: Protocol, behind: int
) -> None:
    stream = VIEW.replace(b"/api/v1/queues", b"/api/v1/events?views=queues")

    async def test() -> list[int]:
        world = World(Faults(), protocol)
        async with asyncio.timeout(WAIT_S):
            return await world.converse([(stream + b"\r\n") + (VIEW + b"\r\n") * behind])

    assert asyncio.run(test()) == [200]


def test_a_request_in_front_of_a_malformed_one_gets_its_answer(protocol: Protocol) -> None:
    assert statuses(protocol, VIEW + b"\r\n" + b"no HTTP\r\n\r\n")[0] == 200


@pytest.mark.parametrize("upgrade", [b"h2c", b"websocket"])
def test_a_client_that_offers_another_protocol_is_answered_in_http_1(protocol: Protocol, upgrade: bytes) -> None:
    offer = b"Connection: Upgrade\r\nUpgrade: " + upgrade + b"\r\n\r\n"
    assert statuses(protocol, VIEW + offer, VIEW + b"\r\n")[0] == 200


SELECTOR = b'{"selector": "n = 1"}'
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"
LENGTH = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(SELECTOR)


def purges(world: World) -> list[object]:
    return [arguments.get("selector") for command, arguments in world.asked if command == "purge"]


@pytest.mark.parametrize("step", [1, 7, 10_000])
@pytest.mark.parametrize(
    "request_",
    [
        HEAD + OFFER + LENGTH + b"\r\n" + SELECTOR,
        HEAD + LENGTH + OFFER + b"Expect: 100-continue\r\n\r\n" + SELECTOR,
        HEAD
        + OFFER
        + CHUNKED
        + b"5\r\n"
        + SELECTOR[:5]
        + b"\r\n10\r\n"
        + SELECTOR[5:]
        + b"\r\n0\r\nUpgrade: h2c\r\n\r\n",
    ],
    ids=["length", "expect", "chunks"],
)
def test_s24_a_request_that_offers_http_2_as_java_s_client_does_keeps_its_body(
    protocol: Protocol, request_: bytes, step: int
) -> None:
    world = World(Faults(), protocol)
    data = request_ * 2 + VIEW + OFFER + b"\r\n" + VIEW + b"\r\n"
    pieces = [data[start : start + step] for start in range(0, len(data), step)]
    found = asyncio.run(world.converse(pieces))
    assert [status for status in found if status != 100] == [200, 200, 200, 200]
    assert purges(world) == ["n = 1", "n = 1"]


@pytest.mark.parametrize("offer", [OFFER, OFFER.replace(b"Connection: ", b"Connection: close, ")])
def test_s24_bytes_of_a_body_behind_an_offer_are_no_request(protocol: Protocol, offer: bytes) -> None:
    hidden = HEAD + b"\r\n"
    world = World(Faults(), protocol)
    data = VIEW + offer + b"Content-Length: %d\r\n\r\n" % len(hidden) + hidden
    assert asyncio.run(world.converse([data])) == [200]
    assert purges(world) == []


def test_s24_a_tunnel_is_refused_and_nothing_behind_it_is_read(protocol: Protocol) -> None:
    hidden = HEAD + b"\r\n"
    head = VIEW.replace(b"GET /api/v1/queues", b"CONNECT a:1")
    for length in (b"Content-Length: %d\r\n" % len(hidden), b"Transfer-Encoding: chunked\r\n"):
        world = World(Faults(), protocol)
        found = asyncio.run(world.converse([VIEW + b"\r\n" + head + length + b"\r\n" + hidden]))
        assert found[0] == 200
        assert all(400 <= status < 500 for status in found[1:])
        assert purges(world) == []


def test_s24_an_offer_hides_no_unknown_coding(protocol: Protocol) -> None:
    world = World(Faults(), protocol)
    coded = HEAD + OFFER + b"Transfer-Encoding: gzip\r\n\r\n" + SELECTOR
    found = asyncio.run(world.converse([coded]))
    assert found in ([400], [501])
    assert purges(world) == []


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (VIEW + b"X: ", b"a" * 4096),
        (HEAD + CHUNKED + b"1", b";a" * 2048),
        (HEAD + CHUNKED + b"1\r\n{\r\n0\r\nX: ", b"a" * 4096),
    ],
    ids=["head", "extension of a chunk", "trailer"],
)
def test_s15_s24_what_never_ends_and_has_no_content_is_cut_off(protocol: Protocol, first: bytes, more: bytes) -> None:
    world = World(Faults(), protocol)
    pieces = [first, *[more] * 50]
    found = asyncio.run(world.converse(pieces))
    assert found in ([400], [])
    assert world.read < len(first) + 10 * len(more)


def test_s24_requests_without_end_behind_one_that_is_answered_are_cut_off(protocol: Protocol) -> None:
    found = statuses(protocol, (VIEW + b"\r\n") * 200)
    assert set(found) <= {200, 400}


def test_a_trailer_is_no_header(protocol: Protocol) -> None:
    anonymous = HEAD.replace(b"Authorization: Basic " + ADMINISTRATOR + b"\r\n", b"") + CHUNKED
    trailer = b"2\r\n{}\r\n0\r\nAuthorization: Basic " + ADMINISTRATOR + b"\r\n\r\n"
    assert statuses(protocol, anonymous + trailer) == [401]


def test_s24_mutated_requests_get_a_clear_status() -> None:
    assert loop(random.Random(3), 300).startswith("300 connections: ")
