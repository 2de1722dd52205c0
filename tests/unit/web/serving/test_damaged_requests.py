"""Requests whose bytes break the rules of HTTP, and a short run of the fuzzer of requests."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.fuzz.fuzz_requests import ADMINISTRATOR, Faults, World, loop

HEAD = b"POST /api/v1/queues/A/purge HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic " + ADMINISTRATOR + b"\r\n"
CHUNKED = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def statuses(*pieces: bytes) -> list[int]:
    return asyncio.run(World(Faults()).converse(list(pieces)))


@pytest.mark.parametrize("is_divided", [False, True])
@pytest.mark.parametrize("body", [b"2\r\n{}x\r\n0\r\n\r\n", b"zz\r\n", b"-1\r\n{}"], ids=["length", "digits", "sign"])
def test_s24_a_damaged_chunk_gets_one_answer_and_no_traceback(
    body: bytes, is_divided: bool, caplog: pytest.LogCaptureFixture
) -> None:
    head = HEAD + CHUNKED
    assert statuses(*([head, body] if is_divided else [head + body])) == [400]
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
def test_s24_a_request_that_two_servers_may_read_differently_smuggles_no_other(head: bytes) -> None:
    hidden = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
    found = statuses(HEAD + head + hidden)
    assert len(found) <= 1 or found[1] == 400
    assert 200 not in found[1:]


def test_s24_mutated_requests_get_a_clear_status() -> None:
    assert loop(random.Random(3), 300).startswith("300 connections: ")
