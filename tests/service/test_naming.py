"""Every command finds a running broker the same way; what died is not found."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from spanwire.cli.main import main
from tests.service.started import Started, spanwire

COMMANDS: Final = (
    ("status",),
    ("dstat",),
    ("dstat", "queues"),
    ("bstat",),
    ("query",),
    ("reload",),
    ("network", "map"),
)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in which no other broker is listed; brokers and commands of the test are in it."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    for name in ("XDG_RUNTIME_DIR", "TMPDIR", "HOME"):
        monkeypatch.setenv(name, str(runtime))


def test_each_command_takes_each_way_to_name_a_broker(
    tmp_path: Path, environment: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Started(tmp_path / "a") as broker:
        file = str(broker.configuration)
        ways: list[tuple[tuple[str, ...], dict[str, str]]] = [
            ((), {}),
            (("tested",), {}),
            ((file,), {}),
            ((f"xbean:{file}",), {}),
            (("--configuration", file), {}),
            (("--data-directory", str(broker.data)), {}),
            ((), {"SPANWIRE_CONFIGURATION": file}),
        ]
        for command in COMMANDS:
            for way, variables in ways:
                with monkeypatch.context() as patch:
                    for name, value in variables.items():
                        patch.setenv(name, value)
                    assert main([*command, *way]) == 0, (command, way)
                assert capsys.readouterr().err == "", (command, way)
        done = spanwire("status", "--configuration", file)
        assert (done.returncode, done.stderr) == (0, "")
        done = spanwire("stop", file)
        assert (done.returncode, done.stdout) == (0, "stopped\n")
        assert broker.ended() == 0
        assert spanwire("list").stdout == "no broker of this user runs\n"


def test_two_brokers_are_listed_and_a_killed_one_is_not(tmp_path: Path, environment: None) -> None:
    with Started(tmp_path / "a") as one, Started(tmp_path / "b") as other:
        listed = spanwire("list").stdout
        assert listed.count("\n") == 3
        assert f"{one.pid} " in listed and str(other.configuration) in listed
        refused = spanwire("status")
        assert refused.returncode == 1
        assert "2 brokers run; name one" in refused.stderr
        assert str(one.configuration) in refused.stderr
        other.kill()
        assert str(other.pid) not in spanwire("list").stdout
        assert spanwire("status").stdout.startswith("name: tested\n")
