"""Attributes of a network connector on the command line: ``--set``, and the password beside it.

A password is never a word of the command line, where every user of the machine can read it.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.model.errors import ConfigurationError

PASSWORD_VARIABLE: Final = "SPANWIRE_LINK_PASSWORD"
MAX_PASSWORD_BYTES: Final = 4_096  # bytes of a file with a password
PASSWORDS: Final = ("password", "remotePassword")
FROM_INPUT: Final = "-"


def add_settings(parser: Parser, example: str) -> None:
    """Add the options of `settings_of`."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="ATTRIBUTE=VALUE",
        help=f"an attribute of <networkConnector>, such as {example}",
    )
    parser.option(
        "passwordFile",
        f"a file with the password of userName; without it ${PASSWORD_VARIABLE}, else it is asked for",
        metavar="FILE",
    )


def settings_of(parser: Parser, pairs: Sequence[str], password_file: str | None) -> dict[str, str]:
    """Return the attributes of ``--set``, and the password of a userName.

    Raises:
        ConfigurationError: the file with the password cannot be read.
    """
    settings: dict[str, str] = {}
    for pair in pairs:
        attribute, equals, value = pair.partition("=")
        if not equals:
            parser.error(f"--set {pair[:100]}: write ATTRIBUTE=VALUE")
        if attribute in PASSWORDS and not value.startswith("ENC("):
            parser.error(
                f"--set {attribute}=…: the list of processes would show it; give --password-file, or set "
                f"{PASSWORD_VARIABLE}, or type it when asked"
            )
        settings[attribute] = value
    needed = {"userName": "password", "remoteUserName": "remotePassword"}
    wanted = [password for user, password in needed.items() if user in settings and password not in settings]
    if wanted:
        password = _password(password_file)
        settings |= dict.fromkeys(wanted, password)
    elif password_file is not None:
        parser.error("--password-file needs --set userName=NAME")
    return settings


def _password(name: str | None) -> str:
    if name is None:
        known = os.environ.get(PASSWORD_VARIABLE)
        if known is not None:
            return known
        if not sys.stdin.isatty():
            raise ConfigurationError(f"the password of the link is missing; set {PASSWORD_VARIABLE} or --password-file")
        return getpass.getpass("Password of the link: ")
    if name == FROM_INPUT:
        return sys.stdin.readline().rstrip("\r\n")
    try:
        with Path(name).open(encoding="utf-8") as file:
            return file.read(MAX_PASSWORD_BYTES).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(f"--password-file {name[:200]} cannot be read: {reason}") from error
