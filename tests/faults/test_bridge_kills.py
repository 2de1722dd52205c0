"""Kills of a bridge's process and of its brokers. Each message is counted at the target by an independent consumer."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spanwire import client
from spanwire.model.ids import XaTransactionId
from tests.faults.broker import FragileBroker
from tests.support.announcing_process import AnnouncingProcess
from tests.support.broker_process import COMMAND

COUNT: Final = 1_000
BATCH: Final = 5  # small, so that every kill meets work
WAIT_S: Final = 60.0
QUIET_S: Final = 0.5  # seconds without a message, after which a queue is empty
DELAY_S: Final = 0.03  # seconds of work before a kill
FILE: Final = """\
[bridges.kills]
sourceConnectionFactory = "{source}"
sourceDestination = "{source_queue}"
targetConnectionFactory = "{target}"
targetDestination = "{target_queue}"
qualityOfServiceMode = "{mode}"
maxBatchSize = {batch}
failureRetryInterval = 50
"""


class BridgeUnderFire:
    """The process of one bridge with a file and queues of its own."""

    def __init__(
        self, directory: Path, source: FragileBroker, target: FragileBroker, mode: str, more: str = ""
    ) -> None:
        self._directory = directory
        self._source = source
        self._target = target
        self._queues = (f"queue://{directory.name}.SOURCE", f"queue://{directory.name}.TARGET")
        text = FILE.format(
            source=source.openwire_uri(),
            target=target.openwire_uri(),
            source_queue=self._queues[0],
            target_queue=self._queues[1],
            mode=mode,
            batch=BATCH,
        )
        (directory / "bridge.toml").write_text(text + more, "utf-8")
        with client.connect(source.openwire_uri()) as connection, connection.session("transacted") as session:
            producer = session.create_producer(self._queues[0])
            for number in range(COUNT):
                producer.send(str(number))
            session.commit()

    def start(self) -> AnnouncingProcess:
        """Return the process when the bridge has begun to run."""
        process = AnnouncingProcess([*COMMAND, "bridge", "run", "bridge.toml"], self._directory, [])
        await_running(process)
        return process

    def finish(self) -> Counter[str]:
        """Run until the source is empty, which it was not. Returns the texts at the target, each with its count."""
        log: list[str] = []
        process = AnnouncingProcess([*COMMAND, "bridge", "run", "bridge.toml", "--until-empty"], self._directory, log)
        process.wait_until(lambda line: "bridge kills: stopped, received" in line, WAIT_S)
        assert process.ended(WAIT_S) == 0, log
        match = re.search(r"bridge kills: stopped, received (\d+)", "\n".join(log))
        assert match is not None and int(match[1]) > 0, f"nothing was left after the kill: {log}"
        texts: Counter[str] = Counter()
        for broker in (self._source, self._target):
            assert prepared_of(broker) == [], "a branch is in doubt"
        with client.connect(self._target.openwire_uri()) as connection, connection.session() as session:
            consumer = session.create_consumer(self._queues[1])
            while (message := consumer.receive(QUIET_S)) is not None:
                texts[message.text] += 1
        return texts


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FragileBroker]:
    with FragileBroker(tmp_path_factory.mktemp("near")) as broker:
        yield broker


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FragileBroker]:
    with FragileBroker(tmp_path_factory.mktemp("far")) as broker:
        yield broker


def await_running(process: AnnouncingProcess) -> None:
    process.wait_until(lambda line: "bridge kills: running" in line, WAIT_S)


def kill_and_start(broker: FragileBroker, process: AnnouncingProcess) -> None:
    """Kill a broker at work, and wait until the bridge runs again."""
    time.sleep(DELAY_S)
    broker.kill()
    broker.start()
    await_running(process)


def prepared_of(broker: FragileBroker) -> list[XaTransactionId]:
    with client.connect(broker.openwire_uri()) as connection, connection.session("xa") as session:
        return session.xa.recover()


def stop(process: AnnouncingProcess) -> None:
    assert process.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("mode", ["AT_MOST_ONCE", "DUPLICATES_OK", "ONCE_AND_ONLY_ONCE"])
def test_a_killed_bridge_keeps_its_quality(mode: str, near: FragileBroker, tmp_path: Path) -> None:
    bridge = BridgeUnderFire(tmp_path, near, near, mode)
    process = bridge.start()
    time.sleep(DELAY_S)
    process.end(signal.SIGKILL)
    texts = bridge.finish()
    doubled, lost = texts.total() - len(texts), COUNT - len(texts)
    assert lost == 0 or (mode == "AT_MOST_ONCE" and lost <= BATCH)
    assert doubled == 0 or (mode == "DUPLICATES_OK" and doubled <= BATCH)


def test_killed_brokers_lose_nothing_and_double_at_most_a_batch(
    near: FragileBroker, far: FragileBroker, tmp_path: Path
) -> None:
    bridge = BridgeUnderFire(tmp_path, near, far, "DUPLICATES_OK")
    process = bridge.start()
    for broker in (near, far):
        kill_and_start(broker, process)
    stop(process)
    texts = bridge.finish()
    assert len(texts) == COUNT
    assert texts.total() - COUNT <= 2 * BATCH


def test_killed_brokers_double_nothing_and_lose_at_most_a_batch_at_most_once(
    near: FragileBroker, far: FragileBroker, tmp_path: Path
) -> None:
    bridge = BridgeUnderFire(tmp_path, near, far, "AT_MOST_ONCE")
    process = bridge.start()
    for broker in (near, far):
        kill_and_start(broker, process)
    stop(process)
    texts = bridge.finish()
    assert texts.total() == len(texts)
    assert COUNT - len(texts) <= 2 * BATCH


def test_a_target_that_detects_duplicates_gets_each_message_once_whatever_is_killed(
    near: FragileBroker, far: FragileBroker, tmp_path: Path
) -> None:
    bridge = BridgeUnderFire(tmp_path, near, far, "DUPLICATES_OK", "duplicateDetection = true\n")
    process = bridge.start()
    for broker in (near, far):
        kill_and_start(broker, process)
        time.sleep(DELAY_S)
        process.end(signal.SIGKILL)
        process = bridge.start()
    process.end(signal.SIGKILL)
    texts = bridge.finish()
    assert (len(texts), texts.total()) == (COUNT, COUNT)


def test_a_killed_broker_keeps_a_transaction_whole(near: FragileBroker, tmp_path: Path) -> None:
    bridge = BridgeUnderFire(tmp_path, near, near, "ONCE_AND_ONLY_ONCE")
    process = bridge.start()
    kill_and_start(near, process)
    stop(process)
    texts = bridge.finish()
    assert (len(texts), texts.total()) == (COUNT, COUNT)


def test_kills_of_bridge_source_and_target_keep_distributed_transactions_whole(
    near: FragileBroker, far: FragileBroker, tmp_path: Path
) -> None:
    bridge = BridgeUnderFire(tmp_path, near, far, "ONCE_AND_ONLY_ONCE")
    process = bridge.start()
    for broker in (near, far):
        kill_and_start(broker, process)
        time.sleep(DELAY_S)
        process.end(signal.SIGKILL)
        process = bridge.start()
    process.end(signal.SIGKILL)
    texts = bridge.finish()
    assert (len(texts), texts.total()) == (COUNT, COUNT)
