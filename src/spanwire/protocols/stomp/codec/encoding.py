"""Headers and frames to bytes: the escapes of each version (STOMP 1.1 and 1.2, "Value Encoding").

==========  ====  ====  ====================================================================================
character   1.2   1.1   1.0
==========  ====  ====  ====================================================================================
backslash   \\\\  \\\\  as it is
colon       \\c   \\c   as it is
newline     \\n   \\n   \\n: STOMP 1.0 knows no escapes, but a newline left alone would start another header
return      \\r   raw   \\r, for the same reason
NUL         cannot be represented in any version
==========  ====  ====  ====================================================================================

CONNECTED is never escaped beyond the rule of 1.0, because no version is agreed on before it.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import LocalProtocolError
from spanwire.protocols.stomp.codec.frames import CONNECTED, V1_0, V1_2

BACKSLASH: Final = "\\"


def escaped(text: str, version: int) -> str:
    """Return ``text`` with the escapes of ``version``; raises `LocalProtocolError` for a NUL."""
    if text.isalnum():
        return text
    if "\0" in text:
        raise LocalProtocolError("a header with a NUL character cannot be written in a STOMP frame")
    if version != V1_0:
        if BACKSLASH in text:
            text = text.replace(BACKSLASH, "\\\\")
        if ":" in text:
            text = text.replace(":", "\\c")
    if "\n" in text:
        text = text.replace("\n", "\\n")
    if "\r" in text and (version == V1_2 or version == V1_0):
        text = text.replace("\r", "\\r")
    return text


def unescaped(text: str, version: int) -> str:
    """Return ``text`` with its escapes resolved; an undefined escape stays unchanged.

    All versions resolve newline, colon and backslash, as ActiveMQ does; the return is an escape in 1.2 only.
    """
    start = text.find(BACKSLASH)
    if start < 0:
        return text
    if "\\\\" not in text:  # without escaped backslashes no escape can overlap another
        text = text.replace("\\c", ":").replace("\\n", "\n")
        return text.replace("\\r", "\r") if version == V1_2 else text
    parts: list[str] = []
    begin = 0
    while start >= 0:
        letter = text[start + 1 : start + 2]
        if letter == "n":
            plain = "\n"
        elif letter == "c":
            plain = ":"
        elif letter == BACKSLASH:
            plain = BACKSLASH
        elif letter == "r" and version == V1_2:
            plain = "\r"
        else:
            plain = BACKSLASH + letter
        parts.append(text[begin:start])
        parts.append(plain)
        begin = start + 2
        start = text.find(BACKSLASH, begin)
    parts.append(text[begin:])
    return "".join(parts)


def encode_headers(headers: list[tuple[str, str]], version: int) -> bytes:
    """Return header lines with newlines; of a repeated name only the first. Names are escaped like values.

    Raises:
        LocalProtocolError: a NUL, an empty name or an unpaired surrogate.
    """
    values: dict[str, str] = {}
    for name, value in headers:
        if not name:
            raise LocalProtocolError("a header without a name cannot be written in a STOMP frame")
        if name not in values:
            values[name] = value
    return encode_lines(values, version)


def encode_lines(values: dict[str, str], version: int) -> bytes:
    """Return header lines with newlines; no name is empty.

    Raises `LocalProtocolError` as `encode_headers`.
    """
    text = "".join([f"{name}:{value}\n" for name, value in values.items()])
    if not is_plain(text, len(values)):
        text = "".join([escaped_line(name, value, version) for name, value in values.items()])
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError("a header is not valid Unicode and cannot be written in a STOMP frame") from error


def is_plain(text: str, line_count: int) -> bool:
    """Return True if no name and no value in ``text`` needs an escape in any version.

    Five looks at all lines take a third of the instructions of five looks at each name and value.
    """
    return (
        text.count(":") == line_count
        and text.count("\n") == line_count
        and BACKSLASH not in text
        and "\r" not in text
        and "\0" not in text
    )


def escaped_line(name: str, value: str, version: int) -> str:
    """Return one header line; raises `LocalProtocolError` if the version has no form for it."""
    label = escaped(name, version)
    if version == V1_0 and ":" in label:
        raise LocalProtocolError("a header name with a colon cannot be written in a STOMP 1.0 frame")
    return f"{label}:{escaped(value, version)}\n"


def encode_writable(headers: list[tuple[str, str]], version: int) -> bytes:
    """Return the lines of all headers except for unrepresentable ones."""
    try:
        return encode_headers(headers, version)
    except LocalProtocolError:
        lines: list[bytes] = []
        for header in headers:
            try:
                lines.append(encode_headers([header], version))
            except LocalProtocolError:
                continue
        return b"".join(lines)


def encode_frame(command: str, headers: list[tuple[str, str]], body: bytes, version: int) -> bytes:
    """Return a whole frame; the caller adds a `content-length` if the body may contain a NUL.

    Raises:
        LocalProtocolError: a header cannot be represented.
    """
    if command == CONNECTED:
        version = V1_0
    return b"".join([command.encode(), b"\n", encode_headers(headers, version), b"\n", body, b"\0"])
