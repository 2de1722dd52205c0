"""A web application at a broker in the same process, for tests with a client of HTTP and without sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from starlette.testclient import TestClient

from spanwire.client.aio import Connection, connect
from spanwire.web.rest.logins import Logins
from spanwire.web.routes import application
from tests.support.fake_broker_link import FakeBrokerLink

BASE = "http://127.0.0.1:8161"


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Web:
    """A web application at a broker in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.clock = Clock()
        made: list[Logins] = []

        async def connected(*_: object) -> Connection:
            return await connect(f"vm://{name}?broker.persistent=false")

        def logins(_: object, now: Callable[[], float]) -> Logins:
            made.append(Logins(connected, now))
            return made[-1]

        monkeypatch.setattr("spanwire.web.routes.Logins", logins)
        self.app = application(FakeBrokerLink(), is_loopback=True, now=self.clock)
        self.logins = made[0]
        self.client = TestClient(self.app, base_url=BASE)

    def post(self, path: str, content: object = None, status: int = 200) -> Any:
        answer = self.client.post(f"/api/v1/{path}", json={} if content is None else content)
        assert answer.status_code == status, answer.text
        return answer.json()

    def get(self, path: str, status: int = 200) -> Any:
        answer = self.client.get(f"/api/v1/{path}")
        assert answer.status_code == status, answer.text
        return answer.json()

    def receive(self, queue: str, **arguments: object) -> Any:
        return self.post(f"destinations/{queue}/messages/receive", arguments)

    def bodies(self, queue: str) -> list[str]:
        return [message["body"] for message in self.get(f"destinations/{queue}/messages")["messages"]]


@contextmanager
def running(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[Web]:
    """An application with one event loop for all requests."""
    made = Web(monkeypatch, name)
    with start_blocking_portal() as portal:
        made.client.portal = portal
        yield made
        portal.call(made.logins.close)
