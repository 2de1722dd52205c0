"""Addresses of XMPP, and destinations as addresses (RFC 6122; XEP-0106, "JID Escaping").

    ORDERS@example.org           the queue ORDERS; so does ORDERS@queues.example.org
    PRICES@topics.example.org    the topic PRICES; so does PRICES@conference.example.org
    NAME@temp-queues.…, NAME@temp-topics.…    temporary destinations by their physical names

``example.org`` is the domain in the header of the client's stream. Characters not permitted in a local part are
escaped: ``ORDERS.>`` is ``ORDERS.\\3e@…``.
"""

from __future__ import annotations

import re
from typing import Final

from spanwire.model.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, Destination, check_name
from spanwire.model.errors import InvalidDestinationError
from spanwire.protocols.xmpp.codec.errors import StanzaError

MAX_PART: Final = 1_023  # bytes of each part of an address (RFC 6122, section 2.1)

QUEUES: Final = "queues"
TOPICS: Final = "topics"
SERVICES: Final[dict[str, int]] = {  # first label of a domain → kind of destination
    QUEUES: QUEUE,
    TOPICS: TOPIC,
    "conference": TOPIC,  # where a client looks for rooms without asking
    "temp-queues": TEMP_QUEUE,
    "temp-topics": TEMP_TOPIC,
}
LABELS: Final = ("", "topics.", "temp-queues.", "temp-topics.")  # before the domain, by kind of destination

_ESCAPED: Final = " \"&'/:<>@"  # characters that a local part may not have
_ESCAPES: Final[dict[str, str]] = {character: f"\\{ord(character):02x}" for character in _ESCAPED}
_ESCAPE: Final = re.compile(r"\\(20|22|26|27|2f|3a|3c|3e|40|5c)")
_FORBIDDEN: Final = re.compile("[\\x00-\\x20\\x7f\"&'<>@]")


class Jid:
    """An address; ``local`` and ``resource`` are "" if absent."""

    __slots__ = ("domain", "local", "resource")

    def __init__(self, local: str, domain: str, resource: str = "") -> None:
        self.local: Final[str] = local
        self.domain: Final[str] = domain
        self.resource: Final[str] = resource

    @property
    def bare(self) -> str:
        """Return the address without the resource."""
        return f"{self.local}@{self.domain}" if self.local else self.domain

    def __str__(self) -> str:
        return f"{self.bare}/{self.resource}" if self.resource else self.bare


def parse_jid(text: str) -> Jid:
    """Parse an address.

    Raises:
        StanzaError: a part is empty, too long or has a character that is not permitted.
    """
    bare, slash, resource = text.partition("/")
    local, at, domain = bare.rpartition("@")
    parts = [domain, *([local] if at else []), *([resource] if slash else [])]
    for part in parts:
        if not part or len(part.encode("utf-8", "replace")) > MAX_PART:
            raise malformed(text)
    if _FORBIDDEN.search(local) or _FORBIDDEN.search(domain):
        raise malformed(text)
    return Jid(local, domain.lower(), resource)


def malformed(text: str) -> StanzaError:
    """Return the error for a malformed address."""
    return StanzaError("modify", "jid-malformed", f"{text[:80]!r} is no address; write local@domain")


def escape_local(name: str) -> str:
    """Return a name as the local part of an address."""
    name = _ESCAPE.sub(r"\\5c\1", name)  # a name that looks escaped already
    return "".join([_ESCAPES.get(character, character) for character in name])


def unescape_local(local: str) -> str:
    """Return the name in a local part."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), local)


def service_of(jid: Jid, domain: str) -> int | None:
    """Return the kind of the destinations in the domain of ``jid``.

    Returns None outside of the client's ``domain``.
    """
    if jid.domain == domain:
        return QUEUE
    label, _, rest = jid.domain.partition(".")
    return SERVICES.get(label) if rest == domain else None


def destination_of(jid: Jid, domain: str) -> Destination:
    """Return the queue or topic of an address.

    Raises:
        StanzaError: the domain is another server's, or the address names no destination.
    """
    kind = service_of(jid, domain)
    if kind is None:
        raise StanzaError("cancel", "remote-server-not-found", f"{jid.domain[:80]} is no domain of this broker")
    if not jid.local:
        raise StanzaError(
            "cancel", "service-unavailable", f"{jid.domain[:80]} takes no messages; name a queue or topic"
        )
    name = unescape_local(jid.local)
    try:
        check_name(name)
    except InvalidDestinationError as error:
        raise StanzaError("modify", "jid-malformed", str(error)) from error
    return Destination(kind, name)


def jid_of(destination: Destination, domain: str) -> Jid:
    """Return the address of a queue or topic."""
    return Jid(escape_local(destination.name), LABELS[destination.kind] + domain)
