"""Several brokers of one test, linked by network connectors.

    with Network("A->B->C", networkTTL="2") as network:
        network["A"].url, network["C"].queue("ORDERS").pending

``A->B`` gives A a network connector to B: messages flow from A to consumers at B. ``A<->B`` links in both directions.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from xml.sax.saxutils import quoteattr

from spanwire.model.errors import ConfigurationError, SpanwireError
from spanwire.testing.broker import Broker
from spanwire.testing.clock import VirtualClock
from spanwire.testing.configuration import LOOPBACK
from spanwire.testing.queue import wait_until
from spanwire.testing.wire import Wire

MAX_BROKERS: Final = 64  # brokers of one network; each needs a thread and two sockets
LINK_TIMEOUT: Final = 20.0  # seconds until all links are up
RECONNECT: Final = "initialReconnectDelay=50&maxReconnectDelay=500"  # links come back soon after a restart
RUNNING: Final = "running"  # state of a link that is up
NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,60}")
ARROW: Final = re.compile(r"(<->|->)")

Link = tuple[str, str]


class Network:
    """Linked brokers by name, with messages in memory unless there is a ``directory``.

    ``attributes`` are attributes of each ``networkConnector``, with ActiveMQ's names and defaults: messages cross only
    one link unless ``networkTTL`` is higher. Raises `ConfigurationError` for links or attributes that cannot be
    honoured.
    """

    def __init__(self, links: str = "A->B", *, directory: Path | None = None, **attributes: str) -> None:
        self.links: Final = parse_links(links)
        self.clock: Final = VirtualClock()
        self._attributes: Final = attributes
        self._directory: Final = directory
        self._order: Final = _targets_first(self.links)
        self._wires: Final[dict[Link, Wire]] = {}
        self._brokers: Final[dict[str, Broker]] = {}

    def __getitem__(self, name: str) -> Broker:
        """Return a broker of the started network. Raises `KeyError` for an unknown name."""
        return self._brokers[name]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def brokers(self) -> list[Broker]:
        """All brokers, targets of links before the brokers that link to them."""
        return list(self._brokers.values())

    def start(self) -> None:
        """Start all brokers and wait until they are linked. Raises an error of one line if that fails."""
        try:
            for name in self._order:
                if name not in self._brokers:
                    self._brokers[name] = self._broker(name)
                self._brokers[name].start()
            self.wait_until_linked()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all brokers. May be called twice."""
        try:
            for broker in reversed(self.brokers):
                broker.stop()
        finally:
            for wire in self._wires.values():
                wire.stop()
            self._wires.clear()

    def wire(self, source: str, target: str) -> Wire:
        """Return the proxy of the link between two brokers. Raises `KeyError` if the brokers are not linked."""
        return self._wires[source, target]

    def cut(self, source: str, target: str) -> None:
        """Break the link between two brokers until `mend`."""
        self.wire(source, target).cut()

    def clog(self, source: str, target: str) -> None:
        """Hold up all bytes of the link until `mend`; both brokers stay connected."""
        self.wire(source, target).clog()

    def slow(self, source: str, target: str, seconds: float) -> None:
        """Delay each byte of the link, in both directions."""
        self.wire(source, target).slow(seconds)

    def mend(self) -> None:
        """Repair all links. Broken links reconnect; `wait_until_linked` waits for them."""
        for wire in self._wires.values():
            wire.mend()

    def advance(self, seconds: float) -> None:
        """Move the clock of all brokers forward."""
        self.clock.add(seconds)
        for broker in self.brokers:
            broker.notice_time()

    def wait_until_linked(self, timeout: float = LINK_TIMEOUT) -> None:
        """Wait until every link between running brokers is up.

        Raises `SpanwireError` with the links that are not.
        """
        if not wait_until(lambda: not self._missing(), timeout):
            raise SpanwireError(f"not linked within {timeout:g} s: {'; '.join(self._missing())}")

    def _missing(self) -> list[str]:
        missing_links: list[str] = []
        for broker in self.brokers:
            for link in broker.links() if broker.is_running else []:
                if link["state"] != RUNNING:
                    missing_links.append(f"{link['name']} is {link['state']} {link['reason']}".strip())
        return missing_links

    def _broker(self, name: str) -> Broker:
        targets = [target for source, target in self.links if source == name]
        connectors = "".join(self._connector(name, target) for target in targets)
        text = (
            f'<broker brokerName="{name}"><networkConnectors>{connectors}</networkConnectors><transportConnectors>'
            f'<transportConnector name="openwire" uri="tcp://{LOOPBACK}:0"/>'
            f'<transportConnector name="stomp" uri="stomp://{LOOPBACK}:0"/></transportConnectors></broker>'
        )
        directory = None if self._directory is None else self._directory / name
        return Broker(text, directory=directory, keep_ports=True, clock=self.clock)

    def _connector(self, source: str, target: str) -> str:
        uri = f"static:({self._wire(source, target).url})?{RECONNECT}"
        attributes = {"name": f"{source}-{target}", "uri": uri, **self._attributes}
        return f"<networkConnector {' '.join(f'{name}={quoteattr(value)}' for name, value in attributes.items())}/>"

    def _wire(self, source: str, target: str) -> Wire:
        """Return a proxy in front of the target, whose port is known only once the broker runs."""
        wire = Wire(lambda: self._target_port(target))
        wire.start()
        self._wires[source, target] = wire
        return wire

    def _target_port(self, target: str) -> int:
        broker = self._brokers.get(target)
        if broker is None:
            raise SpanwireError(f"broker {target} has not started yet")
        return broker.running_port


def parse_links(text: str) -> list[Link]:
    """Parse ``A->B->C, C<->D`` to pairs (from, to), in order.

    Raises `ConfigurationError` for any other text.
    """
    links: dict[Link, None] = {}
    for chain in text.split(","):
        parts = [part.strip() for part in ARROW.split(chain)]
        names, arrows = parts[::2], parts[1::2]
        if not arrows or not all(NAME.fullmatch(name) for name in names):
            raise ConfigurationError(f"{text!r} is no network; write A->B, A->B->C or A<->B, several with commas")
        for index, arrow in enumerate(arrows):
            source, target = names[index], names[index + 1]
            if source == target:
                raise ConfigurationError(f"broker {source} cannot be linked to itself")
            links[source, target] = None
            if arrow == "<->":
                links[target, source] = None
    return list(links)


def _targets_first(links: list[Link]) -> list[str]:
    """Return the names with each broker behind the brokers that it links to, except for circles."""
    order: dict[str, None] = {}
    waiting = list(dict.fromkeys(name for link in links for name in link))
    if len(waiting) > MAX_BROKERS:
        raise ConfigurationError(f"a network of {len(waiting)} brokers is more than {MAX_BROKERS}")
    while waiting:
        free = [name for name in waiting if all(to in order for source, to in links if source == name)]
        order.update(dict.fromkeys(free or waiting[-1:]))
        waiting = [name for name in waiting if name not in order]
    return list(order)
