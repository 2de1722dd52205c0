"""A broker with everything that a page of the console can show: queues, dead letters, subscriptions, links, schedules.

    with filled(directory) as broker:
        broker.base        # the address of its console

The messages are made up by a fixed rule, so that two runs show the same. The broker has users, a running link, a link
that fails, and clients that stay connected while the block runs.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from spanwire.client import blocking
from spanwire.management.control_client import ControlClient
from spanwire.pipeline.link.control_client import Control
from spanwire.pipeline.watch.status import RETRYING, RUNNING, PipelineStatus, RouteStatus, encode
from tests.bench.console.filled_network import bridge, neighbours, trace
from tests.service.started import TIMEOUT_S, Started, StompClient
from tests.support.ports import free_port

LISTENING: Final = re.compile(r"Listening for web requests at: (http://127\.0\.0\.1:\d+)")
USER: Final = "anna"
PASSWORD: Final = "a-4711"
SHOPS: Final = ("berlin", "lyon", "porto", "tampere", "zagreb")
LONG: Final = "com.example.logistics.warehouse.replenishment.requests.high-priority.region-north-east.v2"
INSIDE: Final = """\
  <plugins><simpleAuthenticationPlugin><users>
    <authenticationUser username="anna" password="a-4711" groups="admins"/>
    <authenticationUser username="vera" password="v-4711" groups="viewers"/>
    <authenticationUser username="orders-service" password="s-4711" groups="services"/>
  </users></simpleAuthenticationPlugin></plugins>
  <destinationPolicy><policyMap><policyEntries>
    <policyEntry queue="shop.>"><deadLetterStrategy>
      <individualDeadLetterStrategy queuePrefix="DLQ."/></deadLetterStrategy></policyEntry>
    <policyEntry topic="prices.>"><slowConsumerStrategy>
      <abortSlowConsumerStrategy maxSlowDuration="3600000"/></slowConsumerStrategy></policyEntry>
  </policyEntries></policyMap></destinationPolicy>
  <networkConnectors>
    <networkConnector name="to-billing" uri="static:(tcp://127.0.0.1:{far})" duplex="true" userName="anna"
                      password="a-4711"/>
    <networkConnector name="to-archive" uri="static:(tcp://127.0.0.1:{closed})" userName="anna" password="a-4711"/>
  </networkConnectors>
  <web port="0"/>
"""


class Filled(Started):
    """A broker with users and a web process."""

    base = ""
    trace = ""  # id of a trace with steps

    def web_address(self) -> str:
        """The address of the console, once the web process listens."""
        self.awaits("Listening for web requests at: ")
        return next(match[1] for line in self.errors if (match := LISTENING.search(line)))

    def text(self) -> str:
        name = "orders" if self._elements else "billing"
        return super().text().replace('brokerName="tested"', f'brokerName="{name}"')


@contextmanager
def filled(directory: Path, shops: int = len(SHOPS)) -> Iterator[Filled]:
    """Run the broker, a second one that it is linked to, and their clients."""
    far = Filled(directory / "billing")
    inside = INSIDE.replace("{far}", str(far.ports["tcp"])).replace("{closed}", str(free_port()))
    near = Filled(directory / "orders", 'schedulerSupport="true"', inside=inside)
    with far, near, ExitStack() as clients:
        near.base = near.web_address()
        _fill(near, clients, SHOPS[:shops])
        clients.enter_context(_consumer(far, "/queue/shop.berlin.invoices", login=False))
        _pipeline(near, clients)
        _tasks(near)
        clients.enter_context(neighbours(directory, near))
        bridge(near, "returns-to-refunds", "refunds")
        bridge(near, "returns-elsewhere", LONG)
        near.trace = trace(near, "shop.berlin.invoices", network=True)
        _sales(near, clients)
        yield near


def _logged_in(broker: Started, client_id: str, user: str = USER, password: str = PASSWORD) -> StompClient:
    client = StompClient(broker.ports["stomp"], login=False)
    client.send(f"CONNECT\naccept-version:1.2\nhost:x\nlogin:{user}\npasscode:{password}\nclient-id:{client_id}\n\n")
    assert client.receive().startswith("CONNECTED")
    return client


def _consumer(broker: Started, destination: str, *, login: bool = True, more: str = "") -> StompClient:
    name = f"worker-{destination.rpartition('/')[2]}"
    client = _logged_in(broker, name) if login else broker.stomp()
    client.send(f"SUBSCRIBE\nid:1\ndestination:{destination}\nack:client-individual\n{more}receipt:s\n\n")
    while "receipt-id:s" not in client.receive():
        pass
    return client


def _send(client: StompClient, destination: str, body: str, *headers: str) -> None:
    lines = "".join(f"{line}\n" for line in headers)
    client.transact(f"SEND\ndestination:{destination}\npersistent:true\nreceipt:r\n{lines}\n{body}", "r")


def _fill(broker: Started, clients: ExitStack, shops: tuple[str, ...]) -> None:
    producer = clients.enter_context(_logged_in(broker, "orders-service"))
    for place, shop in enumerate(shops):
        for number in range(1 + 7 * place):
            order = {"order": 1000 + number, "shop": shop, "items": [{"article": "A-17", "pieces": number % 4 + 1}],
                     "paid": number % 3 == 0}  # fmt: skip
            _send(producer, f"/queue/shop.{shop}.orders", json.dumps(order), f"region:{shop}", "type:order",
                  "content-type:application/json", f"JMSXGroupID:customer-{number % 3}")  # fmt: skip
        _send(producer, f"/queue/shop.{shop}.invoices", "<invoice/>", f"region:{shop}")
    for number in range(12):
        _send(producer, f"/queue/{LONG}", "replenish", f"priority:{number % 10}", f"correlation-id:req-{number}")
    _dead_letters(broker, producer)
    for number in range(3):
        _send(producer, "/queue/reports.nightly", "report", f"AMQ_SCHEDULED_DELAY:{3_600_000 * (number + 1)}")
    _send(producer, "/queue/reports.weekly", "report", "AMQ_SCHEDULED_CRON:0 6 * * 1")
    clients.enter_context(_consumer(broker, f"/queue/shop.{shops[0]}.orders", more="selector:region = 'berlin'\n"))
    clients.enter_context(_consumer(broker, f"/queue/shop.{shops[-1]}.orders", more="activemq.prefetchSize:5\n"))
    for name in ("prices-lyon", "prices-porto"):
        subscriber = _logged_in(broker, name)
        subscriber.send(
            "SUBSCRIBE\nid:1\ndestination:/topic/prices.eur\nactivemq.subscriptionName:prices\nreceipt:d\n"
            "selector:article LIKE 'A-%'\n\n"
        )
        subscriber.receive()
        if name.endswith("lyon"):
            subscriber.close()
        else:
            clients.enter_context(subscriber)
    for number in range(20):
        _send(producer, "/topic/prices.eur", f"{10 + number}.50", f"article:A-{number}")


def _sales(broker: Started, clients: ExitStack) -> None:
    """Messages that are followed to the other broker, and some that a bridge takes."""
    producer = clients.enter_context(_logged_in(broker, "tills-service"))
    for number in range(2):
        _send(producer, "/queue/shop.berlin.invoices", "<invoice/>", f"number:{number}")
        _send(producer, "/queue/returns", "a return")


def _dead_letters(broker: Started, producer: StompClient) -> None:
    for number in range(9):
        _send(producer, "/queue/shop.lyon.payments", f'{{"payment": {number}}}', f"attempt:{number}")
    with _consumer(broker, "/queue/shop.lyon.payments") as consumer:
        for _ in range(9):
            frame = consumer.receive()
            ack = next(line.partition(":")[2] for line in frame.split("\n") if line.startswith("ack:"))
            consumer.send(f"NACK\nid:{ack}\n\n")
        consumer.transact("UNSUBSCRIBE\nid:1\nreceipt:u\n\n", "u")
    for number in range(4):
        _send(producer, "/queue/shop.porto.offers", f"offer {number}", f"expires:{int(time.time() * 1000) + 300}")
    time.sleep(0.5)
    with _consumer(broker, "/queue/shop.porto.offers"):
        pass


def _pipeline(broker: Started, clients: ExitStack) -> None:
    """What a pipeline publishes, a cursor that holds messages, and a ledger of batches."""
    connection = clients.enter_context(blocking.connect(broker.broker_url, USER, PASSWORD))
    control = Control(connection)
    now = round(time.time() * 1000)
    routes = (
        RouteStatus("orders-to-lake", RUNNING, "queue://shop.tampere.orders", "parquet", "orders-1", 17, 18, 123_456,
                    1_500.0, 40, 321, 2_500, now),
        RouteStatus("prices-to-jdbc", RETRYING, "topic://prices.eur", "jdbc", "prices-1", 4, 4, 80, 0.0, 900, 12,
                    61_000, now, 3, "connection to db:5432 refused", now),
    )  # fmt: skip
    control.publish("nightly", "r1", encode(PipelineStatus("nightly", "r1", "spark-7", now, now, routes)))
    held = control.open_cursor("orders-1", "shop.tampere.orders", "r1")
    control.reserve("orders-1", held.epoch, 5)
    control.begin("lake", "r1", "queue://lake.done")


def _tasks(broker: Started) -> None:
    """A move that goes on slowly, and one that has ended."""
    client = ControlClient(broker.data, TIMEOUT_S)
    client.ask("copy", destinations=["queue://shop.lyon.orders"], target="copies.lyon", as_task=True)
    client.ask("move", destinations=["queue://shop.porto.orders"], target="shop.archive", as_task=True, rate=1)
