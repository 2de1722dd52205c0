"""`spanwire create`, the script that it makes, `spanwire stop --all` and the command `activemq`."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from spanwire.cli import main as commands
from spanwire.cli.main import main
from spanwire.service.config.loading import load_configuration
from tests.service.started import LISTENING, TIMEOUT_S, spanwire
from tests.support.ports import free_port

CONFIGURATION = """<broker xmlns="http://activemq.apache.org/schema/core" brokerName="given"
  dataDirectory="${{activemq.base}}/data"><transportConnectors>
  <transportConnector name="openwire" uri="tcp://127.0.0.1:{port}"/></transportConnectors></broker>"""


def test_a_created_broker_has_its_name_its_data_and_ports_that_are_free(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "orders <eu>"
    assert main(["create", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"created {path}",
        f"configuration: {path}/conf/activemq.xml",
        f"start it with: {path}/bin/orders <eu>",
    ]
    configuration = load_configuration(str(path / "conf" / "activemq.xml"), {"activemq.base": str(path)})
    assert (configuration.broker_name, configuration.data_directory) == (
        "orders__eu_",
        path / "data",
    )  # as ActiveMQ changes such names
    openwire, stomp = configuration.connectors
    assert (openwire.port - 61616) % 100 == 0
    assert openwire.port - stomp.port == 3


def test_the_script_of_a_created_broker_starts_it_and_stop_all_ends_every_broker(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}  # no broker of other tests
    scripts = []
    for name in ("one", "two"):
        (tmp_path / f"{name}.xml").write_text(CONFIGURATION.format(port=free_port()).replace("given", name))
        assert main(["create", str(tmp_path / name), "--amqconf", str(tmp_path / f"{name}.xml")]) == 0
        scripts.append(tmp_path / name / "bin" / name)
    running = [
        subprocess.Popen([script], env=environment, cwd="/", stdout=subprocess.PIPE, text=True) for script in scripts
    ]
    assert (tmp_path / "one" / "conf" / "activemq.xml").stat().st_mode & 0o077 == 0  # it may have passwords
    try:
        for process in running:
            assert process.stdout is not None
            assert any(LISTENING.search(line) for line in process.stdout)
        status = subprocess.run(
            [scripts[1], "status"], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        assert "two" in status.stdout
        stopped = spanwire("stop", "--all", environment=environment)
        assert sorted(stopped.stdout.splitlines()) == [
            f"{name} (process {process.pid}): stopped" for name, process in zip(("one", "two"), running, strict=True)
        ]
        assert [process.wait(TIMEOUT_S) for process in running] == [0, 0]
        assert spanwire("stop", "--all", environment=environment).stdout == "no broker of this user runs\n"
    finally:
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()


@pytest.mark.parametrize("is_file", [True, False])
def test_an_existing_place_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str], is_file: bool) -> None:
    place = tmp_path / "there"
    (place if is_file else place / "conf").parent.mkdir(exist_ok=True)
    (place if is_file else place / "conf").write_text("kept")
    assert main(["create", str(place)]) == 1
    assert capsys.readouterr().err == f"spanwire create: {place} is there and not empty; name a new directory\n"
    assert (place if is_file else place / "conf").read_text() == "kept"


def test_a_configuration_that_is_not_there_makes_no_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["create", str(tmp_path / "new"), "--amqconf", str(tmp_path / "no.xml")]) == 1
    assert "no.xml: No such file or directory" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_stop_all_beside_one_broker_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stop", "orders", "--all"]) == 1
    assert capsys.readouterr().err == "spanwire stop: --all stops every broker: name none beside it\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], ["start"]), (["console", "xbean:a.xml"], ["start", "xbean:a.xml"]), (["dstat"], ["dstat"])],
)
def test_activemq_has_the_same_commands_and_starts_without_one(
    monkeypatch: pytest.MonkeyPatch, words: list[str], expected: list[str]
) -> None:
    run: list[list[str]] = []
    monkeypatch.setattr("sys.argv", ["activemq", *words])

    def noted(words: list[str]) -> int:
        run.append(words)
        return 0

    monkeypatch.setattr(commands, "main", noted)
    assert commands.activemq() == 0
    assert run == [expected]
