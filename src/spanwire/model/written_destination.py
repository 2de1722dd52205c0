"""Destinations as people write them in programs, options and headers.

A broker accepts any physical name, as chosen by clients of other languages. But a person who writes ``/queue/ORDERS``
in an OpenWire program, or ``queue:/ORDERS`` anywhere, means the queue ORDERS. Such a text is refused, and the error
proposes the correct form. A full form is taken literally: ``queue:///queue/ORDERS`` names a queue ``/queue/ORDERS``.
"""

from __future__ import annotations

import re
from typing import Final

from spanwire.model.destination import (
    MAX_COMPOSITE_PARTS,
    QUEUE,
    SCHEMES,
    TEMP_QUEUE,
    TEMP_TOPIC,
    TOPIC,
    Destination,
    parse_destination,
)
from spanwire.model.errors import InvalidDestinationError

MAX_SHOWN: Final = 80  # characters of a wrong text that an error quotes
STOMP_FORMS: Final = ("/queue/", "/topic/", "/temp-queue/", "/temp-topic/")  # indexed by kind of destination
KINDS: Final = {"queue": QUEUE, "topic": TOPIC, "temp-queue": TEMP_QUEUE, "temp-topic": TEMP_TOPIC}
WRAPPER: Final = re.compile(r"(?:jms|activemq|amq):/*(?=(?:temp-)?(?:queue|topic):)", re.IGNORECASE)
OTHER_FORM: Final = re.compile(r"(?:/+((?:temp-)?(?:queue|topic))s?/+|((?:temp-)?(?:queue|topic))s?:/*)", re.IGNORECASE)
SCHEME: Final = re.compile(r"([a-z][a-z0-9+.\-]*)://", re.IGNORECASE)
BROKER_SCHEMES: Final = (
    "tcp",
    "nio",
    "ssl",
    "auto",
    "stomp",
    "vm",
    "peer",
    "failover",
    "http",
    "https",
    "amqp",
    "mqtt",
)


def written_destination(text: str, default_kind: int = QUEUE) -> Destination:
    """Parse ``queue://NAME?options``, a bare name of ``default_kind``, or a composite; drop the options.

    Raises:
        InvalidDestinationError: the text has the form of another protocol or product.
    """
    parts = [text] if "," not in text else text.split(",", MAX_COMPOSITE_PARTS)
    form = SCHEMES[default_kind]
    for part in parts:
        name = part.strip()
        check_form(name, SCHEMES)
        if name.startswith("/"):
            shown = name[:MAX_SHOWN]
            raise InvalidDestinationError(
                f"the destination {shown!r} begins with a slash: did you mean {form}{shown.lstrip('/')}? "
                f"({form}{shown} has a name with the slash)"
            )
    return parse_destination(text, default_kind)


def check_form(text: str, forms: tuple[str, ...]) -> None:
    """Raise `InvalidDestinationError` for a destination in another form.

    The form of another protocol and an unknown scheme are refused.

    ``forms`` are the correct prefixes of queue, topic, temporary queue and temporary topic, in this order. A text
    without a prefix passes.
    """
    if text.startswith(forms):
        return
    name = text.partition("?")[0]
    wrapper = WRAPPER.match(name)
    start = 0 if wrapper is None else wrapper.end()
    form = OTHER_FORM.match(name, start)
    shown = name[:MAX_SHOWN]
    if form is not None:
        kind = KINDS[(form.group(1) or form.group(2)).lower()]
        rest = name[form.end() :][:MAX_SHOWN] or "NAME"
        raise InvalidDestinationError(f"{shown!r} is no destination: did you mean {forms[kind]}{rest}?")
    scheme = SCHEME.match(name)
    if scheme is None:
        return
    if scheme.group(1).lower() in BROKER_SCHEMES:
        raise InvalidDestinationError(
            f"a destination has the scheme {scheme.group(1)!r}, which is that of a broker's URL: "
            f"write {forms[QUEUE]}NAME or {forms[TOPIC]}NAME"
        )
    rest = name[scheme.end() :].lstrip("/")[:MAX_SHOWN] or "NAME"
    raise InvalidDestinationError(
        f"{shown!r} is no destination: unknown scheme {scheme.group(1)[:MAX_SHOWN]!r}: did you mean "
        f"{forms[QUEUE]}{rest} or {forms[TOPIC]}{rest}?"
    )
