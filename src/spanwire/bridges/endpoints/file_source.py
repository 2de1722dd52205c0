"""A directory as the source of a route: a message for each file."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import stat
from pathlib import Path
from typing import Final

from spanwire.bridges.engine.changed_messages import NeutralContent, storable
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import FileSource
from spanwire.model.errors import JmsError
from spanwire.model.message_view import BYTES, STRING_VALUE, TEXT
from spanwire.model.units import MIB

MAX_FILE_BYTES: Final = 64 * MIB  # bytes of a file; a larger one is moved to the failed files
MAX_LISTED: Final = 100_000  # files of one look at the directory
OPEN_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # no link, and no wait for a pipe
DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
NO_FILE: Final = (errno.ENOENT, errno.ELOOP, errno.ENXIO)  # gone, or a link or socket by now
FILE_NAME: Final = "CamelFileName"  # Camel's header with the name of the file


class OpenFileSource:
    """Reads files in the order of names. A file stays in the directory until the acknowledgement.

    Names with a dot at the beginning are left out, so a file should be written under such a name and renamed.
    """

    def __init__(self, source: FileSource) -> None:
        self._source: Final = source
        self._directory: Final = Path(source.directory)
        self._include: Final = None if source.include is None else re.compile(source.include)
        self._received: list[Path] = []

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Read the next files; wait for the first file."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait_s
        while True:
            messages, paths = await asyncio.to_thread(self._read, max_messages, max_bytes)
            self._received += paths  # here, because a cancelled call takes no file and its thread reads on
            left = end - loop.time()
            if messages or left <= 0:
                return messages
            await asyncio.sleep(min(left, self._source.delay_ms / 1000))

    async def acknowledge(self) -> None:
        """Remove or move the received files."""
        await self._finish("" if self._source.delete else self._source.move)

    async def dead_letter(self, cause: str) -> None:
        """Move the only received file to the failed files."""
        await self._finish(self._source.move_failed)

    def check(self) -> None:
        """Raise `JmsError` if the directory is gone."""
        if not self._directory.is_dir():
            raise JmsError(f"{self._directory} is no directory")

    async def close(self) -> None:
        """Forget the received files, for another read."""
        self._received = []

    async def _finish(self, directory: str) -> None:
        received, self._received = self._received, []
        try:
            await asyncio.to_thread(self._move, received, directory)
        except OSError as error:
            raise JmsError(f"{error.filename}: {error.strerror}") from None

    def _read(self, max_messages: int, max_bytes: int) -> tuple[list[BridgeMessage], list[Path]]:
        messages: list[BridgeMessage] = []
        paths: list[Path] = []
        size = 0
        try:
            for name in self._names():
                path = self._directory / name
                if path in self._received:
                    continue
                message = self._message(path)
                if message is None:
                    continue
                messages.append(message)
                paths.append(path)
                size += message.size
                if len(messages) >= max_messages or size >= max_bytes:
                    break
        except OSError as error:
            raise JmsError(f"{error.filename}: {error.strerror}") from None
        return messages, paths

    def _names(self) -> list[str]:
        with os.scandir(self._directory) as entries:
            names = [
                entry.name
                for entry, _ in zip(entries, range(MAX_LISTED), strict=False)
                if entry.name[0] != "." and entry.is_file(follow_symlinks=False)
            ]
        return sorted(name for name in names if self._include is None or self._include.fullmatch(name))

    def _message(self, path: Path) -> BridgeMessage | None:
        """Return the message of a file; None for a file taken by another process, or too large a file."""
        try:
            descriptor = os.open(path, OPEN_FLAGS)
        except OSError as error:
            if error.errno in NO_FILE:
                return None
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(MAX_FILE_BYTES + 1)  # a file may grow after its size was read
        finally:
            os.close(descriptor)
        if len(content) > MAX_FILE_BYTES:
            self._move([path], self._source.move_failed)
            return None
        try:
            content.decode("utf-8")
            kind = TEXT
        except UnicodeDecodeError:
            kind = BYTES
        name = storable(path.name)
        message_id = f"file:{name}:{status.st_mtime_ns}:{status.st_size}"
        properties = {FILE_NAME: (STRING_VALUE, name)}
        message = BridgeMessage(message_id, kind, NeutralContent(content, dict(properties)), max(len(content), 1))
        message.timestamp_ms = status.st_mtime_ns // 1_000_000
        return message

    def _move(self, paths: list[Path], name: str) -> None:
        """Move files to a directory, or remove the files without a ``name``; a missing file is left out.

        Whoever puts files into the source's directory may put a link there, too: none is followed.
        """
        if not name:
            for path in paths:
                path.unlink(missing_ok=True)
            return
        directory = self._directory / name
        directory.mkdir(exist_ok=True)
        is_inside = directory.is_relative_to(self._directory)
        descriptor = os.open(directory, DIRECTORY_FLAGS | (os.O_NOFOLLOW if is_inside else 0))
        try:
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    os.replace(path, path.name, dst_dir_fd=descriptor)
        finally:
            os.close(descriptor)
