"""Several brokers of one test, linked by network connectors.

    with Network("A->B->C", networkTTL="2") as network:
        network["A"].url, network["C"].queue("ORDERS").pending

``A->B`` gives A a network connector to B: messages flow from A to consumers at B. ``A<->B`` links both ways.
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

MAX_BROKERS: Final = 64  # each has a thread and two sockets
LINK_TIMEOUT: Final = 20.0  # seconds until all links are up
RECONNECT: Final = "initialReconnectDelay=50&maxReconnectDelay=500"  # a broker that is back is found soon
RUNNING: Final = "running"  # the state of a link that is up
NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,60}")
ARROW: Final = re.compile(r"(<->|->)")

Link = tuple[str, str]


class Network:
    """Brokers by name, with messages in memory unless there is a ``directory``. `start` returns when all links are up.

    ``attributes`` are those of each ``networkConnector``, in ActiveMQ's words; its defaults hold, so that messages pass
    one link only unless ``networkTTL`` says otherwise. Raises `ConfigurationError` for what cannot be honoured.
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
        """The broker of this name, once the network has started; raises `KeyError` when it has none."""
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
        """All of them, in the order in which they start: those that others link to first."""
        return list(self._brokers.values())

    def start(self) -> None:
        """Start all and wait until they are linked; raises in one line what stands in the way."""
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
        """Stop all. May be called twice."""
        try:
            for broker in reversed(self.brokers):
                broker.stop()
        finally:
            for wire in self._wires.values():
                wire.stop()
            self._wires.clear()

    def wire(self, source: str, target: str) -> Wire:
        """What carries the link from one broker to another; raises `KeyError` when there is no such link."""
        return self._wires[source, target]

    def cut(self, source: str, target: str) -> None:
        """Break the link from one broker to the other, until `mend`."""
        self.wire(source, target).cut()

    def clog(self, source: str, target: str) -> None:
        """Nothing arrives over the link, and nobody is told, until `mend`."""
        self.wire(source, target).clog()

    def slow(self, source: str, target: str, seconds: float) -> None:
        """Every byte over the link takes so much longer, in both directions."""
        self.wire(source, target).slow(seconds)

    def mend(self) -> None:
        """All links are as they were; those that broke are made again, see `wait_until_linked`."""
        for wire in self._wires.values():
            wire.mend()

    def advance(self, seconds: float) -> None:
        """Let time pass at all brokers."""
        self.clock.add(seconds)
        for broker in self.brokers:
            broker.notice_time()

    def wait_until_linked(self, timeout: float = LINK_TIMEOUT) -> None:
        """Wait until every link between running brokers is up; raises `SpanwireError` that names one that is not."""
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
        """In front of the target, whose port is not known before it runs, and which may be started later."""
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
    """``A->B->C, C<->D`` as pairs (from, to), in order; raises `ConfigurationError` for anything else."""
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
    """The names in an order in which, but for circles, each comes after all that it links to."""
    order: dict[str, None] = {}
    waiting = list(dict.fromkeys(name for link in links for name in link))
    if len(waiting) > MAX_BROKERS:
        raise ConfigurationError(f"a network of {len(waiting)} brokers is more than {MAX_BROKERS}")
    while waiting:
        free = [name for name in waiting if all(to in order for source, to in links if source == name)]
        order.update(dict.fromkeys(free or waiting[-1:]))
        waiting = [name for name in waiting if name not in order]
    return list(order)
