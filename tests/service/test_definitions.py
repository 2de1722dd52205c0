"""What `spanwire definitions export` writes of one broker makes another one the same."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.management.control_client import ControlClient
from tests.service.started import Started, spanwire

Told = Callable[..., str]
CONFIGURED = """
  <destinations><queue physicalName="CONFIGURED"/></destinations>
  <networkConnectors>
    <networkConnector name="nc" uri="static:(tcp://127.0.0.1:1)?maxReconnectDelay=60000" networkTTL="2">
      <excludedDestinations><queue physicalName="LOCAL.&gt;"/></excludedDestinations>
    </networkConnector>
  </networkConnectors>"""
EMPTY = '<broker brokerName="empty" dataDirectory="{data}"/>'


class Empty(Started):
    """A broker of a configuration with nothing in it."""

    def text(self) -> str:
        return EMPTY


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Run a command in this process to its end; return what it prints."""

    def run(*words: str, status: int = 0) -> str:
        assert main(list(words)) == status
        return capsys.readouterr().out

    return run


def test_an_export_makes_an_empty_broker_the_same_and_so_does_its_dry_run_say(tmp_path: Path, told: Told) -> None:
    exported, again = tmp_path / "full.toml", tmp_path / "again.toml"
    with Started(tmp_path / "full", inside=CONFIGURED) as full:
        at = ("--data-directory", str(full.data))
        told("queue", "create", "PAUSED", *at)
        told("queue", "pause", "PAUSED", *at)
        told("topic", "create", "PRICES", *at)
        told("subscription", "create", "client", "night", "PRICES", "--selector", "price = 'ü\"'", *at)
        control = ControlClient(full.data)
        control.ask("settings", destinations=["queue://PAUSED"], memory_limit_bytes=5_000_000)
        control.ask("limits", memory_limit_bytes=77_000_000, maximum_uncommitted=123)
        control.ask("log-level", logger="spanwire.network", level="debug")
        told("connector", "stop", "stomp", *at)
        summary = told("definitions", "export", "--to", str(exported), *at)
        assert summary.startswith("broker tested: 2 queues, 1 topics, 1 subscriptions, ")
        assert "0 differences" in told("definitions", "diff", str(exported), *at)
    with Empty(tmp_path / "empty") as empty:
        at = ("--data-directory", str(empty.data))
        before = told("definitions", "export", *at)
        planned = told("definitions", "import", str(exported), "--dry-run", *at)
        assert told("definitions", "export", *at) == before
        assert planned.endswith(" would be done, 0 refused\n") and "add network connector nc" in planned
        done = told("definitions", "import", str(exported), *at)
        assert set(planned.splitlines()[:-1]) < set(done.splitlines()) and done.endswith(" done, 0 refused\n")
        told("definitions", "export", "--to", str(again), *at)
        assert told("definitions", "diff", str(exported), str(empty.data)) == "0 differences\n"
        assert body_of(again) == body_of(exported)
        assert told("definitions", "import", str(exported), *at) == "0 done, 0 refused\n"
    assert exported.stat().st_mode & 0o077 == 0


def body_of(path: Path) -> str:
    """Return a document without the lines that name its broker."""
    return path.read_text("utf-8").partition("\nbroker = ")[2].partition("\n")[2]


def test_what_is_refused_is_one_line_and_the_rest_is_done(tmp_path: Path, told: Told) -> None:
    document = tmp_path / "wanted.toml"
    with Empty(tmp_path / "empty") as empty, socket.create_server(("127.0.0.1", 0)) as taken:
        document.write_text(
            'format = "spanwire-definitions"\nversion = 1\n'
            f'[[connector]]\nname = "taken"\nuri = "tcp://127.0.0.1:{taken.getsockname()[1]}"\n'
            '[[connector]]\nname = "odd"\nuri = "amqp://127.0.0.1:0"\n'
            '[[bridge]]\nname = "b"\n'
            '[[queue]]\nname = "A"\n'
        )
        at = ("--data-directory", str(empty.data))
        lines = told("definitions", "import", str(document), *at, status=1).splitlines()
        assert [line.partition(":")[0] for line in lines] == [
            "add queue A", "add bridge b", "add connector odd", "add connector taken", "1 done, 3 refused",
        ]  # fmt: skip
        assert "is in use" in lines[3] and "amqp" in lines[2]
        assert told("queue", "list", "A", "--view", "destination", *at).splitlines()[1] == "queue://A"


def test_what_cannot_replace_a_connector_leaves_it_as_it_was(tmp_path: Path, told: Told) -> None:
    document, before, after = (tmp_path / name for name in ("wanted.toml", "before.toml", "after.toml"))
    with (
        Started(tmp_path / "full", inside=CONFIGURED) as full,
        socket.create_server(("127.0.0.1", 0)) as taken,
    ):
        at = ("--data-directory", str(full.data))
        told("definitions", "export", "--to", str(before), *at)
        document.write_text(
            'format = "spanwire-definitions"\nversion = 1\n'
            f'[[connector]]\nname = "stomp"\nuri = "stomp://127.0.0.1:{taken.getsockname()[1]}"\n'
            '[[network_connector]]\nname = "nc"\nuri = "static:(tcp://127.0.0.1:1)"\nsettings = {networkTTL = "many"}\n'
        )
        lines = told("definitions", "import", str(document), "--replace", *at, status=1).splitlines()
        assert [line.partition(":")[0] for line in lines[:2]] == [
            "change connector stomp",
            "change network connector nc",
        ]
        assert all(line.endswith("; it is as it was") for line in lines[:2]), lines
        assert lines[2] == "0 done, 2 refused"
        told("definitions", "export", "--to", str(after), *at)
        assert body_of(after) == body_of(before)
        socket.create_connection(("127.0.0.1", full.ports["stomp"])).close()


def test_no_secret_is_exported_and_what_lacks_one_is_refused_by_its_name(tmp_path: Path, told: Told) -> None:
    secret = CONFIGURED.replace('networkTTL="2"', 'userName="links" password="canary-1"')
    document = tmp_path / "full.toml"
    with Started(tmp_path / "full", inside=secret) as full:
        for form in ("toml", "xml"):
            at = ("--data-directory", str(full.data))
            told("definitions", "export", "--to", str(document), "--format", form, *at)
            assert "canary" not in document.read_text("utf-8") and "links" in document.read_text("utf-8")
        told("definitions", "export", "--to", str(document), *at)
    with Empty(tmp_path / "empty") as empty:
        lines = told("definitions", "import", str(document), "--data-directory", str(empty.data), status=1).splitlines()
        (refused,) = [line for line in lines if ": refused: " in line]
        assert refused.startswith("add network connector nc: refused: password left out of the document")
        assert lines[-1].endswith(" done, 1 refused")


def test_a_configuration_is_compared_with_what_runs(tmp_path: Path, told: Told) -> None:
    with Started(tmp_path / "full", inside=CONFIGURED) as full:
        told("queue", "create", "LATER", "--data-directory", str(full.data))
        lines = told("definitions", "diff", str(full.configuration), str(full.data), status=1).splitlines()
    assert "+ queue LATER" in lines
    assert not [line for line in lines if "CONFIGURED" in line or "connector" in line or "limits" in line]


def test_a_name_of_nothing_is_an_error_of_one_line(tmp_path: Path) -> None:
    answer = spanwire("definitions", "diff", str(tmp_path / "absent"), "nobody")
    assert answer.returncode == 1
    assert answer.stderr.count("\n") == 1 and "no file, data directory or running broker" in answer.stderr
