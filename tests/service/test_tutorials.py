"""Somebody who follows a tutorial sees what it shows: files and commands are those of the page."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.tutorials import PAGES, Tutorial

ROOT = PAGES.parent
EXTRAS = re.compile(r"pip install '?\.(?:\[([\w,]+)\])?'?$")
NAMES = sorted(page.relative_to(PAGES).as_posix() for page in (PAGES / "tutorials").glob("*.md"))


@pytest.mark.long
def test_an_operator_runs_two_brokers_and_brings_a_dead_letter_back(tmp_path: Path) -> None:
    with Tutorial("tutorials/operator.md", tmp_path) as tutorial:
        tutorial.follow()
    unit = (tmp_path / "orders.service").read_text("utf-8")
    assert "start /etc/orders/orders.xml" in unit
    assert "EnvironmentFile=-/etc/orders/environment" in unit


@pytest.mark.long
def test_a_developer_writes_a_worker_and_tests_it(tmp_path: Path) -> None:
    with Tutorial("tutorials/developer.md", tmp_path) as tutorial:
        tutorial.follow()


def test_the_files_of_the_operator_and_of_the_developer_do_what_the_pages_say(tmp_path: Path) -> None:
    operator, developer = tmp_path / "operator", tmp_path / "developer"
    for folder in (operator, developer):
        folder.mkdir()
    with Tutorial("tutorials/operator.md", operator) as tutorial:
        tutorial.follow("config check", "network lint")
    with Tutorial("tutorials/developer.md", developer) as tutorial:
        tutorial.follow("pytest")


@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_begins_with_an_installation_of_extras_that_exist(name: str, tmp_path: Path) -> None:
    virtual, activate, *_, install = Tutorial(name, tmp_path).installation()
    assert (virtual, activate) == ("python3 -m venv .venv", ". .venv/bin/activate")
    match = EXTRAS.fullmatch(install)
    assert match is not None
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set((match[1] or "").split(",")) - {""} <= set(extras)
