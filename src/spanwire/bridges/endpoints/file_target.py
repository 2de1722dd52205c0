"""A directory as a target of a route: a file for each message."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
import stat
from pathlib import Path
from typing import Final

from spanwire.bridges.engine.message_values import value_of
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import FileTarget
from spanwire.bridges.ports import PartlySentError
from spanwire.model.errors import JmsError, MessageFormatError
from spanwire.model.message_view import BYTES, PLAIN, TEXT
from spanwire.routes.model import SIMPLE, Expression
from spanwire.routes.readers.nodes import Location
from spanwire.routes.simple import shown

APPEND: Final = "Append"
IGNORE: Final = "Ignore"
FAIL: Final = "Fail"
OVERRIDE: Final = "Override"
UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
MAX_NAME: Final = 200  # octets of a name; file systems take 255
# Name of a file of an id ID:HOST-PORT-MILLISECONDS-SEED:CONNECTION:SESSION:PRODUCER:NUMBER, perhaps of a part of it.
NAME_OF_JMS: Final = re.compile(r"ID-(.+?-\d+-\d{13}-\d+)-(\d+)-(-?\d+)-(\d+)-(\d+)(-.*)?")
DIGEST: Final = re.compile(r".*-[0-9a-f]{64}")
TEMPORARY: Final = ".new-"
# Others may write to the directory: no link is followed, and no pipe is waited for.
APPEND_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MODE: Final = 0o666  # of a new file, without the bits of the umask


class OpenFileTarget:
    """Writes files under another name, syncs and renames.

    Without ``file_name`` the name is the message's id, so a message sent again replaces the earlier file, and no other.
    """

    def __init__(self, target: FileTarget) -> None:
        self._target: Final = target
        self._directory: Final = Path(target.directory)
        expression = Expression(Location("", 0), SIMPLE, target.file_name)
        self._name: Final = value_of(expression) if target.file_name else None

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Write files. Raises `PartlySentError` for a message without a file."""
        try:
            await asyncio.to_thread(self._write_all, messages)
        except OSError as error:
            raise JmsError(f"{error.filename or self._directory}: {error.strerror}") from None

    def check(self) -> None:
        """Return at once: the next message shows a lost disk."""

    async def close(self) -> None:
        """Do nothing."""

    def _write_all(self, messages: list[BridgeMessage]) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        refusal: PartlySentError | None = None
        for index, message in enumerate(messages):
            try:
                self._write(self._path(message), _octets(message))
            except MessageFormatError as error:
                refusal = PartlySentError(index, str(error))
                break
        _sync(self._directory)  # for the files before a refused message, too
        if refusal is not None:
            raise refusal

    def _path(self, message: BridgeMessage) -> Path:
        """Return the path of a message. A name from a header leads to no other directory."""
        if self._name is None:
            return self._directory / _name_of(message.message_id)
        name = shown(self._name(message))
        if not name or name[0] == "." or "/" in name or not name.isprintable() or len(name.encode()) > MAX_NAME:
            raise MessageFormatError(f"{name[:60]!r} is no name of a file")
        return self._directory / name

    def _write(self, path: Path, octets: bytes) -> None:
        if self._target.exists == APPEND:
            _store(path, APPEND_FLAGS, octets)
            return
        if path.exists() and self._target.exists in (IGNORE, FAIL):
            if self._target.exists == FAIL:
                raise MessageFormatError(f"{path.name} exists already")
            return
        new = path.with_name(f"{TEMPORARY}{path.name}")
        new.unlink(missing_ok=True)  # of a process that was killed
        _store(new, NEW_FLAGS, octets)
        new.replace(path)


def _name_of(message_id: str) -> str:
    """Return a name that no other id has. An id that is not the usual one of its name gets a digest."""
    if not message_id:
        raise MessageFormatError("the message has no id, so fileName must name its file")
    name = re.sub(r"^\.", "-", UNSAFE.sub("-", message_id))  # hidden files are temporary, and .. is a directory
    if len(name) <= MAX_NAME and DIGEST.fullmatch(name) is None and message_id == _usual_id(name):
        return name
    digest = hashlib.sha256(message_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: MAX_NAME - len(digest) - 1]}-{digest}"


def _usual_id(name: str) -> str:
    """Return the only id whose file has a name without a digest."""
    jms = NAME_OF_JMS.fullmatch(name)
    if jms is not None:
        connection, *numbers, part = jms.groups("")
        return ":".join(("ID", connection, *numbers)) + part
    return "ID:" + name[3:] if name.startswith("ID-") else name


def _store(path: Path, flags: int, octets: bytes) -> None:
    with open(os.open(path, flags, MODE), "wb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is no file", str(path))
        file.write(octets)
        file.flush()
        os.fsync(file.fileno())


def _octets(message: BridgeMessage) -> bytes:
    if message.kind not in (TEXT, BYTES, PLAIN):
        raise MessageFormatError("the body is neither a text nor bytes")
    return message.content.neutral_body() or b""


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
