"""kill -9 while messages with duplicate ids are sent: what is sent again afterwards, all of it, arrives once."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.faults.broker import FragileBroker
from tests.support.stomp_socket import StompSocket

KILLS: Final = 3
LONGEST_LOAD_S: Final = 0.4
BODY: Final = "x" * 2_000  # so that a short load fills segments
WANTED: Final = 60  # messages per round; fewer if the broker dies before
END: Final = "end"


def frame(number: int, transaction: str = "") -> str:
    headers = f"destination:/queue/Q\npersistent:true\n_AMQ_DUPL_ID:{number}\n{transaction}"
    return f"SEND\n{headers}receipt:{number}\n\n{number} {BODY}\0"


def send(port: int, numbers: list[int]) -> None:
    """Send each message and wait for its receipt; every third one in a transaction of its own."""
    with StompSocket(port) as client:
        client.connect("1.2")
        for number in numbers:
            if number % 3 == 0:
                client.type(f"BEGIN\ntransaction:{number}\n\n\0")
                client.type(frame(number, f"transaction:{number}\n"))
                client.type(f"COMMIT\ntransaction:{number}\nreceipt:c{number}\n\n\0")
                assert client.receive() is not None
            else:
                client.type(frame(number))
            if client.receive() is None:
                return


def load(port: int, numbers: list[int]) -> None:
    """Send until the broker is gone."""
    with suppress(OSError, AssertionError):
        send(port, numbers)


def drain(port: int) -> list[int]:
    """Take everything from the queue."""
    found: list[int] = []
    with StompSocket(port) as client:
        client.connect("1.2")
        client.type(f"SEND\ndestination:/queue/Q\npersistent:true\n\n{END}\0")
        client.type("SUBSCRIBE\nid:1\ndestination:/queue/Q\nack:client\nactivemq.prefetchSize:10000\n\n\0")
        while True:
            message = client.receive()
            assert message is not None
            if message.body == END.encode():
                client.type(f"ACK\nid:{message.headers['ack']}\nreceipt:done\n\n\0")
                assert client.receive() is not None
                return found
            found.append(int(message.body.split()[0]))


@pytest.mark.timeout(120)
def test_what_is_sent_again_after_kill_9_arrives_once(tmp_path: Path) -> None:
    random = Random(1)
    counted: Counter[int] = Counter()
    sent = 0
    with FragileBroker(tmp_path / "broker") as broker:
        for _ in range(KILLS):
            numbers = list(range(sent, sent + WANTED))
            sent += WANTED
            sender = threading.Thread(target=load, args=(broker.stomp_port, numbers))
            sender.start()
            threading.Event().wait(random.random() * LONGEST_LOAD_S)  # the instant is what is tried
            broker.kill()
            sender.join()
            broker.start()
            if random.random() < 0.5:
                counted.update(drain(broker.stomp_port))  # what is consumed is known all the same
            send(broker.stomp_port, numbers)
        counted.update(drain(broker.stomp_port))
        send(broker.stomp_port, list(range(0, sent, 7)))
        counted.update(drain(broker.stomp_port))
    assert sorted(counted) == list(range(sent))
    assert {number: count for number, count in counted.items() if count > 1} == {}
