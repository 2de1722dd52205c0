"""References: connection factories and destinations as a directory stores them (RFC 2713).

    javaClassName: org.apache.activemq.ActiveMQConnectionFactory
    javaReferenceAddress: #0#brokerURL#tcp://berlin:61616
    javaReferenceAddress: #1#userName#bridge

The first character separates position, name and value of an address. An address with an empty value and a further
separator is a serialized Java object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret

CLASSIC: Final = "org.apache.activemq."
FACTORY_CLASSES: Final = frozenset(
    f"{CLASSIC}{package}ActiveMQ{kind}ConnectionFactory"
    for package in ("", "spring.")
    for kind in ("", "Ssl", "XA", "XASsl")
)
DESTINATION_CLASSES: Final = {f"{CLASSIC}command.ActiveMQQueue": QUEUE, f"{CLASSIC}command.ActiveMQTopic": TOPIC}
MAX_ADDRESSES: Final = 200  # properties of one object; a connection factory of ActiveMQ has some fifty


def read_addresses(texts: Iterable[str]) -> dict[str, str]:
    """Return the properties of a reference.

    Raises:
        ConfigurationError: an address is malformed, or there are too many.
    """
    properties: dict[str, str] = {}
    for text in texts:
        if len(properties) >= MAX_ADDRESSES:
            raise ConfigurationError(f"has more than {MAX_ADDRESSES} addresses")
        parts = text[1:].split(text[:1], 2) if text else []
        if len(parts) != 3 or not parts[0].isdigit():
            raise ConfigurationError("has a malformed javaReferenceAddress; it is #POSITION#NAME#VALUE")
        if parts[2].startswith(text[0]):  # a serialized object, which is never read
            continue
        properties[parts[1]] = parts[2]
    return properties


def factory_of(class_name: str, properties: Mapping[str, str]) -> ConnectionFactory:
    """Return the connection factory of a reference.

    Raises:
        ConfigurationError: the reference is another object, or has no URL.
    """
    if class_name not in FACTORY_CLASSES:
        raise ConfigurationError(
            f"is of the class {class_name[:120]}, and bridges know references to ActiveMQConnectionFactory alone"
        )
    url = properties.get("brokerURL", "").strip()
    if not url:
        raise ConfigurationError("has no address brokerURL")
    password = properties.get("password")
    return ConnectionFactory(url, properties.get("userName") or None, None if not password else Secret(password))


def destination_of(class_name: str, properties: Mapping[str, str]) -> Destination:
    """Return the destination of a reference. Raises `ConfigurationError` for another object."""
    kind, name = DESTINATION_CLASSES.get(class_name), properties.get("physicalName", "").strip()
    if kind is None or not name:
        raise ConfigurationError(f"is of the class {class_name[:120]}, and no queue or topic of ActiveMQ")
    return Destination(kind, name)
