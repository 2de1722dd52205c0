"""``spanwire encrypt`` and ``spanwire decrypt``: values for ``ENC(…)`` in configurations.

The commands work like ActiveMQ's.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Sequence
from typing import Final, Protocol, cast

from spanwire import registry
from spanwire.cli.arguments import Parser
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret

PASSWORD_VARIABLE: Final = "ACTIVEMQ_ENCRYPTION_PASSWORD"
MAX_INPUT: Final = 64 * 1024  # characters; bounds a line of standard input


class _Encryption(Protocol):
    def encrypt(self, text: str) -> str: ...

    def decrypt(self, value: str) -> str: ...


class _EncryptionClass(Protocol):
    def __call__(self, password: Secret, algorithm: str | None) -> _Encryption: ...


def encrypt(arguments: Sequence[str]) -> int:
    """Print ``ENC(…)`` for a text."""
    encryption, text = _prepared("encrypt", "Encrypt a text for a configuration.", arguments)
    sys.stdout.write(encryption.encrypt(text) + "\n")
    return 0


def decrypt(arguments: Sequence[str]) -> int:
    """Print the text of an ``ENC(…)`` value."""
    encryption, text = _prepared("decrypt", "Show the text of an encrypted value.", arguments)
    sys.stdout.write(encryption.decrypt(text) + "\n")
    return 0


def _prepared(command: str, description: str, arguments: Sequence[str]) -> tuple[_Encryption, str]:
    parser = Parser(prog=f"spanwire {command}", description=description)
    parser.option("input", "the text; without it one line of standard input, which no list of processes shows")
    parser.option("password", f"the encryption password; without it ${PASSWORD_VARIABLE}, else it is asked for")
    parser.option("algorithm", "PBEWITHHMACSHA256ANDAES_256 (default) or, for old brokers, PBEWithMD5AndDES")
    options = parser.parse(arguments)
    password = options.password or os.environ.get(PASSWORD_VARIABLE) or _asked()
    text = sys.stdin.readline(MAX_INPUT).rstrip("\r\n") if options.input is None else str(options.input)
    try:
        make = cast(_EncryptionClass, registry.load(registry.ENCRYPTION_CLASS))
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"this needs the package cryptography; run: {install_command('security')}") from error
    return make(Secret(str(password)), options.algorithm), text


def _asked() -> str:
    if not sys.stdin.isatty():
        raise ConfigurationError(f"the password is missing; set {PASSWORD_VARIABLE} or give --password")
    return getpass.getpass("Encryption password: ")
