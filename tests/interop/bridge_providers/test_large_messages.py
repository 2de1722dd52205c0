"""Brokers that count messages send hundreds of messages of 1 MiB to a bridge with the default batch."""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.running.process import BridgeProcess
from spanwire.routes.readers.placeholders import Placeholders
from tests.support.bridge_peers import BridgePeer, MosquittoPeer, RabbitPeer
from tests.support.mosquitto import MosquittoProcess
from tests.support.rabbitmq import RabbitProcess

SIZE: Final = 1024 * 1024
SENT_AT_ONCE: Final = 10
NAME: Final = "large"
TARGET: Final = "large-target"
WAIT_S: Final = 120.0
MAX_GROWTH_KIB: Final = 250 * 1024  # 64 MiB wait, a batch of 16 MiB is sent, and the libraries copy
BRIDGE: Final = """
[bridges.large]
{source}
targetConnectionFactory = "end"
targetDestination = "queue://{target}"
qualityOfServiceMode = "DUPLICATES_OK"
maxBatchSize = 1000
{factory}
[connectionFactories.end]
provider = "amqp091"
url = "{target_url}"
userName = "guest"
password = "guest"
"""


def peak_kib() -> int:
    """Return the most memory that this process has had."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])


def bridge_until_empty(text: str, answers: Any) -> None:
    """Run a bridge in this process; answer counters, the last error, and the growth of the memory at its peak."""
    definitions = read_bridges(text.encode(), "large.toml", Placeholders({}, {}))
    process = BridgeProcess(definitions, lambda line: None, ends_when_empty=True)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins with the memory of now
    before = peak_kib()
    asyncio.run(process.run())
    (status,) = process.statuses()
    grown = peak_kib() - before
    answers.put((status.forwarded, status.failures, status.last_error, grown))


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Log no frames: the library logs each with its whole body."""
    caplog.set_level(logging.WARNING, "aiormq")


def check(peer: BridgePeer, rabbitmq: RabbitProcess, count: int) -> None:
    target = RabbitPeer(rabbitmq, "amqp091", rabbitmq.amqp_url)
    target.create(TARGET)
    peer.create(NAME)
    for start in range(0, count, SENT_AT_ONCE):
        peer.send(NAME, [f"{number:04d}".ljust(SIZE, "x") for number in range(start, start + SENT_AT_ONCE)])
        gc.collect()  # the client leaves cycles of few objects with large bodies
    text = BRIDGE.format(source=peer.source(NAME), target_url=rabbitmq.amqp_url, target=TARGET, factory=peer.factory())
    context = multiprocessing.get_context("spawn")
    answers: Any = context.Queue()
    child = context.Process(target=bridge_until_empty, args=(text, answers))
    child.start()
    child.join(WAIT_S)
    child.kill()
    child.join()
    assert child.exitcode == 0, "the bridge has not emptied its source"
    forwarded, failures, last_error, grown = answers.get()
    print(f"{type(peer).__name__}: {forwarded} forwarded, memory grew by {grown // 1024} MiB")
    assert (forwarded, failures, last_error) == (count, 0, None)
    assert rabbitmq.messages(TARGET) == count
    assert grown < MAX_GROWTH_KIB
    target.create(TARGET)


@pytest.mark.long
def test_a_bridge_from_rabbitmq_keeps_its_memory_at_many_large_messages(rabbitmq: RabbitProcess) -> None:
    check(RabbitPeer(rabbitmq, "amqp091", rabbitmq.amqp_url), rabbitmq, 1_200)


@pytest.mark.long
def test_a_bridge_from_mosquitto_keeps_its_memory_at_many_large_messages(
    mosquitto: MosquittoProcess, rabbitmq: RabbitProcess
) -> None:
    """Mosquitto 2.0.11 keeps to no receive maximum, and sends all again to each window: more messages take minutes."""
    check(MosquittoPeer(mosquitto), rabbitmq, 400)
