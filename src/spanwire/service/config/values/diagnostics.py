"""The list of everything in a configuration that cannot be honoured.

XML and TOML become `Element`s with the names of ``activemq.xml``;
`spanwire.service.config.interpretation.interpretation` turns the tree into the model. Nothing is raised at the first
fault: `Findings` gathers all obstacles, one line each.
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

MAX_OBSTACLES: Final = 100  # lines of one error; the rest are counted
WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
SKIP: Final = "--skip-unsupported"
MAX_CLASS: Final = 120  # characters of a Java class name that are repeated in an error
MAX_WORD: Final = 60  # characters of a word from the file that are repeated in an error


class RefusedConfigurationError(ConfigurationError):
    """A configuration with obstacles: one line each. It keeps what else was found, for who checks a file."""

    def __init__(self, obstacles: str, warnings: tuple[str, ...], skipped: tuple[str, ...]) -> None:
        super().__init__(obstacles)
        self.warnings: Final = warnings
        self.skipped: Final = skipped


class Findings:
    """What is wrong with one file, and what its owner should know although it can be honoured.

    With ``skip_unsupported``, what a later version brings is left out and listed in ``skipped`` instead of being an
    obstacle. What guards access (a login, a right, an encrypted connection) is never left out.
    """

    def __init__(self, source: str, skip_unsupported: bool = False) -> None:
        self.source: Final = source
        self._warnings: Final[list[tuple[int, str]]] = []
        self._skipped: Final[list[tuple[int, str]]] = []
        self._skip_unsupported: Final = skip_unsupported
        self._obstacles: Final[list[tuple[int, str]]] = []

    @property
    def warnings(self) -> tuple[str, ...]:
        """What holds otherwise than its writer may think, in the order of the file."""
        return _in_order(self._warnings)

    @property
    def skipped(self) -> tuple[str, ...]:
        """What was left out, in the order of the file."""
        return _in_order(self._skipped)

    def error(self, line: int, text: str) -> None:
        """Something that cannot be honoured."""
        self._obstacles.append((line, f"{self.source}:{line}: {text}"))

    def add_obstacle(self, text: str) -> None:
        """Add an obstacle that no single line of the file causes. It follows those that have a line."""
        self._obstacles.append((sys.maxsize, text))

    def not_yet(self, line: int, word: str, feature: str = "", advice: str = "remove it", guards: bool = False) -> None:
        """A word that a later version brings, with the ``feature`` it belongs to; ``guards`` if it guards access."""
        later = f" (later feature: {feature})" if feature else " by this version of Spanwire"
        if guards:
            reason = "it guards access, so nothing skips it"
            self.error(line, f"{word} is not yet supported{later}; {advice}; {reason}")
        elif self._skip_unsupported:
            self._skipped.append((line, f"{self.source}:{line}: skipped: {word}{later if feature else ''}"))
        else:
            self.error(line, f"{word} is not yet supported{later}; {advice} or start with {SKIP}")

    def left_out(self, line: int, text: str) -> None:
        """What no version brings, and the broker can do without."""
        if self._skip_unsupported:
            self._skipped.append((line, f"{self.source}:{line}: skipped: {text}"))
        else:
            self.error(line, f"{text}; remove it, use the element that does its work, or start with {SKIP}")

    def unknown(self, line: int, noun: str, word: str, known: Iterable[str], spelt: bool = False) -> None:
        """A word nobody knows, with the closest one that is known. ``spelt`` words are the same in every language."""
        shown = word if len(word) <= MAX_WORD else word[:MAX_WORD] + "…"
        if self.source.endswith(".toml") and not spelt:
            shown, known = snake_case(shown), map(snake_case, known)
        self.error(line, f"unknown {noun} {shown!r}{suggestion(shown, known)}")

    def warn(self, line: int, text: str) -> None:
        """Something that holds, but not as its writer may think."""
        self._warnings.append((line, f"{self.source}:{line}: {text}"))

    def raise_if_any(self) -> None:
        """Raises `RefusedConfigurationError` with all obstacles in the order of the file, one per line."""
        if not self._obstacles:
            return
        lines = list(_in_order(self._obstacles))
        if len(lines) > MAX_OBSTACLES:
            lines = [*lines[:MAX_OBSTACLES], f"{self.source}: and {len(lines) - MAX_OBSTACLES} more"]
        raise RefusedConfigurationError("\n".join(lines), self.warnings, self.skipped)


def _in_order(entries: list[tuple[int, str]]) -> tuple[str, ...]:
    """The texts by their lines, each once."""
    return tuple(dict.fromkeys(text for _, text in sorted(entries, key=lambda entry: entry[0])))


def snake_case(name: str) -> str:
    """A word of ``activemq.xml`` as TOML spells it: ``network_ttl``, ``populate_jmsx_user_id``."""
    return WORD_START.sub("_", name).lower()


def read_text_file(path: Path) -> bytes:
    """A configuration file's bytes; raises `ConfigurationError` in one line when it cannot be read or is too big."""
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
