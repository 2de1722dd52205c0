"""`spanwire network add`: the connector is there after `kill -9` and a take-over, and gone after its removal."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.cli.main import main
from tests.service.started import Started
from tests.service.test_drain import Other
from tests.service.test_moves import killed
from tests.service.test_networks import eventually
from tests.service.test_standby import Waiting


def states(broker: Started) -> dict[object, object]:
    return {link["name"]: link["state"] for link in broker.network("network_connectors")}


def test_an_added_connector_outlives_kill_9_until_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPANWIRE_LINK_PASSWORD", "canary")
    with Started(tmp_path / "a") as first, Other(tmp_path / "b") as second:
        here = ["--data-directory", str(first.data)]
        words = ["network", "add", f"static:({second.broker_url})", "--link"]
        assert main([*words, "toB", *here]) == 0
        assert main([*words, "secret", "--set", "remoteUserName=u", *here]) == 0
        assert "network connector secret lasts until the next start only: its remotePassword" in capsys.readouterr().out
        killed(first)
        assert eventually(lambda: states(first) == {"toB": "running"})
        assert not any(b"canary" in file.read_bytes() for file in first.data.rglob("*") if file.is_file())
        assert main(["network", "remove", "toB", *here]) == 0
        killed(first)
        assert states(first) == {}


def test_a_standby_has_the_connectors_that_were_added_to_its_master(tmp_path: Path) -> None:
    with Started(tmp_path / "a") as master, Waiting(tmp_path / "b", master) as standby:
        words = ["network", "add", "static:(tcp://127.0.0.1:1)", "--link", "toB", "--data-directory", str(master.data)]
        assert main(words) == 0
        master.kill()
        standby.takes_over()
        assert list(states(master)) == ["toB"]  # asked over the socket in the directory that both have
