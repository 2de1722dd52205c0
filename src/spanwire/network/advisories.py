"""What the advisories of a remote broker tell a bridge: consumers and temporary destinations that come and go."""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import Destination
from spanwire.model.errors import InvalidDestinationError, JmsError
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConsumerInfo
from spanwire.model.routing import MAX_PATH
from spanwire.network.demand import RemoteConsumer
from spanwire.protocols.openwire import _marshallers as wire
from spanwire.protocols.openwire.identities import consumer_id_of, destination_of

REMOVE_OPERATION: Final = 1


class AnnouncedDestination:
    """A temporary destination of a remote client, and the brokers that told of it before the remote one."""

    __slots__ = ("destination", "path")

    def __init__(self, destination: Destination, path: tuple[str, ...]) -> None:
        self.destination: Final[Destination] = destination
        self.path: Final[tuple[str, ...]] = path


class AdvisoryReader:
    """Reads the structures that advisories carry. Raises `JmsError` for paths that are too long, which a client of the
    remote broker may have forged: its consumer is no demand, and the bridge lives on.
    """

    def consumer(self, subject: wire.ConsumerInfo, remote_broker_id: str) -> RemoteConsumer | None:
        """A consumer that came; None for one whose destination cannot exist here."""
        try:
            destination = destination_of(subject.destination)
            destination.parts()
        except InvalidDestinationError:
            return None
        info = ConsumerInfo(
            consumer_id_of(subject.consumer_id),
            destination,
            selector=subject.selector,
            subscription_name=subject.subscription_name,
            client_id=subject.client_id,
            browser=subject.browser,
            exclusive=subject.exclusive,
            priority=min(max(subject.priority, -128), 127),
            network_subscription=subject.network_subscription,
            network_consumer_path=_consumers(subject.network_consumer_path),
        )
        return RemoteConsumer(info, (*path_of(subject.broker_path), remote_broker_id))

    def removed_consumer(self, subject: wire.RemoveInfo) -> ConsumerId | None:
        """The consumer that left; None when something else did."""
        object_id = subject.object_id
        return consumer_id_of(object_id) if isinstance(object_id, wire.ConsumerId) else None


def destination_announced(subject: wire.DestinationInfo) -> AnnouncedDestination | None:
    """The temporary destination that is meant; None for another."""
    try:
        destination = destination_of(subject.destination)
    except InvalidDestinationError:
        return None
    if not destination.is_temporary or destination.is_composite or destination.is_pattern:
        return None
    return AnnouncedDestination(destination, path_of(subject.broker_path))


def destination_removed(subject: wire.DestinationInfo) -> bool:
    """Whether it is gone, not new."""
    return subject.operation_type == REMOVE_OPERATION


def path_of(ids: list[wire.BrokerId] | None) -> tuple[str, ...]:
    """A broker path; raises `JmsError` for one that is too long."""
    if ids is None:
        return ()
    if len(ids) > MAX_PATH:
        raise JmsError(f"a subscription came through {len(ids)} brokers, {MAX_PATH} are the most")
    return tuple([broker_id.value or "" for broker_id in ids])


def _consumers(ids: list[wire.ConsumerId] | None) -> tuple[ConsumerId, ...]:
    if ids is None:
        return ()
    if len(ids) > MAX_PATH:
        raise JmsError(f"a subscription stands for {len(ids)} consumers in a row, {MAX_PATH} are the most")
    return tuple([consumer_id_of(one) for one in ids])
