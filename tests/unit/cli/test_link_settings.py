"""The password of a link on the command line: from a file, the environment or a prompt, and never a word of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.cli.arguments import Parser
from spanwire.cli.network.link_settings import PASSWORD_VARIABLE, add_settings, settings_of
from spanwire.model.errors import ConfigurationError


def settings(*words: str) -> dict[str, str]:
    parser = Parser(prog="tried", description="Tried.")
    add_settings(parser, "duplex=true")
    options = parser.parse(words)
    return settings_of(parser, options.set, options.password_file)


def test_attributes_are_taken_as_they_are() -> None:
    assert settings("--set", "duplex=true", "--set", "prefetchSize=5") == {"duplex": "true", "prefetchSize": "5"}


@pytest.mark.parametrize("attribute", ["password", "remotePassword"])
def test_a_password_among_the_words_is_refused_without_being_shown(
    attribute: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        settings("--set", f"{attribute}=canary")
    said = capsys.readouterr().err
    assert "the list of processes would show it" in said
    assert "canary" not in said


def test_an_encrypted_password_is_taken() -> None:
    assert settings("--set", "password=ENC(abc)") == {"password": "ENC(abc)"}


def test_the_password_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary\n")
    words = ("--set", "userName=u", "--password-file", str(tmp_path / "secret"))
    assert settings(*words) == {"userName": "u", "password": "canary"}


def test_the_password_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "canary")
    assert settings("--set", "remoteUserName=u") == {"remoteUserName": "u", "remotePassword": "canary"}


def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
    with pytest.raises(ConfigurationError, match="the password of the link is missing"):
        settings("--set", "userName=u")


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        settings("--set", "userName=u", "--password-file", str(tmp_path / "none"))


def test_a_file_without_a_user_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        settings("--password-file", str(tmp_path / "secret"))
