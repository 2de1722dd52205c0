"""Decrypts ``ENC(…)`` values of a configuration; loads the decrypter on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

from spanwire import registry
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError

PREFIX: Final = "ENC("
SETTINGS: Final = frozenset({"algorithm", "password", "passwordEnvName"})  # honoured properties of Jasypt's beans


class Decrypter(Protocol):
    """Decrypts values."""

    def decrypt(self, value: str) -> str:
        """Return the text. The error, a `ConfigurationError`, never shows the value."""
        ...


class Decryption:
    """Decrypts the values of a configuration.

    The settings of the decryption may contain a password and never appear in an error.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment: Final = environment
        self._settings: Final[dict[str, str]] = {}
        self._decrypter: Decrypter | None = None

    def configure(self, name: str, value: str) -> None:
        """Set a property of `SETTINGS`."""
        self._settings[name] = value

    def separate(self, settings: Mapping[str, str]) -> Decryption:
        """Return a decryption with properties of its own, for values that name these."""
        other = Decryption(self._environment)
        for name, value in settings.items():
            other.configure(name, value)
        return other

    def plain(self, value: str) -> str:
        """Return ``value``, decrypted if in ``ENC(…)``; raises `ConfigurationError`."""
        text = value.strip()
        if not (text.startswith(PREFIX) and text.endswith(")")):
            return value
        if self._decrypter is None:
            self._decrypter = self._load()
        return self._decrypter.decrypt(text)

    def _load(self) -> Decrypter:
        try:
            make = cast(Callable[[Mapping[str, str], Mapping[str, str]], Decrypter], registry.load(registry.ENCRYPTION))
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"ENC(…) needs the package cryptography; run: {install_command('security')}"
            ) from error
        return make(self._environment, self._settings)
