"""Brokers around a filled one: links that came in, with and without a report, a mesh by gossip, a bridge, and traces.

    with neighbours(directory, near): ...

A cellar opens a duplex link and is invited to report, together with the broker beyond it. A till opens a link of one
way, and so cannot be asked. Two stocks form a mesh with the filled broker by gossip.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from spanwire.management.control_client import ControlClient
from tests.service.started import TIMEOUT_S, Started

USERS: Final = """
  <plugins><simpleAuthenticationPlugin><users>
    <authenticationUser username="anna" password="a-4711" groups="admins"/>
  </users></simpleAuthenticationPlugin></plugins>
"""
LOGIN: Final = 'userName="anna" password="a-4711"'
BRIDGE: Final = """\
[connectionFactories.here]
url = "{url}"
userName = "anna"
password = "a-4711"
[bridges.{name}]
sourceConnectionFactory = "here"
sourceDestination = "queue://returns"
targetConnectionFactory = "here"
targetDestination = "queue://{target}"
"""


class Neighbour(Started):
    """A broker with a name, users and network connectors."""

    def __init__(self, directory: Path, name: str, *connectors: str) -> None:
        super().__init__(directory / name)
        self.name: Final = name
        self._connectors: Final = connectors

    def text(self) -> str:
        inside = f"<networkConnectors>{''.join(self._connectors)}</networkConnectors>" if self._connectors else ""
        text = super().text().replace('"tested"', f'"{self.name}"')
        return text.replace("  <transportConnectors>", f"  {inside}{USERS}<transportConnectors>")


def connector(name: str, uri: str, more: str = "") -> str:
    """A network connector as an element."""
    return f'<networkConnector name="{name}" uri="{uri}" {LOGIN}{more}/>'


def mesh(seed: int) -> str:
    """The address of a mesh with a seed on this machine."""
    return f"gossip:(tcp://127.0.0.1:{seed})?networks=127.0.0.1"


@contextmanager
def neighbours(directory: Path, near: Started) -> Iterator[None]:
    """Run the brokers around a broker until all have reported, or can report no more."""
    home, port = f"static:({near.broker_url})", near.ports["tcp"]
    with ExitStack() as stack:
        shelf = stack.enter_context(Neighbour(directory, "shelf"))
        beyond = connector("to-shelf", f"static:({shelf.broker_url})")
        stack.enter_context(Neighbour(directory, "cellar", connector("to-orders", home, ' duplex="true"'), beyond))
        stack.enter_context(Neighbour(directory, "till", connector("sales", home)))
        for name in ("stock-north", "stock-south"):
            stack.enter_context(
                Neighbour(directory, name, connector("mesh", mesh(port), ' duplex="true" sendLoginToDiscovered="true"'))
            )
        control = ControlClient(near.data, TIMEOUT_S)
        settings = {"duplex": "true", "userName": "anna", "password": "a-4711", "sendLoginToDiscovered": "true"}
        control.ask("network-add", uri=mesh(port), name="mesh", settings=settings)
        until(lambda: {"cellar", "shelf", "stock-north", "stock-south"} <= reported(control))
        yield


def reported(control: ControlClient) -> set[str]:
    """The names of brokers that have reported."""
    answer = control.ask("network")
    assert isinstance(answer, dict)
    return {str(row["name"]) for row in answer["brokers"] if not row.get("silence")}


def until(is_so: Callable[[], bool]) -> None:
    """Look until something is so."""
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def bridge(near: Started, name: str, target: str) -> None:
    """Create a bridge that goes on."""
    ControlClient(near.data, TIMEOUT_S).ask(
        "bridge-create", definition=BRIDGE.format(url=near.broker_url, name=name, target=target)
    )


def trace(near: Started, destination: str, **more: object) -> str:
    """Begin to follow messages, and return the id of the trace."""
    answer = ControlClient(near.data, TIMEOUT_S).ask("trace", destination=destination, seconds=3_600, **more)
    assert isinstance(answer, dict)
    return str(answer["trace"])
