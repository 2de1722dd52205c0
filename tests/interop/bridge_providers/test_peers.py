"""Bridges between Spanwire and brokers of other protocols: crossings both ways, mistakes, kills and dead letters."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from spanwire import client
from tests.support.announcing_process import AnnouncingProcess
from tests.support.bridge_peers import BridgePeer
from tests.support.bridge_runs import forward_file
from tests.support.broker_process import COMMAND, BrokerProcess

WAIT_S: Final = 60.0
QUIET_S: Final = 0.5
COUNT: Final = 2_000
FEW: Final = 400
BATCH: Final = 20
DELAY_S: Final = 0.05  # seconds of work before a kill
KILLS: Final = 3
NEAR: Final = '[connectionFactories.near]\nurl = "{url}"\n'


def inward(peer: BridgePeer, near: BrokerProcess, name: str, *words: str) -> str:
    """Return a file with a bridge from the peer to a queue of Spanwire."""
    near_side = f'targetConnectionFactory = "near"\ntargetDestination = "queue://{name}"\n'
    return _file(peer, near, peer.source(name) + near_side, words)


def outward(peer: BridgePeer, near: BrokerProcess, name: str, *words: str) -> str:
    """Return a file with a bridge from a queue of Spanwire to the peer."""
    near_side = f'sourceConnectionFactory = "near"\nsourceDestination = "queue://{name}"\n'
    return _file(peer, near, peer.target(name) + near_side, words)


def _file(peer: BridgePeer, near: BrokerProcess, sides: str, words: tuple[str, ...]) -> str:
    lines = "\n".join(words)
    return f"{peer.factory()}{NEAR.format(url=near.openwire_uri())}[bridges.test]\n{sides}{lines}\n"


@pytest.fixture
def name(request: pytest.FixtureRequest, peer: BridgePeer) -> str:
    """The name of the destinations of a test, at both brokers."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)
    peer.create(words)
    return words


def send(near: BrokerProcess, name: str, texts: list[str]) -> None:
    with client.connect(near.openwire_uri()) as connection, connection.session("transacted") as session:
        producer = session.create_producer(f"queue://{name}")
        for text in texts:
            producer.send(text)
        session.commit()


def take(near: BrokerProcess, name: str) -> list[str]:
    texts: list[str] = []
    with client.connect(near.openwire_uri()) as connection, connection.session() as session:
        consumer = session.create_consumer(f"queue://{name}")
        while (message := consumer.receive(QUIET_S)) is not None:
            texts.append(message.text)
    return texts


def test_texts_cross_in_order_both_ways(peer: BridgePeer, spanwire: BrokerProcess, name: str) -> None:
    texts = [f"text {number} é" for number in range(50)]
    send(spanwire, name, texts)
    status = forward_file(outward(peer, spanwire, name, "maxBatchSize = 20"))
    assert (status.forwarded, status.failures) == (50, 0), status.last_error
    assert peer.take(name) == texts
    peer.send(name, texts)
    status = forward_file(inward(peer, spanwire, name, "maxBatchSize = 20"))
    assert (status.forwarded, status.failures) == (50, 0), status.last_error
    assert take(spanwire, name) == texts
    assert peer.take(name) == []


@pytest.mark.long
def test_a_refused_login_is_one_line_with_the_address(peer: BridgePeer, spanwire: BrokerProcess, name: str) -> None:
    wrong = peer.factory(password="wrong-word")
    if wrong == peer.factory():
        return  # without users every login is accepted
    text = inward(peer, spanwire, name, "maxRetries = 0").replace(peer.factory(), wrong)
    status = forward_file(text)
    assert (status.state.value, status.failures) == ("failed", 1)
    assert status.last_error is not None and "127.0.0.1" in status.last_error and "\n" not in status.last_error
    assert "wrong-word" not in status.last_error


@pytest.mark.long
def test_an_inconvertible_message_becomes_a_dead_letter_of_its_source(
    peer: BridgePeer, spanwire: BrokerProcess, name: str
) -> None:
    peer.send(name, ["first", "x" * 3_000, "last"])
    near = spanwire.openwire_uri({"wireFormat.maxFrameSize": "2000"})
    text = inward(peer, spanwire, name).replace(spanwire.openwire_uri(), near)
    status = forward_file(text)
    assert (status.forwarded, status.dead_letters) == (2, 1), status.last_error
    assert take(spanwire, name) == ["first", "last"]
    ((dead, cause),) = peer.dead_letters(name)
    assert dead == "x" * 3_000
    assert "2000" in cause or "bytes" in cause


@pytest.mark.long
@pytest.mark.parametrize("mode", ["AT_MOST_ONCE", "DUPLICATES_OK"])
def test_a_killed_bridge_keeps_its_quality(
    mode: str, peer: BridgePeer, spanwire: BrokerProcess, name: str, tmp_path: Path
) -> None:
    words = (f'qualityOfServiceMode = "{mode}"', f"maxBatchSize = {BATCH}", "failureRetryInterval = 100")
    texts = [str(number) for number in range(COUNT)]
    send(spanwire, name, texts)
    out = run_with_kills(outward(peer, spanwire, name, *words), tmp_path)
    assert_quality(mode, Counter(peer.take(name)), out)
    peer.send(name, texts)
    back = run_with_kills(inward(peer, spanwire, name, *words), tmp_path)
    assert_quality(mode, Counter(take(spanwire, name)), back)


@pytest.mark.long
def test_a_peer_that_dies_and_returns_is_reached_again(
    peer: BridgePeer, spanwire: BrokerProcess, name: str, tmp_path: Path
) -> None:
    texts = [str(number) for number in range(COUNT)]
    send(spanwire, name, texts)
    words = (f"maxBatchSize = {BATCH}", "failureRetryInterval = 200")
    log: list[str] = []
    process = started(outward(peer, spanwire, name, *words), tmp_path, log)
    time.sleep(DELAY_S)
    peer.kill()
    try:
        process.wait_until(lambda line: "retrying after a failure" in line, WAIT_S)
    finally:
        peer.start()
    process.wait_until(lambda line: "bridge test: running" in line, WAIT_S)
    assert process.end(signal.SIGTERM) == 0
    assert not any("Traceback" in line for line in log), log
    forward_file(outward(peer, spanwire, name, *words))
    counts = Counter(peer.take(name))
    assert set(counts) == set(texts)
    assert counts.total() - COUNT <= BATCH


@pytest.mark.long
def test_a_source_that_dies_and_returns_loses_nothing(
    peer: BridgePeer, spanwire: BrokerProcess, name: str, tmp_path: Path
) -> None:
    texts = [str(number) for number in range(FEW)]
    peer.send(name, texts)
    words = (f"maxBatchSize = {BATCH}", "failureRetryInterval = 200")
    log: list[str] = []
    process = started(inward(peer, spanwire, name, *words), tmp_path, log)
    time.sleep(DELAY_S)
    peer.kill()
    try:
        process.wait_until(lambda line: "retrying after a failure" in line, WAIT_S)
    finally:
        peer.start()
    process.wait_until(lambda line: "bridge test: running" in line, WAIT_S)
    assert process.end(signal.SIGTERM) == 0
    assert not any("Traceback" in line for line in log), log
    forward_file(inward(peer, spanwire, name, *words))
    counts = Counter(take(spanwire, name))
    assert set(counts) == set(texts)
    if peer.stores_acknowledgements:
        assert counts.total() - FEW <= BATCH


def started(text: str, directory: Path, log: list[str], *options: str) -> AnnouncingProcess:
    """Return the process of a file when its bridge runs."""
    (directory / "bridge.toml").write_text(text, "utf-8")
    process = AnnouncingProcess([*COMMAND, "bridge", "run", "bridge.toml", *options], directory, log)
    process.wait_until(lambda line: "bridge test: running" in line, WAIT_S)
    return process


def run_with_kills(text: str, directory: Path) -> int:
    """Kill the process of a bridge again and again, then let it empty its source. Returns the number of kills."""
    for _ in range(KILLS):
        process = started(text, directory, [])
        time.sleep(DELAY_S)
        process.end(signal.SIGKILL)
    status = forward_file(text)
    assert status.failures == 0, status.last_error
    assert status.received > 0, "nothing was left after the kills"
    return KILLS


def assert_quality(mode: str, counts: Counter[str], kills: int) -> None:
    lost, doubled = COUNT - len(counts), counts.total() - len(counts)
    assert lost <= (kills * BATCH if mode == "AT_MOST_ONCE" else 0)
    assert doubled <= (kills * BATCH if mode == "DUPLICATES_OK" else 0)
