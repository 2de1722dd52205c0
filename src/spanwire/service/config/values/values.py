"""Values of settings: truth, whole numbers, sizes in bytes, host names. Every fault becomes one line in `Findings`."""

from __future__ import annotations

import re
from typing import Final

from spanwire.documents.element import Element
from spanwire.model.destination import QUEUE, TOPIC, Destination, check_name, parse_destination
from spanwire.model.errors import InvalidDestinationError
from spanwire.model.secret import Secret
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import Findings

MAX_LONG: Final = 2**63 - 1  # a Java long
MAX_DIGITS: Final = 19  # of a Java long
SIZE: Final = re.compile(r"([0-9]{1,19})\s*(b|k|kb|m|mb|g|gb)?", re.IGNORECASE | re.ASCII)
UNITS: Final = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
NUMBER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
SHOWN: Final = 40  # characters of a wrong value that an error repeats


class Settings:
    """Reads the settings of one element. A wrong value is noted as a fault and the default is given."""

    def __init__(self, element: Element, findings: Findings) -> None:
        self.element: Final = element
        self._findings: Final = findings

    def text(self, name: str) -> str | None:
        """The setting as it stands, without surrounding blanks; None when it is absent."""
        value = self.element.value(name)
        return None if value is None else value.strip()

    def flag(self, name: str, default: bool) -> bool:
        """``true`` or ``false``."""
        text = self.text(name)
        if text is None:
            return default
        value = as_flag(text)
        if value is None:
            self._wrong(name, text, "true or false")
            return default
        return value

    def number(self, name: str, default: int, lowest: int = 0, highest: int = MAX_LONG) -> int:
        """A whole number within bounds."""
        text = self.text(name)
        if text is None:
            return default
        if not NUMBER.fullmatch(text) or not lowest <= int(text) <= highest:
            self._wrong(name, text, f"a whole number from {lowest} to {highest}")
            return default
        return int(text)

    def clamped(self, name: str, default: int, lowest: int, highest: int) -> int:
        """A whole number; one above ``highest`` counts as that, with a warning."""
        text = self.text(name)
        if text is None or not NUMBER.fullmatch(text) or int(text) <= highest:
            return self.number(name, default, lowest, highest)
        line = self.element.attributes[name].line
        self._findings.warn(line, f"{name} of <{self.element.name}> is {text}; {highest} is taken, the most there is")
        return highest

    def size(self, name: str, default: int) -> int:
        """Bytes, as a number with an optional unit: ``64 mb``."""
        text = self.text(name)
        if text is None:
            return default
        size = as_size(text)
        if size is None:
            self._wrong(name, text, "a number of bytes such as 1024, 64 mb or 1 gb")
            return default
        return size

    def secret(self, name: str, decryption: Decryption) -> Secret:
        """A password, as it stands or in ``ENC(…)``; an empty one when it is absent. Raises `ConfigurationError`."""
        return Secret(decryption.plain(self.element.value(name) or ""))

    def destination(self, name: str, kind: int, pattern: bool) -> Destination | None:
        """A physical name as destination; ``pattern`` says whether wildcards are allowed."""
        text = self.element.value(name)
        if text is None:
            return None
        line = self.element.attributes[name].line
        word = f"{name} of <{self.element.name}>"
        try:
            check_name(text)
        except InvalidDestinationError as error:
            reason = "is empty" if not text else f"is no destination name: {error}"
            self._findings.error(line, f"{word} {reason}")
            return None
        destination = Destination(kind, text)
        if destination.is_composite or (destination.is_pattern and not pattern):
            self._findings.error(line, f"{word} must name one destination, without wildcards and commas")
            return None
        return destination

    def physical_name(self, kind: int) -> Destination | None:
        """The one destination that the element stands for."""
        if "physicalName" not in self.element.attributes:
            self._findings.error(self.element.line, f"<{self.element.name}> has no physicalName")
            return None
        return self.destination("physicalName", kind, pattern=False)

    def qualified(self, name: str) -> Destination | None:
        """A destination that may say what it is: ``queue://NAME``; queues need not."""
        text = self.text(name)
        if text is None:
            return None
        try:
            destination = parse_destination(text, QUEUE)
        except InvalidDestinationError as error:
            self._findings.error(self.element.attributes[name].line, f"{name} of <{self.element.name}>: {error}")
            return None
        if destination.kind not in (QUEUE, TOPIC) or destination.is_composite or destination.is_pattern:
            self._wrong(name, text, "one queue or topic")
            return None
        return destination

    def _wrong(self, name: str, text: str, wanted: str) -> None:
        shown = "" if "password" in name.lower() else f" {text[:SHOWN]!r}"
        line = self.element.attributes[name].line
        self._findings.error(line, f"{name} of <{self.element.name}> is{shown or ' wrong'}, it must be {wanted}")


def as_flag(text: str) -> bool | None:
    """A Java boolean; None when the text is neither true nor false."""
    lower = text.strip().lower()
    return True if lower == "true" else False if lower == "false" else None


def as_size(text: str) -> int | None:
    """Bytes of ``64 mb`` (ActiveMQ's memory sizes: k, m and g count by 1024); None when it is none."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        return None
    unit = (match.group(2) or "").lower()
    size = int(match.group(1)) * UNITS[unit if unit == "b" else unit.removesuffix("b")]
    return size if size <= MAX_LONG else None
