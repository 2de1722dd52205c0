"""Network connectors that operators add: kept over a restart and a crash, until removed; secrets are not kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from spanwire.broker.metadata import NETWORK_CONNECTORS
from spanwire.model.secret import Secret
from spanwire.network.connector.link import NetworkConnectorSettings
from spanwire.network.connector.network_connector import NetworkConnector
from spanwire.service.administration.added_connectors import MAX_KEPT, MAX_RECORD_BYTES, logger
from spanwire.service.config.interpretation.runtime_connector import read_connector
from spanwire.service.config.values.encryption import PASSWORD_VARIABLE, Encryption
from spanwire.service.networking.network_connectors import NetworkConnectors
from tests.support.dialogue.broker_dialogue import Stage
from tests.unit.service.test_networking import URI, Connector

Rows = list[dict[str, object]]


def configured(name: str) -> NetworkConnectorSettings:
    """A connector of the configuration."""
    return read_connector({"name": name, "uri": "static:(tcp://file:1)"}, None)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == logger.name]


class Run:
    """One run of a broker, from its start to its end."""

    def __init__(self, stage: Stage | None = None, *names: str) -> None:
        self.stage = Stage() if stage is None else stage
        self.connectors = NetworkConnectors([configured(name) for name in names])
        self.connectors._make = lambda settings: cast(NetworkConnector, Connector(settings))
        self.connectors._broker = self.stage.broker
        asyncio.run(self._starts())

    async def _starts(self) -> None:
        await self.connectors._open(list(self.connectors._configured.values()))
        await self.connectors._start_added(self.connectors._kept_connectors(self.stage.broker))

    def does(self, command: Coroutine[Any, Any, Rows]) -> Rows:
        """The answer to a command, after the disk has what it writes."""

        async def scene() -> Rows:
            task = asyncio.ensure_future(command)
            for _ in range(5):
                await asyncio.sleep(0)
            self.stage.settle()
            return await task

        return asyncio.run(scene())

    def adds(self, name: str = "link", uri: str = URI, **settings: str) -> str:
        """The note of the answer."""
        rows = self.does(self.connectors.keep_connector({"uri": uri, "name": name, "settings": settings}))
        return str(rows[0].get("note", ""))

    def removes(self, name: str) -> Rows:
        return self.does(self.connectors.remove_connectors({"connectors": [name]}))

    def restarts(self, *names: str) -> Run:
        """The next run, with the named connectors in the configuration."""
        return Run(self.stage.restarts(), *names)

    def names(self) -> list[str]:
        return list(self.connectors._connectors)

    def host(self, name: str) -> str:
        return self.connectors._connectors[name].settings.remotes[0].host


def test_an_added_connector_is_there_after_a_restart_until_it_is_removed() -> None:
    run = Run()
    assert run.adds(duplex="true") == ""
    for _ in range(2):
        run = run.restarts()
        assert run.names() == ["link"]
        assert run.connectors._connectors["link"].settings.bridge.duplex
    (row,) = run.removes("link")
    assert (row["state"], "note" in row) == ("removed", False)
    assert run.restarts().names() == []


def test_a_crash_before_the_disk_has_the_connector_comes_before_the_answer() -> None:
    async def scene(run: Run) -> int:
        task = asyncio.ensure_future(run.connectors.keep_connector({"uri": URI, "name": "link"}))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()
        written = run.stage.store.position()
        task.cancel()
        return written

    run = Run()
    written = asyncio.run(scene(run))
    assert Run(run.stage.restarts()).names() == []
    assert Run(run.stage.restarts(position=written)).names() == ["link"]


def test_the_link_of_a_drain_is_not_kept() -> None:
    run = Run()
    run.does(run.connectors.add_connector({"uri": URI, "name": "DRAIN-1"}))
    assert run.names() == ["DRAIN-1"]
    assert run.restarts().names() == []


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"userName": "u", "password": "canary"}, "password"),
        ({"remoteUserName": "u", "remotePassword": "canary"}, "remotePassword"),
    ],
)
def test_a_password_in_clear_is_not_written_and_the_answer_says_so(settings: dict[str, str], what: str) -> None:
    run = Run()
    assert run.adds(**settings) == (
        f"lasts until the next start only: its {what} is not kept in clear: give ENC(…), or write it into the "
        "configuration"
    )
    assert run.stage.store.metadata.get(NETWORK_CONNECTORS, {}) == {}
    assert run.restarts().names() == []


def test_a_login_in_an_address_is_not_written() -> None:
    run = Run()
    added = run.connectors._kept_connectors(run.stage.broker)
    note = asyncio.run(added.keep("link", {"uri": "static:(tcp://u:canary@b:1)"}, []))
    assert note.startswith("lasts until the next start only: its login in uri is not kept")
    assert run.stage.store.metadata.get(NETWORK_CONNECTORS, {}) == {}


def test_an_encrypted_password_is_kept_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "master")
    run = Run()
    assert run.adds(userName="u", password=Encryption(Secret("master")).encrypt("canary")) == ""
    (value,) = run.stage.store.metadata[NETWORK_CONNECTORS].values()
    assert b"canary" not in value
    after = run.restarts()
    password = after.connectors._connectors["link"].settings.bridge.password
    assert password is not None
    assert password.reveal() == "canary"


def test_without_the_master_password_the_connector_is_a_line_in_the_log_and_stays_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "master")
    run = Run()
    run.adds(userName="u", password=Encryption(Secret("master")).encrypt("canary"))
    monkeypatch.delenv(PASSWORD_VARIABLE)
    without = run.restarts()
    assert without.names() == []
    assert "network connector link, which an operator added, is not started: password of" in caplog.text
    monkeypatch.setenv(PASSWORD_VARIABLE, "master")
    assert without.restarts().names() == ["link"]


@pytest.mark.parametrize(
    "value", [b"\xff", b"[]", b"{}", b'{"name":"other","uri":"x"}', b'{"name":"bad","uri":1}', b"[" * 9_999]
)
def test_a_record_that_cannot_be_read_is_a_line_in_the_log_until_it_is_removed(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    run.adds("good")
    run.stage.store.put_metadata(NETWORK_CONNECTORS, b"bad", value)
    run.stage.settle()
    run = run.restarts()
    assert run.names() == ["good"]
    assert caplog.text.count("network connector bad, which an operator added, is not started: its record") == 1
    assert run.removes("bad") == [{"name": "bad", "uri": "", "state": "removed"}]
    caplog.clear()
    assert run.restarts().names() == ["good"]
    assert warnings(caplog) == []


def test_a_connector_of_the_configuration_takes_the_place_of_an_added_one(caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    run.adds("link")
    run = run.restarts("link")
    assert run.host("link") == "file"
    assert warnings(caplog) == ["network connector link of the configuration takes the place of an added one"]
    run.stage.settle()
    assert run.restarts().names() == []


def test_a_removed_connector_of_the_configuration_comes_back_and_the_answer_says_so() -> None:
    run = Run(None, "link")
    (row,) = run.removes("link")
    assert str(row["note"]).startswith("comes back at the next start, for the configuration has it")
    assert run.adds("link") == (
        "lasts until the next start only: the configuration has a connector of this name, which takes its place"
    )
    run = run.restarts("link")
    assert run.host("link") == "file"


def test_a_reload_leaves_added_connectors_and_replaces_one_that_it_names() -> None:
    run = Run(None, "old")
    run.adds("mine")
    run.adds("both")
    asyncio.run(run.connectors.replace([configured("old")], [configured("both")]))
    assert (sorted(run.names()), run.host("both")) == (["both", "mine"], "file")
    run.stage.settle()
    assert run.restarts().names() == ["mine"]


def test_what_is_too_much_to_keep_lasts_until_the_next_start() -> None:
    run = Run()
    rows = run.does(
        run.connectors.keep_connector(
            {
                "uri": URI, "name": "large",
                "settings": {"excludedDestinations": [f"queue://{'Q' * 90}{number}" for number in range(700)]},
            }
        )
    )  # fmt: skip
    assert f"at most {MAX_RECORD_BYTES} are kept" in str(rows[0]["note"])
    for number in range(MAX_KEPT):
        run.stage.store.put_metadata(NETWORK_CONNECTORS, b"%d" % number, json.dumps({"colour": "red"}).encode())
    run.stage.settle()
    run = run.restarts()
    assert run.adds() == f"lasts until the next start only: {MAX_KEPT} are kept already"


def test_a_connector_without_a_name_takes_none_that_is_kept_or_configured() -> None:
    run = Run(None, "NC")
    run.removes("NC")
    run.does(run.connectors.keep_connector({"uri": URI}))
    assert run.restarts().names() == ["NC-2"]
