"""Beacons: datagrams announcing a connector to a multicast group (ActiveMQ, MulticastDiscoveryAgent).

``default.ActiveMQ-4.alive.%localhost%tcp://host:61616`` announces a broker, ``…dead.…`` its departure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.model.errors import ConfigurationError

DEFAULT_GROUP: Final = "default"
MAX_DATAGRAM_BYTES: Final = 8_192  # bytes, the buffer of ActiveMQ's agent; longer datagrams are cut
MAX_URI_CHARACTERS: Final = 1_024  # characters of a connector's address; real addresses are shorter
MAX_GROUP_CHARACTERS: Final = 255
VERSION_MARK: Final = ".ActiveMQ-4."
ALIVE: Final = "alive."
DEAD: Final = "dead."
DELIMITER: Final = "%"
ANY_NAME: Final = "localhost"  # the name in the beacons of ActiveMQ's agents, which is never read


@dataclass(frozen=True)
class Beacon:
    """The announcement of the connector ``uri``, or of its departure."""

    group: str
    uri: str
    alive: bool = True
    name: str = ANY_NAME

    def encode(self) -> bytes:
        """Return the datagram."""
        mark = ALIVE if self.alive else DEAD
        return f"{self.group}{VERSION_MARK}{mark}{DELIMITER}{self.name}{DELIMITER}{self.uri}".encode()


def decode_beacon(datagram: bytes, group: str) -> Beacon | None:
    """Return the beacon of a member of ``group``.

    Returns:
        None for other groups and for invalid datagrams, because anybody in reach can send to the group's address.
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
    """Return ``group`` if it fits into a beacon. Raises `ConfigurationError` otherwise."""
    if not group or len(group) > MAX_GROUP_CHARACTERS or not group.isprintable() or DELIMITER in group:
        raise ConfigurationError(
            f"{group!r} cannot be the name of a discovery group; use up to {MAX_GROUP_CHARACTERS} printable characters "
            f"without {DELIMITER}"
        )
    return group
