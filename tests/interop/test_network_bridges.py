"""One-way network connectors with real sockets: Spanwire to Classic, Classic to Spanwire, Spanwire to Spanwire.

Producers and consumers speak STOMP, so nothing of a broker's own client takes part in the count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.peers import require
from tests.support.stomp_socket import StompFrame, StompSocket

PATIENCE_S = 60.0
PAIRS = [("spanwire", "classic"), ("classic", "spanwire"), ("spanwire", "spanwire")]
FEW_PAIRS = [pytest.param(*PAIRS[0], marks=pytest.mark.long), *PAIRS[1:]]
CONNECTOR = """\
    <networkConnectors>
      <networkConnector name="{name}" uri="static:(tcp://127.0.0.1:{port})?initialReconnectDelay=200&amp;maxReconnectDelay=1000"{more}/>
    </networkConnectors>
"""

Start = Callable[..., BrokerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts brokers of either kind, with a network connector to another one where asked."""
    with ExitStack() as stack:

        def started(kind: str, name: str, to: BrokerProcess | None = None, more: str = "") -> BrokerProcess:
            inside = "" if to is None else CONNECTOR.format(name=f"to-{to.name}", port=to.openwire_port, more=more)
            if kind == "classic":
                require("activemq-broker")
                broker = classic_broker(tmp_path / name, name=name, inside=inside)
            else:
                broker = BrokerProcess(spanwire_command(), tmp_path / name, name=name, inside=inside)
            return stack.enter_context(broker)

        yield started


class Counter(threading.Thread):
    """A STOMP consumer that acknowledges each message by itself and comes back when its broker was away."""

    def __init__(self, port: int, queue: str) -> None:
        super().__init__(daemon=True)
        self.received: list[StompFrame] = []
        self.texts: dict[str, int] = {}
        self.unflagged: list[str] = []
        self.ready = threading.Event()
        self.ended = threading.Event()
        self._changed = threading.Condition()
        self._port = port
        self._queue = queue
        self.start()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                self._consume()
            except (OSError, AssertionError):  # a login that the end of the broker cut off
                time.sleep(0.1)

    def _consume(self) -> None:
        with StompSocket(self._port) as socket:
            socket.connect("1.1")
            socket.type(f"SUBSCRIBE\nid:1\nack:client-individual\ndestination:{self._queue}\nreceipt:s\n\n\0")
            while not self.ended.is_set():
                try:
                    frame = socket.receive(1.0)
                except TimeoutError:
                    continue
                if frame is None:
                    return
                if frame.command == "RECEIPT":
                    self.ready.set()
                elif frame.command == "MESSAGE":
                    self._take(frame)
                    socket.type(f"ACK\nsubscription:1\nmessage-id:{frame.headers['message-id']}\n\n\0")

    def _take(self, frame: StompFrame) -> None:
        text = frame.body.decode()
        with self._changed:
            if self.texts.get(text, 0) and frame.headers.get("redelivered") != "true":
                self.unflagged.append(text)
            self.texts[text] = self.texts.get(text, 0) + 1
            self.received.append(frame)
            self._changed.notify_all()

    def waits_for(self, count: int) -> None:
        """Until ``count`` different messages are here."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.texts) >= count, PATIENCE_S), f"{len(self.texts)} of {count}"

    def waits_for_all(self, expected: set[str]) -> None:
        """Until all these messages are here."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: expected <= self.texts.keys(), PATIENCE_S)
            assert arrived, f"{len(expected - self.texts.keys())} of {len(expected)} are missing"

    def waits_for_text(self, text: str, count: int) -> None:
        """Until this message was here that often."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.texts.get(text, 0) >= count, PATIENCE_S), dict(self.texts)


def send(port: int, destination: str, texts: list[str], *, persistent: bool = True) -> None:
    """Sends with receipts; all are granted when it returns."""
    with StompSocket(port) as socket:
        socket.connect("1.1")
        for text in texts:
            flag = "true" if persistent else "false"
            socket.type(f"SEND\ndestination:{destination}\npersistent:{flag}\nreceipt:{text}\n\n{text}\0")
        for _ in texts:
            answer = socket.receive()
            assert answer is not None and answer.command == "RECEIPT", answer


CHAINS = [("spanwire", "classic", "spanwire"), pytest.param(("classic", "spanwire", "classic"), marks=pytest.mark.long)]


@pytest.mark.parametrize(("near", "far"), [PAIRS[0], pytest.param(*PAIRS[1], marks=pytest.mark.smoke), PAIRS[2]])
def test_a_message_goes_where_its_consumer_is(start: Start, near: str, far: str) -> None:
    b = start(far, "brokerB")
    counter = Counter(b.stomp_port, "/queue/NET.Q")
    assert counter.ready.wait(PATIENCE_S)
    a = start(near, "brokerA", b)
    texts = [f"m{number}" for number in range(50)]
    send(a.stomp_port, "/queue/NET.Q", texts)
    counter.waits_for(50)
    assert [frame.body.decode() for frame in counter.received] == texts
    counter.ended.set()


@pytest.mark.parametrize("kinds", CHAINS)
def test_demand_and_messages_travel_two_hops_through_brokers_of_both_kinds(
    start: Start, kinds: tuple[str, str, str]
) -> None:
    c = start(kinds[2], "brokerC")
    b = start(kinds[1], "brokerB", c, ' networkTTL="2"')
    a = start(kinds[0], "brokerA", b, ' networkTTL="2"')
    texts = [f"m{number}" for number in range(10)]
    send(a.stomp_port, "/queue/FAR", texts)
    counter = Counter(c.stomp_port, "/queue/FAR")
    counter.waits_for(10)
    assert [frame.body.decode() for frame in counter.received] == texts
    counter.ended.set()


@pytest.mark.parametrize("kinds", CHAINS)
def test_a_message_goes_no_farther_than_its_ttl(start: Start, kinds: tuple[str, str, str]) -> None:
    c = start(kinds[2], "brokerC")
    b = start(kinds[1], "brokerB", c, ' messageTTL="1" consumerTTL="2"')
    a = start(kinds[0], "brokerA", b, ' messageTTL="1" consumerTTL="2"')
    far = Counter(c.stomp_port, "/queue/FAR")
    assert far.ready.wait(PATIENCE_S)
    near = Counter(b.stomp_port, "/queue/END")
    assert near.ready.wait(PATIENCE_S)
    send(a.stomp_port, "/queue/FAR", ["too far"])
    send(a.stomp_port, "/queue/END", ["last"])
    near.waits_for(1)
    assert far.texts == {}
    far.ended.set()
    near.ended.set()


@pytest.mark.parametrize(("near", "far"), PAIRS)
@pytest.mark.parametrize("conduit", [pytest.param("true", marks=pytest.mark.long), "false"])
def test_topic_messages_come_once_unless_there_is_no_conduit_and_no_audit(
    start: Start, near: str, far: str, conduit: str
) -> None:
    copies = 2 if conduit == "false" and far == "classic" else 1  # our broker knows the second copy by its id
    b = start(far, "brokerB")
    counters = [Counter(b.stomp_port, "/topic/t") for _ in range(2)]
    for counter in counters:
        assert counter.ready.wait(PATIENCE_S)
    a = start(near, "brokerA", b, f' conduitSubscriptions="{conduit}"')
    deadline = time.monotonic() + PATIENCE_S
    number = 0
    # A topic keeps nothing: until all the demand is there, nothing crosses, or less than all copies of it.
    while any(copies not in counter.texts.values() for counter in counters):
        assert time.monotonic() < deadline, [counter.texts for counter in counters]
        number += 1
        send(a.stomp_port, "/topic/t", [f"try-{number}"])
        time.sleep(0.2)
    send(a.stomp_port, "/topic/t", ["counted"])
    send(a.stomp_port, "/topic/t", ["last"])
    for counter in counters:
        counter.waits_for_text("last", copies)
        assert counter.texts["counted"] == copies
        counter.ended.set()


class Sender(threading.Thread):
    """Sends persistent messages one after the other until told to stop or its broker is gone; so many at most, as what
    waits for a broker that starts slowly would else grow with the time that it takes.
    """

    def __init__(self, port: int, destination: str, prefix: str) -> None:
        super().__init__(daemon=True)
        self.granted: list[str] = []
        self.ended = threading.Event()
        self._port = port
        self._destination = destination
        self._prefix = prefix
        self.start()

    def run(self) -> None:
        try:
            with StompSocket(self._port) as socket:
                socket.connect("1.1")
                number = 0
                while not self.ended.is_set() and number < MOST:
                    number = self._send_window(socket, number)
        except (OSError, TimeoutError):
            return

    def _send_window(self, socket: StompSocket, number: int) -> int:
        texts = [f"{self._prefix}-{number + place}" for place in range(WINDOW)]
        for text in texts:
            head = f"SEND\ndestination:{self._destination}\npersistent:true\nreceipt:{text}"
            socket.type(f"{head}\n\n{text}\0")
        for _ in texts:
            answer = socket.receive()
            if answer is None:
                raise OSError("the broker is gone")
            self.granted.append(answer.headers["receipt-id"])
        return number + WINDOW


WINDOW = 20
BEFORE_THE_KILL = 300
MOST = 3_000


@pytest.mark.parametrize("victim", [pytest.param("near", marks=pytest.mark.long), "far"])
@pytest.mark.parametrize(("near", "far"), FEW_PAIRS)
def test_when_either_broker_is_killed_all_that_was_granted_arrives(
    start: Start, near: str, far: str, victim: str
) -> None:
    b = start(far, "brokerB")
    counter = Counter(b.stomp_port, "/queue/KILLED")
    assert counter.ready.wait(PATIENCE_S)
    a = start(near, "brokerA", b)
    sender = Sender(a.stomp_port, "/queue/KILLED", "one")
    counter.waits_for(BEFORE_THE_KILL)
    killed = a if victim == "near" else b
    killed.kill()
    killed.start()
    sender.ended.set()
    sender.join(PATIENCE_S)
    later = [f"later-{number}" for number in range(20)]
    send(a.stomp_port, "/queue/KILLED", later)
    expected = {*sender.granted, *later}
    counter.waits_for_all(expected)
    if "classic" not in (near, far):  # Classic forgets after its own crash what it had dispatched before
        assert counter.unflagged == []
    counter.ended.set()
