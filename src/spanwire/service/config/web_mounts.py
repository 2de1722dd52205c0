"""Further paths of the web applications of ActiveMQ: the configured places of servlets and pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

ADMIN: Final = "admin"  # the console, of which queueBrowse may have another path
API: Final = "api"  # the message servlet
DEMO: Final = "demo"  # the pages of the Connectivity Guide with both servlets
APPLICATIONS: Final = (ADMIN, API, DEMO)
ROOT: Final = "/"
PATH: Final = re.compile(r"/|(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,63}){1,4}", re.ASCII)
MAX_MOUNTS: Final = 20  # of one web process; each adds some ten routes


@dataclass(frozen=True, slots=True)
class WebMount:
    """An application at a further path, ``/`` or one without a slash at its end."""

    application: str
    path: str

    def __str__(self) -> str:
        return f"{self.application}={self.path}"

    @property
    def prefix(self) -> str:
        """The path before the name of a servlet."""
        return "" if self.path == ROOT else self.path


def read_mounts(text: str) -> tuple[WebMount, ...]:
    """Return the mounts of a list with commas or blanks.

    Raises:
        ValueError: one of them is wrong, or there are more than `MAX_MOUNTS`
    """
    mounts = tuple(dict.fromkeys(read_mount(word) for word in text.replace(",", " ").split()))
    if len(mounts) > MAX_MOUNTS:
        raise ValueError(f"{len(mounts)} paths of web applications; there may be {MAX_MOUNTS}")
    return mounts


def read_mount(text: str) -> WebMount:
    """Return the mount in ``APPLICATION=/path``.

    Raises:
        ValueError: the application is unknown, or the path is none; the text says which
    """
    application, _, path = text.partition("=")
    if application not in APPLICATIONS:
        raise ValueError(f"{application[:40]!r} is no web application; there are {', '.join(APPLICATIONS)}")
    path = path if path == ROOT else path.removesuffix("/")
    if PATH.fullmatch(path) is None:
        raise ValueError(f"{path[:80]!r} is no path of a web application; write /name, or /name/name")
    return WebMount(application, path)
