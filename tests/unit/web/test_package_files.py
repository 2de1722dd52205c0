"""What a wheel has of the web process: every template, style sheet and module of pages, and all of its code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

from spanwire.web.console.assets import NAMES
from spanwire.web.console.rendering import environment

ROOT: Final = Path(__file__).parents[3]
WEB: Final = ROOT / "src/spanwire/web"
REFERENCE: Final = re.compile(r"""(?:extends|include|from|import) ["']([\w./-]+)["']""")


@pytest.fixture(scope="module")
def wheel() -> set[str]:
    """The paths that the builder of wheels takes, without a build."""
    hatchling = pytest.importorskip("hatchling.builders.wheel")
    builder = hatchling.WheelBuilder(str(ROOT))
    return {included.distribution_path for included in builder.recurse_included_files()}


def test_a_wheel_has_every_file_of_the_web_process(wheel: set[str]) -> None:
    here = {str(path.relative_to(ROOT / "src")) for path in WEB.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts}  # fmt: skip
    assert len(here) > 100
    assert {Path(path).suffix for path in here} >= {".py", ".html", ".css", ".js", ".svg"}
    assert sorted(here - wheel) == []


def test_a_source_distribution_has_them_too() -> None:
    builder = pytest.importorskip("hatchling.builders.sdist").SdistBuilder(str(ROOT))
    taken = {included.distribution_path for included in builder.recurse_included_files()}
    assert {f"src/spanwire/web/console/assets/{name}" for name in NAMES} <= taken
    assert {f"src/spanwire/web/console/templates/{name}" for name in environment().list_templates()} <= taken


def test_every_asset_and_template_that_a_page_names_is_in_the_wheel(wheel: set[str]) -> None:
    console = "spanwire/web/console"
    assert {f"{console}/assets/{name}" for name in NAMES} <= wheel
    named = set[str]()
    for path in (WEB / "console").rglob("*"):
        if path.suffix == ".html":
            named |= set(REFERENCE.findall(path.read_text("utf-8")))
        elif path.suffix == ".py":
            named |= set(re.findall(r'"(\w+\.html)"', path.read_text("utf-8")))
    names = {name for name in named if name.endswith(".html")}
    assert len(names) > 15
    assert sorted(name for name in names if f"{console}/templates/{name}" not in wheel) == []
    modules = {name for name in NAMES if name.endswith(".js")}
    for name in modules:
        text = (WEB / "console/assets" / name).read_text("utf-8")
        assert {one.removeprefix("./") for one in REFERENCE.findall(text)} <= modules, name


def test_a_file_that_the_configuration_leaves_out_is_missed() -> None:
    hatchling = pytest.importorskip("hatchling.builders.wheel")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"] = ["*.css"]
    builder = hatchling.WheelBuilder(str(ROOT), config=project)
    taken = {included.distribution_path for included in builder.recurse_included_files()}
    assert "spanwire/web/console/rendering.py" in taken
    assert "spanwire/web/console/assets/console.css" not in taken
