"""Puts orders into queue ORDERS: python orders.py [HOW MANY]."""

from __future__ import annotations

import os
import sys

from spanwire.client import Property, blocking

URL = os.environ.get("SPANWIRE_URL", "tcp://127.0.0.1:61616")
REGIONS = ("north", "south", "west")


def send_orders(url: str, count: int, queue: str = "ORDERS") -> None:
    """In one transaction."""
    with blocking.connect(url) as connection, connection.session(acknowledge="transacted") as session:
        producer = session.create_producer(f"queue://{queue}")
        for number in range(count):
            properties: dict[str, Property] = {"region": REGIONS[number % len(REGIONS)], "amount": 1.5 * (number % 7)}
            producer.send(f"order {number}", properties=properties)
        session.commit()


if __name__ == "__main__":
    send_orders(URL, int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
