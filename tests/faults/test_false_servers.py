"""Servers that answer clients of Spanwire with redirects: neither messages nor keys go to the other address."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.error import HTTPError

import pytest

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.sqs.connection import SqsConnection
from spanwire.model.errors import JmsError
from spanwire.model.secret import Secret
from spanwire.pipeline.watch.lineage import http_post

REDIRECTS: Final = (301, 302, 303, 307, 308)


class Server(ThreadingHTTPServer):
    """Answers each request with a redirect to ``location``, or with 200 without one; notes who asked."""

    daemon_threads = True

    def __init__(self, status: int = 200, location: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.status = status
        self.location = location
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answers(BaseHTTPRequestHandler):
    server: Server

    def _answer(self) -> None:
        self.server.asked.append(f"{self.command} {self.headers.get('Authorization', '')}")
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = _answer  # noqa: N815 -- names of the library

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(status: int = 200, location: str = "") -> Iterator[Server]:
    with Server(status, location) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("status", REDIRECTS)
def test_s37_a_bridge_sends_nothing_to_where_sqs_redirects_it(status: int) -> None:
    async def scenario(url: str) -> None:
        place = url.replace("http", "sqs") + "?region=eu-central-1"
        connection = SqsConnection(ConnectionFactory(place, "key", Secret("canary"), provider="sqs"))
        with pytest.raises(JmsError, match=str(status)):
            await connection.open("q")
        await connection.close()

    with serving() as other, serving(status, other.url + "/latest") as sqs:
        asyncio.run(scenario(sqs.url))
        assert len(sqs.asked) == 1
        assert other.asked == []


@pytest.mark.parametrize("status", REDIRECTS)
def test_s38_the_key_for_lineage_does_not_go_to_where_its_receiver_redirects(status: int) -> None:
    with serving() as other, serving(status, other.url) as receiver:
        post = http_post({"OPENLINEAGE_URL": receiver.url, "OPENLINEAGE_API_KEY": "canary"})
        assert post is not None
        with pytest.raises(HTTPError, match=str(status)):
            post(b"{}")
        assert receiver.asked == ["POST Bearer canary"]
        assert other.asked == []


def test_a_redirect_to_no_address_is_an_error_that_the_sender_of_lineage_takes() -> None:
    with serving(302, "http://[::1") as receiver:
        post = http_post({"OPENLINEAGE_URL": receiver.url})
        assert post is not None
        with pytest.raises(HTTPError):
            post(b"{}")
