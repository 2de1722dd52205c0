"""Values as text for people: numbers, sizes, durations, moments and links. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

SIZES: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")
STEP: Final = 1024
PERIODS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
NONE: Final = "–"
SEVERAL: Final = frozenset(",*>")  # a destination with one of these is several ones, or a pattern
MAX_ADDRESS: Final = 27  # characters that stay on one line, as tcp://192.168.100.100:61616
MAX_MOMENT_MS: Final = 253_402_300_799_999  # the end of the year 9999, the last that `datetime` knows


def number(value: object) -> str:
    """Return a number with thousands separators; a dash for a missing number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return NONE if value is None else str(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if value == round(value) or abs(value) >= 100 else f"{value:,.1f}"
    return f"{value:,}"


def counted(value: object, one: str, many: str) -> str:
    """Return a number with the words for a single one, or with those for several and none."""
    return f"{number(value)} {one if value == 1 else many}"


def size(value: object) -> str:
    """Return a number of bytes in a unit for the size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return NONE
    amount, unit = float(value), 0
    while abs(amount) >= STEP and unit < len(SIZES) - 1:
        amount /= STEP
        unit += 1
    return f"{value:,} bytes" if unit == 0 else f"{amount:,.1f} {SIZES[unit]}"


def duration(seconds: object) -> str:
    """Return a time span in the two largest units."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return NONE
    rest, words = int(seconds), []
    for unit, length in PERIODS:
        count, rest = divmod(rest, length)
        if count:
            words.append(f"{count:,} {unit}")
    return " ".join(words[:2]) or "0 s"


def moment(milliseconds: object) -> str:
    """Return a ``<time>`` element for milliseconds since 1970; a dash for None."""
    is_number = isinstance(milliseconds, (int, float)) and not isinstance(milliseconds, bool)
    if not isinstance(milliseconds, (int, float)) or not is_number or not 0 < milliseconds <= MAX_MOMENT_MS:
        return NONE
    time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    shown = f"{time:%Y-%m-%d %H:%M:%S} UTC"
    element: str = Markup('<time datetime="{}">{}</time>').format(f"{time:%Y-%m-%dT%H:%M:%S}Z", shown)
    return element


def yes_or_no(value: object) -> str:
    """Return a word for True or False."""
    return NONE if value is None else "yes" if value else "no"


def link(path: str, **query: object) -> str:
    """Return a path with a query; parameters without a value are left out."""
    pairs = [(name, str(value)) for name, value in query.items() if value not in (None, "")]
    return f"{path}?{urlencode(pairs, quote_via=quote, safe='', errors='surrogatepass')}" if pairs else path


def destination_link(name: object) -> str:
    """Return the path of the page of a destination; empty for a pattern, for several ones, and for none."""
    scheme, _, rest = str(name).partition("://")
    kind = scheme.removeprefix("temp-")
    if kind not in ("queue", "topic") or not rest or SEVERAL.intersection(rest):
        return ""
    return link(f"/admin/{kind}", name=name)


def whole_addresses(text: str) -> Markup:
    """Return a text whose lines break beside its short addresses, and not within them."""
    words = ((word, "://" in word and len(word) <= MAX_ADDRESS) for word in text.split(" "))
    return Markup(" ").join(
        Markup('<span class="word">{}</span>').format(word) if is_whole else escape(word) for word, is_whole in words
    )


def short_name(destination: object) -> str:
    """Return the name of a destination without its type."""
    return str(destination).partition("://")[2]
