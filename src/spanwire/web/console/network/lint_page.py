"""The page of findings about the configurations of the network, and the lines around a finding."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.responses import Response

from spanwire.web.calls import Call
from spanwire.web.console.forms import read_words
from spanwire.web.console.network.configured_network import findings_of, settings_of
from spanwire.web.console.network.file_masking import masked
from spanwire.web.console.rendering import page
from spanwire.web.problems import ProblemError

PATH: Final = "/admin/network-lint"
LINES_PATH: Final = "/admin/network-file"
AROUND: Final = 8  # lines before and after the one that is meant
MAX_FILE_BYTES: Final = 4 * 1024 * 1024  # bytes of a configuration file of which lines are shown


async def show_findings(call: Call) -> Response:
    """Show the findings of ``spanwire network lint`` in the files of the network."""
    found = await findings_of(call)
    return page(call, "network_lint.html", "Findings", found=found, split=split)


async def show_lines(call: Call) -> Response:
    """Show some lines around a line of a file, without secrets. Raises `ProblemError` for another file."""
    words = read_words(call)
    name, line = words.text("name"), words.text("line")
    settings = await settings_of(call)
    if name not in settings.files or not (line.isascii() and line.isdigit() and len(line) < 8):
        raise ProblemError(HTTPStatus.NOT_FOUND, "that is no line of a configuration file of this network")
    lines = await asyncio.to_thread(_lines, Path(name))
    number = int(line)
    shown = [(index, lines[index - 1]) for index in range(max(1, number - AROUND), number + AROUND + 1) if
             index <= len(lines)]  # fmt: skip
    return page(call, "network_file.html", f"Line {number} of {Path(name).name}", name=name, line=number, lines=shown)


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise ProblemError(HTTPStatus.NOT_FOUND, f"{path} cannot be read: {error.strerror}") from error
    return masked(text).splitlines()


def split(location: str) -> tuple[str, str]:
    """Return file and line of a place."""
    name, _, line = location.rpartition(":")
    return (name, line) if line.isdigit() else (location, "")
