"""Requests of the message servlet: destination, parameters and message properties.

Source: Connectivity Guide, "Using REST".

Classic's servlet decides where the guide is silent: without ``type`` a destination is a topic, ``readTimeout`` is at
most 20 seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from spanwire.model.destination import QUEUE, SCHEMES, TEMP_QUEUE, TEMP_TOPIC, TOPIC, Destination, parse_destination
from spanwire.model.errors import InvalidDestinationError, MessageFormatError

MAX_WAIT_MS: Final = 20_000  # milliseconds, as Classic's servlet; a proxy in between seldom waits longer than 30 s
MAX_FIELDS: Final = 1_000  # parameters of a form; as many properties as a header block of STOMP may have
DIGITS: Final = 12  # of a number in a parameter
KINDS: Final = {"queue": QUEUE, "topic": TOPIC}
FORM: Final = "application/x-www-form-urlencoded"
BINARY: Final = "application/octet-stream"
DEFAULT_PRIORITY: Final = 5  # of Classic's servlet; JMS has 4
TRUE: Final = frozenset({"true", "1", "yes"})
# Parameters with a meaning of their own; all others become properties of the message.
BODY: Final = "body"
DESTINATION: Final = "destination"
TYPE: Final = "type"
HEADER_FIELDS: Final = (
    "JMSCorrelationID",
    "JMSReplyTo",
    "JMSType",
    "JMSPriority",
    "JMSExpiration",
    "JMSTimeToLive",
    "JMSDeliveryMode",
)
PERSISTENT_WORDS: Final = frozenset({"persistent", "2", "true"})
NON_PERSISTENT_WORDS: Final = frozenset({"non_persistent", "non-persistent", "nonpersistent", "1", "false"})


class BadRequestError(Exception):
    """Raised for a wrong request of the client."""


class Parameters:
    """The parameters of a request: from the URL and a form together."""

    def __init__(self, items: Iterable[tuple[str, str]]) -> None:
        """Take the parameters. Raises `BadRequestError` for too many."""
        self._values: Final[dict[str, list[str]]] = {}
        for count, (name, value) in enumerate(items, 1):
            if count > MAX_FIELDS:
                raise BadRequestError(f"there are more than {MAX_FIELDS} parameters")
            self._values.setdefault(name, []).append(value)

    def text(self, name: str) -> str | None:
        """Return a parameter, or None. Raises `BadRequestError` for two values."""
        values = self._values.get(name)
        if values is None:
            return None
        if len(values) > 1:
            raise BadRequestError(f"the parameter {name[:60]} is there {len(values)} times")
        return values[0]

    def flag(self, name: str) -> bool:
        """Return True for a parameter such as ``oneShot=true``."""
        return (self.text(name) or "").lower() in TRUE

    def number(self, name: str) -> int | None:
        """Return a parameter as a whole number, or None. Raises `BadRequestError` for another text."""
        text = self.text(name)
        if text is None or not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
            raise BadRequestError(f"{name} is {text[:40]!r}; it is a whole number of at most {DIGITS} digits")
        return int(text)

    def names(self) -> list[str]:
        """Return the names of all parameters."""
        return list(self._values)

    def values(self, name: str) -> list[str]:
        """Return all values of a parameter."""
        return self._values[name]


@dataclass(frozen=True, slots=True)
class Posted:
    """A message to send."""

    destination: Destination
    body: str | bytes
    properties: dict[str, str]
    correlation_id: str | None
    reply_to: Destination | None
    message_type: str | None
    priority: int
    time_to_live_ms: int
    persistent: bool


def destination_of(path: str, parameters: Parameters, default: int = TOPIC) -> Destination:
    """Return the destination of a request.

    Args:
        path: the path behind the servlet, ``FOO/BAR`` for the destination ``FOO.BAR``.
        parameters: ``destination`` replaces the path; ``type`` is ``queue`` or ``topic``.
        default: the kind of a destination without ``type``.

    Raises:
        BadRequestError: there is no destination, or its name or type is wrong.
    """
    written_type = parameters.text(TYPE)
    kind = default if written_type is None else KINDS.get(written_type.lower())
    if kind is None:
        raise BadRequestError(f"type is {str(written_type)[:40]!r}; it is queue or topic")
    name = parameters.text(DESTINATION) or _name_of(path)
    if not name:
        raise BadRequestError("there is no destination: write its name behind /message/, as /message/FOO/BAR")
    if any(character in name for character in "?,"):
        raise BadRequestError("the name of a destination has no options, and is one destination")
    if "://" in name and not name.startswith(SCHEMES):
        raise BadRequestError("the destination is queue://NAME, topic://NAME or a name")
    try:
        destination = parse_destination(name, kind)
    except InvalidDestinationError as error:
        raise BadRequestError(str(error)) from error
    if destination.kind in (TEMP_QUEUE, TEMP_TOPIC):
        raise BadRequestError("a temporary destination belongs to one connection, and cannot be used over HTTP")
    return destination


def _name_of(path: str) -> str:
    """Return the name in a path. Raises `BadRequestError` for a path open to rewriting by other servers."""
    elements = path.strip("/").split("/")
    if any(element in ("", ".", "..") for element in elements) and path.strip("/"):
        raise BadRequestError("the path has an empty element, . or ..")
    return ".".join(elements)


def wait_ms(parameters: Parameters) -> int:
    """Return the wait of a read in milliseconds; ``readTimeout`` of the servlet, ``timeout`` of the guide."""
    asked = parameters.number("readTimeout")
    if asked is None:
        asked = parameters.number("timeout")
    return MAX_WAIT_MS if asked is None else min(asked, MAX_WAIT_MS)


def form_fields(content_type: str, body: bytes) -> list[tuple[str, str]] | None:
    """Return the fields of a form, or None for a body as message.

    A form without any ``=`` is a text, declared as a form by a command such as ``curl -d text``.

    Raises:
        BadRequestError: the form is not UTF-8, or has too many fields.
    """
    if content_type.partition(";")[0].strip().lower() != FORM or b"=" not in body:
        return None
    try:
        return parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except UnicodeDecodeError as error:
        raise BadRequestError("the form is not encoded in UTF-8 with % for all other characters") from error
    except ValueError as error:
        raise BadRequestError(f"the form has more than {MAX_FIELDS} fields") from error


def posted_message(
    path: str, parameters: Parameters, content_type: str, body: bytes, *, is_form: bool, now_ms: int
) -> Posted:
    """Return the message of a POST.

    Args:
        path: the path behind the servlet.
        parameters: the parameters of the URL and of a form.
        content_type: the ``Content-Type`` header; ``application/octet-stream`` makes a bytes message.
        body: the request's body.
        is_form: whether the body is a form, with the message in the field ``body``.
        now_ms: the time in milliseconds since 1970, for ``JMSExpiration``.

    Raises:
        BadRequestError: the destination, a parameter or the text is wrong.
    """
    reply_to = parameters.text("JMSReplyTo")
    try:
        reply = None if not reply_to else parse_destination(reply_to)
    except InvalidDestinationError as error:
        raise BadRequestError(f"JMSReplyTo: {error}") from error
    given = parameters.text(BODY)
    content: str | bytes
    if given is not None or is_form:
        content = given or ""
    else:
        content = _content(content_type, body)
    priority = parameters.number("JMSPriority")
    return Posted(
        destination_of(path, parameters),
        content,
        _properties(parameters),
        parameters.text("JMSCorrelationID") or None,
        reply,
        parameters.text("JMSType") or None,
        DEFAULT_PRIORITY if priority is None else priority,
        _time_to_live(parameters, now_ms),
        _is_persistent(parameters.text("JMSDeliveryMode")),
    )


def _content(content_type: str, body: bytes) -> str | bytes:
    kind, _, rest = content_type.partition(";")
    if kind.strip().lower() == BINARY:
        return body
    charset = next((word.partition("=")[2].strip('" ') for word in rest.split(";") if "charset=" in word.lower()), "")
    if charset.lower() not in ("", "utf-8", "utf8", "us-ascii", "iso-8859-1", "latin-1"):
        raise BadRequestError(f"the charset {charset[:40]!r} is not known: send UTF-8 or ISO-8859-1")
    try:
        return body.decode("latin-1" if charset.lower() in ("iso-8859-1", "latin-1") else "utf-8")
    except UnicodeDecodeError as error:
        raise BadRequestError(f"the body is no text in UTF-8; send octets as {BINARY}") from error


def _properties(parameters: Parameters) -> dict[str, str]:
    """Return all parameters without another meaning; a repeated parameter is left out, as by Classic."""
    taken = {BODY, DESTINATION, TYPE, *HEADER_FIELDS}
    return {
        name: parameters.values(name)[0]
        for name in parameters.names()
        if name and name not in taken and len(parameters.values(name)) == 1
    }


def _time_to_live(parameters: Parameters, now_ms: int) -> int:
    """Return the time to live in milliseconds, 0 for none."""
    span = parameters.number("JMSTimeToLive")
    if span is not None:
        return span
    until = parameters.number("JMSExpiration")
    if not until:
        return 0
    if until <= now_ms:
        raise BadRequestError("JMSExpiration lies in the past; it is a time in milliseconds since 1970")
    return until - now_ms


def _is_persistent(text: str | None) -> bool:
    word = (text or "persistent").lower()
    if word not in PERSISTENT_WORDS | NON_PERSISTENT_WORDS:
        raise BadRequestError(f"JMSDeliveryMode is {word[:40]!r}; it is persistent or non-persistent")
    return word in PERSISTENT_WORDS


MESSAGE_FAULTS: Final = (BadRequestError, MessageFormatError, InvalidDestinationError)
