"""Requests of several threads over one blocking connection. The test plays the session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final, cast

from spanwire.client.blocking.requestor import Requestor
from spanwire.client.blocking.shared.core_connection import CoreConnection
from spanwire.model.destination import TEMP_QUEUE, Destination
from tests.support.client_dialogue import PlayedBroker, StillMachine


class CountedLock:
    """Counts how often the lock was taken and given back."""

    def __init__(self) -> None:
        self.releases = 0

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        self.releases += 1


class PlayedSession:
    """Its producer notes the state of the lock at each send, its consumer gets no reply in time."""

    def __init__(self, lock: CountedLock) -> None:
        self.sends: Final[list[tuple[int, str]]] = []
        self._lock: Final = lock

    def create_temporary_queue(self) -> Destination:
        return Destination(TEMP_QUEUE, "ID:x:1")

    def create_producer(self, destination: None) -> Any:
        return self

    def create_consumer(self, destination: Destination) -> Any:
        return self

    def send(self, *_: object, correlation_id: str, **__: object) -> None:
        self.sends.append((self._lock.releases, correlation_id))

    def take_next(self, *_: object) -> bool:
        return False


def test_each_request_draws_its_correlation_id_under_the_lock() -> None:
    lock = CountedLock()
    session = PlayedSession(lock)
    machine = StillMachine(PlayedBroker().machine)
    shared = SimpleNamespace(lock=lock, machine=machine, core=SimpleNamespace(connection_id="ID:x"))
    requestor = Requestor(cast("CoreConnection", shared), lambda: session)
    assert requestor.request("queue://A", "a", None, 0.0) is None
    assert requestor.request("queue://A", "b", None, 0.0) is None
    # One release for each id, and one for the wait that ends the first request.
    assert session.sends == [(1, "ID:x:request-1"), (3, "ID:x:request-2")]
