"""The targets of a send: physical destinations of composites, wildcards and virtual destinations.

`MessageRouter` stores and dispatches the copies for the targets.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.destinations.pattern_index import check_compared
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.policy.fan_out import MAX_FAN_OUT, MAX_STEPS_OF_SEND
from spanwire.broker.reserved_destinations import check_apart
from spanwire.broker.routing.virtual_destinations import Target, VirtualDestinations
from spanwire.broker.security.access_control import AccessControl
from spanwire.model.destination import Destination
from spanwire.model.errors import DestinationDoesNotExistError, ResourceAllocationError
from spanwire.model.message import Message

MAX_WILDCARD_TARGETS: Final = 5_000  # destinations of one message to wildcards, 2 microseconds each


class SendTargets:
    """Finds the targets of messages, checks the rights for them, and creates missing destinations."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        formats: MessageFormats,
        access: AccessControl,
        virtual: VirtualDestinations,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._formats: Final[MessageFormats] = formats
        self._access: Final[AccessControl] = access
        self._virtual: Final[VirtualDestinations] = virtual

    def of(self, state: ConnectionState, message: Message) -> list[Target]:
        """Return the queues and topics that get the message in the end.

        Raises:
            JmsError: a target is refused, or is the control destination: requests are taken at the send.
        """
        destinations = self._resolve(state, message.destination)
        if any(destination.fans_out for destination in destinations):
            targets = self._virtual.expand(state, destinations, message)
            self._context.steps += len(targets)
            for target in targets:
                if target.destination.fans_out:
                    check_apart(target.destination.name)
            return targets
        if len(destinations) > 1:
            self._check_fan_out(message.destination, destinations)
        return [Target(destination, destination.name) for destination in destinations]

    def copies(self, targets: list[Target], message: Message) -> list[Message]:
        """Return the message for each target, with the address of the target."""
        copies: list[Message] = []
        for target in targets:
            address = target.address
            source = message
            if target.via is not None:
                source = self._formats.format(message.format_id).readdressed(message, target.via, False)
            if address is not None and address != source.destination:
                copies.append(self._formats.format(message.format_id).readdressed(source, address))
            else:
                copies.append(message.twin() if source is message and len(targets) > 1 else source)
        return copies

    def _resolve(self, state: ConnectionState, name: Destination) -> list[BrokerDestination]:
        """Return the physical destinations, each once. Destinations are made only after all are allowed."""
        wanted: dict[str, Destination] = {}
        compared = 0
        looked = 0
        for part in name.parts():
            if part.is_pattern and part.is_temporary:
                raise DestinationDoesNotExistError(part.qualified_name)  # other connections' are private
            if not part.is_pattern or part.is_advisory:
                self._access.check_write(state, part)
                wanted[part.qualified_name] = part
                continue
            looked += 1
            compared += self._map.count_of_kind(part)
            check_compared(looked, compared)
            for destination in self._map.matching(part):
                if not destination.name.is_advisory:
                    if len(wanted) >= MAX_WILDCARD_TARGETS:
                        raise ResourceAllocationError(
                            f"a message to {name} would be copied to more than {MAX_WILDCARD_TARGETS} "
                            f"destinations: send to a narrower wildcard"
                        )
                    self._access.check_write(state, destination.name)
                    wanted[destination.name.qualified_name] = destination.name
        self._context.steps += len(wanted)
        return self._destinations.ensure_all(state, list(wanted.values()), True)

    def _check_fan_out(self, name: Destination, destinations: list[BrokerDestination]) -> None:
        """Raise `ResourceAllocationError` if one message to all ``destinations`` would take too many steps."""
        steps = 0
        for destination in destinations:
            steps += self._context.load_of(destination) + destination.copy_steps
        if steps > MAX_STEPS_OF_SEND:
            raise ResourceAllocationError(
                f"a message to {name} would be handed to more than {MAX_FAN_OUT} consumers: "
                f"send to fewer destinations at once"
            )
