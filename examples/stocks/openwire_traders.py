"""OpenWire clients in Python: one that sends trades, one that takes them."""

from __future__ import annotations

import time

from prices import Trade
from stage import RECONNECT_SECONDS, Stage, Trader

from spanwire.client import blocking
from spanwire.client.message import Message
from spanwire.model.errors import JmsError

PREFETCH = 1_000  # messages the broker may send ahead of the acknowledgements
SILENCE_SECONDS = 0.05  # how long a receive waits before the trader looks around
MAX_HELD = 100  # messages acknowledged together


def _open(stage: Stage) -> blocking.Connection:
    return blocking.connect(f"tcp://127.0.0.1:{stage.openwire_port}")


class OpenWireSender(Trader):
    """Sends trades persistently; each send returns once the broker has answered, and is made again if it did not."""

    def __init__(self, stage: Stage, trades: list[Trade]) -> None:
        super().__init__(stage, f"OpenWire sender of {trades[0].symbol}")
        self._trades = trades
        self._next = 0

    def trade(self) -> None:
        """Send until every trade is answered, over as many connections as it takes."""
        while self._next < len(self._trades):
            try:
                with _open(self.stage) as connection:
                    self._session(connection)
            except JmsError:
                if self.unanswered:
                    self.stage.ledger.send_repeated(self._trades[self._next].key)
                time.sleep(RECONNECT_SECONDS)

    def _session(self, connection: blocking.Connection) -> None:
        session = connection.session()
        to_queue = session.create_producer(f"queue://{self._trades[0].queue}")
        to_topic = session.create_producer(f"topic://{self._trades[0].topic}")
        while self._next < len(self._trades):
            trade = self._trades[self._next]
            to_topic.send(trade.price, _properties(trade), persistent=False)
            self.stage.ledger.published(trade.symbol)
            self.unanswered = 1
            to_queue.send(trade.price, _properties(trade))
            self.unanswered = 0
            self.stage.ledger.send_answered(trade.key)
            self._next += 1


class OpenWireReceiver(Trader):
    """Takes the trades of one queue and acknowledges them; holds them unacknowledged while told to."""

    def __init__(self, stage: Stage, queue: str) -> None:
        super().__init__(stage, f"OpenWire receiver of {queue}")
        self._queue = queue

    def trade(self) -> None:
        """Receive until everybody is finished."""
        while not self.stage.finished.is_set():
            try:
                with _open(self.stage) as connection:
                    self._session(connection)
            except JmsError:
                self.in_flight = 0
                time.sleep(RECONNECT_SECONDS)

    def _session(self, connection: blocking.Connection) -> None:
        consumer = connection.session("client").create_consumer(f"queue://{self._queue}", prefetch=PREFETCH)
        held: list[Message] = []
        while not self.stage.finished.is_set():
            message = consumer.receive(SILENCE_SECONDS)
            if message is not None:
                held.append(message)
            self.in_flight = len(held)
            if held and not self.stage.hold.is_set() and (message is None or len(held) >= MAX_HELD):
                for taken in held:
                    self._book(taken)
                held[-1].acknowledge()
                held = []

    def _book(self, message: Message) -> None:
        self.stage.ledger.delivered(str(message.properties["key"]), str(message.body), message.redelivered)


def _properties(trade: Trade) -> dict[str, object]:
    return {"key": trade.key, "symbol": trade.symbol, "date": trade.date, "round": trade.round}
