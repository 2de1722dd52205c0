"""Style sheet and modules of the pages, from the package.

Paths have a digest, so browsers keep the files.
"""

from __future__ import annotations

import hashlib
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from starlette.responses import Response

from spanwire.web.calls import Call
from spanwire.web.problems import ProblemError

PREFIX: Final = "/admin/assets"
PATH: Final = PREFIX + "/{version}/{file}"
TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
NAMES: Final = ("console.css", "console.js", "icon.svg", "live.js", "middle.js", "times.js")
KEPT_S: Final = 365 * 24 * 3_600  # seconds; another content has another path


@cache
def contents() -> dict[str, bytes]:
    """Return the files by name."""
    folder = files("spanwire.web.console").joinpath("assets")
    return {name: folder.joinpath(name).read_bytes() for name in NAMES}


@cache
def version() -> str:
    """Return the digest of all files."""
    return hashlib.sha256(b"\0".join(contents().values())).hexdigest()[:16]


def asset(name: str) -> str:
    """Return the path of a file.

    Modules import each other by relative paths, so all have the same version.
    """
    return f"{PREFIX}/{version()}/{name}"


async def serve_asset(call: Call) -> Response:
    """Answer with a file. Raises `ProblemError` for an unknown name."""
    name, asked = str(call.request.path_params["file"]), str(call.request.path_params["version"])
    content = contents().get(name)
    if content is None:
        raise ProblemError(HTTPStatus.NOT_FOUND, f"there is no file {name[:80]}")
    kept = f"public, max-age={KEPT_S}, immutable" if asked == version() else "no-store"
    return Response(content, media_type=TYPES[name.rpartition(".")[2]], headers={"Cache-Control": kept})
