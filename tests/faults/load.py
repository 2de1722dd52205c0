"""Mixed persistent load on a broker that may die: OpenWire and STOMP, plain and in transactions, with acknowledgements.

    load = MixedLoad(ledger, "r1")
    load.start(openwire_port, stomp_port)
    … the broker is killed, stopped or stalled …
    load.end()                                  # the clients leave, if they are still there
    drain(ledger, stomp_port, "d1")             # what is left, until the queues are silent

Everything the clients do and are told goes into the `Ledger`, in the order of time. A client ends when its broker is
gone; whatever was not answered then may have happened or not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Final

from spanwire.client.blocking import Connection, connect
from spanwire.model.errors import SpanwireError
from tests.support.stomp_socket import StompFrame, StompSocket
from tests.support.total_queue import (
    ACKNOWLEDGED,
    ATTEMPTED,
    DELIVERED,
    GRANTED,
    SETTLED,
    Event,
    Ledger,
    Verdict,
    check,
)

ORDERED: Final = "FAULTS.ORDERED"  # one consumer at a time
SHARED: Final = "FAULTS.SHARED"  # several consumers of both protocols
INPUT: Final = "FAULTS.INPUT"  # transactions take from it …
OUTPUT: Final = "FAULTS.OUTPUT"  # … and put here
DEAD: Final = "ActiveMQ.DLQ"
QUEUES: Final = (ORDERED, SHARED, INPUT, OUTPUT)
WINDOW: Final = 8  # STOMP sends and acknowledgements without a receipt yet
UNIT: Final = 3  # messages of a transaction
RECEIVE_S: Final = 0.2  # a consumer looks up that often
LAST: Final = "nothing follows"  # the last message of a queue that is drained
PATIENCE_S: Final = 60.0  # an answer may be withheld for long, by a full disk or a stopped broker
LOOK_S: Final = 0.03
LEAVE_S: Final = 60.0
BODY: Final = "." * 300
FAREWELL: Final = "cannot be written"  # what a broker says whose disk has failed


class BrokerGoneError(Exception):
    """The broker closed the connection, or is not there."""


class Client(threading.Thread):
    """One client's life; `work` is called again and again until `leave`, or until the broker is gone."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.ledger: Final = ledger
        self.rounds = 0
        self.fault: BaseException | None = None  # what no dying broker explains
        self._leaving = threading.Event()
        self._numbers: Final = count(1)

    def leave(self) -> None:
        """Go after what is under way."""
        self._leaving.set()

    def run(self) -> None:
        try:
            while not self._leaving.is_set():
                self.work()
                self.rounds += 1
            self.farewell()
        except TimeoutError as error:
            self.fault = error
        except (SpanwireError, OSError, BrokerGoneError):
            return  # the broker is gone
        except BaseException as error:
            self.fault = error
        finally:
            self.close()

    def work(self) -> None:
        """One round."""
        raise AssertionError("a client does something")

    def farewell(self) -> None:
        """The last words of a client that leaves while its broker is there."""

    def close(self) -> None:
        """Let go of the connection."""

    def _next(self, queue: str, unit: str = "") -> str:
        """The text of the next message, written down as attempted."""
        number = next(self._numbers)
        message = f"{self.name}-{number}"
        self.ledger.attempted(queue, self.name, number, message, unit=unit)
        return message


def text_of(body: object) -> str:
    """What the ledger knows of a body."""
    assert isinstance(body, str), body
    return body.rstrip(".")


class OpenWireClient(Client):
    """One connection of our own client, without failover."""

    def __init__(self, ledger: Ledger, name: str, port: int) -> None:
        super().__init__(ledger, name)
        self._connection: Final[Connection] = connect(f"tcp://127.0.0.1:{port}")

    def close(self) -> None:
        try:
            self._connection.close()
        except (SpanwireError, OSError):
            return


class OpenWireProducer(OpenWireClient):
    """Sends and waits for each answer, to one queue after the other."""

    def __init__(self, ledger: Ledger, name: str, port: int) -> None:
        super().__init__(ledger, name, port)
        session = self._connection.session()
        self._producers: Final = [(queue, session.create_producer(queue)) for queue in (ORDERED, INPUT, SHARED)]

    def work(self) -> None:
        for queue, producer in self._producers:
            message = self._next(queue)
            producer.send(message + BODY)
            self.ledger.granted(message)


class OpenWireTransactor(OpenWireClient):
    """Takes from one queue and puts into another, all or nothing; every fifth time nothing."""

    def __init__(self, ledger: Ledger, name: str, port: int) -> None:
        super().__init__(ledger, name, port)
        self._session: Final = self._connection.session("transacted")
        self._consumer: Final = self._session.create_consumer(INPUT, prefetch=20)
        self._producer: Final = self._session.create_producer(OUTPUT)

    def work(self) -> None:
        unit = f"{self.name}-unit-{self.rounds}"
        taken: list[str] = []
        while len(taken) < UNIT and (message := self._consumer.receive(RECEIVE_S)) is not None:
            taken.append(text_of(message.body))
            self.ledger.delivered(taken[-1], self.name, message.redelivered)
        commits = self.rounds % 5 != 4
        sent = [self._next(OUTPUT, unit) for _ in range(UNIT)]
        for text in sent:
            self._producer.send(text + BODY)
        if not commits:
            self._session.rollback()
            return
        for text in taken:
            self.ledger.acknowledged(text)
        self._session.commit()
        for text in sent:
            self.ledger.granted(text)
        for text in taken:
            self.ledger.settled(text)


class OpenWireConsumer(OpenWireClient):
    """Acknowledges three of four messages; nobody tells it that the broker has taken that."""

    def __init__(self, ledger: Ledger, name: str, port: int) -> None:
        super().__init__(ledger, name, port)
        self._consumer: Final = self._connection.session("individual").create_consumer(SHARED, prefetch=50)
        self._count = 0

    def work(self) -> None:
        message = self._consumer.receive(RECEIVE_S)
        if message is None:
            return
        text = text_of(message.body)
        self.ledger.delivered(text, self.name, message.redelivered)
        self._count += 1
        if self._count % 4:
            self.ledger.acknowledged(text)
            message.acknowledge()


class StompClient(Client):
    """One STOMP 1.2 connection."""

    def __init__(self, ledger: Ledger, name: str, port: int) -> None:
        super().__init__(ledger, name)
        self._socket: Final = StompSocket(port)
        self._socket.type("CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        assert self._receive().command == "CONNECTED"

    def close(self) -> None:
        self._socket.__exit__()

    def _receive(self, timeout_s: float = PATIENCE_S) -> StompFrame:
        frame = self._socket.receive(timeout_s)
        if frame is None or (frame.command == "ERROR" and FAREWELL in frame.headers["message"]):
            raise BrokerGoneError
        return frame

    def _receipts(self, wanted: int) -> list[str]:
        found: list[str] = []
        while len(found) < wanted:
            frame = self._receive()
            assert frame.command == "RECEIPT", frame
            found.append(frame.headers["receipt-id"])
        return found


class StompProducer(StompClient):
    """Sends a window of messages, then waits for their receipts; every third window is a transaction, if wanted."""

    def __init__(self, ledger: Ledger, name: str, port: int, transacts: bool = True) -> None:
        super().__init__(ledger, name, port)
        self._transacts: Final = transacts

    def work(self) -> None:
        queue = (SHARED, ORDERED, OUTPUT)[self.rounds % 3]
        if self.rounds % 3 == 2 and self._transacts:
            self._transact(queue)
            return
        messages = [self._next(queue) for _ in range(WINDOW)]
        self._socket.type("".join(self._frame(queue, message, f"receipt:{message}\n") for message in messages))
        for message in self._receipts(WINDOW):
            self.ledger.granted(message)

    def _transact(self, queue: str) -> None:
        name = f"{self.name}-unit-{self.rounds}"
        messages = [self._next(queue, name) for _ in range(UNIT)]
        frames = [self._frame(queue, message, f"transaction:{name}\n") for message in messages]
        end = f"COMMIT\ntransaction:{name}\nreceipt:{name}\n\n\0"
        self._socket.type(f"BEGIN\ntransaction:{name}\n\n\0" + "".join(frames) + end)
        assert self._receipts(1) == [name]
        for message in messages:
            self.ledger.granted(message)

    @staticmethod
    def _frame(queue: str, message: str, header: str) -> str:
        return f"SEND\ndestination:/queue/{queue}\npersistent:true\n{header}\n{message}{BODY}\0"


class StompConsumer(StompClient):
    """Acknowledges two of three messages, each with a receipt."""

    def __init__(self, ledger: Ledger, name: str, port: int, queue: str, every: int = 3) -> None:
        super().__init__(ledger, name, port)
        self._every: Final = every
        self.taken = 0
        self._waiting = 0
        self._socket.type(
            f"SUBSCRIBE\nid:s\ndestination:/queue/{queue}\nack:client-individual\nactivemq.prefetchSize:100\n\n\0"
        )

    def work(self) -> None:
        try:
            frame = self._receive(RECEIVE_S)
        except TimeoutError:
            return
        self._take(frame)

    def farewell(self) -> None:
        """Every acknowledgement has its receipt before it leaves."""
        while self._waiting:
            self._take(self._receive(), leaving=True)

    def _take(self, frame: StompFrame, leaving: bool = False) -> None:
        if frame.command == "RECEIPT":
            self._waiting -= 1
            self.ledger.settled(frame.headers["receipt-id"])
            return
        assert frame.command == "MESSAGE", frame
        message = text_of(frame.body.decode())
        self.ledger.delivered(message, self.name, frame.headers.get("redelivered") == "true")
        self.taken += 1
        if self.taken % self._every or self._every == 1:
            if leaving:
                return
            self._waiting += 1
            self.ledger.acknowledged(message)
            self._socket.type(f"ACK\nid:{frame.headers['ack']}\nreceipt:{message}\n\n\0")


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that is going to be so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain: {what}")
        threading.Event().wait(LOOK_S)


class MixedLoad:
    """All kinds of clients at once. Without ``transacts`` nobody uses transactions: a full disk refuses them."""

    def __init__(self, ledger: Ledger, name: str, transacts: bool = True) -> None:
        self._ledger: Final = ledger
        self._transacts: Final = transacts
        self._name: Final = name
        self.clients: list[Client] = []

    def start(self, openwire_port: int, stomp_port: int) -> None:
        """Connect all and let them go. `BrokerGone` when one cannot connect; those before it are at work."""
        ledger, name = self._ledger, self._name
        kinds: list[Callable[[], Client]] = [
            lambda: StompConsumer(ledger, f"{name}.sc", stomp_port, SHARED),
            lambda: StompConsumer(ledger, f"{name}.so", stomp_port, ORDERED),
            lambda: OpenWireConsumer(ledger, f"{name}.oc", openwire_port),
            lambda: OpenWireProducer(ledger, f"{name}.op", openwire_port),
            lambda: StompProducer(ledger, f"{name}.sp", stomp_port, self._transacts),
        ]
        if self._transacts:
            kinds.append(lambda: OpenWireTransactor(ledger, f"{name}.ot", openwire_port))
        for connected in kinds:
            try:
                client = connected()
            except (SpanwireError, OSError) as error:
                raise BrokerGoneError(str(error)) from error
            self.clients.append(client)
            client.start()

    @property
    def rounds(self) -> int:
        """What all clients did."""
        return sum(client.rounds for client in self.clients)

    def end(self) -> None:
        """Return when every client is gone; raises what no dying broker explains."""
        for client in self.clients:
            client.leave()
        for client in self.clients:
            client.join(LEAVE_S)
            if client.is_alive():
                raise AssertionError(f"{client.name} does not end")
            if client.fault is not None:
                raise AssertionError(f"{client.name}: {client.fault!r}") from client.fault


def drain(ledger: Ledger, stomp_port: int, name: str) -> int:
    """Take everything that is left of all queues, acknowledged with receipts; how much it was. A message that was
    rolled back too often is found among the dead letters.
    """
    before = sum(event.kind == "delivered" for event in ledger.events)
    for queue in QUEUES:
        consumer = Drainer(ledger, f"{name}.{queue}", stomp_port, queue)
        consumer.run()
        if consumer.fault is not None:
            raise AssertionError(f"{consumer.name}: {consumer.fault!r}") from consumer.fault
    graves = Ledger()
    digger = Drainer(graves, f"{name}.dead", stomp_port, DEAD)
    digger.run()
    if digger.fault is not None:
        raise AssertionError(f"{digger.name}: {digger.fault!r}") from digger.fault
    for event in graves.events:
        if event.kind == DELIVERED:
            ledger.buried(event.message)
    return sum(event.kind == "delivered" for event in ledger.events) - before


class Drainer(StompConsumer):
    """Acknowledges everything and leaves at the end of the queue, told by a last message that it sends behind all."""

    def __init__(self, ledger: Ledger, name: str, port: int, queue: str) -> None:
        super().__init__(ledger, name, port, queue, every=1)
        self._socket.type(f"SEND\ndestination:/queue/{queue}\n\n{LAST}\0")

    def work(self) -> None:
        frame = self._receive()
        if frame.command == "MESSAGE" and frame.body.decode() == LAST:
            self._socket.type(f"ACK\nid:{frame.headers['ack']}\n\n\0")
            self.leave()
            return
        self._take(frame)


def verdict_of(ledger: Ledger) -> Verdict:
    """The count, with order where it is promised."""
    return check(ledger, ordered=(ORDERED,))


def planted_faults(ledger: Ledger) -> dict[str, Ledger]:
    """The same history with one fault each, by the name under which the count must find it."""
    sent = {event.message: event for event in ledger.events if event.kind == ATTEMPTED}
    granted = [event.message for event in ledger.events if event.kind == GRANTED]
    kept = set(granted)
    settled = next(event.message for event in ledger.events if event.kind == SETTLED and event.message in kept)
    ghost = Event(DELIVERED, "ghost", "", "nobody")
    again = Event(DELIVERED, settled, "", "nobody", 0, True)
    one, other = _neighbours([event for event in sent.values() if event.queue == ORDERED])
    backwards = [Event(DELIVERED, other, "", "nobody", 0, False), Event(DELIVERED, one, "", "nobody", 0, False)]
    torn = next(message for message in granted if sent[message].unit)
    taken = (DELIVERED, ACKNOWLEDGED, SETTLED)
    return {
        "lost": _with([event for event in ledger.events if event.message != settled or event.kind not in taken]),
        "invented": _with([*ledger.events, ghost]),
        "doubled": _with([*ledger.events, again]),
        "reordered": _with([*ledger.events, *backwards]),
        "torn": _with([event for event in ledger.events if event.message != torn or event.kind == ATTEMPTED]),
    }


def _neighbours(events: list[Event]) -> tuple[str, str]:
    """Two messages of one producer in their order. A short load on a slow machine may leave some producers with one."""
    seen: dict[str, str] = {}
    for event in events:
        if event.who in seen:
            return seen[event.who], event.message
        seen[event.who] = event.message
    raise AssertionError("no producer sent two messages: the load was too short to prove anything")


def _with(events: list[Event]) -> Ledger:
    changed = Ledger()
    changed.events = events
    return changed
