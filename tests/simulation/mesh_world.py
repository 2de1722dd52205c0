"""Meshes of brokers whose every event is chosen by the test: a link comes up or breaks, one frame arrives, a message is
sent. The frames on each wire keep their order; all else may happen in any order.

A durable subscriber at each broker counts what it gets. A link comes up in one event, since its handshake tells nothing
of consumers or messages; each frame after it is an event of its own.
"""

from __future__ import annotations

from collections import deque

from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.network.demand.bridge_settings import BridgeSettings
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
        self.calm = calm
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
        self.promised: list[tuple[str, ...]] = []  # for each message the brokers whose subscribers must get it
        self.left = sends
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
        if self.left and not (self.calm and not self.sent and found):
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
            self.left -= 1
            self.sent.append(f"m{len(self.sent) + 1}")
            self.promised.append(self._reached())
            self.producer.sends(TOPIC, self.sent[-1])
        elif kind == LINK:
            self.links[place].comes_up()
        elif kind == BREAK:
            self.links[place].breaks()
        else:
            self.links[place].arrives(kind)
        self._rest(self.sites_of(event))

    def falls_apart(self) -> None:
        """End all links and write all that is under way.

        No garbage collection of the compiled build finds what that refers to, and an `Explorer` makes many worlds.
        """
        for link in self.links:
            link.breaks()
        for site in self.sites:
            site.turn()

    def _reached(self) -> tuple[str, ...]:
        """Return the first broker, those to which it forwards and those behind them whose consumers it serves."""
        first = self.sites[0]
        found = {first.name}
        for link in self.links:
            bridge = link.bridge
            if link.near is first and bridge is not None and bridge.demand_count:
                found.add(link.far.name)
        for name, inbox in self.inboxes.items():
            if first.routes._serving.get(str(inbox.info.consumer_id)):
                found.add(name)
        return tuple(sorted(found & self.inboxes.keys()))

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
