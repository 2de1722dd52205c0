"""Sends whose answers are lost, and that failover clients send again: in the queue each of them is one message.

The answers are dropped on the wire once the broker has given them; then the connection breaks, or the broker is killed
and started again.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire.client import blocking
from tests.support.answer_loss import AnswerLoss
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.client_shells import SHELLS, opened
from tests.support.java import JavaProcess

QUEUE: Final = "RESENT"
LAST: Final = "nothing follows"
ROUNDS: Final = 4  # kills, and as many mere breaks, under load
PER_CONNECTION: Final = 400
CONNECTIONS: Final = 4
PATIENCE: Final = 90.0

Fault = Callable[[BrokerProcess, AnswerLoss], None]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that may be killed."""
    with BrokerProcess(spanwire_command(), tmp_path / "spanwire") as started:
        yield started


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[AnswerLoss]:
    """The way to it."""
    with AnswerLoss(broker.openwire_port) as made:
        yield made


def breaks(broker: BrokerProcess, wire: AnswerLoss) -> None:
    """The connection alone."""
    wire.breaks()


def dies(broker: BrokerProcess, wire: AnswerLoss) -> None:
    """The broker, and with it the connection."""
    broker.kill()
    broker.start()
    wire.breaks()


def later(wire: AnswerLoss, fault: Fault, broker: BrokerProcess) -> threading.Thread:
    """Lose answers from now on; then, once one is lost, the fault."""

    def act() -> None:
        wire.wait_for_lost()
        fault(broker, wire)

    wire.lose()
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def drained(broker: BrokerProcess) -> Counter[str]:
    """Everything in the queue, and how often; a last message, sent behind all others, tells where the queue ends."""
    found: Counter[str] = Counter()
    with blocking.connect(broker.openwire_uri()) as connection, connection.session() as session:
        session.create_producer(f"queue://{QUEUE}").send(LAST)
        consumer = session.create_consumer(f"queue://{QUEUE}")
        while True:
            message = consumer.receive(PATIENCE)
            assert message is not None, "the end of the queue did not come"
            assert isinstance(message.body, str)
            if message.body == LAST:
                return found
            found[message.body] += 1


@pytest.mark.parametrize("fault", [breaks, dies])
def test_a_send_of_a_java_client_whose_answer_was_lost_is_one_message(
    java: JavaProcess, broker: BrokerProcess, wire: AnswerLoss, fault: Fault
) -> None:
    faults: list[threading.Thread] = []

    def lose(_: str) -> None:
        faults.append(later(wire, fault, broker))

    [seen] = java.ask("resends", wire.uri(), QUEUE, "30", "0,7,8,20", on_event=lose)
    assert len(faults) == 4
    assert drained(broker) == Counter(dict.fromkeys(seen["taken"], 1))
    assert len(seen["taken"]) == 30


@pytest.mark.long
def test_nothing_is_lost_or_doubled_by_java_clients_when_answers_are_lost_under_load(
    java: JavaProcess, broker: BrokerProcess, wire: AnswerLoss
) -> None:
    dice = random.Random(5)

    def faults(_: str) -> None:
        for number in range(2 * ROUNDS):
            time.sleep(dice.random() / 5)
            later(wire, (breaks, dies)[number % 2], broker).join(PATIENCE)

    [seen] = java.ask("resends-of-many", wire.uri(), QUEUE, str(CONNECTIONS), str(PER_CONNECTION), on_event=faults)
    assert seen["failures"] == []
    assert len(seen["taken"]) == CONNECTIONS * PER_CONNECTION
    assert drained(broker) == Counter(dict.fromkeys(seen["taken"], 1))


@pytest.mark.parametrize("fault", [breaks, dies])
def test_a_commit_of_a_java_client_whose_answer_was_lost_takes_effect_once(
    java: JavaProcess, broker: BrokerProcess, wire: AnswerLoss, fault: Fault
) -> None:
    def lose(_: str) -> None:
        later(wire, fault, broker)

    [seen] = java.ask("resent-commit", wire.uri(), QUEUE, on_event=lose)
    assert seen["outcome"] in ("committed", "javax.jms.TransactionRolledBackException")
    assert drained(broker) == Counter({f"transacted-{number}": 1 for number in range(3)})


@pytest.mark.parametrize("fault", [breaks, dies])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_send_of_a_python_client_whose_answer_was_lost_is_one_message(
    broker: BrokerProcess, wire: AnswerLoss, shell: str, fault: Fault
) -> None:
    url = f"failover:({wire.uri()})?initialReconnectDelay=10&maxReconnectDelay=50&randomize=false"

    async def scenario() -> None:
        connection: Any
        async with opened(shell, url) as connection, connection.session() as session:
            producer = await session.create_producer(f"queue://{QUEUE}")
            for number in range(30):
                if number in (0, 7, 8, 20):
                    later(wire, fault, broker)
                await producer.send(str(number))

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))
    assert drained(broker) == Counter({str(number): 1 for number in range(30)})
