"""The dry run of a message is the way that the next one takes, and the route on paper, in random networks."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

import pytest

from spanwire.broker.following.probe import Probe
from spanwire.management.questions.route_probe import walked
from spanwire.model.destination import parse_destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.service.network_lint.network_plan import NetworkPlan, PlannedBroker, PlannedLink
from tests.support.network_dialogue import Inbox, Network, Site
from tests.support.seeds import SEEDS

Q: Final = parse_destination("queue://Q")
NETWORKS_OF_A_SEED: Final = 4  # 200 networks with the usual fifty seeds
PLANTED: Final = 24  # networks with a fault of each kind
NAMES: Final = "ABCDE"
Row = dict[str, object]


class RandomNetwork:
    """Three to five brokers, links of random settings, and a consumer at one or two of them."""

    def __init__(self, random: Random) -> None:
        self.network = Network()
        names = NAMES[: random.choice((3, 4, 5))]
        self.sites = {name: self.network.site(name) for name in names}
        self.planned: list[PlannedLink] = []
        density = random.choice((0.35, 0.55, 0.8))
        suppressed = self.is_suppressed = random.random() < 0.2
        for near in names:
            for far in names:
                if near == far or random.random() > density:
                    continue
                settings = BridgeSettings(
                    name=near + far,
                    message_ttl=random.choice((1, 1, 2, 3, -1)),
                    consumer_ttl=random.choice((1, 2, 3, -1, -1)),
                    decrease_priority=random.random() < 0.6,
                    priority_base=random.choice((-5, -4, -7)),
                    conduit=random.random() < 0.7,
                    excluded=(Q,) if random.random() < 0.1 else (),
                    suppress_queue_duplicates=suppressed,
                )
                self.network.link(self.sites[near], self.sites[far], settings)
                self.planned.append(PlannedLink(near, far, settings))
        self.plan = NetworkPlan([PlannedBroker(name, name) for name in names], self.planned)
        self.goals = sorted(random.sample(names, random.choice((1, 1, 2))))
        self.inboxes: dict[str, Inbox] = {name: self.sites[name].client().consumes("queue://Q") for name in self.goals}
        self.clients = {name: site.client() for name, site in self.sites.items()}
        self.network.settles()

    def dry_way(self, start: str) -> tuple[list[str], str]:
        """The brokers of a dry run, and its end."""

        async def ask(name: str, path: tuple[str, ...]) -> Row:
            return asked(self.sites[name], path)

        hops = asyncio.run(walked(start, ask))
        assert all(hop["way"] == [one["broker"] for one in hops[:index]] for index, hop in enumerate(hops))
        return [str(hop["broker"]) for hop in hops], str(hops[-1]["end"])

    def real_way(self, start: str) -> tuple[list[str], str]:
        """The brokers of a message that is sent, and where it ended."""
        read = {name: len(inbox.received) for name, inbox in self.inboxes.items()}
        waiting = {name: site.queue("Q")[2] for name, site in self.sites.items()}
        self.clients[start].sends("queue://Q", "text")
        self.network.settles()
        for name, inbox in self.inboxes.items():
            if len(inbox.received) > read[name]:
                return [*inbox.received[-1].path, name], "delivered"
        (stuck,) = [name for name, site in self.sites.items() if site.queue("Q")[2] > waiting[name]]
        found = self.sites[stuck].broker.find_destination(Q)
        assert found is not None
        message = found.oldest(1, waiting[stuck])[0][1]  # type: ignore[attr-defined]
        assert message is not None
        return [*message.broker_path, stuck], "held"

    def is_routed_so(self, way: list[str]) -> bool:
        """Return True if each hop is one of the best of the plan for its broker, and the message's path."""
        for index, name in enumerate(way[:-1]):
            path = tuple(way[:index])
            demand = [(goal, one) for goal in self.goals for one in self.plan.demand(Q, goal).get(name, [])]
            best = self.plan._best(name, path, dict.fromkeys(self.goals, 1), demand)
            if way[index + 1] not in [link.far for link, _ in best if link is not None]:
                return False
        return True


def asked(site: Site, path: tuple[str, ...]) -> Row:
    """What a broker would do, as a row."""
    probe = Probe(site.broker.assembly, site.broker.formats)
    hop = probe.ask(Q, probe.message(Q, {}, path), site.network.now)
    answers = [{**one.row(), "target": one.target_id} for one in hop.answers]
    return {"broker": site.name, "id": site.name, "held": hop.held, "forwards": hop.forwards, "answers": answers}


def check(seed: int, network: type[RandomNetwork] = RandomNetwork) -> int:
    """Compare the three ways in one network, from each broker; return how often the plan knows a single way."""
    made = network(Random(seed))
    single = 0
    for start in made.sites:
        for _ in range(2):
            dry, end = made.dry_way(start)
            before = [asked(site, ()) for site in made.sites.values()]
            assert before == [asked(site, ()) for site in made.sites.values()]
            real, real_end = made.real_way(start)
            assert (dry, end) == (real, real_end), f"seed {seed}: from {start} to {made.goals}"
            if made.is_suppressed:
                continue  # of two equal routes the one stays that was announced first, which no plan knows
            assert made.is_routed_so(real), f"seed {seed}: {real} is no route of the plan to {made.goals}"
            if len(made.goals) == 1 and end == "delivered":
                route = made.plan.route(start, Q, made.goals[0])
                assert route.arrived, f"seed {seed}: {real} is no way on paper"
                if not route.refusals:
                    single += 1
                    on_paper = [start, *(link.far for link in route.links)]
                    assert on_paper == real, f"seed {seed}: {real}, and {on_paper} on paper"
    return single


@pytest.mark.parametrize("seed", SEEDS)
def test_a_dry_run_is_the_way_of_the_next_message_and_the_route_on_paper(seed: int) -> None:
    for number in range(NETWORKS_OF_A_SEED):
        check(seed * NETWORKS_OF_A_SEED + number)


class WrongInDryRun(RandomNetwork):
    """Dry runs that claim a detour over a broker which the message does not pass."""

    def dry_way(self, start: str) -> tuple[list[str], str]:
        way, end = super().dry_way(start)
        return detour(self, way), end


class WrongOnTheWay(RandomNetwork):
    """Messages whose traces have one hop more, at a broker that they have not passed."""

    def real_way(self, start: str) -> tuple[list[str], str]:
        way, end = super().real_way(start)
        return detour(self, way), end


class WrongInBoth(WrongInDryRun, WrongOnTheWay):
    """Both agree on a wrong way, so the plan alone can find it out."""


class WrongEnd(RandomNetwork):
    """Dry runs that say a delivered message is held, and the reverse."""

    def dry_way(self, start: str) -> tuple[list[str], str]:
        way, end = super().dry_way(start)
        return way, "held" if end == "delivered" else "delivered"


def detour(made: RandomNetwork, way: list[str]) -> list[str]:
    """The way with a broker between that is not on it and to which no link goes; the same way without one."""
    linked = {link.far for link in made.planned if link.near == way[0]}
    others = [name for name in made.sites if name not in way and name not in linked]
    return [way[0], others[0], *way[1:]] if others else way


def planted(network: type[RandomNetwork], count: int) -> tuple[int, int]:
    """Of ``count`` networks, those in which the fault shows, and those in which the check finds a fault."""
    shown = found = 0
    for seed in range(count):
        made = RandomNetwork(Random(seed))
        if network is not WrongEnd and all(
            detour(made, made.dry_way(one)[0]) == made.dry_way(one)[0] for one in made.sites
        ):
            continue
        if network is WrongInBoth and made.is_suppressed:
            continue  # there the plan is not asked
        shown += 1
        try:
            check(seed, network)
        except AssertionError:
            found += 1
    return shown, found


@pytest.mark.parametrize("network", [WrongInDryRun, WrongOnTheWay, WrongInBoth, WrongEnd])
def test_a_planted_wrong_way_is_found_out(network: type[RandomNetwork]) -> None:
    shown, found = planted(network, PLANTED)
    assert found == shown >= PLANTED // 4
