"""Gossip connectors that come and go while a broker runs: by an operator's command, and by a changed file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from spanwire.cli.main import main
from tests.service.started import Started
from tests.service.test_gossip import Gossiping
from tests.service.test_moves import killed
from tests.service.test_networks import eventually, send_and_receive

MESH: Final = "gossip:(tcp://127.0.0.1:{seed})?networks=127.0.0.1{mark}initialReconnectDelay=200"


class Named(Started):
    """A broker without network connectors at first; ``connectors`` are written into its file."""

    def __init__(self, directory: Path, name: str) -> None:
        super().__init__(directory / name)
        self.name: Final = name
        self.connectors = ""

    def text(self) -> str:
        inside = f"<networkConnectors>{self.connectors}</networkConnectors>" if self.connectors else ""
        return super().text().replace('"tested"', f'"{self.name}"').replace("{inside}", inside)

    def rewrites(self, connectors: str) -> None:
        """Change the file of the running broker."""
        self.connectors = connectors
        ports = {"openwire": self.ports["tcp"], "stomp": self.ports["stomp"]}
        self.configuration.write_text(self.text().format(data=self.data, attributes="", **ports), "utf-8")

    def linked(self) -> list[str]:
        """The names at the other ends of running links that were opened here."""
        links = self.network("network_connectors")
        return sorted(str(link["remote"]) for link in links if link["state"] == "running" and not link["accepted"])


def test_a_gossip_connector_comes_by_a_command_lasts_and_goes_by_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        Named(tmp_path, "anna") as seed,
        Gossiping(tmp_path, "berta", seed.ports["tcp"]) as member,
        Named(tmp_path, "clara") as changing,
    ):
        here = ["--data-directory", str(changing.data)]
        assert main(["network", "add", MESH.format(seed=seed.ports["tcp"], mark="&"), "--link", "late", *here]) == 0
        assert "until the next start" not in capsys.readouterr().out
        assert eventually(lambda: changing.linked() == ["anna", "berta"] and "clara" in member.linked())
        assert send_and_receive(changing.broker_url, member.broker_url, "Q", ["m"]) == ["m"]
        killed(changing)
        assert eventually(lambda: changing.linked() == ["anna", "berta"])
        assert main(["network", "remove", "late", *here]) == 0
        assert changing.network("network_connectors") == []
        assert main(["network", "add", "gossip:(tcp://broker1:61616)", *here]) == 1
        assert "gossip: needs networks=…, the hosts that may be linked" in capsys.readouterr().err
        killed(changing)
        assert changing.network("network_connectors") == []


@pytest.mark.long
def test_a_gossip_connector_comes_and_goes_with_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        Named(tmp_path, "anna") as seed,
        Gossiping(tmp_path, "berta", seed.ports["tcp"]),
        Named(tmp_path, "clara") as changing,
    ):
        uri = MESH.format(seed=seed.ports["tcp"], mark="&amp;")
        connector = f'<networkConnector name="late" uri="{uri}"{{more}}/>'
        here = ["--data-directory", str(changing.data)]
        changing.rewrites(connector.format(more=""))
        assert main(["reload", *here]) == 0
        assert "network connector late: added" in capsys.readouterr().out
        assert eventually(lambda: changing.linked() == ["anna", "berta"])
        changing.rewrites(connector.format(more=' duplex="true"'))
        assert main(["reload", *here]) == 0
        assert eventually(lambda: changing.linked() == ["anna", "berta"])
        assert all(link["duplex"] for link in changing.network("network_connectors"))
        changing.rewrites("")
        assert main(["reload", *here]) == 0
        assert "network connector late: removed" in capsys.readouterr().out
        assert changing.network("network_connectors") == []
