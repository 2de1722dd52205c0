"""Meshes of brokers whose every event is chosen by the test: a link comes up or breaks, one frame arrives, a message is
sent. The frames on each wire keep their order; all else may happen in any order.

A durable subscriber at each broker counts what it gets. A link comes up in one event, since its handshake tells nothing
of consumers or messages; each frame after it is an event of its own.
"""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Callable
from hashlib import blake2b

from spanwire.broker.policy import PolicyMap
from spanwire.network.crossing import Crossing
from spanwire.network.settings import BridgeSettings
from spanwire.protocols.openwire import _marshallers as wire
from spanwire.protocols.openwire.codec import FrameDecoder
from spanwire.protocols.openwire.identities import consumer_id_of
from spanwire.protocols.openwire.wire_format import WireFormat
from tests.support.network_dialogue import Inbox, Link, Network, Site

TOPIC = "topic://T"
MAX_HANDSHAKE = 100  # frames
SIZE_OCTETS = 4  # in front of each frame
LINK = "link"
FORTH = "forth"
BACK = "back"
SEND = "send"
BREAK = "break"

Event = tuple[str, int]


class MeshLink(Link):
    """A link whose frames arrive one at a time."""

    def flush(self) -> bool:
        bridge, peer = self.bridge, self.peer
        if bridge is None or peer is None:
            return False
        forth, back = frames(bridge.data_to_send()), frames(peer.data_to_send())
        self.to_far.extend(forth)
        self.to_near.extend(back)
        bridge.unsent(0)
        peer.unsent(0)
        return bool(forth or back)

    def comes_up(self) -> None:
        """The handshake, up to the answer that the bridge runs."""
        self.connects()
        for _ in range(MAX_HANDSHAKE):
            if self.running:
                return
            self.flush()
            self.deliver(1)
        raise AssertionError(f"{self.settings.name} does not come up: {self.reasons}")

    def breaks(self) -> None:
        super().breaks()
        self.to_far.clear()
        self.to_near.clear()

    def arrives(self, kind: str) -> None:
        """The oldest frame of one direction arrives."""
        bridge, peer, now = self.bridge, self.peer, self.near.network.now
        assert bridge is not None and peer is not None
        if kind == FORTH:
            peer.receive_data(self.to_far.popleft(), now)
        else:
            bridge.receive_data(self.to_near.popleft(), now)
        assert not bridge.closed and not peer.closed, bridge.reason


class MeshWorld:
    """``count`` brokers, ``edges`` (from, to) between them, ``sends`` messages left to send at the first one. ``calm``:
    the first is sent when all links are up and all demand is known.
    """

    def __init__(
        self,
        count: int,
        edges: list[tuple[int, int]],
        settings: BridgeSettings,
        *,
        sends: int = 2,
        policies: PolicyMap | None = None,
        listening: list[int] | None = None,
        durable: bool = True,
        calm: bool = False,
    ) -> None:
        self._calm = calm
        self.network = Network()
        self.sites: list[Site] = [self.network.site("ABCD"[place], policies=policies) for place in range(count)]
        self.links: list[MeshLink] = []
        for near, far in edges:
            self.links.append(MeshLink(self.sites[near], self.sites[far], settings_for(settings, near, far)))
        self.inboxes: dict[str, Inbox] = {}
        for place in range(count) if listening is None else listening:
            site = self.sites[place]
            name = f"sub{site.name}" if durable else None
            self.inboxes[site.name] = site.client(f"client{site.name}").consumes(TOPIC, durable=name)
        self.producer = self.sites[0].client("producer")
        self.sent: list[str] = []
        self._left = sends
        self._rest(tuple(self.sites))

    def events(self) -> list[Event]:
        """All that may happen next, but for breaks."""
        found: list[Event] = []
        for place, link in enumerate(self.links):
            if link.bridge is None:
                found.append((LINK, place))
            if link.to_far:
                found.append((FORTH, place))
            if link.to_near:
                found.append((BACK, place))
        if self._left and not (self._calm and not self.sent and found):
            found.append((SEND, 0))
        return found

    def sites_of(self, event: Event) -> tuple[Site, ...]:
        """The brokers that an event concerns; events that have none in common can change places."""
        kind, place = event
        if kind == SEND:
            return (self.sites[0],)
        link = self.links[place]
        if kind == FORTH:
            return (link.far,)
        return (link.near,) if kind == BACK else (link.near, link.far)

    def happens(self, event: Event) -> None:
        """One event, and what its brokers and their clients do about it."""
        kind, place = event
        if kind == SEND:
            self._left -= 1
            self.sent.append(f"m{len(self.sent) + 1}")
            self.producer.sends(TOPIC, self.sent[-1])
        elif kind == LINK:
            self.links[place].comes_up()
        elif kind == BREAK:
            self.links[place].breaks()
        else:
            self.links[place].arrives(kind)
        self._rest(self.sites_of(event))

    def _rest(self, sites: tuple[Site, ...]) -> None:
        """These brokers do all that they can do by themselves, and what they say is put on the wires."""
        busy = True
        while busy:
            busy = False
            for site in sites:
                busy = site.turn() or busy
            for link in self.links:
                if link.bridge is not None and (link.near in sites or link.far in sites):
                    busy = link.flush() or busy
            for site in sites:
                site.broker.take_dirty()

    def settles(self, but: tuple[str, ...] = (SEND,)) -> None:
        """Everything goes on, in one order, until only these kinds of events are left."""
        while True:
            left = [event for event in self.events() if event[0] not in but]
            if not left:
                return
            self.happens(left[0])

    def texts(self) -> dict[str, list[str]]:
        """What each subscriber got."""
        return {name: inbox.texts for name, inbox in self.inboxes.items()}


def settings_for(settings: BridgeSettings, near: int, far: int) -> BridgeSettings:
    """The same under the name of this link."""
    values = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
    return BridgeSettings(**{**values, "name": f"{'ABCD'[near]}{'ABCD'[far]}"})


def frames(chunks: list[bytes]) -> deque[bytes]:
    """What is on the wire, frame by frame."""
    data = b"".join(chunks)
    found: deque[bytes] = deque()
    while data:
        size = int.from_bytes(data[:SIZE_OCTETS], "big") + SIZE_OCTETS
        found.append(data[:size])
        data = data[size:]
    return found


class Fingerprint:
    """What of a mesh decides all that can happen from now on, with ids that do not depend on the order of events."""

    def __init__(self, world: MeshWorld) -> None:
        self._world = world
        self._labels: list[tuple[str, str]] = []
        for place, link in enumerate(world.links):
            bridge = link.bridge
            if bridge is not None and bridge._crossing is not None:
                self._labels.append((bridge._crossing.local.client.connection_id, f"near{place}"))
                self._labels.append((bridge._remote._connection_id, f"far{place}"))

    def digest(self) -> bytes:
        """A few octets for it."""
        return blake2b(repr(self.of()).encode(), digest_size=12).digest()

    def of(self) -> tuple[object, ...]:
        """Two meshes with the same fingerprint have the same future."""
        world = self._world
        return (
            tuple(tuple(inbox.texts) for inbox in world.inboxes.values()),
            tuple(self._site(site) for site in world.sites),
            tuple(self._link(link) for link in world.links),
            len(world.sent),
        )

    def _site(self, site: Site) -> object:
        lines = [
            (self._id(key), durable.active, durable.line.waiting(), durable.line.in_flight)
            for key, durable in site.broker._map.durables.items()
        ]
        copies = [
            (str(producer), topic, sorted((hops, window.encoded()) for hops, window in source.windows.items()))
            for (producer, topic), source in site.broker.producer_audit.copies._sources.items()
        ]
        return (tuple(sorted(lines)), repr(sorted(copies)))

    def _link(self, link: MeshLink) -> object:
        bridge = link.bridge
        if bridge is None or bridge._crossing is None:
            return None
        crossing = bridge._crossing
        demands = []
        for demand in crossing.local.demand.subscriptions:
            served = sorted((self._id(key), one.path) for key, one in demand.consumers.items())
            out = tuple(entry.message_id.sequence for entry in demand.out)
            name = demand.info.subscription_name or ""
            demands.append((name, demand.info.priority, demand.leaving, demand.kept, tuple(served), out))
        over = link.near.routes._passed_over.get(crossing, {})
        forth = tuple(self._forth(frame) for frame in link.to_far)
        back = tuple(self._back(frame, crossing) for frame in link.to_near)
        return (tuple(sorted(demands)), tuple(sorted(self._id(key) for key in over)), forth, back)

    def _forth(self, frame: bytes) -> object:
        command = decoded(frame)
        if isinstance(command, wire.Message) and command.message_id is not None:
            path = tuple(one.value for one in command.broker_path or [])
            return (command.message_id.producer_sequence_id, command.redelivery_counter, path)
        return type(command).__name__

    def _back(self, frame: bytes, crossing: Crossing) -> object:
        command = decoded(frame)
        if isinstance(command, wire.Response):
            sent = crossing._sent.get(command.correlation_id)
            return None if sent is None else sent.message_id.sequence
        if not isinstance(command, wire.MessageDispatch) or command.message is None:
            return type(command).__name__
        subject = command.message.data_structure
        if isinstance(subject, wire.ConsumerInfo):
            path = tuple(one.value for one in subject.broker_path or [])
            behind = tuple(self._id(str(consumer_id_of(one))) for one in subject.network_consumer_path or [])
            return (self._id(str(consumer_id_of(subject.consumer_id))), path, behind, subject.subscription_name)
        if isinstance(subject, wire.RemoveInfo) and isinstance(subject.object_id, wire.ConsumerId):
            return ("gone", self._id(str(consumer_id_of(subject.object_id))))
        return type(subject).__name__

    def _id(self, text: str) -> str:
        for old, new in self._labels:
            text = text.replace(old, new)
        return text


def decoded(frame: bytes) -> wire.Command:
    """One frame of a connection without tight encoding and cache."""
    decoder = FrameDecoder(pass_messages=False)
    decoder.negotiated(WireFormat())
    decoder.authenticated()
    (command,) = decoder.feed(frame)
    return command


class Explorer:
    """Plays every order of events of a mesh, as far as orders can lead to different ends.

    Two reductions leave out what cannot. Events at different brokers change places freely, because each broker knows
    only what has come to it; of two orders that differ in such places alone one is played (sleep sets, Godefroid 1996).
    And a state that was reached before, by its `Fingerprint`, goes on as it did then.

    Each step is played in a child process, so that nothing has to be undone or played again; ``check`` looks at the
    meshes in which nothing is left to happen, and gives a fault or nothing.
    """

    def __init__(self, check: Callable[[MeshWorld], str | None]) -> None:
        self._check = check
        self._seen: dict[bytes, frozenset[Event]] = {}
        self.ends = 0
        self.faults: dict[str, list[Event]] = {}

    @property
    def states(self) -> int:
        """How many states were reached."""
        return len(self._seen)

    def explore(self, world: MeshWorld, asleep: frozenset[Event] = frozenset(), before: tuple[Event, ...] = ()) -> None:
        """Play all that can happen to ``world``, but what is ``asleep``: another order of it was played already."""
        while True:
            awake = self._awake(world, asleep, before)
            if not awake:
                return
            *others, last = awake
            for event in others:
                self._play_apart(world, event, independent(world, event, asleep), (*before, event))
                asleep = asleep | {event}
            asleep = independent(world, last, asleep)
            before = (*before, last)
            world.happens(last)  # nothing else is left to play from here

    def _awake(self, world: MeshWorld, asleep: frozenset[Event], before: tuple[Event, ...]) -> list[Event]:
        """The events that are to be played from this state."""
        state = Fingerprint(world).digest()
        known = self._seen.get(state)
        events = world.events()
        if known is not None:
            self._seen[state] = known & asleep
            return [event for event in events if event in known and event not in asleep]
        self._seen[state] = asleep
        if not events:
            self.ends += 1
            fault = self._check(world)
            if fault is not None:
                self.faults.setdefault(fault, list(before))
        return [event for event in events if event not in asleep]

    def _play_apart(self, world: MeshWorld, event: Event, asleep: frozenset[Event], before: tuple[Event, ...]) -> None:
        """Play ``event`` and all that follows in a child process."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(reading)
                known = dict(self._seen)
                world.happens(event)
                self.explore(world, asleep, before)
                new = {state: events for state, events in self._seen.items() if known.get(state) != events}
                with os.fdopen(writing, "wb") as pipe:
                    pipe.write(pickle.dumps((new, self.ends, self.faults)))
                status = 0
            finally:
                os._exit(status)  # whatever happens: the child must not go on with the tests of its parent
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        assert status == 0, f"a step after {before} failed"
        new, self.ends, self.faults = pickle.loads(told)  # noqa: S301 -- of this process
        self._seen.update(new)


def independent(world: MeshWorld, event: Event, others: frozenset[Event]) -> frozenset[Event]:
    """Those of ``others`` that can change places with ``event``."""
    own = set(world.sites_of(event))
    return frozenset(other for other in others if own.isdisjoint(world.sites_of(other)))
