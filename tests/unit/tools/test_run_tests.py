"""What each of the two runs of `make test` leaves out, against what is compiled."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LISTS = ROOT / "tools/test_lists"
WITHOUT_PACKAGE = {"examples", "sources", "support", "tools"}  # folders of tests/unit without a package of their name


def listed(name: str) -> list[Path]:
    """The paths of a list."""
    return [Path(line) for line in (LISTS / f"{name}.txt").read_text("utf-8").splitlines()]


def compiled() -> set[Path]:
    """The folders of compiled modules."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["include"]
    return {path.parent.relative_to(ROOT) for pattern in patterns for path in ROOT.glob(pattern.lstrip("/"))}


def test_nothing_is_left_out_of_both_runs() -> None:
    pure, compiled_only = listed("pure_only"), listed("compiled_only")
    assert len(pure) > 15 and len(compiled_only) > 10
    assert len({*pure, *compiled_only}) == len(pure) + len(compiled_only)
    assert [path for path in (*pure, *compiled_only) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("folder", listed("pure_only"), ids=str)
def test_a_folder_that_is_tested_on_the_pure_build_alone_has_no_compiled_module(folder: Path) -> None:
    inside = folder.relative_to("tests/unit")
    package = ROOT / "src/spanwire" / inside
    assert package.is_dir() or inside.name in WITHOUT_PACKAGE
    assert [path for path in compiled() if path.is_relative_to(Path("src/spanwire") / inside)] == []


@pytest.mark.parametrize("folder", listed("pure_only"), ids=str)
def test_no_large_test_is_left_out_of_both_runs(folder: Path) -> None:
    marked = [path for path in (ROOT / folder).rglob("*.py") if "pytest.mark.large\n" in path.read_text("utf-8")]
    assert marked == []
