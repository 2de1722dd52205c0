"""Rows of attribute tables: name in ``activemq.xml``, kind of the value, and the field of the model.

The reader of a configuration and the generator of the reference take names, values and defaults from the same row. The
default is the default of the field. TOML spells a name in snake_case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Final

from spanwire.model.units import MIB
from spanwire.service.config.values.values import Settings

MAX_INT: Final = 2**31 - 1  # a Java int, like most numbers of the file


def as_written(value: object) -> str:
    """Return a value in the spelling of the file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_size(value: object) -> str:
    """Return a number of bytes in the largest unit without a fraction."""
    if isinstance(value, int) and value:
        for unit, name in ((1024 * MIB, "gb"), (MIB, "mb")):
            if value % unit == 0:
                return f"{value // unit} {name}"
    return str(value)


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of a value: description in the reference, reader, and spelling of a default.

    ``read`` takes the settings of an element, the name of the attribute, and the default as a substitute for a wrong
    value.
    """

    shown: str
    read: Callable[[Settings, str, Any], object]
    written: Callable[[object], str] = as_written


def read_directory(settings: Settings, name: str, default: Any) -> object:
    """Interpret the name of a directory, absolute or below the base directory."""
    text = (settings.text(name) or "").removeprefix("file:")
    if not text or any(character < " " for character in text):
        settings.error_of(name, " is no directory name")
        return default
    return Path(text)


FLAG: Final = Kind("`true` or `false`", lambda settings, name, default: settings.flag(name, default))
SIZE: Final = Kind("bytes, such as `64 mb`", lambda settings, name, default: settings.size(name, default), as_size)
TEXT: Final = Kind("text", lambda settings, name, default: settings.text(name) or default)  # empty text is the default
STRIPPED: Final = Kind("text", lambda settings, name, default: settings.text(name))
DIRECTORY: Final = Kind("a directory", read_directory)


def bounds(lowest: int, highest: int) -> str:
    """Return the description of a range; a Java type alone is no bound worth its digits."""
    return f"{lowest:,} to {highest:,}" if highest < MAX_INT else f"{lowest:,} or more"


def number(unit: str, lowest: int, highest: int) -> Kind:
    """Return the kind of a whole number within bounds; a number outside is an error."""
    return Kind(
        f"{unit}, {bounds(lowest, highest)}",
        lambda settings, name, default: settings.number(name, default, lowest, highest),
    )


def clamped(unit: str, lowest: int, highest: int) -> Kind:
    """Return the kind of a whole number within bounds.

    A larger number becomes the highest number, with a warning.
    """
    return Kind(
        f"{unit}, {bounds(lowest, highest)}; a larger number counts as the largest",
        lambda settings, name, default: settings.clamped(name, default, lowest, highest),
    )


def affix_of(kind: int, pattern: bool) -> Kind:
    """Return the kind of a possibly empty beginning or end of a destination's name."""

    def read(settings: Settings, name: str, default: Any) -> object:
        text = settings.element.value(name) or ""
        if text:
            settings.destination(name, kind, pattern)  # reports what is no part of a name
        return text

    return Kind("part of a name", read)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute. ``field`` may be several fields, separated by blanks.

    ``default`` describes a default outside the values of the kind.
    """

    name: str
    kind: Kind
    field: str
    default: str = ""


class AttributeTable:
    """The attributes that set fields of ``model``, a dataclass.

    A later row overrides an earlier row for the same field.
    """

    def __init__(self, model: type[Any], *rows: Attribute) -> None:
        self.model: Final[type[Any]] = model
        self.rows: Final[tuple[Attribute, ...]] = rows
        self._defaults: Final[dict[str, object]] = {
            field.name: field.default_factory() if field.default_factory is not MISSING else field.default
            for field in fields(model)
        }

    def values(self, settings: Settings) -> dict[str, Any]:
        """Return the values of an element's attributes, by field."""
        values: dict[str, Any] = {}
        for row in self.rows:
            if row.name in settings.element.attributes:
                names = row.field.split()
                values.update(dict.fromkeys(names, row.kind.read(settings, row.name, self._defaults[names[0]])))
        return values

    def default_value(self, row: Attribute) -> object:
        """Return the default of an attribute in the model."""
        return self._defaults[row.field.split()[0]]

    def default_of(self, row: Attribute) -> str:
        """Return the default of an attribute for the reference."""
        if row.default:
            return row.default
        return f"`{row.kind.written(self._defaults[row.field.split()[0]])}`"
