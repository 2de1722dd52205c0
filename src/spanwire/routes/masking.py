"""Masks secrets of addresses for a plan, an error or the progress.

The options of a broker are known, so only its address may contain a secret: a user with a password before an ``@``, or
a parameter with a telling name. A JDBC address contains secrets wherever its driver accepts them, so only its beginning
is shown. Names of destinations and local paths contain none.

In a line of text an address ends at a blank, or at the second quotation mark. After that, a password is found only
where a user and a colon directly follow the slashes.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"
MAX_LINE: Final = 4096  # characters; the rest of a longer line is not shown
SECRET_PARTS: Final = re.compile("passw|passphrase|pwd|secret|credential|jaas", re.IGNORECASE)
SECRET_WORDS: Final = frozenset(
    "key keys token tokens auth authorization apikey accesskey privatekey sharedkey accountkey accesstoken "
    "authtoken sastoken sessiontoken".split()
)
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # word in a name such as transport.keyStorePassword
PARAMETER: Final = re.compile(r"(?<![^=&;?(),/])([^=&;?(),/]+)=")  # tried once a name, not at each letter
VALUE_PART: Final = re.compile(r"(?<=[?&;])[^=&;?,()]+(?=[&;)]|$)")  # rest of a value with a separator in it
# A password with a blank; digits after a colon are the port of a host.
USER_WITH_BLANK: Final = re.compile(r"(//)[^\s:/@\[\]'\"]+:(?!//|\d{1,5}(?:\W|$))[^'\"@]*@")
ADDRESS: Final = re.compile(r"""(?<=(['"`]))[^\s'"`]*//.*?(?=\1(?:\W|$))|[^\s'"`]*//\S*""")
DESTINATION: Final = r"(?:(?:temp-)?(?:queue|topic)://)?[^\s:/,]*"
DESTINATIONS: Final = re.compile(rf"\W*{DESTINATION}(?:,{DESTINATION})*:?")
LOCAL_PATH: Final = re.compile(r"\W*(?:(?:parquet|csv|json|orc|text):)?(?:file:(?:///|/(?!/))|(?<=:)/(?!/))(?!.*//)")
ADDRESS_MARK: Final = re.compile(r"[?@=]|//")
NAME_END: Final = re.compile(r"[:?@=/]")
JDBC_SCHEME: Final = re.compile(r"jdbc:[A-Za-z0-9+._-]+:", re.IGNORECASE)
# With blanks, up to the quotation mark or to the rest of Spark's message.
JDBC_ADDRESS: Final = re.compile(
    r"""(?<=(['"`]))jdbc:[A-Za-z0-9+._-]+:.*?(?=\1(?:\W|$))|jdbc:[A-Za-z0-9+._-]+:.*?(?= on the operation: |$)""",
    re.IGNORECASE,
)


def mask(line: str) -> str:
    """Return a line of text without secrets of addresses."""
    shown = JDBC_ADDRESS.sub(lambda match: jdbc_address(match[0]), line[:MAX_LINE])
    shown = USER_WITH_BLANK.sub(rf"\1{HIDDEN}@", shown)
    return ADDRESS.sub(lambda match: _mask_address(match[0]), shown)


def without_secrets(address: str) -> str:
    """Return one address of a broker or of files without secrets."""
    if LOCAL_PATH.match(address):
        path, mark, parameters = address.partition("?")
        return path + _mask_values(mark + parameters)
    start, end = address.find("//"), address.rfind("@")  # the last @, because a password may contain one
    shown = address if not 0 <= start < end else f"{address[: start + 2]}{HIDDEN}{address[end:]}"
    if "@" in shown.replace(f"//{HIDDEN}@", ""):  # the scheme is missing or unknown
        return HIDDEN
    return _mask_values(shown)


def shown_name(word: str) -> str:
    """Return a word meant as a name; only the beginning of an address."""
    return word if ADDRESS_MARK.search(word) is None else NAME_END.split(word, maxsplit=1)[0] + "…"


def jdbc_address(url: str) -> str:
    """Return the part of a JDBC address in which no driver accepts credentials.

    The address is cut at an @, a ?, a ; or a name=. Any other address is masked completely.
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
    """Mask values of parameters with telling names, and parts without a name."""
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
