"""OpenWire clients in Python: one that sends trades, one that takes them."""

from __future__ import annotations

import time

from prices import Trade
from stage import RECONNECT_SECONDS, Stage, Trader

from spanwire.client.blocking import BlockingConnection, Credentials, wall_ms
from spanwire.client.session import Producer, body_of
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message_view import INT_VALUE, STRING_VALUE
from spanwire.protocols.openwire import _marshallers as wire
from spanwire.protocols.openwire.primitive_map import decode_plain_map, encode_map

PREFETCH = 1_000  # messages the broker may send ahead of the acknowledgements
SILENCE_SECONDS = 0.05  # how long a receive waits before the trader looks around
MAX_HELD = 100  # messages acknowledged together


def _open(stage: Stage) -> BlockingConnection:
    return BlockingConnection.open("127.0.0.1", stage.openwire_port, Credentials())


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
            except (JmsError, ProtocolError):
                if self.unanswered:
                    self.stage.ledger.send_repeated(self._trades[self._next].key)
                time.sleep(RECONNECT_SECONDS)

    def _session(self, connection: BlockingConnection) -> None:
        to_queue = connection.producer(Destination(QUEUE, self._trades[0].queue))
        to_topic = connection.producer(Destination(TOPIC, self._trades[0].topic))
        while self._next < len(self._trades):
            trade = self._trades[self._next]
            connection.send(_message(to_topic, trade, persistent=False))
            self.stage.ledger.published(trade.symbol)
            self.unanswered = 1
            connection.send(_message(to_queue, trade, persistent=True), wait=True)
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
            except (JmsError, ProtocolError):
                self.in_flight = 0
                time.sleep(RECONNECT_SECONDS)

    def _session(self, connection: BlockingConnection) -> None:
        consumer = connection.consumer(Destination(QUEUE, self._queue), PREFETCH)
        held: list[wire.MessageDispatch] = []
        while not self.stage.finished.is_set():
            dispatch = connection.receive(SILENCE_SECONDS)
            if dispatch is not None:
                held.append(dispatch)
            self.in_flight = len(held)
            if held and not self.stage.hold.is_set() and (dispatch is None or len(held) >= MAX_HELD):
                for taken in held:
                    self._book(taken)
                connection.send(consumer.acknowledgement(held[0], held[-1], len(held)))
                held = []

    def _book(self, dispatch: wire.MessageDispatch) -> None:
        message = dispatch.message
        assert message is not None
        properties = decode_plain_map(message.marshalled_properties or b"")
        self.stage.ledger.delivered(str(properties["key"]), str(body_of(message)), dispatch.redelivery_counter > 0)


def _message(producer: Producer, trade: Trade, persistent: bool) -> wire.Message:
    message = producer.message(trade.price, persistent, wall_ms())
    message.marshalled_properties = encode_map(
        {
            "key": (STRING_VALUE, trade.key),
            "symbol": (STRING_VALUE, trade.symbol),
            "date": (STRING_VALUE, trade.date),
            "round": (INT_VALUE, trade.round),
        }
    )
    return message
