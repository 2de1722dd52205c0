"""Collects all obstacles and warnings of a configuration.

XML and TOML become `Element`s with the names of ``activemq.xml``, and
`spanwire.service.config.interpretation.interpretation` converts the tree to the model. The first fault raises no error:
`Findings` collects all obstacles, one line each.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from spanwire.documents.element import MAX_DOCUMENT_BYTES
from spanwire.documents.spelling import suggestion
from spanwire.model.errors import ConfigurationError

MAX_OBSTACLES: Final = 100  # obstacles in one error; the others are counted
WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
SKIP: Final = "--skip-unsupported"
# Features of a later version. Other features are left out on purpose.
PLANNED: Final = frozenset({"AMQP", "MQTT", "copies of the store on another broker", "stores in a database"})
MAX_CLASS: Final = 120  # characters of a Java class name in an error
MAX_WORD: Final = 60  # characters of a word from the file in an error
SHOWN: Final = 40  # characters of a wrong value in an error


class RefusedConfigurationError(ConfigurationError):
    """The configuration has obstacles, one per line.

    The error has the warnings and skipped settings as well.
    """

    def __init__(self, obstacles: str, warnings: tuple[str, ...], skipped: tuple[str, ...]) -> None:
        super().__init__(obstacles)
        self.warnings: Final = warnings
        self.skipped: Final = skipped


class Findings:
    """The obstacles, warnings and skipped settings of a file.

    With ``skip_unsupported``, unsupported settings are listed in ``skipped`` instead of being obstacles. Settings that
    guard access (a login, a right, an encrypted connection) are never skipped.
    """

    def __init__(self, source: str, skip_unsupported: bool = False) -> None:
        self.source: Final = source
        self._warnings: Final[list[tuple[int, str]]] = []
        self._skipped: Final[list[tuple[int, str]]] = []
        self._skip_unsupported: Final = skip_unsupported
        self._obstacles: Final[list[tuple[int, str]]] = []
        self._unresolved: Final[set[str]] = set()  # values of settings, as later errors show them

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings in the order of the file."""
        return _in_order(self._warnings)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Return the skipped settings in the order of the file."""
        return _in_order(self._skipped)

    def error(self, line: int, text: str) -> None:
        """Add an obstacle, unless it is about a value reported as unresolved."""
        if not any(value in text for value in self._unresolved):
            self._add(line, text)

    def unresolved(self, line: int, text: str, value: str) -> None:
        """Add the obstacle that ``value`` has a placeholder without a value; later errors that show it say no more."""
        self._add(line, text)
        self._unresolved.add(value.strip()[:SHOWN])

    def _add(self, line: int, text: str) -> None:
        self._obstacles.append((line, f"{self.source}:{line}: {text}"))

    def add_obstacle(self, text: str) -> None:
        """Add an obstacle without a line, behind the others."""
        self._obstacles.append((sys.maxsize, text))

    def not_yet(self, line: int, word: str, feature: str = "", advice: str = "remove it", guards: bool = False) -> None:
        """Report an unsupported word with its ``feature``; with ``guards`` the word is never skipped."""
        asked = f" (later feature: {feature})" if feature in PLANNED else f" (it asks for {feature})" if feature else ""
        state = "is not yet supported" if feature in PLANNED else "is not supported"
        if guards:
            reason = "it guards access, so it is never skipped"
            self.error(line, f"{word} {state}{asked}; {advice}; {reason}")
        elif self._skip_unsupported:
            self._skipped.append((line, f"{self.source}:{line}: skipped: {word}{asked}"))
        else:
            self.error(line, f"{word} {state}{asked}; {advice} or start with {SKIP}")

    def refuse_or_skip(self, line: int, text: str) -> None:
        """Report a word unsupported in all versions and not needed by the broker."""
        if self._skip_unsupported:
            self._skipped.append((line, f"{self.source}:{line}: skipped: {text}"))
        else:
            self.error(line, f"{text}; remove it, use the corresponding element, or start with {SKIP}")

    def unknown(self, line: int, noun: str, word: str, known: Iterable[str], spelt: bool = False) -> None:
        """Report an unknown word, with the closest known word; ``spelt`` is for words equal in XML and TOML."""
        shown = word if len(word) <= MAX_WORD else word[:MAX_WORD] + "…"
        if self.source.endswith(".toml") and not spelt:
            shown, known = snake_case(shown), map(snake_case, known)
        self.error(line, f"unknown {noun} {shown!r}{suggestion(shown, known)}")

    def warn(self, line: int, text: str) -> None:
        """Add a warning about a valid setting with a surprising effect."""
        self._warnings.append((line, f"{self.source}:{line}: {text}"))

    def add_warning(self, text: str) -> None:
        """Add a warning with the position in its text, behind the others."""
        self._warnings.append((sys.maxsize, text))

    def raise_if_any(self) -> None:
        """Raise `RefusedConfigurationError` with all obstacles in the order of the file, one per line."""
        if not self._obstacles:
            return
        lines = list(_in_order(self._obstacles))
        if len(lines) > MAX_OBSTACLES:
            lines = [*lines[:MAX_OBSTACLES], f"{self.source}: and {len(lines) - MAX_OBSTACLES} more"]
        raise RefusedConfigurationError("\n".join(lines), self.warnings, self.skipped)


def _in_order(entries: list[tuple[int, str]]) -> tuple[str, ...]:
    """Return the texts by line without duplicates."""
    return tuple(dict.fromkeys(text for _, text in sorted(entries, key=lambda entry: entry[0])))


def snake_case(name: str) -> str:
    """Return a word of ``activemq.xml`` in TOML's spelling: ``network_ttl``, ``populate_jmsx_user_id``."""
    return WORD_START.sub("_", name).replace("-", "_").lower()


def read_text_file(path: Path) -> bytes:
    """Read a configuration file; raises `ConfigurationError` with one line if unreadable or too large."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_DOCUMENT_BYTES + 1)
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a file name"
        raise ConfigurationError(f"{path}: cannot be read: {reason}") from error
    if len(content) > MAX_DOCUMENT_BYTES:
        raise ConfigurationError(f"{path}: is larger than {MAX_DOCUMENT_BYTES} bytes, which no configuration needs")
    return content
