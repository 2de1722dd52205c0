"""Clients in Python with ``spanwire.client``: one that sends, one that takes, one that reads what Spark has sent."""

from __future__ import annotations

from prices import ARCHIVE, TRADES, WINDOWS, Trade
from stage import RECONNECT_SECONDS, SILENCE_SECONDS, Address, Pace, Stage, Trader
from windows import ReceivedWindows

from spanwire.client import aio, blocking
from spanwire.client.messages.message import Message

TRANSACTION = 25  # messages that are sent together or not at all
MAX_HELD = 100  # messages acknowledged together
END_SECONDS = 2.0  # without a message: the queue is empty


def failover(address: Address) -> str:
    """A URL whose connection is made again when the broker is back."""
    return f"failover:({address.url})?initialReconnectDelay=100&maxReconnectDelay=500"


class PythonSender(Trader):
    """Sends in transactions: the answer to a commit says that the broker has all of it."""

    def __init__(self, stage: Stage, orders: list[Trade]) -> None:
        super().__init__(stage, f"Python sender {orders[0].producer}")
        self._orders = orders

    def trade(self) -> None:
        """Send everything."""
        pace = Pace()
        sent = 0
        url = failover(self.stage.near)
        with blocking.connect(url) as connection, connection.session("transacted") as session:
            producer = session.create_producer()
            while sent < len(self._orders):
                batch = self._orders[sent : sent + min(TRANSACTION, pace.allows(sent))]
                for order in batch:
                    producer.send(order.price, order.properties(), ",".join(f"queue://{name}" for name in order.queues))
                session.commit()
                for order in batch:
                    self.stage.ledger.send_answered(order.key)
                sent += len(batch)
                self.stage.finished.wait(RECONNECT_SECONDS)


class PythonReceiver(Trader):
    """Takes trades and acknowledges them in groups; holds them unacknowledged while told to.

    It never notices that the broker was gone: what it acknowledges too late comes again, flagged as redelivered.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, "Python receiver")

    def trade(self) -> None:
        """Receive until everybody is finished."""
        stage = self.stage
        held: list[Message] = []
        with blocking.connect(failover(stage.far)) as connection, connection.session("client") as session:
            consumer = session.create_consumer(f"queue://{TRADES}")
            while not stage.finished.is_set():
                message = consumer.receive(SILENCE_SECONDS)
                if message is not None:
                    held.append(message)
                if held and not stage.hold.is_set() and (message is None or len(held) >= MAX_HELD):
                    for taken in held:
                        self._book(taken)
                    held[-1].acknowledge()
                    held.clear()
                self.in_flight = len(held)

    def _book(self, message: Message) -> None:
        self.stage.ledger.delivered("Python", str(message.properties["key"]), str(message.body), message.redelivered)


async def read_windows(address: Address) -> ReceivedWindows:
    """Take all that Spark has sent."""
    found = ReceivedWindows()
    async with aio.connect(address.url) as connection, connection.session() as session:
        consumer = await session.create_consumer(f"queue://{WINDOWS}")
        while (message := await consumer.receive(timeout=END_SECONDS)) is not None:
            found.add(str(message.body), int(str(message.properties["batch"])))
    return found


def left_in_archive(address: Address) -> list[str]:
    """The keys of what still lies in the archive's queue; looking takes nothing."""
    with blocking.connect(address.url) as connection, connection.session() as session:
        return [str(message.properties["key"]) for message in session.create_browser(f"queue://{ARCHIVE}")]
