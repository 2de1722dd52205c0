"""Several brokers of one test, linked by network connectors.

    with Network("A->B->C", networkTTL="2") as network:
        network["A"].url, network["C"].queue("ORDERS").pending

``A->B`` gives A a network connector to B: messages flow from A to consumers at B. ``A<->B`` links both ways.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from xml.sax.saxutils import quoteattr

from spanwire.model.errors import ConfigurationError, SpanwireError
from spanwire.testing.broker import Broker
from spanwire.testing.configuration import LOOPBACK
from spanwire.testing.queue import wait_until

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
        self._attributes: Final = attributes
        self._directory: Final = directory
        self._order: Final = _targets_first(self.links)
        self._promised: Final[dict[str, int]] = {}
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
        for broker in reversed(self.brokers):
            broker.stop()

    def wait_until_linked(self, timeout: float = LINK_TIMEOUT) -> None:
        """Wait until every link between running brokers is up; raises `SpanwireError` that names one that is not."""
        if not wait_until(lambda: not self._missing(), timeout):
            raise SpanwireError(f"not linked within {timeout:g} s: {'; '.join(self._missing())}")

    def _missing(self) -> list[str]:
        found: list[str] = []
        for broker in self.brokers:
            for link in broker.links() if broker.is_running else []:
                if link["state"] != RUNNING:
                    found.append(f"{link['name']} is {link['state']} {link['reason']}".strip())
        return found

    def _broker(self, name: str) -> Broker:
        targets = [target for source, target in self.links if source == name]
        connectors = "".join(self._connector(name, target) for target in targets)
        port = self._promised.get(name, 0)
        text = (
            f'<broker brokerName="{name}"><networkConnectors>{connectors}</networkConnectors><transportConnectors>'
            f'<transportConnector name="openwire" uri="tcp://{LOOPBACK}:{port}"/>'
            f'<transportConnector name="stomp" uri="stomp://{LOOPBACK}:0"/></transportConnectors></broker>'
        )
        directory = None if self._directory is None else self._directory / name
        return Broker(text, directory=directory, keep_ports=True)

    def _connector(self, source: str, target: str) -> str:
        uri = f"static:(tcp://{LOOPBACK}:{self._port(target)})?{RECONNECT}"
        attributes = {"name": f"{source}-{target}", "uri": uri, **self._attributes}
        return f"<networkConnector {' '.join(f'{name}={quoteattr(value)}' for name, value in attributes.items())}/>"

    def _port(self, target: str) -> int:
        """The port of a broker that another one links to. In a circle it must be known before the broker starts."""
        if target in self._brokers:
            return self._brokers[target].port
        if target not in self._promised:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((LOOPBACK, 0))
                self._promised[target] = int(probe.getsockname()[1])
        return self._promised[target]


def parse_links(text: str) -> list[Link]:
    """``A->B->C, C<->D`` as pairs (from, to), in order; raises `ConfigurationError` for anything else."""
    found: dict[Link, None] = {}
    for chain in text.split(","):
        parts = [part.strip() for part in ARROW.split(chain)]
        names, arrows = parts[::2], parts[1::2]
        if not arrows or not all(NAME.fullmatch(name) for name in names):
            raise ConfigurationError(f"{text!r} is no network; write A->B, A->B->C or A<->B, several with commas")
        for index, arrow in enumerate(arrows):
            left, right = names[index], names[index + 1]
            if left == right:
                raise ConfigurationError(f"broker {left} cannot be linked to itself")
            found[left, right] = None
            if arrow == "<->":
                found[right, left] = None
    return list(found)


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
