"""Addresses for people: what of them may stand in a plan, an error or the progress.

The options of a broker are known, so only its address may hide a secret: a user with a password before an ``@``, a
parameter with a telling name. A JDBC address holds them wherever its driver wants them; of it only the beginning is
shown. Names of destinations and paths on this machine hold none.

In a line of text an address ends at a blank, or where the quotation mark before it comes again; behind that a user's
password is found only where a user and a colon stand right behind the slashes.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"
MAX_LINE: Final = 4096  # characters of a line that are looked through; the rest is not told
SECRET_PARTS: Final = re.compile("passw|passphrase|pwd|secret|credential|jaas", re.IGNORECASE)
SECRET_WORDS: Final = frozenset(
    "key keys token tokens auth authorization apikey accesskey privatekey sharedkey accountkey accesstoken "
    "authtoken sastoken sessiontoken".split()
)
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # of a name such as transport.keyStorePassword
PARAMETER: Final = re.compile(r"([^=&;?(),/]+)=")
VALUE_PART: Final = re.compile(r"(?<=[?&;])[^=&;?,()]+(?=[&;)]|$)")  # of a value that holds what separates parameters
USER_INFO: Final = re.compile(r"(//).*@")  # to the last @, which a password may hold
# A password with a blank. What stands behind a host is a port.
USER_WITH_BLANK: Final = re.compile(r"(//)[^\s:/@\[\]'\"]+:(?!//|\d{1,5}(?:\W|$))[^'\"@]*@")
ADDRESS: Final = re.compile(r"""(?<=(['"`]))[^\s'"`]*//.*?(?=\1(?:\W|$))|[^\s'"`]*//\S*""")
DESTINATION: Final = r"(?:(?:temp-)?(?:queue|topic)://)?[^\s:/,]*"
DESTINATIONS: Final = re.compile(rf"\W*{DESTINATION}(?:,{DESTINATION})*:?")
LOCAL_PATH: Final = re.compile(r"\W*(?:(?:parquet|csv|json|orc|text):)?(?:file:(?:///|/(?!/))|(?<=:)/(?!/))(?!.*//)")
ADDRESS_MARK: Final = re.compile(r"[?@=]|//")
NAME_END: Final = re.compile(r"[:?@=/]")
JDBC_SCHEME: Final = re.compile(r"jdbc:[A-Za-z0-9+._-]+:", re.IGNORECASE)
# With blanks in it, to the mark that stands before it or to what Spark says behind it.
JDBC_ADDRESS: Final = re.compile(
    r"""(?<=(['"`]))jdbc:[A-Za-z0-9+._-]+:.*?(?=\1(?:\W|$))|jdbc:[A-Za-z0-9+._-]+:.*?(?= on the operation: |$)""",
    re.IGNORECASE,
)


def mask(line: str) -> str:
    """A line of text without the secrets of the addresses in it."""
    shown = JDBC_ADDRESS.sub(lambda match: jdbc_address(match[0]), line[:MAX_LINE])
    shown = USER_WITH_BLANK.sub(rf"\1{HIDDEN}@", shown)
    return ADDRESS.sub(lambda match: _mask_address(match[0]), shown)


def without_secrets(address: str) -> str:
    """One address of a broker or of files."""
    if LOCAL_PATH.match(address):
        path, mark, parameters = address.partition("?")
        return path + _mask_values(mark + parameters)
    shown = USER_INFO.sub(rf"\1{HIDDEN}@", address)
    if "@" in shown.replace(f"//{HIDDEN}@", ""):  # the scheme was forgotten, or it is none of a broker
        return HIDDEN
    return _mask_values(shown)


def shown_name(word: str) -> str:
    """A word that is to be a name; the beginning of it when it is an address."""
    return word if ADDRESS_MARK.search(word) is None else NAME_END.split(word, maxsplit=1)[0] + "…"


def jdbc_address(url: str) -> str:
    """The address as far as no driver takes credentials in it: neither with an @ nor behind a ?, a ; or a name=.
    Hidden as a whole when it is none of JDBC.
    """
    scheme = JDBC_SCHEME.match(url)
    if scheme is None:
        return HIDDEN
    if "@" in url:
        return scheme[0] + HIDDEN
    end = min((index for mark in "?;=" if (index := url.find(mark)) >= 0), default=len(url))
    if url[end : end + 1] == "=":
        end = max(url.rfind(mark, 0, end) for mark in ":/,(&") + 1
    return url if end == len(url) else url[:end] + HIDDEN


def _mask_address(address: str) -> str:
    return address if DESTINATIONS.fullmatch(address) else without_secrets(address)


def _mask_values(text: str) -> str:
    """Parameters without the values of those whose names tell of a secret, and without pieces that have no name."""
    shown, end = "", 0
    for match in PARAMETER.finditer(text):
        if match.start() >= end and _is_secret(match[1], is_of_path=text[match.start() - 1 : match.start()] == "/"):
            shown += text[end : match.end()] + HIDDEN
            next_one = text.find("&", match.end())
            end = len(text) if next_one < 0 else next_one
    return VALUE_PART.sub(HIDDEN, shown + text[end:])


def _is_secret(name: str, is_of_path: bool) -> bool:
    if SECRET_PARTS.search(name):
        return True
    return not is_of_path and any(word.lower() in SECRET_WORDS for word in WORD.findall(name))
