"""The command that installs an extra names packages that an index has."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from spanwire.extras import install_command, required_packages

PROJECT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
REQUIREMENTS = [
    "librt<1,>=0.7",
    "cryptography<51,>=43; extra == 'security'",
    "cryptography<51,>=43; extra == 'test'",
    'uvloop<1,>=0.21; (sys_platform != "win32") and extra == "speed"',
    "pyspark[sql]<5,>=4.2; extra == 'spark'",
]


@pytest.mark.parametrize(
    ("extras", "expected"),
    [
        (["security"], ["cryptography<51,>=43"]),
        (["security", "test"], ["cryptography<51,>=43"]),
        (["speed"], ["uvloop<1,>=0.21"]),
        (["spark", "security"], ["cryptography<51,>=43", "pyspark[sql]<5,>=4.2"]),
        (["none"], []),
    ],
)
def test_the_packages_of_an_extra_are_named_without_their_markers(extras: list[str], expected: list[str]) -> None:
    assert required_packages(REQUIREMENTS, extras) == expected


@pytest.mark.parametrize(
    "extra", ["java", "jsonschema", "protobuf", "report", "security", "spark", "web", "zeroconf", "fabric"]
)
def test_the_command_names_every_package_of_the_extra_and_not_spanwire_itself(extra: str) -> None:
    words = shlex.split(install_command(extra))
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    names = {word.split("<")[0].split(">")[0].lower() for word in words[4:]}
    assert names == {text.split(">")[0].lower() for text in EXTRAS[extra]}


@pytest.mark.large
def test_pip_accepts_the_command() -> None:
    words = shlex.split(install_command("security"))
    words[4:4] = ["--dry-run", "--no-index", "--disable-pip-version-check", "--quiet"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr  # cryptography is installed: pip finds the requirement satisfied
