"""The deploy directory of a broker: a new file starts routes, the deletion of a file stops the routes.

A file counts if two looks show the same version, so a half-written file is left alone. A changed file replaces its
routes: the old routes complete their batches before the new routes start. A broken file is one line in the log, and the
earlier routes of the file go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spanwire.bridges.owned_files import check_directory, read_file
from spanwire.documents.element import MAX_DOCUMENT_BYTES
from spanwire.model.errors import ConfigurationError

if TYPE_CHECKING:
    from spanwire.bridges.model.route_definition import Definition

POLL_S: Final = 1.0  # seconds between two looks; Karaf's felix.fileinstall.poll
SUFFIXES: Final = (".xml", ".yaml", ".yml", ".toml")
MAX_FILES: Final = 1_000  # files of the directory; each has a bridge at least
FILE: Final = "the deployed file"
DIRECTORY: Final = "the deploy directory"

Signature = tuple[int, int, int]
Reader = Callable[[bytes, Path, list[str]], "tuple[list[Definition], list[str]]"]
Replace = Callable[[list[str], "list[Definition]"], Awaitable[bool]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deploy directory, and the function to read deployed files."""

    directory: Path
    read: Reader


@dataclass(slots=True)
class _File:
    """A file at the last look; ``taken`` is the version with running routes, or a broken version."""

    seen: Signature | None = None
    taken: Signature | None = None


class Deployments:
    """The files of one directory, and the names of the files' routes.

    ``read`` returns definitions and warnings of a file, for a list of taken names. ``replace`` stops the routes of some
    names and starts others, or logs an error and returns False without a change.
    """

    def __init__(self, directory: Path, taken: list[str], read: Reader, replace: Replace) -> None:
        self._directory: Final = directory
        self._taken: Final = taken  # names of the configuration
        self._read: Final = read
        self._replace: Final = replace
        self._files: Final[dict[str, _File]] = {}
        self._names: Final[dict[str, list[str]]] = {}  # of running routes, by file
        self._trouble: str | None = None

    async def watch(self) -> None:
        """Look at the directory until the task is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_S)

    async def look(self) -> None:
        """Look at the directory once, and carry out the changes."""
        try:
            found = await asyncio.to_thread(self._list)
        except ConfigurationError as error:
            self._complain(str(error))
            return
        except OSError as error:  # the directory cannot be listed, or its files cannot be looked at
            self._complain(f"{DIRECTORY} {self._directory}: {error.strerror or error}")
            return
        self._trouble = None
        for name in [name for name in self._files if name not in found]:
            del self._files[name]
            await self._change(name, [])
        for name, signature in sorted(found.items()):
            file = self._files.setdefault(name, _File())
            is_settled, file.seen = file.seen == signature, signature
            if is_settled and file.taken != signature:
                file.taken = signature
                await self._deploy(name)

    def _complain(self, trouble: str) -> None:
        """Log the reason for the lack of deployments, once."""
        if self._trouble != trouble:
            self._trouble = trouble
            logger.error("nothing is deployed: %s", trouble)

    def _list(self) -> dict[str, Signature]:
        check_directory(self._directory, DIRECTORY)
        found: dict[str, Signature] = {}
        for path in self._directory.iterdir():
            if path.suffix in SUFFIXES and path.name[0] != ".":
                try:
                    status = path.lstat()
                except FileNotFoundError:
                    continue
                found[path.name] = (status.st_mtime_ns, status.st_size, status.st_ino)
        if len(found) > MAX_FILES:
            raise ConfigurationError(f"{DIRECTORY} {self._directory} has more than {MAX_FILES} files")
        return found

    async def _deploy(self, name: str) -> None:
        path = self._directory / name
        try:
            content = await asyncio.to_thread(read_file, path, FILE, MAX_DOCUMENT_BYTES)
            definitions, warnings = await asyncio.to_thread(self._read, content, path, self._taken_beside(name))
            beside = self._taken_beside(name)  # an operator may have created a bridge meanwhile
            for definition in definitions:
                if definition.name in beside:
                    raise ConfigurationError(
                        f"{path}: there is a bridge or route {definition.name!r} already; rename it"
                    )
        except (ConfigurationError, OSError) as error:
            rest = "; its former routes go on" if self._names.get(name) else ""
            logger.error("not deployed: %s%s", str(error).replace("\n", "; "), rest)
            return
        for warning in warnings:
            logger.warning("%s", warning)
        await self._change(name, definitions)

    def _taken_beside(self, name: str) -> list[str]:
        return [*self._taken, *(one for file, names in self._names.items() if file != name for one in names)]

    async def _change(self, name: str, definitions: list[Definition]) -> None:
        former = self._names.get(name, [])
        if not (former or definitions) or not await self._replace(former, definitions):
            return
        self._names.pop(name, None)
        if definitions:
            self._names[name] = [definition.name for definition in definitions]
            logger.info("deployed %s: %s", name, ", ".join(self._names[name]))
        else:
            logger.info("%s is no longer deployed: %s", name, ", ".join(former))
