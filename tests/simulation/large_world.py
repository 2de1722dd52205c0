"""Networks of up to a hundred brokers: brokers that lose their power, links that break, are cut one way or both ways
and come back, consumers that move. Time passes; connectors wait and try again as they really do.

One seed decides all. At the end everything is whole again, and `LargeWorld.faults` says which promises were broken:

    I1   a message whose sender was told that it is stored is received, or waits somewhere
    I13  each subscriber of a topic gets each message once
    I14  no message waits where a consumer that it may reach would have it
    I15  a link that can connect is up within twice the longest wait between tries
    I16  no message passes a broker twice, unless it may go back; none makes more hops than its TTL
"""

from __future__ import annotations

from collections import Counter
from random import Random

from spanwire.broker.policy.policy_entry import BridgePolicy, PolicyEntry, QueuePolicy
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.topic_policy import TopicPolicy
from spanwire.discovery.addresses.reconnect import Reconnect, ReconnectSettings
from spanwire.model.destination import parse_destination
from spanwire.model.routing import MAX_PATH
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.openwire.broker_connection import OpenWireBrokerConnection
from tests.simulation.disk import SimulatedDisk
from tests.support.network_dialogue import MAX_ROUNDS, Client, Inbox, Link, Network, Site

QUEUES = ("ONE", "TWO")
TOPIC = "topic://NEWS"
TREE = "tree"
MESH = "mesh"
MESH_TTL = 3
WAIT = ReconnectSettings(initial_delay_ms=100, max_delay_ms=4_000)
PATIENCE = 2 * 4.0  # seconds: twice the longest wait
ROUNDS = 8  # in a second that passes: a link needs a few to come up
QUIET = 10.0  # seconds in which everything that may move has moved
MAX_HEALING = 120  # seconds until all links must be up again, those that were cut and do not know it included


class WorldLink(Link):
    """A link that waits before it tries again, and may be cut one way or both ways without either end being told."""

    def __init__(self, near: Site, far: Site, settings: BridgeSettings) -> None:
        super().__init__(near, far, settings)
        self.cut_forth = False
        self.cut_back = False
        self.tries = True
        self.clear_since = self.now
        self.orphans: list[OpenWireBrokerConnection] = []
        self._reconnect = Reconnect(WAIT)
        self._next_try = self.now
        self._began = self.now

    @property
    def now(self) -> float:
        return self.near.network.now.monotonic

    @property
    def is_cut(self) -> bool:
        return self.cut_forth or self.cut_back

    def connects(self) -> None:
        super().connects()
        self._began = self.now

    def _tries_again(self, lived: float) -> None:
        delay = self._reconnect.next_delay(lived)
        assert delay is not None
        self._next_try = self.now + delay

    def breaks(self) -> None:
        was_running = self.running
        if self.bridge is not None:
            self._tries_again(self.now - self._began if was_running else 0.0)
        super().breaks()

    def near_is_gone(self) -> None:
        super().near_is_gone()
        self._next_try = self.now

    def far_is_gone(self) -> None:
        if self.bridge is not None:
            self._tries_again(self.now - self._began)
        super().far_is_gone()

    def turn(self) -> bool:
        if not self.enabled or not self.tries:
            return False
        if self.bridge is None:
            if self.now < self._next_try:
                return False
            if self.is_cut:
                self._tries_again(0.0)
                return False
            self.connects()
        elif self.peer is None:
            if not self.is_cut:
                self.breaks()  # the far end has given up: whatever comes there is refused
            else:
                self.bridge.data_to_send()
                self.bridge.unsent(0)
            return False
        busy = self.flush()
        return self.deliver() or busy

    def deliver(self, count: int = MAX_ROUNDS) -> bool:
        now = self.near.network.now
        busy = False
        for _ in range(count):
            bridge, peer = self.bridge, self.peer
            if bridge is None or peer is None:
                return busy
            forth = bool(self.to_far) and not self.cut_forth and peer.wants_read
            back = bool(self.to_near) and not self.cut_back
            if not forth and not back:
                return busy
            busy = True
            if forth:
                peer.receive_data(self.to_far.popleft(), now)
            if back:
                bridge.receive_data(self.to_near.popleft(), now)
            if bridge.closed or peer.closed:
                self.ends()
        return busy

    def ends(self) -> None:
        """One end has closed; the other one is told unless the link is cut."""
        bridge, peer = self.bridge, self.peer
        if not self.is_cut or bridge is None or peer is None:
            self.flush()
            if bridge is not None and not bridge.closed:
                for data in list(self.to_near):
                    bridge.receive_data(data, self.near.network.now)
            self.breaks()
        elif bridge.closed:
            self.orphans.append(peer)
            self.peer = None
            self.breaks()
        else:
            self.peer = None

    def ticks(self) -> None:
        """What is due at both ends, and at far ends that nobody has told of the end."""
        now = self.near.network.now
        for connection in (self.bridge, self.peer, *self.orphans):
            if connection is None or connection.closed:
                continue
            due = connection.next_timeout()
            if due is not None and due <= now.monotonic:
                connection.handle_timeout(now)
        for orphan in list(self.orphans):
            orphan.data_to_send()
            if orphan.closed:
                orphan.receive_eof(now)
                self.orphans.remove(orphan)
        if (self.bridge is not None and self.bridge.closed) or (self.peer is not None and self.peer.closed):
            self.ends()
        if self.running or self.is_cut or not self.enabled:
            self.clear_since = now.monotonic

    def is_overdue(self) -> bool:
        """Whether nothing has kept it from being up for too long."""
        return self.now - self.clear_since > PATIENCE


class LargeWorld:
    """The network, its clients, and what they saw. ``replays``: messages may go back, and consumers move."""

    audits_copies = True

    def __init__(self, seed: int, size: int | None = None) -> None:
        self.random = Random(seed)
        choose = self.random
        self.size = size if size is not None else choose.choice((3, 5, 8, 12))
        self.shape = choose.choice((TREE, MESH))
        self.replays = self.shape == TREE and choose.random() < 0.5
        self.ttl = MESH_TTL if self.shape == MESH else -1
        self.conduit = choose.random() < 0.7
        self.decreases = choose.random() < 0.7
        self.network = Network()
        self.sites = [self.new_site(f"N{place}") for place in range(self.size)]
        self.neighbours: dict[str, set[str]] = {site.name: set() for site in self.sites}
        self.links: list[WorldLink] = []
        for near, far in self._edges():
            self._join(self.sites[near], self.sites[far])
        self.granted: set[str] = set()
        self.received: Counter[str] = Counter()
        self.faults: dict[str, set[str]] = {}
        self.events: Counter[str] = Counter()
        self._number = 0

    def new_site(self, name: str) -> Site:
        bridges = BridgePolicy(replays=True) if self.replays else None
        entry = PolicyEntry(parse_destination("queue://>"), queue=QueuePolicy(bridges=bridges))
        audit = PolicyEntry(parse_destination("topic://>"), topic=TopicPolicy(audits_copies=self.audits_copies))
        return self.network.site(name, policies=PolicyMap([entry, audit]))

    def new_link(self, near: Site, far: Site, settings: BridgeSettings) -> WorldLink:
        return WorldLink(near, far, settings)

    def disk_after(self, site: Site) -> SimulatedDisk:
        """What a disk has kept when the power comes back."""
        return site.disk.power_cut(self.random)

    def settings_of(self, name: str, duplex: bool) -> BridgeSettings:
        return BridgeSettings(
            name=name,
            message_ttl=self.ttl,
            consumer_ttl=self.ttl,
            conduit=self.conduit,
            decrease_priority=self.decreases,
            prefetch_size=self.random.choice((1, 5, 1000)),
            duplex=duplex,
        )

    def _edges(self) -> list[tuple[int, int]]:
        choose = self.random
        edges = [(choose.randrange(max(0, place - 8), place), place) for place in range(1, self.size)]
        if self.shape == MESH:
            for place in range(0, self.size - 2, 4):
                edge = (place, choose.randrange(place + 1, self.size))
                if edge not in edges:
                    edges.append(edge)
        return edges

    def _join(self, near: Site, far: Site) -> None:
        self.neighbours[near.name].add(far.name)
        self.neighbours[far.name].add(near.name)
        duplex = self.random.random() < 0.5
        ways = [(near, far)] if duplex else [(near, far), (far, near)]
        for one, other in ways:
            made = self.new_link(one, other, self.settings_of(f"{one.name}{other.name}", duplex))
            self.links.append(made)
            self.network.links.append(made)

    def route_exists(self, start: str, goal: str, path: tuple[str, ...]) -> bool:
        """Whether a message at ``start`` that came along ``path`` may reach a consumer at ``goal``."""
        hops = MAX_PATH - len(path) if self.ttl < 0 else self.ttl - len(path)
        limit = min(hops, MAX_PATH if self.ttl < 0 else self.ttl)
        barred = {start} if self.replays else {start, *path}
        return self._leads(start, goal, barred, limit)

    def _leads(self, place: str, goal: str, barred: set[str], hops: int) -> bool:
        if place == goal:
            return True
        if hops <= 0:
            return False
        return any(
            self._leads(following, goal, barred | {following}, hops - 1)
            for following in self.neighbours[place]
            if following not in barred
        )

    def step(self) -> None:
        choose = self.random
        kind = choose.random()
        if kind < 0.35:
            self._client_acts(choose.choice(self.sites))
        elif kind < 0.80:
            self._round()
        elif kind < 0.88:
            self.passes(choose.choice((0.5, 2.0, 5.0)))
        elif kind < 0.92:
            self._note("break")
            choose.choice(self.links).breaks()
        elif kind < 0.98:
            self._cuts(choose.choice(self.links))
        else:
            self._note("crash")
            site = choose.choice(self.sites)
            self._count()
            site.crashes(self.disk_after(site))

    def _note(self, event: str) -> None:
        self.events[event] += 1

    def _cuts(self, link: WorldLink) -> None:
        choose = self.random
        if link.is_cut:
            link.cut_forth = link.cut_back = False
        else:
            link.cut_forth, link.cut_back = choose.choice(((True, False), (False, True), (True, True)))
            self._note("cut both ways" if link.cut_forth and link.cut_back else "cut one way")

    def _round(self) -> None:
        """Some of all that is ready goes on, in any order."""
        choose = self.random
        self.network.environment.advance(choose.choice((0.0, 0.001, 0.02)))
        share = choose.choice((0.1, 0.5, 1.0))
        for site in choose.sample(self.sites, max(1, int(self.size * share))):
            site.turn()
        for link in choose.sample(self.links, max(1, int(len(self.links) * share))):
            link.turn()
        for site in self.sites:
            site.broker.take_dirty()
        self._count()

    def _client_acts(self, site: Site) -> None:
        choose = self.random
        client = choose.choice(site.clients) if site.clients else site.client()
        if choose.random() < 0.6:
            for _ in range(choose.choice((1, 4))):
                self._send(client)
        elif self.replays or not self._consumers("ONE"):
            self._moves(choose.choice(QUEUES), client)
        else:
            self._moves(choose.choice(QUEUES), client, stays=True)

    def _send(self, client: Client) -> None:
        self._number += 1
        client.sends(f"queue://{self.random.choice(QUEUES)}", f"m{self._number}")

    def _moves(self, queue: str, client: Client, stays: bool = False) -> None:
        """A consumer of ``queue`` at this client; those that there are elsewhere leave unless they stay."""
        self._note("move")
        for inbox in self._consumers(queue):
            if not stays:
                self._count()
                inbox.leaves()
        client.consumes(f"queue://{queue}", prefetch=self.random.choice((1, 100)))

    def _consumers(self, queue: str) -> list[Inbox]:
        return [
            inbox
            for site in self.sites
            for client in site.clients
            for inbox in client.inboxes
            if inbox.info.destination.name == queue
        ]

    def passes(self, seconds: float) -> None:
        """Time passes, a second at a time at most."""
        while seconds > 0:
            self.network.environment.advance(min(seconds, 1.0))
            seconds -= 1.0
            for site in self.sites:
                site.broker.run(self.network.now)
            for link in self.links:
                link.ticks()
            for _ in range(ROUNDS):
                self._round_of_all()
            for link in self.links:
                link.ticks()
                if link.is_overdue():
                    self._blame("I15", f"{link.near.name}-{link.far.name} is down: {link.reasons[-1:]}")

    def _round_of_all(self) -> None:
        for site in self.sites:
            site.turn()
        for link in self.links:
            link.turn()
        for site in self.sites:
            site.broker.take_dirty()
        self._count()

    def ends(self) -> None:
        """No more faults: every link comes up, one consumer or two for each queue stay where they are, all comes to
        rest; then what waits anywhere is looked at.
        """
        for link in self.links:
            link.cut_forth = link.cut_back = False
        for _ in range(MAX_HEALING):
            if all(link.running and not link.orphans for link in self.links):
                break
            self.passes(1.0)
        places = self._settle_consumers()
        self._rest()
        self._check_topic()
        self._look_at_what_waits(places)
        for text in self.granted - self.received.keys():
            self._blame("I1", text)

    def _settle_consumers(self) -> dict[str, list[str]]:
        """Where the consumers of each queue are for good."""
        for queue in QUEUES:
            for inbox in self._consumers(queue):
                inbox.leaves()
        places: dict[str, list[str]] = {}
        for queue in QUEUES:
            chosen = self.random.sample(self.sites, self.random.choice((1, 2)))
            places[queue] = [site.name for site in chosen]
            for site in chosen:
                site.client().consumes(f"queue://{queue}")
        return places

    def _rest(self) -> None:
        self.network.settles()
        self.passes(QUIET)
        self.network.settles()
        self._count()

    def _check_topic(self) -> None:
        listeners = {site.name: site.client().consumes(TOPIC) for site in self.random.sample(self.sites, 3)}
        self.network.settles()
        sent: list[tuple[str, str]] = []
        for site in self.random.sample(self.sites, 3):
            sent.append((site.name, f"news of {site.name}"))
            site.client().sends(TOPIC, sent[-1][1], persistent=False)
        self.network.settles()
        for place, inbox in listeners.items():
            for origin, text in sent:
                count = inbox.texts.count(text)
                reached = self.route_exists(origin, place, ())
                if self.shape == MESH and not self.decreases:
                    reached = False  # the one of two ways that is taken need not be the shorter one
                if not (1 if reached else 0) <= count <= 1:
                    self._blame("I13", f"{text} came {count} times to {place}")

    def _look_at_what_waits(self, places: dict[str, list[str]]) -> None:
        for link in self.links:
            link.breaks()
            link.enabled = False
        for site in self.sites:
            for queue in QUEUES:
                site.turn()
                if site.queue(queue)[2] == 0:
                    continue
                inbox = site.client().consumes(f"queue://{queue}")
                self.network.settles()
                for one in inbox.received:
                    self.received[one.text] += 1
                    reachable = [goal for goal in places[queue] if self.route_exists(site.name, goal, one.path)]
                    if reachable:
                        self._blame("I14", f"{one.text} of {queue} waits at {site.name} for {reachable}, {one.path}")

    def _blame(self, invariant: str, what: str) -> None:
        self.faults.setdefault(invariant, set()).add(what)

    def _count(self) -> None:
        """What clients saw since the last look."""
        for site in self.sites:
            for client in site.clients:
                self.granted.update(text for text in client.granted if text.startswith("m"))
                client.granted.clear()
                for inbox in client.inboxes:
                    if inbox.info.destination.is_queue:
                        self._count_inbox(inbox)

    def _count_inbox(self, inbox: Inbox) -> None:
        for one in inbox.received:
            self.received[one.text] += 1
            path = one.path
            if len(set(path)) < len(path) and not self.replays:
                self._blame("I16", f"{one.text} went in a circle: {path}")
            if len(path) > (MAX_PATH if self.ttl < 0 else self.ttl):
                self._blame("I16", f"{one.text} made {len(path)} hops of {self.ttl}")
        inbox.received.clear()


def live(world: LargeWorld, steps: int) -> LargeWorld:
    """A wild time and a calm end."""
    for _ in range(steps):
        world.step()
    world.ends()
    return world
