"""The Containerfile says what docs/operations/container.md promises."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from spanwire.cli.arguments import CONFIGURATION_VARIABLE
from spanwire.cli.main import COMMANDS
from spanwire.management.running_brokers import RUNTIME_VARIABLE
from spanwire.service.data_directory import DATA_VARIABLE

ROOT = Path(__file__).parents[2]
FILE = (ROOT / "Containerfile").read_text("utf-8")
PAGE = (ROOT / "docs" / "operations" / "container.md").read_text("utf-8")
VOLUME = "/var/lib/spanwire"


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions with their arguments, without comments."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(word, " ".join(rest.split())) for word, rest in re.findall(r"(?m)^([A-Z]+) (.*)$", joined)]


ALL = instructions(FILE)
FINAL = ALL[max(index for index, (word, _) in enumerate(ALL) if word == "FROM") :]


def one(word: str) -> str:
    found = [value for name, value in FINAL if name == word]
    assert len(found) == 1, (word, found)
    return found[0]


def test_the_base_is_an_argument() -> None:
    assert ALL[0][0] == "ARG"
    assert ALL[0][1].startswith("BASE=")
    assert [value.split()[0] for word, value in ALL if word == "FROM"] == ["${BASE}", "${BASE}"]


def test_the_image_runs_as_a_user_with_one_volume_and_a_health_check() -> None:
    user = one("USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    assert one("VOLUME") == one("WORKDIR") == VOLUME
    owner, group = user.split(":")
    assert f"-o {owner} -g {group} -m 0700 {VOLUME}" in one("RUN")
    assert one("STOPSIGNAL") == "SIGTERM"
    check = json.loads(one("HEALTHCHECK").partition("CMD ")[2])
    assert "spanwire health" in check[-1]
    assert [json.loads(one(word)) for word in ("ENTRYPOINT", "CMD")] == [["spanwire"], ["start"]]
    assert "health" in COMMANDS


def test_all_that_is_written_is_in_the_volume() -> None:
    variables = dict(word.split("=", 1) for word in one("ENV").split())
    for name in ("HOME", RUNTIME_VARIABLE, DATA_VARIABLE):
        assert variables[name].startswith(VOLUME), name
    assert variables["PYTHONDONTWRITEBYTECODE"] == "1"
    assert variables[CONFIGURATION_VARIABLE].startswith("/etc/spanwire/")


@pytest.mark.parametrize(("status", "expected"), [(0, 0), (1, 0), (2, 1)])
def test_only_a_critical_state_is_unhealthy(tmp_path: Path, status: int, expected: int) -> None:
    command = json.loads(one("HEALTHCHECK").partition("CMD ")[2])
    stub = tmp_path / "spanwire"
    stub.write_text(f"#!/bin/sh\nexit {status}\n", "utf-8")
    stub.chmod(0o755)
    assert subprocess.run(command, env={"PATH": str(tmp_path)}, check=False).returncode == expected


def test_what_is_copied_is_here() -> None:
    for value in [value for word, value in ALL if word == "COPY" and "--from" not in value]:
        for name in value.split()[:-1]:
            assert (ROOT / name).exists(), name


def test_the_documentation_names_the_same() -> None:
    for text in (VOLUME, one("USER").partition(":")[0], "/etc/spanwire/activemq.xml", "SIGTERM", "`spanwire health`"):
        assert text in PAGE, text
