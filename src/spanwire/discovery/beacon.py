"""What brokers that look for each other by multicast send: one datagram of text for each connector, again and again
(ActiveMQ, Multicast Transport: MulticastDiscoveryAgent).

``default.ActiveMQ-4.alive.%localhost%tcp://host:61616`` says that a broker is there, ``…dead.…`` that it leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.model.errors import ConfigurationError

DEFAULT_GROUP: Final = "default"
MAX_DATAGRAM_BYTES: Final = 8_192  # the buffer of ActiveMQ's agent; what is longer was cut
MAX_URI_CHARACTERS: Final = 1_024  # of a connector's address; longer ones are no address that anybody wrote
MAX_GROUP_CHARACTERS: Final = 255
VERSION_MARK: Final = ".ActiveMQ-4."
ALIVE: Final = "alive."
DEAD: Final = "dead."
DELIMITER: Final = "%"
ANY_NAME: Final = "localhost"  # what ActiveMQ's agents call themselves; nobody reads it


@dataclass(frozen=True)
class Beacon:
    """One broker's word that its connector ``uri`` is there, or is going."""

    group: str
    uri: str
    alive: bool = True
    name: str = ANY_NAME

    def encode(self) -> bytes:
        """The datagram."""
        mark = ALIVE if self.alive else DEAD
        return f"{self.group}{VERSION_MARK}{mark}{DELIMITER}{self.name}{DELIMITER}{self.uri}".encode()


def decode_beacon(datagram: bytes, group: str) -> Beacon | None:
    """The beacon of a member of ``group``; None for another group's, for anything else and for nonsense: whoever is in
    reach may send to the group's address.
    """
    if len(datagram) > MAX_DATAGRAM_BYTES:
        return None
    try:
        text = datagram.decode()
    except UnicodeDecodeError:
        return None
    beginning = group + VERSION_MARK
    if not text.startswith(beginning):
        return None
    payload = text[len(beginning) :]
    alive = payload.startswith(ALIVE)
    if not alive and not payload.startswith(DEAD):
        return None
    parts = payload[len(ALIVE if alive else DEAD) :].split(DELIMITER, 2)
    if len(parts) != 3 or parts[0]:
        return None
    name, uri = parts[1], parts[2].strip()
    if not uri or len(uri) > MAX_URI_CHARACTERS or not uri.isprintable() or " " in uri:
        return None
    return Beacon(group, uri, alive, name)


def check_group(group: str) -> str:
    """``group`` if it can be told in a beacon; raises `ConfigurationError`."""
    if not group or len(group) > MAX_GROUP_CHARACTERS or not group.isprintable() or DELIMITER in group:
        raise ConfigurationError(
            f"{group!r} cannot be the name of a discovery group; use up to {MAX_GROUP_CHARACTERS} printable characters "
            f"without {DELIMITER}"
        )
    return group
