"""``spanwire service``: the units are what systemd accepts, and each directive has its reason in the documentation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.service.machine.file_limit import FILE_LIMIT
from spanwire.service.machine.service_manager import RECOVERY_S
from tests.support.peers import require

PAGE = (Path(__file__).parents[3] / "docs" / "operations" / "service.md").read_text("utf-8")
MOST_EXPOSED = 20  # tenths of systemd's exposure level from 0 to 100; the limit of "OK" is 49
ANALYZE = "systemd-analyze"


def unit(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["service", *arguments]) == 0
    return capsys.readouterr().out


def values(text: str, directive: str) -> list[str]:
    return re.findall(rf"(?m)^{directive}=(.*)$", text)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["service", "--print", *arguments]) == 1
    return capsys.readouterr().err


def test_the_unit_of_a_broker_starts_reloads_and_stops_it(capsys: pytest.CaptureFixture[str]) -> None:
    text = unit(capsys, "--configuration", "/etc/spanwire/activemq.xml", "--print")
    start = f"{sys.executable} -m spanwire start /etc/spanwire/activemq.xml --data-directory /var/lib/spanwire"
    assert values(text, "ExecStart") == [start]
    assert values(text, "ExecReload") == [f"{sys.executable} -m spanwire reload --data-directory /var/lib/spanwire"]
    assert values(text, "Type") == ["notify"]
    assert values(text, "User") == values(text, "StateDirectory") == values(text, "RuntimeDirectory") == ["spanwire"]
    assert values(text, "LimitNOFILE") == [str(FILE_LIMIT)]
    assert values(text, "TimeoutStartSec") == [f"{RECOVERY_S // 3600}h"]
    assert values(text, "MemoryDenyWriteExecute") == ["yes"]


def test_names_and_further_arguments_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    text = unit(capsys, "--print", "--name", "orders", "--user", "mq", "--", "--web", "-D", 'a=50% of $x "y"')
    assert values(text, "ExecStart")[0].endswith(
        'start --data-directory /var/lib/orders --web -D "a=50%% of $$x \\"y\\""'
    )
    assert values(text, "User") == ["mq"]
    assert values(text, "StateDirectory") == values(text, "RuntimeDirectory") == ["orders"]
    assert values(text, "EnvironmentFile") == ["-/etc/orders/environment"]


def test_an_environment_made_by_a_python_in_a_home_can_read_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/spanwire/bin/python3")
    monkeypatch.setattr(sys, "prefix", "/opt/spanwire")
    monkeypatch.setattr(sys, "base_prefix", "/home/me/.local/share/uv/python/cpython-3.13.2")
    assert values(unit(capsys, "--print"), "ProtectHome") == ["read-only"]


def test_a_data_directory_in_another_place_is_writable(capsys: pytest.CaptureFixture[str]) -> None:
    text = unit(capsys, "--print", "--data-directory", "/srv/mq data")
    assert values(text, "ReadWritePaths") == ['"/srv/mq data"']
    assert values(text, "WorkingDirectory") == ["/srv/mq data"]
    assert values(text, "StateDirectory") == []
    assert values(unit(capsys, "--print", "--data-directory", "/var/lib/mq/a"), "StateDirectory") == ["mq/a"]


@pytest.mark.parametrize(("file", "expected"), [("/etc/a.xml", "yes"), ("/home/me/a.xml", "read-only")])
def test_files_in_a_home_can_be_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: str, expected: str
) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/spanwire/bin/python")
    monkeypatch.setattr(sys, "prefix", "/opt/spanwire")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert values(unit(capsys, "--print", "--configuration", file), "ProtectHome") == [expected]


def test_java_may_make_memory_executable(capsys: pytest.CaptureFixture[str]) -> None:
    text = unit(capsys, "--print", "--", "--jars", "/opt/jars")
    assert values(text, "MemoryDenyWriteExecute") == values(text, "ProcSubset") == []


def test_the_unit_of_pipelines_runs_routes(capsys: pytest.CaptureFixture[str]) -> None:
    text = unit(capsys, "--print", "pipelines", "--configuration", "/etc/a.yaml", "--name", "routes", "--", "-Da=b")
    assert values(text, "ExecStart") == [
        f"{sys.executable} -m spanwire pipeline run /etc/a.yaml --state /var/lib/routes -Da=b"
    ]
    assert values(text, "Type") == ["exec"]
    assert values(text, "KillMode") == ["mixed"]
    assert values(text, "WatchdogSec") == values(text, "ExecReload") == values(text, "MemoryDenyWriteExecute") == []


def test_what_a_unit_cannot_say_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--name '../x'" in refusal(capsys, "--name", "../x")
    assert "--user 'a b'" in refusal(capsys, "--user", "a b")
    assert "a character that a unit cannot hold" in refusal(capsys, "--data-directory", "/srv/a\nUser=root")
    assert "a character that a unit cannot hold" in refusal(capsys, "--configuration", "/etc/a\nUser=root")
    assert "a pipeline has routes" in refusal(capsys, "pipelines")


def test_a_further_argument_that_the_command_refuses_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["service", "--print", "--", "--wbe"])
    assert ended.value.code == 2
    assert "spanwire start: unknown option --wbe" in capsys.readouterr().err


def test_each_directive_has_its_reason_in_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [
        unit(capsys, "--print", "--data-directory", "/srv/mq"),
        unit(capsys, "--print"),
        unit(capsys, "--print", "pipelines", "--configuration", "/etc/a.yaml"),
    ]
    used = {name for text in texts for name in re.findall(r"(?m)^(\w+)=", text)}
    cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    explained = {name for cell in cells for name in re.findall(r"`(\w+)", cell)}
    assert used - explained == set()


@pytest.mark.parametrize("kind", ["broker", "pipelines"])
def test_systemd_accepts_the_unit(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    require("systemd")
    file = tmp_path / "spanwire.service"
    file.write_text(unit(capsys, "--print", kind, "--configuration", "/etc/spanwire/a b.xml"), "utf-8")
    done = subprocess.run([ANALYZE, "verify", "--man=no", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "spanwire.service" in line]) == (0, [])
    wrong = tmp_path / "wrong.service"
    wrong.write_text(file.read_text("utf-8").replace("KillMode=mixed", "KillMod=mixed"), "utf-8")
    told = subprocess.run([ANALYZE, "verify", "--man=no", str(wrong)], capture_output=True, text=True, check=False)
    assert "KillMod" in told.stderr


@pytest.mark.parametrize("kind", ["broker", "pipelines"])
def test_systemd_finds_little_exposed(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    require("systemd")
    file = tmp_path / "spanwire.service"
    file.write_text(unit(capsys, "--print", kind, "--configuration", "/etc/spanwire/a.xml"), "utf-8")
    command = [ANALYZE, "security", "--offline=yes", f"--threshold={MOST_EXPOSED}", "--no-pager", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
