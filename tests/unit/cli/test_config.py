"""``spanwire config check`` says what ``start`` would say, and starts nothing."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.cli.process import remote_checks

FAULTY = """<broker brokerName="b" dataDirectory="{data}" useShutdownHook="false" persistant="true">
<transportConnectors>
  <transportConnector name="open" uri="tcp://0.0.0.0:61616"/>
  <transportConnector name="later" uri="amqp://127.0.0.1:5672"/>
</transportConnectors></broker>"""
SOUND = '<broker brokerName="b" dataDirectory="{data}"/>'


def write(directory: Path, text: str) -> str:
    path = directory / "activemq.xml"
    path.write_text(text.format(data=directory / "data"))
    return str(path)


def test_every_obstacle_and_warning_of_a_file_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", write(tmp_path, FAULTY)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["obstacle", "obstacle", "obstacle", "warning",
                                                          "3 obstacles, 1 warning"]  # fmt: skip
    assert "persistant" in lines[0] and "amqp://" in lines[1] and "connector open would open" in lines[2]
    assert lines[-1].endswith(": spanwire start refuses this configuration")
    assert [entry.name for entry in tmp_path.iterdir()] == ["activemq.xml"]


def test_the_options_of_start_decide_here_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, FAULTY.replace(' persistant="true"', ""))
    assert main(["config", "check", path, "--allow-anonymous", "--skip-unsupported"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "0 obstacles, 2 warnings: spanwire start accepts this configuration"


def test_a_sound_file_has_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", write(tmp_path, SOUND)]) == 0
    assert capsys.readouterr().out == "0 obstacles, 0 warnings: spanwire start accepts this configuration\n"


def test_a_directory_with_a_store_of_activemq_is_an_obstacle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, SOUND)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "db-1.log").touch()
    assert main(["config", "check", path]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"obstacle: {tmp_path}/data holds a KahaDB store, which cannot be read; name another")
    assert main(["config", "check", path, "--data-directory", str(tmp_path / "new")]) == 0


def test_a_file_that_is_not_there_is_an_obstacle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", str(tmp_path / "absent.xml")]) == 1
    assert capsys.readouterr().out.startswith(f"obstacle: {tmp_path}/absent.xml: there is no such file\n")


class SilentBroker(threading.Thread):
    """Lets clients connect and answers nothing."""

    def __init__(self, host: str) -> None:
        super().__init__(daemon=True)
        self._server = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port = self._server.getsockname()[1]
        self._kept: list[socket.socket] = []
        self.start()

    def run(self) -> None:
        while True:
            self._kept.append(self._server.accept()[0])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_remote_broker_that_answers_nothing_is_left_after_a_while(
    host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(remote_checks, "ANSWER_MS", 200)
    written = f"[{host}]" if ":" in host else host
    uri = f"static:(tcp://{written}:{SilentBroker(host).port})"
    connectors = f'<networkConnectors><networkConnector name="n" uri="{uri}"/></networkConnectors>'
    file = write(tmp_path, f'<broker brokerName="b" dataDirectory="{{data}}">{connectors}</broker>')
    assert main(["config", "check", file, "--connect"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(f"unusable: line 1, network connector n: tcp://{written}:")
    assert "broker URL" not in lines[1]
    assert lines[2] == "1 remote address, 1 unusable"


def test_without_check_the_usage_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 2
    assert capsys.readouterr().err == "spanwire config: name an action: check; spanwire config --help\n"
