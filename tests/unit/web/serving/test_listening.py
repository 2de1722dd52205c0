"""Keys of the web port are exchanged while connections stay open."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from spanwire.model.errors import ConfigurationError
from spanwire.tls.context import server_context
from spanwire.tls.settings import KeyStore, TlsSettings
from spanwire.web.serving import listening
from spanwire.web.serving.deadline import DeadlineProtocol
from spanwire.web.serving.listening import WebServer, listening_socket
from tests.support.certificates import Authority

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Served:
    """A server of one page in the loop of the test, with a key store in a file."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority()
        self.path = directory / "broker.pem"
        self.issue("first")
        self.listener = listening_socket("127.0.0.1", 0)
        config = uvicorn.Config(
            PlainTextResponse("page"), http=DeadlineProtocol, lifespan="off", log_config=None, log_level="error"
        )
        self.server = WebServer(
            config, self.listener, lambda: server_context(TlsSettings(KeyStore(self.path))), lambda: None
        )

    def issue(self, name: str) -> None:
        self.authority.issue(CN=name).write_pem(self.path)

    async def during(self, dialogue: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self.server.serve())
        while not self.server.started:
            await asyncio.sleep(0.01)
        await dialogue()
        self.server.should_exit = True
        await task
        self.listener.close()

    async def connect(self) -> tuple[str, Streams]:
        """A new connection, and the name in the certificate that it was shown."""
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        reader, writer = await asyncio.open_connection(*self.listener.getsockname(), ssl=context)
        certificate = writer.get_extra_info("peercert")
        return certificate["subject"][0][0][1], (reader, writer)


async def status_of(streams: Streams) -> bytes:
    reader, writer = streams
    writer.write(REQUEST)
    line = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(4)
    return line[:12]


@pytest.fixture(autouse=True)
def _signals_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn.server, "HANDLED_SIGNALS", ())


def test_new_connections_see_new_keys_and_open_ones_stay(tmp_path: Path) -> None:
    served = Served(tmp_path)

    async def dialogue() -> None:
        name, old = await served.connect()
        assert (name, await status_of(old)) == ("first", b"HTTP/1.1 200")
        served.issue("second")
        served.server.renew()
        assert served.server.renewal is not None
        await served.server.renewal
        name, new = await served.connect()
        assert (name, await status_of(new)) == ("second", b"HTTP/1.1 200")
        assert await status_of(old) == b"HTTP/1.1 200"
        for _, writer in (old, new):
            writer.close()

    asyncio.run(served.during(dialogue))


def test_a_broken_key_store_changes_nothing_and_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    served = Served(tmp_path)

    async def dialogue() -> None:
        served.path.write_text("no key")
        served.server.renew()
        assert served.server.renewal is not None
        await served.server.renewal
        name, streams = await served.connect()
        assert (name, await status_of(streams)) == ("first", b"HTTP/1.1 200")
        streams[1].close()

    asyncio.run(served.during(dialogue))
    (record,) = [record for record in caplog.records if record.name == "spanwire.web.serving.listening"]
    assert record.getMessage().startswith("the keys of the web port stay as they were: ")


def test_a_client_without_tls_gets_nothing(tmp_path: Path) -> None:
    served = Served(tmp_path)

    async def dialogue() -> None:
        reader, writer = await asyncio.open_connection(*served.listener.getsockname())
        writer.write(REQUEST)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()

    asyncio.run(served.during(dialogue))


def test_the_parent_s_input_renews_the_keys_and_its_end_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(tmp_path)
    parent, child = socket.socketpair()
    monkeypatch.setattr(listening, "STANDARD_INPUT", child.fileno())

    async def dialogue() -> None:
        served.server.follow_parent()
        served.issue("second")
        parent.sendall(b"reload\n")
        while served.server.renewal is None:
            await asyncio.sleep(0.01)
        await served.server.renewal
        assert (await served.connect())[0] == "second"
        parent.close()
        while not served.server.should_exit:
            await asyncio.sleep(0.01)

    asyncio.run(served.during(dialogue))
    child.close()


def test_a_key_store_that_cannot_be_read_at_the_start_is_refused(tmp_path: Path) -> None:
    served = Served(tmp_path)
    os.unlink(served.path)
    with pytest.raises(ConfigurationError):
        asyncio.run(served.server.startup())
    served.listener.close()
