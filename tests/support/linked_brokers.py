"""Three brokers as processes, each with a network connector to both others."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.ports import free_port

LINKED: Final = ("in", "in2", "in3")


def linked_brokers(folder: Path) -> dict[str, BrokerProcess]:
    """The brokers by name, not yet started."""
    ports = {name: free_port() for name in LINKED}
    return {name: _broker(folder, name, ports) for name in LINKED}


def _broker(folder: Path, name: str, ports: dict[str, int]) -> BrokerProcess:
    links = "".join(
        f'<networkConnector name="to-{other}" uri="static:(tcp://127.0.0.1:{port})"/>'
        for other, port in ports.items()
        if other != name
    )
    return BrokerProcess(
        spanwire_command(),
        folder / name,
        name=name,
        inside=f"<networkConnectors>{links}</networkConnectors>\n",
        openwire_port=ports[name],
    )
