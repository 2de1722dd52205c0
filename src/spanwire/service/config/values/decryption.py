"""Finds ``ENC(…)`` in a configuration and decrypts it; loads what can do so only then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

from spanwire import registry
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError

PREFIX: Final = "ENC("
SETTINGS: Final = frozenset({"algorithm", "password", "passwordEnvName"})  # of Jasypt's beans that are followed


class Decrypter(Protocol):
    """Gives the text of one encrypted value."""

    def decrypt(self, value: str) -> str:
        """The text; raises `ConfigurationError`, which shows nothing of it."""
        ...


class Decryption:
    """Decrypts the values of one configuration. Its settings may hold a password and never stand in an error."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment: Final = environment
        self._settings: Final[dict[str, str]] = {}
        self._decrypter: Decrypter | None = None

    def configure(self, name: str, value: str) -> None:
        """A setting of `SETTINGS`."""
        self._settings[name] = value

    def plain(self, value: str) -> str:
        """``value``, decrypted if it stands in ``ENC(…)``. Raises `ConfigurationError`."""
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
