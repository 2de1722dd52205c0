"""What a broker tells the service manager, over a socket of the test."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from spanwire.service.machine.service_manager import (
    MAX_STATUS,
    RECOVERY_S,
    STATUS_S,
    ServiceManager,
    take_service_manager,
)

PID = 4711


class Listener:
    """The socket of a service manager."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def lines(self) -> list[str]:
        """The lines of the next datagram without the time of a reload."""
        lines = self.socket.recv(4096).decode().split("\n")
        return [line for line in lines if not line.startswith("MONOTONIC_USEC=")]

    def is_empty(self) -> bool:
        try:
            self.socket.recv(1)
        except BlockingIOError:
            return True
        return False


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "notify")


@pytest.fixture
def listener(path: str) -> Iterator[Listener]:
    listener = Listener(path)
    yield listener
    listener.socket.close()


def manager_at(path: str, **more: str) -> ServiceManager:
    return ServiceManager({"NOTIFY_SOCKET": path, **more}, PID)


def test_states_are_told(path: str, listener: Listener) -> None:
    manager = manager_at(path)
    manager.ready()
    assert listener.lines() == ["READY=1"]
    with manager.reloading():
        assert listener.lines() == ["RELOADING=1"]
    assert listener.lines() == ["READY=1"]
    manager.stopping()
    assert listener.lines() == ["STOPPING=1"]
    manager.close()
    manager.close()


def test_a_reload_has_its_time_and_a_failed_one_ends_too(path: str, listener: Listener) -> None:
    with pytest.raises(ValueError), manager_at(path).reloading():
        begun = listener.socket.recv(4096).decode().split("\n")
        assert begun[0] == "RELOADING=1"
        assert int(begun[1].removeprefix("MONOTONIC_USEC=")) > 0
        raise ValueError
    assert listener.lines() == ["READY=1"]


def test_an_abstract_socket_begins_with_an_at_sign() -> None:
    name = f"spanwire-test-{id(object())}"
    listener = Listener("\0" + name)
    manager_at("@" + name).ready()
    assert listener.lines() == ["READY=1"]
    listener.socket.close()


def test_children_do_not_inherit_the_variables_and_the_next_program_gets_them_back() -> None:
    taken = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "5", "WATCHDOG_PID": str(PID)}
    environment = {**taken, "HOME": "/"}
    manager = take_service_manager(environment, PID)
    assert environment == {"HOME": "/"}
    manager.return_variables(environment)
    assert environment == {**taken, "HOME": "/"}


def test_without_a_service_manager_nothing_happens() -> None:
    manager = take_service_manager({}, PID)
    manager.ready()
    manager.stopping()
    manager.beat(lambda: "never asked, and there is no loop")
    manager.close()


def test_signs_of_life_come_twice_in_the_time_of_the_watchdog_and_a_status_when_it_changes(
    path: str, listener: Listener
) -> None:
    texts = iter(["1 connection", "1 connection", "2 connections\nSTOPPING=1"])

    async def scenario() -> list[list[str]]:
        manager = manager_at(path, WATCHDOG_USEC="20000")
        assert manager.interval_s == 0.01
        listener.socket.setblocking(True)
        listener.socket.settimeout(10)
        manager.beat(lambda: next(texts, "the end"))
        told = [await asyncio.to_thread(listener.lines) for _ in range(3)]
        manager.close()
        return told

    assert asyncio.run(scenario()) == [
        ["WATCHDOG=1", "STATUS=1 connection"],
        ["WATCHDOG=1"],
        ["WATCHDOG=1", "STATUS=2 connections STOPPING=1"],
    ]


def test_a_status_has_a_limit(path: str, listener: Listener) -> None:
    async def scenario() -> None:
        manager = manager_at(path)
        manager.beat(lambda: "x" * 100_000)
        manager.close()

    asyncio.run(scenario())
    assert listener.lines() == ["STATUS=" + "x" * MAX_STATUS]


def test_a_standby_is_ready_and_has_time_to_open_the_store(path: str, listener: Listener) -> None:
    manager = manager_at(path, WATCHDOG_USEC="60000000", WATCHDOG_PID=str(PID))
    manager.standby("standby: waits for the lock of /data")
    assert listener.lines() == [
        "READY=1",
        f"WATCHDOG_USEC={RECOVERY_S * 1_000_000}",
        "STATUS=standby: waits for the lock of /data",
    ]
    manager.ready()
    assert listener.lines() == ["READY=1", "WATCHDOG_USEC=60000000"]
    manager.restarting()
    assert listener.lines() == ["RELOADING=1", f"WATCHDOG_USEC={RECOVERY_S * 1_000_000}"]


@pytest.mark.parametrize("variables", [{}, {"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(PID + 1)}])
def test_without_a_watchdog_of_this_process_there_are_no_signs_of_life(
    path: str, listener: Listener, variables: dict[str, str]
) -> None:
    manager = manager_at(path, **variables)
    assert manager.interval_s == STATUS_S
    manager.ready()
    assert listener.lines() == ["READY=1"]


@pytest.mark.parametrize("text", ["0", "-5", "1e3", "٣", "9" * 19])
def test_a_watchdog_without_a_number_is_told_and_ignored(
    path: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert manager_at(path, WATCHDOG_USEC=text).interval_s == STATUS_S
    assert [record.getMessage() for record in caplog.records] == [
        f"WATCHDOG_USEC={text} is no number of microseconds; there is no watchdog"
    ]


def test_another_address_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    manager = manager_at("vsock:2:1234")
    manager.ready()
    manager.stopping()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "vsock:2:1234 is neither a path nor an abstract name" in caplog.text


def test_a_lost_socket_ends_nothing_and_gets_the_newest_state_when_it_is_back(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manager_at(path)
    manager.ready()
    with manager.reloading():
        pass
    manager.stopping()
    assert len(caplog.records) == 1
    assert "the service manager is not told the state of this broker" in caplog.text
    listener = Listener(path)

    async def beat() -> None:
        manager.beat(lambda: "stops")
        manager.close()

    asyncio.run(beat())
    assert listener.lines() == ["STOPPING=1", "STATUS=stops"]
    listener.socket.close()


def test_a_manager_that_reads_nothing_does_not_block_the_broker(path: str, listener: Listener) -> None:
    manager = manager_at(path)
    for _ in range(5_000):
        manager.ready()
    manager.stopping()
    while not listener.is_empty():
        pass
    with manager.reloading():
        assert listener.lines() == ["RELOADING=1"]


def test_a_path_that_is_too_long_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manager_at(str(tmp_path / ("x" * 200))).ready()
    assert "AF_UNIX path too long" in caplog.text
