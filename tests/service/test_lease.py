"""Two brokers with one data directory and a lease: the second takes over from a first that hangs, and fences it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from spanwire.client import aio
from spanwire.management.control import Operation
from spanwire.model.errors import FencedError
from spanwire.service.config.model import BrokerConfiguration, LockConfiguration, PersistenceConfiguration
from spanwire.service.service import BrokerService
from spanwire.stores.epoch import claim_epoch, epoch_in, read_epoch
from tests.service.started import TIMEOUT_S, Started, StompClient
from tests.service.test_networks import Linked, links
from tests.service.test_standby import SEND, Waiting, commanded
from tests.support.peers import require

LEASE: Final = (
    '<persistenceAdapter><kahaDB journalMaxFileLength="1mb" lockKeepAlivePeriod="{1}"><locker>'
    '<lease-database-locker leaseHolderId="{0}" lockAcquireSleepInterval="{2}"/></locker></kahaDB></persistenceAdapter>'
)
LENGTH_MS: Final = 1500
FENCED: Final = "b (process {0}) has taken over the store with epoch 2; this broker held epoch 1"


def lease(holder: str, period_ms: int = 300, length_ms: int = LENGTH_MS) -> str:
    return LEASE.format(holder, period_ms, length_ms)


@contextmanager
def injected(broker: Started, injection: str) -> Iterator[None]:
    """Have strace delay a system call of a running broker, or let it fail, from now on."""
    require("strace")
    call = injection.partition(":")[0]
    trace = [
        "strace",
        "-f",
        "-o",
        os.devnull,
        "-e",
        f"trace={call}",
        "-e",
        f"inject={injection}",
        "-p",
        str(broker.pid),
    ]
    with subprocess.Popen(trace, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert "attached" in process.stderr.readline()
            yield
        finally:
            process.terminate()


def standby_of(master: Started, directory: Path, inside: str = "") -> Waiting:
    """A standby with a lease of the same length."""
    return Waiting(directory, master, inside=inside or lease("b"))


def ends_fenced(master: Started, standby: Started) -> None:
    """The master ends with one line that names the standby."""
    assert master.ended() == 1
    assert FENCED.format(standby.pid) in master.errors[-1], master.errors
    lines = [line for line in master.errors if "has taken over the store" in line and "that had waited" not in line]
    assert len(lines) == 1, master.errors  # beside those of clients whose requests waited
    assert "Traceback" not in "".join(master.errors)


def takes_all(broker: Started, bodies: list[str]) -> None:
    """The queue holds these messages and no more, as far as a second look tells."""
    with broker.stomp() as client:
        client.send("SUBSCRIBE\ndestination:/queue/A\nid:1\n\n")
        assert sorted(client.receive().rpartition("\n")[2] for _ in bodies) == sorted(bodies)
        client.transact("SEND\ndestination:/queue/B\nreceipt:last\n\nx", "last")


def send(client: StompClient, body: str) -> None:
    client.transact(f"SEND\ndestination:/queue/A\npersistent:true\nreceipt:{body}\n\n{body}", body)


def hangs_for(tmp_path: Path, seconds: float) -> None:
    """Stop a master for so long while a client waits for an answer, and go on."""
    with Started(tmp_path / "a", inside=lease("a")) as master, standby_of(master, tmp_path / "b") as standby:
        with master.stomp() as client:
            send(client, "1")
            master.signal(signal.SIGSTOP)
            client.send(SEND.replace("receipt:1", "receipt:2"))  # stays in the socket until the master goes on
            threading.Event().wait(seconds)
            standby.takes_over()
            log = "".join(standby.errors)
            assert f"the lease of a (process {master.pid}) in {master.data} has not been renewed for 1.5 s" in log
            takes_all(standby, ["1"])
            master.signal(signal.SIGCONT)
            ends_fenced(master, standby)
            with pytest.raises((EOFError, ConnectionError)):
                while "RECEIPT" not in client.receive():
                    continue
                raise AssertionError("the old master has answered")
        assert f"pid: {standby.pid}\n" in commanded("status", master).stdout  # its socket is still there
        assert epoch_in(read_epoch(master.data / "journal")).number == 2
        assert standby.stop() == 0


def test_a_standby_takes_over_from_a_master_that_hangs_and_the_master_ends_in_one_line(tmp_path: Path) -> None:
    hangs_for(tmp_path, 0)


def test_a_standby_with_the_ports_of_a_master_that_hangs_leaves_it_alone(tmp_path: Path) -> None:
    with Started(tmp_path / "a", inside=lease("a")) as master:
        standby = Waiting(tmp_path / "b", master, inside=lease("b"))
        standby.ports.update(master.ports)
        with standby:
            master.signal(signal.SIGSTOP)
            standby.awaits("and this broker cannot take over: connector openwire: cannot listen at")
            master.signal(signal.SIGCONT)
            with master.stomp() as client:
                send(client, "1")
            master.kill()
            standby.takes_over()
            takes_all(standby, ["1"])
            assert len([line for line in standby.errors if "cannot take over" in line]) == 1


class TakesOver(Mapping[str, Operation]):
    """Operations of a process that is stopped when the control socket is about to be opened."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def __len__(self) -> int:
        return 1

    def __getitem__(self, name: str) -> Operation:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        claim_epoch(self._data / "journal", "b")
        (self._data / "control.sock").write_text("of b")
        return iter(())


def test_a_start_that_hung_leaves_the_control_socket_of_the_new_master(tmp_path: Path) -> None:
    configuration = BrokerConfiguration(
        persistence=PersistenceConfiguration(lock=LockConfiguration(lease_ms=10_000, keep_alive_ms=2_500))
    )

    async def start() -> None:
        service = BrokerService(configuration, tmp_path, operations=TakesOver(tmp_path))
        with pytest.raises(FencedError, match=r"b .* has taken over the store with epoch 2"):
            await service.start()

    asyncio.run(start())
    assert (tmp_path / "control.sock").read_text() == "of b"


@pytest.mark.long
def test_a_master_that_hangs_for_a_minute_ends_when_it_goes_on(tmp_path: Path) -> None:
    hangs_for(tmp_path, 60)


def test_without_a_lease_a_standby_waits_for_a_master_that_hangs(tmp_path: Path) -> None:
    with Started(tmp_path / "a") as master, standby_of(master, tmp_path / "b") as standby:
        master.signal(signal.SIGSTOP)
        threading.Event().wait(LENGTH_MS / 1000 + 1)
        assert not standby.output[1:]  # only the line that it waits
        assert (master.data / "lock").read_text().startswith(f"{master.pid} ")
        master.signal(signal.SIGCONT)
        with master.stomp() as client:
            send(client, "1")
        master.kill()
        standby.takes_over()
        takes_all(standby, ["1"])


def test_slow_syncs_are_no_reason_to_take_over(tmp_path: Path) -> None:
    with Started(tmp_path / "a", inside=lease("a")) as master, standby_of(master, tmp_path / "b") as standby:
        with master.stomp() as client, injected(master, "pwritev2:delay_enter=2000000"):
            send(client, "1")
        assert epoch_in(read_epoch(master.data / "journal")).number == 1
        master.kill()
        standby.takes_over()
        takes_all(standby, ["1"])


def test_a_lease_that_cannot_be_renewed_is_told_and_ends_the_master(tmp_path: Path) -> None:
    with Started(tmp_path / "a", inside=lease("a")) as master, standby_of(master, tmp_path / "b") as standby:
        with master.stomp() as client:
            send(client, "1")
        with injected(master, "pwrite64:error=EIO"):
            warning = "epoch cannot be renewed: Input/output error; a standby takes over unless this ends within 1.5 s"
            master.awaits(warning)
            assert master.ended() == 1
        assert len([line for line in master.errors if "cannot be renewed" in line]) == 1
        ends = ("could not be renewed for 1.5 s: Input/output error; this broker ends", "has taken over the store")
        assert any(words in master.errors[-1] for words in ends), master.errors
        standby.takes_over()
        takes_all(standby, ["1"])


@pytest.mark.long
def test_a_file_system_that_hangs_for_a_while_loses_nothing(tmp_path: Path) -> None:
    with Started(tmp_path / "a", inside=lease("a")) as master, standby_of(master, tmp_path / "b") as standby:
        with master.stomp() as client:
            send(client, "1")
        with injected(master, "pwrite64:delay_enter=6000000"):  # each renewal hangs, as on a mount that is gone
            standby.takes_over()
            takes_all(standby, ["1"])
            ends_fenced(master, standby)


def test_a_lock_file_of_another_host_is_named(tmp_path: Path) -> None:
    with Started(tmp_path / "a", inside=lease("a")) as master:
        (master.data / "lock").write_text("4711 elsewhere.example\n")
        with standby_of(master, tmp_path / "b") as standby:
            standby.awaits("which process 4711 on elsewhere.example holds")
            master.kill()
            standby.takes_over()


@pytest.mark.long
def test_a_client_with_failover_follows_a_take_over_from_a_master_that_hangs(tmp_path: Path) -> None:
    async def run(master: Started, standby: Waiting) -> list[object]:
        uris = f"{master.broker_url}?wireFormat.maxInactivityDuration=1000,{standby.broker_url}"
        url = f"failover:({uris})?randomize=false&initialReconnectDelay=20"
        async with aio.connect(url) as connection, connection.session() as session:
            producer = await session.create_producer("queue://A")
            await producer.send("before")
            master.signal(signal.SIGSTOP)
            await producer.send("after")
            consumer = await session.create_consumer("queue://A")
            messages = [await consumer.receive(timeout=TIMEOUT_S) for _ in range(2)]
            return [message.body for message in messages if message is not None]

    with Started(tmp_path / "a", inside=lease("a")) as master, standby_of(master, tmp_path / "b") as standby:
        assert asyncio.run(run(master, standby)) == ["before", "after"]
        standby.takes_over()
        master.signal(signal.SIGCONT)
        ends_fenced(master, standby)


def link_follows(tmp_path: Path, hurt: signal.Signals) -> None:
    """A link with masterslave: leads to the standby after its master got a signal, and stays there."""

    def forwards(far: Started, text: str) -> None:
        with far.stomp() as client, near.stomp() as producer:
            client.send("SUBSCRIBE\ndestination:/queue/LINKED\nid:1\n\n")
            producer.transact(f"SEND\ndestination:/queue/LINKED\npersistent:true\nreceipt:1\n\n{text}", "1")
            while not client.receive().endswith(f"\n\n{text}"):
                continue  # what the master had no time to forget comes again

    with Started(tmp_path / "a", inside=lease("a")) as master, standby_of(master, tmp_path / "b") as standby:
        silent = "wireFormat.maxInactivityDuration=1000"
        uri = f"masterslave:({master.broker_url}?{silent},{standby.broker_url}?{silent})?initialReconnectDelay=50"
        with Linked(tmp_path / "near", uri) as near:
            forwards(master, "first")
            master.signal(hurt)
            standby.takes_over()
            forwards(standby, "second")
            assert [row["uri"] for row in links(near) if row["state"] == "running"] == [standby.broker_url]
            if hurt == signal.SIGSTOP:
                master.signal(signal.SIGCONT)
                ends_fenced(master, standby)
                forwards(standby, "third")


def test_a_link_to_master_and_slave_follows_a_take_over(tmp_path: Path) -> None:
    link_follows(tmp_path, signal.SIGKILL)


@pytest.mark.long
def test_a_link_to_master_and_slave_follows_a_take_over_from_a_master_that_hangs(tmp_path: Path) -> None:
    link_follows(tmp_path, signal.SIGSTOP)
