"""The command ``spanwire pipeline init``: writes a project of routes. Needs neither Spark nor Java."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from spanwire.cli.arguments import Parser
from spanwire.model.text import printable
from spanwire.pipeline.project.project_writer import write_project


def run_init(arguments: Sequence[str]) -> int:
    """Write a project and name its files."""
    parser = Parser(
        prog="spanwire pipeline init",
        description=(
            "Write a project: routes, the functions they call, tests, settings and a Makefile. The name of the\n"
            "directory names the project. If one of the files exists, nothing is written."
        ),
    )
    parser.add_argument(
        "directory", nargs="?", default=Path(), type=Path, metavar="DIRECTORY", help="the current directory without it"
    )
    parser.flag("overwrite", "replace files that exist, and name them")
    options = parser.parse(arguments)
    directory: Path = options.directory
    for file in write_project(directory, sys.executable or "python3", options.overwrite):
        sys.stdout.write(printable(f"{'overwrote' if file.exists else 'wrote'} {file.path}") + "\n")
    where = "" if directory.resolve() == Path.cwd() else f"in {directory}: "
    sys.stdout.write(printable(f"next, {where}make test; make help lists the other targets") + "\n")
    return 0
