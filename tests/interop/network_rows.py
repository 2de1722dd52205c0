"""Rows of three brokers A - B - C with an ActiveMQ Classic at one place, over real sockets.

    rows = ClassicRows(directory)        # one Java process with the Classic of every row
    with rows.row(1, duplex=True) as row:
        row.a.stomp_port

Clients speak STOMP, so nothing of a broker's own client takes part in a count.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.support.announcing_process import AnnouncingProcess
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_command
from tests.support.ports import free_port
from tests.support.stomp_socket import StompSocket

PATIENCE_S: Final = 60.0
LIFETIME_S: Final = 300.0  # of a consumer, at most
NAMES: Final = ("A", "B", "C")
LINKS: Final = (("A", "B"), ("B", "C"))  # who opens a duplex link
STATIC: Final = "STAYS"
ROWS: Final = [(place, duplex) for duplex in (False, True) for place in range(3)]
CONNECTOR: Final = """\
      <networkConnector name="{name}" uri="static:(tcp://127.0.0.1:{port})?initialReconnectDelay=200&amp;maxReconnectDelay=1000"
        networkTTL="3" decreaseNetworkConsumerPriority="false" duplex="{duplex}">
        <staticallyIncludedDestinations><queue physicalName="{static}"/></staticallyIncludedDestinations>
      </networkConnector>
"""
CLASSIC: Final = """\
  <broker xmlns="http://activemq.apache.org/schema/core" id="{name}" brokerName="{name}" dataDirectory="{data}"
          useJmx="false">
{inside}    <persistenceAdapter><kahaDB directory="{data}/kahadb"/></persistenceAdapter>
    <transportConnectors>
      <transportConnector uri="tcp://127.0.0.1:{openwire}"/>
      <transportConnector uri="stomp://127.0.0.1:{stomp}"/>
    </transportConnectors>
  </broker>
"""
BEANS: Final = """\
<beans xmlns="http://www.springframework.org/schema/beans"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans
                           http://www.springframework.org/schema/beans/spring-beans.xsd
                           http://activemq.apache.org/schema/core
                           http://activemq.apache.org/schema/core/activemq-core.xsd">
{brokers}</beans>
"""
STARTED: Final = re.compile(r"\((\w+), .*\) started$")


@dataclass(frozen=True)
class Place:
    """Where one broker of a row listens."""

    stomp_port: int
    openwire_port: int


@dataclass(frozen=True)
class Row:
    """Three brokers that are linked, or are about to be."""

    a: Place
    b: Place
    c: Place

    def ends(self, backwards: bool) -> tuple[Place, Place]:
        """The first and the last broker."""
        return (self.c, self.a) if backwards else (self.a, self.c)


def connectors(name: str, ports: dict[str, int], duplex: bool) -> str:
    """The network connectors of the broker of this name."""
    far = [to for near, to in LINKS if near == name]
    if not duplex:
        far += [near for near, to in LINKS if to == name]
    if not far:
        return ""
    flag = "true" if duplex else "false"
    names = {to: f"{name}{to}{ports[to]}" for to in far}  # names are beans, and those of one process are distinct
    text = "".join(CONNECTOR.format(name=names[to], port=ports[to], duplex=flag, static=STATIC) for to in far)
    return f"    <networkConnectors>\n{text}    </networkConnectors>\n"


class ClassicRows:
    """All rows. Their Classic brokers live in one process, for a Java machine takes long to start."""

    def __init__(self, directory: Path) -> None:
        self._directory: Final = directory
        self._ports: Final = {row: {name: free_port() for name in NAMES} for row in ROWS}
        self._stomp: Final = {row: free_port() for row in ROWS}
        self._process: AnnouncingProcess | None = None
        self.log: Final[list[str]] = []

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        texts = []
        for row in ROWS:
            place, duplex = row
            name = f"Classic{NAMES[place]}{'duplex' if duplex else 'pairs'}"
            inside = connectors(NAMES[place], self._ports[row], duplex)
            texts.append(
                CLASSIC.format(
                    name=name,
                    data=self._directory / name,
                    inside=inside,
                    openwire=self._ports[row][NAMES[place]],
                    stomp=self._stomp[row],
                )
            )
        (self._directory / "activemq.xml").write_text(BEANS.format(brokers="".join(texts)), "utf-8")
        started: set[str] = set()

        def are_there(line: str) -> bool:
            if match := STARTED.search(line):
                started.add(match[1])
            return len(started) == len(ROWS)

        process = AnnouncingProcess(classic_command(self._directory), self._directory, self.log)
        process.wait_until(are_there, PATIENCE_S)
        self._process = process
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.end(signal.SIGKILL)

    @contextmanager
    def row(self, place: int, duplex: bool) -> Iterator[Row]:
        """A row with Classic at this place; the other two brokers live as long as it is used."""
        ports = self._ports[place, duplex]
        places: dict[str, Place] = {}
        brokers: dict[str, BrokerProcess] = {}
        with ExitStack() as stack:
            for number, name in enumerate(NAMES):
                if number == place:
                    places[name] = Place(self._stomp[place, duplex], ports[name])
                    continue
                broker = BrokerProcess(
                    spanwire_command(),
                    self._directory / f"{place}{duplex}{name}",
                    name=f"Spanwire{name}",
                    inside=connectors(name, ports, duplex),
                    openwire_port=ports[name],
                )
                stack.callback(broker.kill)
                brokers[name] = broker
            with ThreadPoolExecutor(len(brokers)) as pool:
                list(pool.map(BrokerProcess.start, brokers.values()))
            places.update({name: Place(one.stomp_port, one.openwire_port) for name, one in brokers.items()})
            yield Row(places["A"], places["B"], places["C"])


class Consumer(threading.Thread):
    """A STOMP consumer with a wide window, so that brokers take turns whatever is acknowledged; `texts` in the order in
    which they came. With a ``name`` its subscription is durable.
    """

    def __init__(self, place: Place, destination: str, *, name: str = "") -> None:
        super().__init__(daemon=True)
        self.texts: Final[list[str]] = []
        self._changed: Final = threading.Condition()
        self._socket: Final = StompSocket(place.stomp_port)
        self._socket.connect("1.1", **({"client_id": name} if name else {}))
        durable = f"activemq.subscriptionName:{name}\n" if name else ""
        self._socket.type(
            f"SUBSCRIBE\nid:1\nack:client-individual\nactivemq.prefetchSize:1000\n{durable}"
            f"destination:{destination}\nreceipt:s\n\n\0"
        )
        answer = self._socket.receive()
        while answer is not None and answer.command == "MESSAGE":  # what waited may be sooner
            self._take(answer.headers["message-id"], answer.body)
            answer = self._socket.receive()
        assert answer is not None and answer.command == "RECEIPT", answer
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.type("DISCONNECT\nreceipt:bye\n\n\0")
        self.join(PATIENCE_S)
        with self._socket:
            assert not self.is_alive()

    def run(self) -> None:
        while (frame := self._socket.receive(LIFETIME_S)) is not None and frame.command == "MESSAGE":
            self._take(frame.headers["message-id"], frame.body)

    def _take(self, message_id: str, body: bytes) -> None:
        self._socket.type(f"ACK\nsubscription:1\nmessage-id:{message_id}\n\n\0")
        with self._changed:
            self.texts.append(body.decode())
            self._changed.notify_all()

    def waits_for(self, count: int) -> None:
        """Until so many messages are here."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.texts) >= count, PATIENCE_S), f"{len(self.texts)} of {count}"

    def waits_for_text(self, text: str) -> None:
        """Until this one is here."""
        with self._changed:
            assert self._changed.wait_for(lambda: text in self.texts, PATIENCE_S), self.texts


def send(place: Place, destination: str, texts: list[str], *, persistent: bool = True) -> None:
    """Sends with receipts; all are granted when it returns."""
    with StompSocket(place.stomp_port) as socket:
        socket.connect("1.1")
        for text in texts:
            flag = "true" if persistent else "false"
            socket.type(f"SEND\ndestination:{destination}\npersistent:{flag}\nreceipt:{text}\n\n{text}\0")
        for _ in texts:
            answer = socket.receive()
            assert answer is not None and answer.command == "RECEIPT", answer
