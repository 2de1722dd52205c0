"""Bridges between Spanwire and brokers of other protocols: crossings both ways, mistakes, kills and dead letters."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from spanwire import client
from tests.support.announcing_process import AnnouncingProcess
from tests.support.bridge_peers import BridgePeer
from tests.support.bridge_rounds import taken
from tests.support.bridge_runs import forward_file
from tests.support.bridge_victim import AT_POINT
from tests.support.broker_process import COMMAND, BrokerProcess

WAIT_S: Final = 180.0  # beside other tests on two processors
COUNT: Final = 2_000
FEW: Final = 400
BATCH: Final = 20
DELAY_S: Final = 0.05  # seconds of work before a kill
KILLS: Final = 3
MODES: Final = ("AT_MOST_ONCE", "DUPLICATES_OK")
TEXTS: Final = [str(number) for number in range(COUNT)]
MOMENTS: Final = ("before", "during", "after")
KILLED_BATCH: Final = 3  # the batch in which a broker is killed
KILLS_S: Final = 900  # seconds of a test, in which Kafka may be back three times a minute after each kill
ROOT: Final = Path(__file__).parents[3]
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
    """The name of the destinations of an attempt at a test, at both brokers."""
    attempt = getattr(request.node, "execution_count", 1)
    words = re.sub(r"[^A-Za-z0-9]+", "-", f"{request.node.name}{attempt}")
    peer.create(words)
    return words


def send(near: BrokerProcess, name: str, texts: list[str]) -> None:
    with client.connect(near.openwire_uri()) as connection, connection.session("transacted") as session:
        producer = session.create_producer(f"queue://{name}")
        for text in texts:
            producer.send(text)
        session.commit()


def take(near: BrokerProcess, name: str) -> list[str]:
    return taken(near.stomp_port, name)


def test_texts_cross_in_order_both_ways(peer: BridgePeer, spanwire: BrokerProcess, name: str) -> None:
    texts = [f"text {number} é" for number in range(50)]
    send(spanwire, name, texts)
    status = forward_file(outward(peer, spanwire, name, "maxBatchSize = 20"), peer.jars)
    assert (status.forwarded, status.failures) == (50, 0), status.last_error
    assert peer.take(name) == texts
    peer.send(name, texts)
    status = forward_file(inward(peer, spanwire, name, "maxBatchSize = 20"), peer.jars)
    assert (status.forwarded, status.failures) == (50, 0), status.last_error
    assert take(spanwire, name) == texts
    assert peer.take(name) == []


@pytest.mark.long
def test_a_refused_login_is_one_line_with_the_address(peer: BridgePeer, spanwire: BrokerProcess, name: str) -> None:
    wrong = peer.factory(password="wrong-word")
    if wrong == peer.factory():
        return  # without users every login is accepted
    text = inward(peer, spanwire, name, "maxRetries = 0").replace(peer.factory(), wrong)
    status = forward_file(text, peer.jars)
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
    status = forward_file(text, peer.jars)
    assert (status.forwarded, status.dead_letters) == (2, 1), status.last_error
    assert take(spanwire, name) == ["first", "last"]
    ((dead, cause),) = peer.dead_letters(name)
    assert dead == "x" * 3_000
    assert "2000" in cause or "bytes" in cause


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_bridge_keeps_its_quality(
    mode: str, peer: BridgePeer, spanwire: BrokerProcess, name: str, tmp_path: Path
) -> None:
    send(spanwire, name, TEXTS)
    run_with_kills(outward(peer, spanwire, name, *words_of(mode)), tmp_path, peer.jars)
    assert_quality(mode, Counter(peer.take(name)), KILLS)
    peer.send(name, TEXTS)
    run_with_kills(inward(peer, spanwire, name, *words_of(mode)), tmp_path, peer.jars)
    assert_quality(mode, Counter(take(spanwire, name)), KILLS)


@pytest.mark.long
@pytest.mark.timeout(KILLS_S)
@pytest.mark.parametrize("mode", MODES)
def test_a_target_that_is_killed_and_returns_keeps_the_quality(
    mode: str, peer: BridgePeer, spanwire: BrokerProcess, name: str, tmp_path: Path
) -> None:
    send(spanwire, name, TEXTS)
    text = outward(peer, spanwire, name, *words_of(mode))
    run_with_killed_peer(text, tmp_path, "Send", peer.kill, peer.start, peer.jars)
    assert_quality(mode, Counter(peer.take(name)), len(MOMENTS))


@pytest.mark.long
@pytest.mark.timeout(KILLS_S)
@pytest.mark.parametrize("mode", MODES)
def test_a_source_that_is_killed_and_returns_keeps_the_quality(
    mode: str, peer: BridgePeer, spanwire: BrokerProcess, name: str, tmp_path: Path
) -> None:
    peer.send(name, TEXTS)
    text = inward(peer, spanwire, name, *words_of(mode))
    run_with_killed_peer(text, tmp_path, "Acknowledge", peer.kill, peer.start, peer.jars)
    counts = Counter(take(spanwire, name))
    assert_quality(mode, counts, len(MOMENTS), peer.stores_acknowledgements)


def run_with_killed_peer(
    text: str,
    directory: Path,
    action: str,
    kill: Callable[[], None],
    start: Callable[[], None],
    jars: Path | None = None,
) -> None:
    """Kill a broker before, during and after an action of the bridge, and let the bridge empty its source then."""
    for moment in MOMENTS:
        log: list[str] = []
        point = f"{action}:{'after' if moment == 'after' else 'before'}:{KILLED_BATCH}"
        with started(text, directory, log, jars, point) as process:
            if moment == "during":
                process.send(signal.SIGCONT)
            kill()
            try:
                process.send(signal.SIGCONT)
                process.wait_until(lambda line: "retrying after a failure" in line, WAIT_S)
            finally:
                start()
            process.wait_until(lambda line: "bridge test: running" in line, WAIT_S)
            assert process.end(signal.SIGTERM) == 0
        assert not any("Traceback" in line for line in log), log
    empty(text, jars)


def started(text: str, directory: Path, log: list[str], jars: Path | None, point: str = "") -> AnnouncingProcess:
    """Return the process of a file when its bridge runs, or stands still at a point; see `bridge_victim`."""
    file = directory / "bridge.toml"
    file.write_text(text, "utf-8")
    options = [] if jars is None else ["--jars", str(jars)]
    command = [*COMMAND, "bridge", "run", str(file)]
    if point:
        command = [sys.executable, "-m", "tests.support.bridge_victim", str(file), point]
    process = AnnouncingProcess([*command, *options], ROOT, log)
    process.wait_until(lambda line: "bridge test: running" in line, WAIT_S)
    if point:
        process.wait_until(lambda line: AT_POINT in line, WAIT_S, f"did not come to {point}")
        process.await_stop()
    return process


def run_with_kills(text: str, directory: Path, jars: Path | None = None) -> None:
    """Kill the process of a bridge again and again, then let it empty its source."""
    for _ in range(KILLS):
        process = started(text, directory, [], jars)
        time.sleep(DELAY_S)
        process.end(signal.SIGKILL)
    empty(text, jars)


def empty(text: str, jars: Path | None) -> None:
    """Let a bridge empty its source, which is not empty.

    The bridge may take a busy broker's silence for an empty source, so it runs until it gets nothing.
    """
    received: list[int] = []
    while not received or received[-1] > 0:
        status = forward_file(text, jars)
        assert status.failures == 0, status.last_error
        received.append(status.received)
    assert received[0] > 0, "nothing was left after the kills"


def words_of(mode: str) -> tuple[str, ...]:
    """Return the parameters of a bridge that is hurt."""
    return f'qualityOfServiceMode = "{mode}"', f"maxBatchSize = {BATCH}", "failureRetryInterval = 200"


def assert_quality(mode: str, counts: Counter[str], kills: int, is_stored: bool = True, count: int = COUNT) -> None:
    """Fail for more lost or doubled messages than a mode allows; ``is_stored`` is of the source's acknowledgements."""
    lost, doubled = count - len(counts), counts.total() - len(counts)
    assert lost <= (kills * BATCH if mode == "AT_MOST_ONCE" else 0)
    assert not is_stored or doubled <= (kills * BATCH if mode == "DUPLICATES_OK" else 0)
