"""Directories with code of the operator: message convertors, and jars.

Code from such a directory runs with the rights of the bridges. So the directory and its files must belong to the user
of the bridges, or to root, and no other user may write there.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError

OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
ROOT: Final = 0


def check_directory(path: Path, what: str) -> None:
    """Refuse a directory that another user can write to; ``what`` is the noun in the error.

    Raises:
        ConfigurationError: the path is no directory, belongs to another user, or others may write to it.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigurationError(f"{what} {path}: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigurationError(f"{what} {path} is no directory")
    _check_owner(path, status, what)


def read_file(path: Path, what: str, max_bytes: int) -> bytes:
    """Return the content of a file with the owner as the only writer.

    Raises:
        ConfigurationError: the file is missing, a link, too large, or writable for another user.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        is_link = error.errno == errno.ELOOP  # another look at the path could fail as well
        reason = "is a symbolic link, which may lead out of the directory" if is_link else error.strerror
        raise ConfigurationError(f"{what} {path}: {reason}") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ConfigurationError(f"{what} {path} is no file")
        _check_owner(path, status, what)
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ConfigurationError(f"{what} {path} is larger than {max_bytes} bytes")
    return content


def check_file(path: Path, what: str) -> None:
    """Refuse a missing file, a link, or a file writable for another user. Raises `ConfigurationError`."""
    try:
        status = path.lstat()
    except OSError as error:
        raise ConfigurationError(f"{what} {path}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError(f"{what} {path} is no file of this directory")
    _check_owner(path, status, what)


def _check_owner(path: Path, status: os.stat_result, what: str) -> None:
    user = os.geteuid()
    if status.st_uid not in (user, ROOT):
        raise ConfigurationError(
            f"{what} {path} belongs to user {status.st_uid}, and the bridges run as user {user}: chown {user} {path}"
        )
    if status.st_mode & OTHERS_WRITE:
        raise ConfigurationError(f"{what} {path} can be written by other users: chmod go-w {path}")
