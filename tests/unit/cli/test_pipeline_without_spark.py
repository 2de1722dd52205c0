"""The commands of the pipeline where the packages of the extra are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# An interpreter that does not find the packages of the extra `spark`.
BARE = """\
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pyarrow", "yaml"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from spanwire.cli.main import main
sys.exit(main())
"""
NOBODY = "tcp://127.0.0.1:1"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BARE, "pipeline", *words], capture_output=True, text=True, check=False)


def test_dead_letters_are_shown_without_packages_of_the_extra() -> None:
    done = run("redrive", "--dry-run", "--url", NOBODY)
    assert done.returncode == 1
    assert "Connection refused" in done.stderr and "installed" not in done.stderr


@pytest.mark.parametrize(
    "command", ["init", "run", "archive", "replay", "redrive", "report", "status", "stop", "cursors", "sinks"]
)
def test_help_is_shown_without_packages_of_the_extra(command: str) -> None:
    done = run(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: spanwire pipeline {command}")


def test_help_says_that_an_archive_removes_messages_from_their_queue() -> None:
    assert "Archived messages are removed from their queue" in run("archive", "--help").stdout
    assert "remove messages from queues" in run("--help").stdout


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it() -> None:
    done = run("archive", "queue://A", "/nowhere/archive", "--url", NOBODY)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "py4j is not installed; run: " in line or "pyspark is not installed; run: " in line
    assert "pip install" in line


@pytest.mark.parametrize("command", ["pipeline run", "bridge check", "bridge run"])
def test_a_route_file_without_its_reader_is_one_line_with_the_command_that_installs_it(
    command: str, tmp_path: Path
) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text("- route: {id: orders, from: {uri: 'a:queue:A', steps: [{to: 'a:queue:B'}]}}\n")
    done = subprocess.run(
        [sys.executable, "-c", BARE, *command.split(), str(file)], capture_output=True, text=True, check=False
    )
    (line,) = done.stderr.splitlines()
    assert f"{file}: a route file in YAML needs the extra yaml, which is not installed; run: " in line
    assert done.returncode == 1 and "pip install" in line


def test_a_wrong_trigger_is_refused_by_a_dry_run() -> None:
    done = run("run", "nothing.yaml", "--trigger", "now", "--dry-run")
    assert (done.returncode, done.stderr) == (
        1, "spanwire pipeline: --trigger is 'now', not available-now or interval or interval=5s\n"
    )  # fmt: skip
