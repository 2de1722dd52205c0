"""Two to four brokers with bridges between them, each on a disk that can lose its power, on links that break.

One seed decides all: the topology, the hops allowed, who sends and consumes where, when bytes arrive, when links and
brokers fail. At the end everything is whole again and each queue is drained at every broker.
"""

from __future__ import annotations

from random import Random

from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.stores.journal.batch import write_batch
from tests.simulation.disk import PowerCutError
from tests.support.network_dialogue import Client, Inbox, Link, Network, Site

QUEUES = ("queue://ONE", "queue://TWO")
CHAIN = "chain"
PAIRS = "chain both ways"
LOOP = "everybody with everybody"
TOPOLOGIES = (CHAIN, PAIRS, LOOP)


class NetworkWorld:
    """The network, its clients, and what they saw. Links break, and brokers crash if they ``may_crash``.

    ``one_way``: a chain with consumers at its end alone. Elsewhere a message whose fate a broker does not know, because
    the link broke, may be given to somebody else meanwhile. ``doubled`` are the messages that came once more after
    somebody's acknowledgement of them was answered.
    """

    def __init__(self, seed: int, one_way: bool = False, may_crash: bool = True) -> None:
        self.random = Random(seed)
        self.one_way = one_way
        self._may_crash = may_crash
        self._settled: set[str] = set()
        self.doubled: list[str] = []
        self.network = Network()
        count = self.random.choice((2, 3, 3, 4))
        self.sites = [self.network.site("ABCE"[place]) for place in range(count)]
        self.topology = self.random.choice(TOPOLOGIES)
        self.ttl = self.random.choice((count, count, 1, 2))
        if one_way:
            self.topology = CHAIN
            self.ttl = count
        self.duplex = self.topology != CHAIN and self.random.random() < 0.5
        self.suppressed = self.random.random() < 0.5
        self._connect()
        self.attempted: set[str] = set()
        self.granted: set[str] = set()
        self.deliveries: dict[str, list[bool]] = {}
        self.paths: set[tuple[str, ...]] = set()
        self.crashes = 0
        self.breaks = 0
        self._number = 0
        self._counted: dict[int, int] = {}

    def _connect(self) -> None:
        sites = self.sites
        for place, near in enumerate(sites):
            for other, far in enumerate(sites):
                forth = other == place + 1
                back = other == place - 1 and self.topology == PAIRS
                if self.duplex and other < place:
                    continue  # the link from there carries both directions
                if forth or back or (self.topology == LOOP and near is not far):
                    self.network.link(near, far, self._settings(f"{near.name}{far.name}"))

    def _settings(self, name: str) -> BridgeSettings:
        return BridgeSettings(
            name=name,
            message_ttl=self.ttl,
            consumer_ttl=self.ttl,
            conduit=self.random.random() < 0.7,
            decrease_priority=self.random.random() < 0.7,
            prefetch_size=self.random.choice((1, 3, 1000)),
            duplex=self.duplex,
            suppress_queue_duplicates=self.suppressed,
        )

    def step(self) -> None:
        """Something happens."""
        choose = self.random
        self.network.environment.advance(choose.choice((0.0, 0.001, 0.01)))
        kind = choose.random()
        site = choose.choice(self.sites)
        if kind < 0.25:
            self._client_acts(site)
        elif kind < 0.50:
            self._store_turn(site)
        elif kind < 0.94:
            self._link_acts(choose.choice(self.network.links))
        elif kind < 0.97:
            self._timers(site)
        elif kind < 0.985 or not self._may_crash:
            self.breaks += 1
            choose.choice(self.network.links).breaks()
        elif kind < 0.99:
            self._crash(site)
        else:
            self._vanish(site)
        for one in self.sites:
            one.broker.take_dirty()

    def ends(self) -> None:
        """No more faults: a consumer for each queue at every broker, until nothing moves."""
        for site in self.sites:
            for client in site.clients:
                for inbox in client.inboxes:
                    inbox.manual = False
            if self._consumes_at(site):
                for queue in QUEUES:
                    site.client().consumes(queue)
        self.network.settles()
        self._count()

    def waiting(self) -> int:
        """Messages in all queues."""
        return sum(site.queue(queue.removeprefix("queue://"))[2] for site in self.sites for queue in QUEUES)

    def _client_acts(self, site: Site) -> None:
        if not site.clients:
            site.client()
        client = self.random.choice(site.clients)
        choice = self.random.random()
        if choice < 0.4:
            for _ in range(self.random.choice((1, 1, 5))):
                self._send(client)
        elif choice < 0.85:
            for inbox in client.inboxes:
                inbox.reads(self.random.choice((1, 3, 20)))
            site.broker.output_progress(client.state, 0, self.network.now)
        elif choice < 0.95 and len(client.inboxes) < 3 and self._consumes_at(site):
            client.consumes(self.random.choice(QUEUES), prefetch=self.random.choice((1, 10)), manual=True)
        elif client.inboxes:
            self._count()
            self.random.choice(client.inboxes).leaves()
        self._count()

    def _consumes_at(self, site: Site) -> bool:
        return not self.one_way or site is self.sites[-1]

    def _send(self, client: Client) -> None:
        self._number += 1
        text = f"m{self._number}"
        self.attempted.add(text)
        client.sends(self.random.choice(QUEUES), text)

    def _store_turn(self, site: Site) -> None:
        if self.random.random() < 0.02 and self._may_crash:
            site.disk.cut_at = site.disk.steps + self.random.randrange(6)
            try:
                batch = site.journal.next_batch()
                if batch is not None:
                    write_batch(site.disk, batch, True)
                    site.broker.stored(site.journal.on_completed(batch), self.network.now)
                site.disk.cut_at = -1
            except PowerCutError:
                self._crash(site)
            return
        site.store_turn()

    def _link_acts(self, link: Link) -> None:
        if link.bridge is None:
            if self.random.random() < 0.3:
                link.connects()
            return
        if self.random.random() < 0.5:
            link.flush()
        else:
            link.deliver(self.random.choice((1, 1, 2, 10)))

    def _timers(self, site: Site) -> None:
        site.broker.run(self.network.now)

    def _crash(self, site: Site) -> None:
        self._count()
        self.crashes += 1
        site.crashes(site.disk.power_cut(self.random))

    def _vanish(self, site: Site) -> None:
        if site.clients:
            self._count()
            self.random.choice(site.clients).leaves()

    def _count(self) -> None:
        """What clients saw since the last look."""
        for site in self.sites:
            for client in site.clients:
                self.granted.update(client.granted)
                for inbox in client.inboxes:
                    self._count_inbox(inbox)
        for site in self.sites:
            for client in site.clients:
                self._settled.update(client.settled)

    def _count_inbox(self, inbox: Inbox) -> None:
        for one in inbox.received:
            self.deliveries.setdefault(one.text, []).append(one.redelivered)
            if one.text in self._settled:
                self.doubled.append(one.text)
            self.paths.add(one.path)
        inbox.received.clear()
