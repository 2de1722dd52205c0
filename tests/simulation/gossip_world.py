"""Brokers that gossip, in one process with time passed in: their tables, their plans, and links that come and go.

A link runs from the second after it was asked for, if its address has a live broker on the same side of the partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from spanwire.discovery.addresses.reconnect import Reconnect, ReconnectSettings
from spanwire.discovery.groups.gossip_settings import GossipSettings
from spanwire.network.gossip.gossip import CHANGE_S, ROUND_S, choose
from spanwire.network.gossip.kept_members import Linked
from spanwire.network.gossip.link_plan import LinkPlan, Seen
from spanwire.network.gossip.members import Members

ALLOWED = ("10.0.0.0/16",)
RETRY = ReconnectSettings(initial_delay_ms=1_000, max_delay_ms=30_000)


class SimulatedBroker:
    """One broker: name, address, table and plan."""

    def __init__(self, world: GossipWorld, name: str, uri: str, seeds: Sequence[str], limit: int, duplex: bool) -> None:
        self.world = world
        self.name = name
        self.uri = uri
        self.seeds = tuple(seeds)
        self.duplex = duplex
        self.members = Members(name, f"ID:{name}")
        self.members.addresses = (uri,)
        self.plan = LinkPlan(name, GossipSettings(ALLOWED, limit), duplex, RETRY, self)
        self.wanted: dict[str, float] = {}  # address of a learned link, since when
        self.links: dict[str, str] = {}  # address of a running learned link, name of the other broker
        self.seed_links: dict[str, str] = {}
        self.seed_retries = {seed: (Reconnect(RETRY), 0.0) for seed in seeds}
        self.asked_at = float("-inf")
        self.turn = 0
        self.opened: list[str] = []

    # The listener of the plan.

    def on_found(self, uri: str) -> None:
        """Open a link."""
        assert uri not in self.wanted, "asked for twice"
        self.wanted[uri] = self.world.now
        self.opened.append(uri)

    def on_lost(self, uri: str) -> None:
        """End a link."""
        self.wanted.pop(uri, None)
        self.links.pop(uri, None)

    def linked(self) -> list[str]:
        """The names of the brokers at the other ends of links opened here."""
        return [*self.links.values(), *self.seed_links.values()]

    def step(self) -> None:
        """One second."""
        now = self.world.now
        self._links(now)
        seen = Seen(dict(self.links), frozenset(self.seed_links.values()), self.world.accepted(self))
        for uri, name in list(self.seed_links.items()):
            if self.plan.is_served(name, seen):
                del self.seed_links[uri]
        self.plan.tick(now, self.members.members(now), seen)
        self._ask(now)

    def _links(self, now: float) -> None:
        for uri, name in [*self.links.items()]:
            if not self.world.reaches(self, uri, name):
                del self.links[uri]
                began = self.wanted.pop(uri)
                self.plan.on_failure(uri, now - began, now)
        for uri in [uri for uri in self.wanted if uri not in self.links]:
            other = self.world.at(self, uri)
            if other is None:
                del self.wanted[uri]
                self.plan.on_failure(uri, 0.0, now)
            elif self.wanted[uri] < now:
                self.links[uri] = other.name
        for seed in self.seeds:
            linked = self.seed_links.get(seed)
            if linked is not None and not self.world.reaches(self, seed, linked):
                del self.seed_links[seed]
            retry, at = self.seed_retries[seed]
            if seed in self.seed_links or now < at:
                continue
            other = self.world.at(self, seed)
            served = Seen(accepted=self.world.accepted(self))
            if other is not None and other is not self and not self.plan.is_served(other.name, served):
                self.seed_links[seed] = other.name
                retry.failures = 0
            else:
                delay = retry.next_delay(0.0)
                assert delay is not None
                self.seed_retries[seed] = (retry, now + delay)

    def _ask(self, now: float) -> None:
        names = sorted(set(self.linked()))
        if not names or (now - self.members.changed_at >= CHANGE_S and now - self.asked_at < ROUND_S):
            return
        self.asked_at = now
        for name in choose(names, self.turn):
            self.turn += 1
            self.world.ask(self, name)


class GossipWorld:
    """All brokers, and who reaches whom."""

    def __init__(self, seed: int = 0) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self.brokers: dict[str, SimulatedBroker] = {}
        self.killed: dict[str, SimulatedBroker] = {}
        self.sides: dict[str, int] = {}  # of a partition
        self.kept: dict[str, dict[str, Linked]] = {}  # what each broker has in its store, over its death
        self.questions = 0
        self.characters = 0
        self.longest = 0

    def add(
        self, name: str, seeds: Sequence[str], port: int = 61616, limit: int = 20, duplex: bool = False
    ) -> SimulatedBroker:
        """Start a broker; its address is made of its name, which ends with a number."""
        number = int(name.lstrip("b"))
        uri = f"tcp://10.0.{number // 250}.{number % 250 + 1}:{port}"
        broker = self.brokers[name] = SimulatedBroker(self, name, uri, seeds, limit, duplex)
        return broker

    def restart(self, name: str, port: int = 61616) -> SimulatedBroker:
        """Start a broker that was killed, or kill it before, with its store."""
        former = self.brokers.get(name) or self.killed[name]
        broker = self.add(name, former.seeds, port, duplex=former.duplex)
        broker.plan.recall(self.kept.get(name, {}), self.now)
        return broker

    def kill(self, name: str) -> None:
        """End a broker at once."""
        self.killed[name] = self.brokers.pop(name)

    def at(self, near: SimulatedBroker, uri: str) -> SimulatedBroker | None:
        """The live broker at an address that another one reaches."""
        for broker in self.brokers.values():
            if broker.uri == uri and self.sides.get(broker.name) == self.sides.get(near.name):
                return broker
        return None

    def reaches(self, near: SimulatedBroker, uri: str, name: str) -> bool:
        """Whether a link still runs."""
        other = self.at(near, uri)
        return other is not None and other.name == name

    def accepted(self, broker: SimulatedBroker) -> frozenset[str]:
        """The brokers with a duplex link to this one."""
        return frozenset(
            other.name for other in self.brokers.values() if other.duplex and broker.name in other.linked()
        )

    def ask(self, near: SimulatedBroker, name: str) -> None:
        """One question with its answer."""
        other = self.brokers.get(name)
        if other is None or self.sides.get(name) != self.sides.get(near.name):
            return
        question = near.members.tell(self.now)
        answer = self.exchange(other, question, near.uri)
        near.members.add(answer, name, self.now)
        self.questions += 1
        self.characters += len(question) + len(answer)
        self.longest = max(self.longest, len(question), len(answer))

    def exchange(self, broker: SimulatedBroker, text: str, teller: str) -> str:
        """What a broker answers."""
        broker.members.add(text, teller, self.now)
        return broker.members.tell(self.now)

    def run(self, seconds: int) -> None:
        """Let time pass; the brokers act in an order of their own each second."""
        for _ in range(seconds):
            self.now += 1.0
            order = list(self.brokers.values())
            self.random.shuffle(order)
            for broker in order:
                if self.brokers.get(broker.name) is broker:
                    broker.step()
                    self.kept[broker.name] = broker.plan.linked(self.now)
            self.check()

    def check(self) -> None:
        """What is true in each moment: nobody links to itself, and to nobody twice."""
        for broker in self.brokers.values():
            linked = broker.linked()
            assert broker.name not in linked
            learned = list(broker.links.values())
            assert len(learned) == len(set(learned)), f"{broker.name} has two links to one broker: {learned}"

    def faults(self) -> list[str]:
        """What is missing of, or too much for, a full mesh with a link in each direction, or one for each pair."""
        found = []
        for near in self.brokers.values():
            for far in self.brokers.values():
                if near is far:
                    continue
                count = near.linked().count(far.name)
                back = far.linked().count(near.name)
                if near.duplex:
                    if count + back != 1:
                        found.append(f"{near.name} and {far.name} have {count + back} links")
                elif count != 1:
                    found.append(f"{near.name} has {count} links to {far.name}")
            strangers = set(near.linked()) - set(self.brokers)
            found += [f"{near.name} has a link to {name}, which is gone" for name in sorted(strangers)]
        return found
