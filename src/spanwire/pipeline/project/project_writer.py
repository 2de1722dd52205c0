"""Writes a project of routes: a route file, functions, tests, settings and a Makefile.

Each file below ``files`` is a template, with the name of the resulting file and ``.txt`` behind. So no tool takes a
template for a module or a configuration of this package. ``@NAME@`` stands for the name of the project, ``@QUEUE@`` for
the queue, and ``@PYTHON@`` for the interpreter.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError

TEMPLATES: Final = Path(__file__).with_name("files")
SUFFIX: Final = ".txt"
# In the order in which a reader of a new project opens them.
FILES: Final = (
    "README.md",
    "@NAME@.yaml",
    "functions/clean.py",
    "tests/conftest.py",
    "tests/test_functions.py",
    "tests/test_routes.py",
    "settings.mk",
    "local.mk",
    "Makefile",
    "pytest.ini",
    "requirements.txt",
    ".gitignore",
)
NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")  # of a route, a queue, a file and a directory
MAX_SHOWN: Final = 60  # characters of a refused name in an error


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of a new project."""

    path: Path
    text: str
    exists: bool


def project_name(directory: Path) -> str:
    """Return the name of the project in a directory: the directory's name.

    Raises:
        ConfigurationError: the name is no name for a route, a queue and a file.
    """
    name = directory.resolve().name
    if not NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name[:MAX_SHOWN]!r} is no name for a project; name a directory with a letter first, and letters, "
            "digits, - or _ after it, 64 characters at most"
        )
    return name


def plan_project(directory: Path, python: str) -> list[ProjectFile]:
    """Return the files of a project for the interpreter ``python``, with the existence of each file.

    Raises:
        ConfigurationError: the directory's name is no name for a project.
    """
    name = project_name(directory)
    words = {"@NAME@": name, "@QUEUE@": name.upper(), "@PYTHON@": python.replace("$", "$$")}
    files = []
    for template in FILES:
        path = directory / _with_words(template, words)
        text = _with_words((TEMPLATES / (template + SUFFIX)).read_text("utf-8"), words)
        files.append(ProjectFile(path, text, os.path.lexists(path)))
    return files


def write_project(directory: Path, python: str, overwrite: bool) -> list[ProjectFile]:
    """Write and return the files of a project.

    Raises:
        ConfigurationError: the directory's name is no name for a project; a file exists and ``overwrite`` is False, and
            no file was written; a file cannot be written.
    """
    files = plan_project(directory, python)
    if existing := [file.path.relative_to(directory).as_posix() for file in files if file.exists and not overwrite]:
        raise ConfigurationError(
            f"{directory} has {', '.join(existing)} already; nothing was written; --overwrite replaces such files"
        )
    for file in files:
        try:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            with file.path.open("w" if file.exists else "x", encoding="utf-8") as stream:
                stream.write(file.text)
        except OSError as error:
            raise ConfigurationError(f"{file.path}: {error.strerror}") from None
    return files


def _with_words(text: str, words: dict[str, str]) -> str:
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text
