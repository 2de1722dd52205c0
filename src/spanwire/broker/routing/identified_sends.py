"""Sends with a duplicate id: recognition of ids accepted before, and reports about duplicates.

The producer names the destination. Names of a composite are compared one by one; a wildcard or virtual destination is
compared by its name, before copies are made.

A message of another broker is compared only if that broker took the message from a client, for this destination: then
the message cannot have been here before. The id is recorded also after more brokers, because the producer may send the
message again to this broker. A message with a destination set by that broker (a copy of a virtual destination, a dead
letter, a moved or retried message) was sent to another destination, or was here, so the id has no meaning here.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import TransactedSend
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.history.departures import DUPLICATE_ID
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.persistence.duplicate_ids import PROPERTY, DuplicateIds, SendIdentity, digest_of
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.reserved_destinations import is_control
from spanwire.broker.security.access_control import AccessControl
from spanwire.model.destination import SCHEDULE, Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import FORMAT_STOMP, Message

MARK: Final = PROPERTY.encode()  # bytes in every message with the property
LEAST_MARKED: Final = len(MARK)  # octets; smaller properties of OpenWire have no such name


def is_marked(message: Message) -> bool:
    """Return True if the bytes of the properties contain the name of the property: a cheap first look."""
    if message.format_id < FORMAT_STOMP:
        start, end = message.properties_start, message.tail_start
        return start < end and message.raw.find(MARK, start, end) >= 0
    return message.raw.find(MARK, 0, message.content_start) >= 0


class IdentifiedSends:
    """Compares sends with the duplicate ids accepted by destinations."""

    def __init__(
        self,
        context: BrokerContext,
        formats: MessageFormats,
        destination_map: DestinationMap,
        policies: PolicyMap,
        access: AccessControl,
        ids: DuplicateIds,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._formats: Final[MessageFormats] = formats
        self._map: Final[DestinationMap] = destination_map
        self._policies: Final[PolicyMap] = policies
        self._access: Final[AccessControl] = access
        self._ids: Final[DuplicateIds] = ids

    def identities(self, message: Message) -> list[SendIdentity]:
        """Return the identities of a send, one for each named destination; empty without an id.

        Raises:
            InvalidDestinationError: a name is malformed.
        """
        if not is_marked(message):
            return []
        destination = message.destination
        if destination.is_advisory or is_control(destination):
            return []
        if message.broker_path and not self._is_as_sent(message):
            return []
        digest = self._digest(message)
        return [self._identity(part, digest) for part in destination.parts()] if digest else []

    def _is_as_sent(self, message: Message) -> bool:
        """Return True if a message of another broker was sent to the present destination.

        A part of a composite counts, too.
        """
        try:
            original = self._formats.view(message).original_destination
        except (JmsError, ProtocolError):
            return False  # a doubt costs no message
        return original is None or original.is_composite

    def is_accepted(self, identity: SendIdentity) -> bool:
        """Return True if the destination has accepted the id."""
        return self._ids.holds(identity)

    def note(self, identity: SendIdentity) -> None:
        """Record that the destination has accepted the id."""
        self._ids.note(identity)

    def new_part(self, state: ConnectionState, message: Message, identities: list[SendIdentity]) -> Message | None:
        """Return the message for the destinations that have not accepted the id yet, else None.

        The duplicates are counted.

        Raises:
            JmsError: the sender has no right to send to the destination of a duplicate.
        """
        if len(identities) == 0 or len(message.broker_path) > 1:
            return message
        unknown: list[SendIdentity] = []
        for identity in identities:
            if self._ids.holds(identity):
                self._access.check_write(state, identity.destination)
                self.drop(identity, message, state.connection_id)
            else:
                unknown.append(identity)
        if len(unknown) == len(identities):
            return message
        if not unknown:
            return None
        destination = unknown[0].destination
        if len(unknown) > 1:
            destination = Destination(destination.kind, ",".join([identity.address for identity in unknown]))
        return self._formats.format(message.format_id).readdressed(message, destination)

    def drop(self, identity: SendIdentity, message: Message, connection_id: str) -> None:
        """Count and remember a dropped duplicate."""
        destination = self._map.find(identity.destination)
        if destination is not None:
            destination.duplicates += 1
        self._context.note_duplicate(DUPLICATE_ID, message, connection_id)

    def part_of(self, message: Message, part: Destination) -> Message:
        """Return the message for one name of a composite."""
        if part == message.destination:
            return message
        return self._formats.format(message.format_id).readdressed(message, part)

    def identify(self, sends: list[TransactedSend]) -> None:
        """Give the sends of a branch, read from the store, identities again."""
        last: SendIdentity | None = None
        for send in sends:
            message = send.message
            if not is_marked(message):
                continue
            digest = self._digest(message)
            if not digest:
                continue
            address = message.destination
            try:
                original = self._formats.view(message).original_destination
            except (JmsError, ProtocolError):
                original = None  # a body that cannot be decoded; without virtual destinations its address is right
            if original is not None and not original.is_composite and send.destination.name.kind != SCHEDULE:
                address = original
            if last is None or last.digest != digest or last.address != address.qualified_name:
                last = self._identity(address, digest)
            send.identity = last

    def _identity(self, address: Destination, digest: bytes) -> SendIdentity:
        destination = self._map.find(address)
        policy = self._policies.entry_for(address) if destination is None else destination.policy
        return SendIdentity(address, digest, policy.id_cache_size)

    def _digest(self, message: Message) -> bytes:
        """Return the digest of the message's id, empty without one."""
        try:
            entry = self._formats.properties(message).get(PROPERTY)
        except (JmsError, ProtocolError):
            return b""  # the next reader of the properties refuses the message
        if entry is None or not (isinstance(entry[1], str) or isinstance(entry[1], int)):
            return b""
        text = str(entry[1])
        return digest_of(text) if text else b""
