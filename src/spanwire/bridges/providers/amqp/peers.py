"""Brokers of AMQP 1.0 and their addresses; the opening of a connection names the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from spanwire.bridges.model.definition import Source
from spanwire.bridges.providers.addresses import Place
from spanwire.bridges.providers.dead_letters import SUFFIX
from spanwire.model.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, Destination, parse_destination
from spanwire.model.errors import InvalidDestinationError

EXCHANGE: Final = "exchange"
TOPIC_EXCHANGE: Final = "amq.topic"  # exists in every virtual host of RabbitMQ
QUALIFIED: Final = "::"  # between address and queue in Artemis' fully qualified queue names
OWN_QUEUE: Final = "/amq/queue/"  # prefix of a queue of RabbitMQ that is there
SLASH: Final = "%2F"
CREATED_QUEUE: Final = "/queue/"  # prefix of a queue that the plug-in creates if it is not there
PREFIXES: Final = {
    "queue://": QUEUE,
    "topic://": TOPIC,
    "temp-queue://": TEMP_QUEUE,
    "temp-topic://": TEMP_TOPIC,
    OWN_QUEUE: QUEUE,
    "/queues/": QUEUE,
    CREATED_QUEUE: QUEUE,
    "/topic/": TOPIC,
    f"/exchange/{TOPIC_EXCHANGE}/": TOPIC,
    f"/exchanges/{TOPIC_EXCHANGE}/": TOPIC,
}
QUOTED: Final = ("/queues/", "/exchanges/")  # prefixes of RabbitMQ 4, behind which names are percent-encoded


@dataclass(frozen=True, slots=True)
class Peer:
    """A broker by its own name."""

    product: str
    version: str

    @property
    def is_rabbit(self) -> bool:
        """Return True for RabbitMQ."""
        return self.product == "RabbitMQ"

    @property
    def has_new_addresses(self) -> bool:
        """Return True for RabbitMQ from version 4 on, with other addresses."""
        major = self.version.partition(".")[0]
        return self.is_rabbit and major.isdigit() and int(major) >= 4

    @property
    def is_classic(self) -> bool:
        """Return True for ActiveMQ Classic: addresses have the scheme of a destination there."""
        return self.product == "ActiveMQ"


def peer_of(properties: dict[str, str]) -> Peer:
    """Return the broker by the properties of an opened connection."""
    return Peer(properties.get("product", ""), properties.get("version", ""))


def address(peer: Peer, destination: Destination, place: Place) -> str:
    """Return the address of a queue or topic; a name that begins with a slash is one already.

    At RabbitMQ a topic is a routing key of the exchange of topics, or of the exchange of the URL.

    Raises `InvalidDestinationError` for a name with %2F at RabbitMQ 3, which reads a slash there and has no other way
    to write it.
    """
    name = destination.name
    if peer.is_classic:
        return str(destination)
    if not peer.is_rabbit or name.startswith("/"):
        return name
    exchange = place.options.get(EXCHANGE, TOPIC_EXCHANGE)
    if peer.has_new_addresses:
        if destination.is_queue:
            return f"/queues/{quote(name, safe='')}"
        return f"/exchanges/{quote(exchange, safe='')}/{quote(name, safe='')}"
    if SLASH in name or (SLASH in exchange and not destination.is_queue):
        raise InvalidDestinationError(
            f"{destination}: RabbitMQ {peer.version} reads %2F as a slash, so its AMQP 1.0 cannot address a name with "
            "it: use a bridge over AMQP 0-9-1, or another name"
        )
    name, exchange = name.replace("/", SLASH), exchange.replace("/", SLASH)
    return f"{OWN_QUEUE}{name}" if destination.is_queue else f"/exchange/{exchange}/{name}"


def created_queue(peer: Peer, name: str) -> str | None:
    """Return the address with which RabbitMQ creates a queue that is not there; None for a name that it cannot have.

    Version 4 has no such address of its own, and takes that of version 3. Both decode the slash alone there.
    """
    if peer.has_new_addresses and SLASH in name:
        return None
    return CREATED_QUEUE + name.replace("/", SLASH)


def source_name(peer: Peer, destination: Destination) -> str:
    """Return the name of a source for its dead letters: the queue of a qualified name, the last part of an address."""
    name = destination.name
    if name.startswith("/") and not peer.is_classic:
        part = name.rpartition("/")[2]
        if peer.is_rabbit:
            return unquote(part) if name.startswith(QUOTED) else part.replace(SLASH, "/")
        name = part
    return name if peer.is_rabbit or peer.is_classic else name.rpartition(QUALIFIED)[2]


def dead_letter_queue(peer: Peer, source: Source) -> Destination:
    """Return the queue for dead letters: the name of the subscription or of the source, with a suffix."""
    name = source.subscription or source_name(peer, source.destination)
    return Destination(QUEUE, name + SUFFIX)


def capability(destination: Destination) -> str | None:
    """Return the capability by which Artemis knows queues from topics; None for a qualified name.

    The capability belongs to a terminus.
    """
    if QUALIFIED in destination.name:
        return None
    return "queue" if destination.is_queue else "topic"


def destination_of(text: str, kind: int) -> Destination | None:
    """Return the destination of an address; None for a wrong name.

    An address without a kind of destination has ``kind``.
    """
    for prefix, known in PREFIXES.items():
        if text.startswith(prefix):
            text, kind = text[len(prefix) :], known
            if prefix.startswith(QUOTED):
                text = unquote(text)
            elif prefix.startswith("/"):  # of RabbitMQ 3; other brokers quote nothing
                text = text.replace(SLASH, "/")
            break
    try:
        return parse_destination(text, kind)
    except InvalidDestinationError:
        return None
