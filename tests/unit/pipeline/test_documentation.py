"""The page about Spark names the options and the columns that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.model.units import MIB
from spanwire.pipeline.arrow.schema import COLUMNS
from spanwire.pipeline.options import COMMON, MAX_BYTES, MAX_RECEIVE_TIMEOUT_MS, MAX_ROWS, READ, WRITE

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = (ROOT / "docs/reference/spark.md").read_text(encoding="utf-8")
GUIDES = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/guides/spark").glob("*.md"))


def section(title: str) -> str:
    return REFERENCE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(text: str) -> list[str]:
    """The words in backticks of the first column of a table."""
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row)]


def test_every_option_is_on_the_page_and_no_other() -> None:
    assert sorted(first_cells(section("Options"))) == sorted({*COMMON, *READ, *WRITE})


def test_every_option_in_the_examples_exists() -> None:
    named = set(re.findall(r'\.?option\("(\w+)"', GUIDES)) - {"path", "checkpointLocation"}
    assert named <= {*COMMON, *READ, *WRITE}


def test_every_column_is_on_the_page_and_no_other() -> None:
    assert sorted(first_cells(section("Columns"))) == sorted(name for name, _ in COLUMNS)


def test_the_largest_values_are_on_the_page() -> None:
    options = section("Options")
    assert f"at most {MAX_ROWS} |" in options
    assert f"at most {MAX_RECEIVE_TIMEOUT_MS} |" in options
    assert f"at most {MAX_BYTES // (1024 * MIB)} GiB |" in options


def test_every_test_that_the_page_about_exactly_once_names_exists() -> None:
    text = (ROOT / "docs/reference/exactly-once.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(named) > 8
    assert [name for name in sorted(named) if not any(f"def {name}(" in file for file in files)] == []


def test_the_route_of_the_first_page_has_the_plan_that_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/guides/routes/run.md").read_text(encoding="utf-8")
    (route,) = re.findall(r'```yaml title="routes.yaml"\n(.*?)```', page, re.DOTALL)
    ((command, plan),) = re.findall(r"```console\n\$ (.*?)\n(.*?)```", page, re.DOTALL)
    (tmp_path / "routes.yaml").write_text(route)
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out == plan
