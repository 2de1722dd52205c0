"""Targets that stall, sources that flood, and logins that change under a running bridge."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from spanwire import client
from spanwire.model.units import MIB
from tests.faults.broker import FragileBroker
from tests.support.announcing_process import AnnouncingProcess
from tests.support.broker_process import COMMAND, BrokerProcess

WAIT_S: Final = 60.0
QUIET_S: Final = 1.0  # seconds without a message, after which a queue is empty
BATCH: Final = 10
SILENCES: Final = ("wireFormat.maxInactivityDuration", "wireFormat.maxInactivityDurationInitalDelay")  # sic
SILENCE_MS: Final = 1_000  # a broker that is silent for so long is lost; 30 s by default
MINUTES_S: Final = 8.0  # of a stall that stands for minutes: several silences and attempts
FLOODED_S: Final = 1.0  # seconds of the flood before the stall
LARGE: Final = b"x" * MIB
FLOOD: Final = 400  # of them, far more than a bridge may hold
# Of a bridge's process: 64 MiB that the client has read ahead, a batch of 16 MiB on its way in two forms, and Python.
MAX_MEMORY: Final = 220 * MIB
USERS: Final = """\
    <plugins><simpleAuthenticationPlugin><users>
      <authenticationUser username="u" password="{}" groups="users"/>
    </users></simpleAuthenticationPlugin></plugins>
"""
FILE: Final = """\
[connectionFactories.far]
url = "{target}"
userName = "u"
password = "{{{{env:FAR_PASSWORD}}}}"
[bridges.orders]
sourceConnectionFactory = "{source}"
sourceDestination = "queue://A"
targetConnectionFactory = "far"
targetDestination = "queue://B"
maxBatchSize = {batch}
failureRetryInterval = 100
"""


class Bridge:
    """The process of a bridge with what it logs."""

    def __init__(self, directory: Path, source: BrokerProcess, target: BrokerProcess, batch: int = BATCH) -> None:
        self._directory: Final = directory
        silence = dict.fromkeys(SILENCES, str(SILENCE_MS))
        text = FILE.format(source=source.openwire_uri(), target=target.openwire_uri(silence), batch=batch)
        (directory / "bridge.toml").write_text(text, "utf-8")
        self.log: Final[list[str]] = []

    @contextmanager
    def running(self, password: str = "p") -> Iterator[AnnouncingProcess]:
        command = [*COMMAND, "bridge", "run", "bridge.toml"]
        environment = {**os.environ, "FAR_PASSWORD": password}
        process = AnnouncingProcess(command, self._directory, self.log, environment)
        try:
            yield process
        finally:
            process.end(signal.SIGTERM)


def said(process: AnnouncingProcess, words: str) -> None:
    process.wait_until(lambda line: words in line, WAIT_S, f"did not say {words!r}")


def send(broker: BrokerProcess, count: int, body: bytes | None = None) -> None:
    with client.connect(broker.openwire_uri()) as connection, connection.session("transacted") as session:
        producer = session.create_producer("queue://A")
        for number in range(count):
            producer.send(str(number) if body is None else body, {"number": number})
            if body is not None and number % 10 == 9:
                session.commit()
        session.commit()


def numbers_of(broker: BrokerProcess, count: int) -> list[int]:
    """What an independent consumer finds, in its order, when ``count`` have come and no more do."""
    found: list[int] = []
    with client.connect(f"{broker.openwire_uri()}?jms.prefetchPolicy.all=10", "u", "p") as connection:
        with connection.session() as session:
            consumer = session.create_consumer("queue://B")
            while (message := consumer.receive(QUIET_S if len(set(found)) >= count else WAIT_S)) is not None:
                number = message.properties["number"]
                assert isinstance(number, int)
                found.append(number)
    return found


def memory_of(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def test_a_bridge_whose_target_stalls_says_so_and_goes_on_when_it_answers(tmp_path: Path) -> None:
    (tmp_path / "near").mkdir()
    (tmp_path / "far").mkdir()
    with FragileBroker(tmp_path / "near") as near, FragileBroker(tmp_path / "far") as far:
        bridge = Bridge(tmp_path, near, far)
        with bridge.running() as process:
            said(process, "bridge orders: running")
            far.pause()
            send(near, 100)
            said(process, "bridge orders: retrying after a failure")
            far.resume()
            said(process, "bridge orders: running")
            found = numbers_of(far, 100)
    assert sorted(set(found)) == list(range(100))
    assert len(found) - 100 <= BATCH  # the batch under way, whose commit the target has read before it answered


@pytest.mark.long
def test_a_flood_into_a_target_that_stalls_for_minutes_fits_into_the_memory_of_a_bridge(tmp_path: Path) -> None:
    (tmp_path / "near").mkdir()
    (tmp_path / "far").mkdir()
    with FragileBroker(tmp_path / "near") as near, FragileBroker(tmp_path / "far") as far:
        bridge = Bridge(tmp_path, near, far, batch=1_000)
        with bridge.running() as process:
            said(process, "bridge orders: running")
            flooding = threading.Thread(target=send, args=(near, FLOOD, LARGE))
            flooding.start()
            time.sleep(FLOODED_S)
            far.pause()
            time.sleep(MINUTES_S)
            far.resume()
            flooding.join(WAIT_S)
            assert not flooding.is_alive()
            found = numbers_of(far, FLOOD)
            assert memory_of(process.pid) < MAX_MEMORY
    assert sorted(set(found)) == list(range(FLOOD))


def test_a_login_that_changes_is_refused_in_one_line_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "near").mkdir()
    (tmp_path / "far").mkdir()
    with FragileBroker(tmp_path / "near") as near, FragileBroker(tmp_path / "far", USERS.format("former")) as far:
        bridge = Bridge(tmp_path, near, far)
        with bridge.running("former") as process:
            said(process, "bridge orders: running")
            far.kill()
            send(near, 20)
            said(process, "bridge orders: retrying after a failure")
            far.inside = USERS.format("p")
            far.start()
            said(process, "invalid")
        with bridge.running() as process:
            said(process, "bridge orders: running")
            assert numbers_of(far, 20) == list(range(20))
    (refusal,) = [line for line in bridge.log if "retrying after a failure" in line and "invalid" in line]
    assert "password" in refusal
    assert not any("Traceback" in line or "former" in line for line in bridge.log)
