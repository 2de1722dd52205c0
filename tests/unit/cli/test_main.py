"""The command itself: what there is, which build it is, and what is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire import __version__
from spanwire.cli.main import COMMANDS, main


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    overview = capsys.readouterr().out
    for name in COMMANDS:
        assert f"  {name} " in overview


def test_the_version_says_which_build_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    line = capsys.readouterr().out
    assert __version__ in line
    assert "compiled: yes" in line or "compiled: no" in line


def test_an_unknown_command_is_named_with_the_closest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stat"]) == 2
    assert "unknown command 'stat', did you mean" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main([command, "--help"])
    assert raised.value.code == 0
    assert f"usage: spanwire {command}" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["stop", "status", "dstat"])
def test_without_a_broker_there_is_one_line(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--data-directory", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"spanwire {command}: no broker runs in {tmp_path}; start one, or name its directory with --data-directory\n"
    )


def test_every_obstacle_of_a_configuration_is_a_line_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text("<broker brokerNam='x'>\n<proxyConnectors><x/></proxyConnectors></broker>", "utf-8")
    assert main(["start", str(path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"spanwire start: {path}:1: unknown attribute of <broker> 'brokerNam'; did you mean brokerName?",
        f"spanwire start: {path}:2: <proxyConnectors> is not supported (it asks for proxies); "
        "remove it or start with --skip-unsupported",
    ]


def test_what_steers_a_terminal_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start", "\x1b[31m.xml"]) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_a_broker_that_was_started_without_the_unsupported_is_found_by_the_same_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(f"<broker dataDirectory='{tmp_path}/data' slave='true'/>", "utf-8")
    assert main(["status", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"spanwire status: no broker runs in {tmp_path}/data; start one")
