"""Two brokers with one data directory: the second waits, shows that it waits, and takes over."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from threading import Thread
from typing import Self

import httpx

from spanwire.client import aio
from tests.service.started import TIMEOUT_S, Started, spanwire
from tests.service.test_networks import eventually
from tests.support.ports import free_port

SEND = "SEND\ndestination:/queue/A\npersistent:true\nreceipt:1\n\nx"


class Waiting(Started):
    """A broker with the data directory of another one, started in a thread of the test."""

    def __init__(self, directory: Path, master: Started, attributes: str = "", inside: str = "") -> None:
        super().__init__(directory, attributes, ("--data-directory", str(master.data)), inside)
        self._starter = Thread(target=self._try)
        self._refusal = ""

    def __enter__(self) -> Self:
        self._starter.start()
        self.awaits("standby: waits for the lock")
        return self

    def _try(self) -> None:
        try:
            self.start()
        except AssertionError as error:
            self._refusal = str(error)

    def takes_over(self) -> None:
        """Until it has started."""
        self._starter.join(TIMEOUT_S)
        assert not self._refusal, self._refusal
        assert self.output[-1].endswith("started"), (self.output, self.errors)

    def is_refused(self) -> int:
        """The exit status of a start that ended."""
        self._starter.join(TIMEOUT_S)
        assert "the broker ended" in self._refusal
        return int(self._refusal.split()[3])


def commanded(name: str, broker: Started, *arguments: str) -> subprocess.CompletedProcess[str]:
    return spanwire(name, "--data-directory", str(broker.data), *arguments)


def test_a_standby_says_so_and_takes_over_from_a_killed_master(tmp_path: Path) -> None:
    with Started(tmp_path / "a") as master, Waiting(tmp_path / "b", master) as standby:
        with master.stomp() as client:
            client.transact(SEND, "1")
        shown = commanded("status", master)
        assert f"pid: {master.pid}\n" in shown.stdout
        assert (
            f"standby: process {standby.pid} waits for the lock of {master.data}, which process {master.pid} holds"
            in (shown.stdout)
        )
        listed = spanwire("list").stdout
        assert f"standby of {master.data}" in listed
        master.kill()
        standby.takes_over()
        assert f"this broker takes over from process {master.pid}" in "".join(standby.errors)
        with standby.stomp() as client:
            client.send("SUBSCRIBE\ndestination:/queue/A\nid:1\n\n")
            assert client.receive().endswith("\n\nx")
        assert f"pid: {standby.pid}\n" in commanded("status", master).stdout
        assert standby.stop() == 0


def test_the_web_port_of_a_standby_shows_the_wait_and_after_the_take_over_the_broker(tmp_path: Path) -> None:
    port = free_port()

    def answers(path: str, status: int, text: str) -> bool:
        try:
            found = httpx.get(f"http://127.0.0.1:{port}{path}")
        except httpx.TransportError:
            return False  # nobody listens
        return found.status_code == status and text in found.text

    with Started(tmp_path / "a") as master, Waiting(tmp_path / "b", master, inside=f'<web port="{port}"/>') as standby:
        assert eventually(lambda: answers("/", 200, f"process {master.pid}"))
        assert answers("/health/ready", 503, '"role":"standby"')
        assert answers("/health/live", 200, '"role":"standby"')
        master.kill()
        standby.takes_over()
        assert eventually(lambda: answers("/health/ready", 200, '"store"'))
        assert standby.stop() == 0


def test_a_standby_takes_over_from_a_master_that_stops_in_order(tmp_path: Path) -> None:
    with Started(tmp_path / "a") as master, Waiting(tmp_path / "b", master) as standby:
        assert master.stop() == 0
        standby.takes_over()
        assert standby.stop() == 0


def test_a_signal_stops_a_waiting_standby_and_leaves_the_master_alone(tmp_path: Path) -> None:
    with Started(tmp_path / "a") as master, Waiting(tmp_path / "b", master) as standby:
        standby.signal(signal.SIGTERM)
        assert standby.is_refused() == 0
        with master.stomp() as client:
            client.transact(SEND, "1")


def test_a_standby_without_its_master_in_sight_is_healthy_and_can_be_stopped(tmp_path: Path) -> None:
    with Started(tmp_path / "a") as master, Waiting(tmp_path / "b", master) as standby:
        (master.data / "control.sock").unlink()  # as if the master ran on another machine
        text = f"process {standby.pid} waits for the lock of {master.data}, which process {master.pid} holds"
        assert commanded("status", master).stdout == f"name: tested\nstandby: {text}\n"
        row = json.loads(commanded("status", master, "--json").stdout)
        assert (row["role"], row["pid"], row["holder_pid"]) == ("standby", standby.pid, master.pid)
        health = commanded("health", master)
        assert (health.returncode, health.stdout) == (0, f"SPANWIRE OK - 1 checks\nOK standby: {text}\n")
        assert commanded("stop", master).stdout == "stopped\n"
        assert standby.is_refused() == 0


def test_a_failover_client_follows_to_the_standby(tmp_path: Path) -> None:
    async def run(master: Started, standby: Waiting) -> list[object]:
        url = f"failover:({master.broker_url},{standby.broker_url})?randomize=false&initialReconnectDelay=20"
        async with aio.connect(url) as connection, connection.session() as session:
            producer = await session.create_producer("queue://A")
            await producer.send("before")
            master.kill()
            await producer.send("after")
            consumer = await session.create_consumer("queue://A")
            messages = [await consumer.receive(timeout=TIMEOUT_S) for _ in range(2)]
            return [message.body for message in messages if message is not None]

    with Started(tmp_path / "a") as master, Waiting(tmp_path / "b", master) as standby:
        assert asyncio.run(run(master, standby)) == ["before", "after"]
        standby.takes_over()


def test_a_removed_lock_file_ends_the_master(tmp_path: Path) -> None:
    inside = '<persistenceAdapter><kahaDB lockKeepAlivePeriod="20"/></persistenceAdapter>'
    with Started(tmp_path / "a", inside=inside) as master:
        (master.data / "lock").unlink()
        assert master.ended() == 1
        assert "lock was removed or replaced, so another broker may use the directory; this broker ends" in "".join(
            master.errors
        )


def test_a_master_without_a_standby_in_time_ends_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "activemq.xml").write_text(
        f'<broker dataDirectory="{tmp_path}/data" waitForSlave="true" waitForSlaveTimeout="1"/>', "utf-8"
    )
    done = spanwire("start", str(tmp_path / "activemq.xml"))
    assert done.returncode == 1
    assert "no standby has come within 0.001 s: start one with the same data directory" in done.stderr.splitlines()[-1]


def test_a_master_opens_its_connectors_when_its_standby_has_come(tmp_path: Path) -> None:
    master, standby = Started(tmp_path / "a", 'waitForSlave="true"'), None
    start = Thread(target=master.start)
    start.start()
    try:
        while not (master.data / "control.sock").exists():
            assert start.is_alive()
            start.join(0.02)
        with Waiting(tmp_path / "b", master) as standby:
            start.join(TIMEOUT_S)
            with master.stomp() as client:
                client.transact(SEND, "1")
            standby.signal(signal.SIGTERM)
            assert standby.is_refused() == 0
    finally:
        master.__exit__(None, None, None)
