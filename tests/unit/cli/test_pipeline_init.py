"""`spanwire pipeline init`: the files of a new project, and what it refuses."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.pipeline.project.project_writer import FILES, SUFFIX, TEMPLATES
from spanwire.routes.plan import plan_of
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders


def init(directory: Path, *words: str) -> int:
    return main(["pipeline", "init", str(directory), *words])


def written(directory: Path) -> dict[str, str]:
    return {
        path.relative_to(directory).as_posix(): path.read_text("utf-8")
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_every_template_is_written_and_no_mark_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = tmp_path / "deep/shop-2"
    assert init(project) == 0
    files = written(project)
    assert sorted(files) == sorted(name.replace("@NAME@", "shop-2") for name in FILES)
    assert {path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*") if path.is_file()} == {
        name + SUFFIX for name in FILES
    }
    assert [name for name, text in files.items() if re.search("@[A-Z]+@", text)] == []
    assert f"PYTHON ?= {sys.executable}" in files["local.mk"]
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith("wrote ")] == [
        f"wrote {project / name.replace('@NAME@', 'shop-2')}" for name in FILES
    ]
    assert shown[-1] == f"next, in {project}: make test; make help lists the other targets"


def test_python_files_and_routes_of_a_project_can_be_read(tmp_path: Path) -> None:
    project = tmp_path / "Shop_2"
    assert init(project) == 0
    for path in project.rglob("*.py"):
        ast.parse(path.read_text("utf-8"))
    content = (project / "Shop_2.yaml").read_bytes()
    values = Placeholders({"url": "tcp://127.0.0.1:61616", "data": "data"}, {})
    plan = plan_of(read_routes(content, "Shop_2.yaml", values))
    assert plan.startswith("route Shop_2\n") and "SHOP_2.LARGE" in plan


def test_the_current_directory_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    assert main(["pipeline", "init"]) == 0
    assert (tmp_path / "shop/shop.yaml").exists()
    assert capsys.readouterr().out.endswith("next, make test; make help lists the other targets\n")


def test_existing_files_are_named_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = tmp_path / "shop"
    (project / "functions").mkdir(parents=True)
    (project / "functions/clean.py").write_text("mine", "utf-8")
    (project / "Makefile").symlink_to("nowhere")
    assert init(project) == 1
    assert written(project) == {"functions/clean.py": "mine"}
    assert capsys.readouterr().err == (
        f"spanwire pipeline: {project} has functions/clean.py, Makefile already; nothing was written; --overwrite "
        "replaces such files\n"
    )


def test_overwriting_is_said_for_each_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    (project / "settings.mk").write_text("mine", "utf-8")
    assert init(project, "--overwrite") == 0
    shown = capsys.readouterr().out
    assert f"overwrote {project / 'settings.mk'}\n" in shown
    assert shown.count("overwrote ") == 1
    assert "BROKER_URL" in (project / "settings.mk").read_text("utf-8")


@pytest.mark.parametrize("name", ["2shops", "my shop", "a.b", "-shop", "é", "s" * 65])
def test_a_directory_whose_name_is_no_name_for_a_queue_is_refused(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(tmp_path / name) == 1
    assert list(tmp_path.iterdir()) == []
    assert "is no name for a project; name a directory with a letter first" in capsys.readouterr().err


def test_a_file_in_place_of_a_directory_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shop").write_text("a file", "utf-8")
    assert init(tmp_path / "shop") == 1
    assert capsys.readouterr().err.count("\n") == 1
