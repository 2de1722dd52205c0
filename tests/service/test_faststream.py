"""The example for FastStream as a process: an order becomes a bill, a bad one a dead letter, and SIGTERM ends it."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Final

from spanwire.client import blocking
from spanwire.testing import Broker
from tests.support.announcing_process import AnnouncingProcess

EXAMPLE: Final = Path(__file__).parents[2] / "examples/faststream/shop.py"
TIMEOUT_S: Final = 30.0


def test_the_example_bills_orders_rejects_one_and_ends_cleanly(tmp_path: Path, spanwire_broker: Broker) -> None:
    url = f"tcp://{spanwire_broker.host}:{spanwire_broker.port}"
    shop = AnnouncingProcess([sys.executable, str(EXAMPLE), url], tmp_path, [], None)
    try:
        shop.wait_until(lambda line: "the shop is open" in line, TIMEOUT_S, "did not start")
        with blocking.connect(url) as connection, connection.session() as session:
            producer = session.create_producer("queue://SHOP.ORDERS")
            producer.send(json.dumps({"number": 1, "items": ["book", "pen"]}))
            producer.send(json.dumps({"number": 2, "items": []}))
            bill = session.create_consumer("queue://SHOP.BILLS").receive(TIMEOUT_S)
            assert bill is not None
            assert bill.json() == {"number": 1, "total": 14}
            dead = session.create_consumer("queue://ActiveMQ.DLQ").receive(TIMEOUT_S)
            assert dead is not None
            assert dead.json()["number"] == 2
            answer = session.request("queue://SHOP.PRICE", "book", timeout=TIMEOUT_S)
            assert answer is not None
            assert answer.text == "12"
    finally:
        code = shop.end(signal.SIGTERM)
    assert code == 0
