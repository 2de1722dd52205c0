"""Broker URLs without secrets, for errors and logs."""

from __future__ import annotations

import re
from typing import Final

from spanwire.client.addressing.options import MAX_WORD
from spanwire.discovery.addresses.composite import LISTS
from spanwire.model.text import printable

MAX_URL: Final = 2_048  # characters of a URL that is shown; the search for secrets takes the square of the time
AUTHORITY: Final = re.compile(r"//(?:\[([0-9A-Fa-f:.%]+)\]|([\w.\-]*))(?::([0-9]{1,5}))?/?", re.ASCII)
ALL_OPTIONS: Final = re.compile(r"\?.*", re.DOTALL)
NESTED_OPTIONS: Final = re.compile(
    r"\?.*?(?=,\s*[A-Za-z][A-Za-z0-9+]*://|\)\?|\)?\s*$)", re.DOTALL
)  # up to the next address
USER: Final = re.compile(r"//(?:(?!,\s*[A-Za-z][A-Za-z0-9+]*://).)*@", re.DOTALL)
AFTER_SLASHES: Final = re.compile(r"//[^?,()]*")
LIST_SCHEMES: Final = tuple([f"{scheme}:" for scheme in LISTS])


def redacted(text: str) -> str:
    """Return a URL without user, password and option values, cut to a readable length.

    A secret may contain commas, slashes, question marks and parentheses, so doubtful parts are left out.
    """
    if len(text) > MAX_URL:
        return "…"
    is_list = text.strip().lower().startswith(LIST_SCHEMES)
    masked = (NESTED_OPTIONS if is_list else ALL_OPTIONS).sub("?…", text)
    masked = USER.sub("//…@", masked)
    if "@" in text:
        masked = AFTER_SLASHES.sub(_mask_authority, masked)
        if "//" not in text:  # without a scheme the end of a password is unknown
            masked = "…"
    masked = printable(masked, " ")
    return masked if len(masked) <= 2 * MAX_WORD else masked[: 2 * MAX_WORD] + "…"


def _mask_authority(match: re.Match[str]) -> str:
    authority = match.group(0)
    return authority if authority.startswith("//…@") or AUTHORITY.fullmatch(authority) else "//…"
