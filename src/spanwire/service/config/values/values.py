"""Values of settings: booleans, whole numbers, sizes in bytes, host names.

Every fault becomes a line in `Findings`.
"""

from __future__ import annotations

import re
from typing import Final

from spanwire.documents.element import Element
from spanwire.model.destination import QUEUE, TOPIC, Destination, check_name, parse_destination
from spanwire.model.errors import InvalidDestinationError
from spanwire.model.secret import Secret
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import SHOWN, Findings

MAX_LONG: Final = 2**63 - 1  # a Java long
MAX_DIGITS: Final = 19  # digits of a Java long
SIZE: Final = re.compile(r"([0-9]{1,19})\s*(b|k|kb|m|mb|g|gb)?", re.IGNORECASE | re.ASCII)
UNITS: Final = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
NUMBER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class Settings:
    """Reads the settings of an element; reports a wrong value and returns the default instead."""

    def __init__(self, element: Element, findings: Findings) -> None:
        self.element: Final = element
        self._findings: Final = findings

    def text(self, name: str) -> str | None:
        """Return the setting without surrounding blanks, or None if absent."""
        value = self.element.value(name)
        return None if value is None else value.strip()

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean setting."""
        text = self.text(name)
        if text is None:
            return default
        value = as_flag(text)
        if value is None:
            self._wrong(name, text, "true or false")
            return default
        return value

    def number(self, name: str, default: int, lowest: int = 0, highest: int = MAX_LONG) -> int:
        """Return a whole number within bounds."""
        text = self.text(name)
        if text is None:
            return default
        if not NUMBER.fullmatch(text) or not lowest <= int(text) <= highest:
            self._wrong(name, text, f"a whole number from {lowest} to {highest}")
            return default
        return int(text)

    def clamped(self, name: str, default: int, lowest: int, highest: int) -> int:
        """Return a whole number; a number above ``highest`` is reduced to ``highest`` with a warning."""
        text = self.text(name)
        if text is None or not NUMBER.fullmatch(text) or int(text) <= highest:
            return self.number(name, default, lowest, highest)
        line = self.element.attributes[name].line
        self._findings.warn(line, f"{name} of <{self.element.name}> is {text}; the highest value {highest} is used")
        return highest

    def size(self, name: str, default: int) -> int:
        """Return bytes of a number with an optional unit: ``64 mb``."""
        text = self.text(name)
        if text is None:
            return default
        size = as_size(text)
        if size is None:
            self._wrong(name, text, "a number of bytes such as 1024, 64 mb or 1 gb")
            return default
        return size

    def secret(self, name: str, decryption: Decryption) -> Secret:
        """Return a password, plain or in ``ENC(…)``; empty if absent. Raises `ConfigurationError`."""
        return Secret(decryption.plain(self.element.value(name) or ""))

    def destination(self, name: str, kind: int, pattern: bool) -> Destination | None:
        """Return the destination of a physical name; ``pattern`` allows wildcards."""
        text = self.element.value(name)
        if text is None:
            return None
        try:
            check_name(text)
        except InvalidDestinationError as error:
            reason = "is empty" if not text else f"is no destination name: {error}"
            self.error_of(name, f" {reason}")
            return None
        destination = Destination(kind, text)
        if destination.is_composite or (destination.is_pattern and not pattern):
            self.error_of(name, " must name one destination, without wildcards and commas")
            return None
        return destination

    def physical_name(self, kind: int) -> Destination | None:
        """Return the destination named by the element."""
        if "physicalName" not in self.element.attributes:
            self._findings.error(self.element.line, f"<{self.element.name}> has no physicalName")
            return None
        return self.destination("physicalName", kind, pattern=False)

    def qualified(self, name: str) -> Destination | None:
        """Return the destination of ``queue://NAME`` or ``topic://NAME``; a bare name is a queue."""
        text = self.text(name)
        if text is None:
            return None
        try:
            destination = parse_destination(text, QUEUE)
        except InvalidDestinationError as error:
            self.error_of(name, f": {error}")
            return None
        if destination.kind not in (QUEUE, TOPIC) or destination.is_composite or destination.is_pattern:
            self._wrong(name, text, "one queue or topic")
            return None
        return destination

    def error(self, text: str) -> None:
        """Report a fault of the element."""
        self._findings.error(self.element.line, text)

    def error_of(self, name: str, text: str) -> None:
        """Report a fault of a setting; ``text`` follows the names of setting and element."""
        self._findings.error(self.element.attributes[name].line, f"{name} of <{self.element.name}>{text}")

    def _wrong(self, name: str, text: str, wanted: str) -> None:
        shown = "" if "password" in name.lower() else f" {text[:SHOWN]!r}"
        self.error_of(name, f" is{shown or ' wrong'}, it must be {wanted}")


def as_flag(text: str) -> bool | None:
    """Return a Java boolean; None for any other text."""
    lower = text.strip().lower()
    return True if lower == "true" else False if lower == "false" else None


def as_size(text: str) -> int | None:
    """Return the bytes of ``64 mb``; None for any other text.

    The units k, m and g are powers of 1024, as in ActiveMQ's memory sizes.
    """
    match = SIZE.fullmatch(text.strip())
    if match is None:
        return None
    unit = (match.group(2) or "").lower()
    size = int(match.group(1)) * UNITS[unit if unit == "b" else unit.removesuffix("b")]
    return size if size <= MAX_LONG else None
