"""Numbers of receivers of a route: Camel's ``concurrentConsumers`` and ``maxConcurrentConsumers``."""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass
from typing import Final

from spanwire.routes.readers.nodes import Location

LEAST: Final = "concurrentConsumers"
MOST: Final = "maxConcurrentConsumers"
NAMES: Final = (LEAST, MOST)
MAX_CONSUMERS: Final = 32  # of one route; each has two connections, and a batch of up to 16 MiB in memory


@dataclass(frozen=True, slots=True)
class Consumers:
    """Receivers of one source: ``least`` from the start, up to ``most`` under load.

    ``is_own`` is True for numbers of the endpoint itself, and False for those of its component.
    """

    least: int = 1
    most: int = 1
    is_own: bool = False


ONE: Final = Consumers()


def read_consumers(own: AnyMapping[str, str], component: AnyMapping[str, str], location: Location) -> Consumers:
    """Return the numbers of an endpoint, by its own parameters or by those of its component.

    Raises:
        ConfigurationError: one is no number within the limits.
    """
    is_own = any(name in own for name in NAMES)
    texts = {**component, **own}
    least = _number(texts.get(LEAST), LEAST, 1, location)
    most = _number(texts.get(MOST), MOST, 0, location)
    if most == 0:  # Camel's default
        most = least
    if most < least:
        if LEAST in own and MOST not in own:  # the endpoint's number counts
            most = least
        else:
            raise location.error(f"{MOST} is {most}, less than {LEAST}, which is {least}")
    return Consumers(least, most, is_own)


def _number(text: str | None, name: str, low: int, location: Location) -> int:
    if text is None:
        return low
    digits = text.strip()
    value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else -1
    if not low <= value <= MAX_CONSUMERS:
        raise location.error(f"{name} is {text[:60]!r}; it must lie between {low} and {MAX_CONSUMERS}")
    return value
