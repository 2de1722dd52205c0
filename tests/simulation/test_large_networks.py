"""Networks of three to a hundred brokers under kills, cuts and moves keep their promises, and the check of that finds
each planted fault.

A seed in ten of those that the simulations have; `make soak` plays some hundred.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from spanwire.broker.policy.policy_entry import BridgePolicy, PolicyEntry, QueuePolicy
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.model.destination import parse_destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.simulation.disk import SimulatedDisk
from tests.simulation.large_world import MESH, TREE, LargeWorld, WorldLink, live
from tests.support.network_dialogue import MAX_ROUNDS, Site
from tests.support.seeds import SEEDS

STEPS = 150
FEW_SEEDS = SEEDS[::10]
ENOUGH = 12  # seeds, of which at least one must show a planted fault


def told(world: LargeWorld, seed: int) -> str:
    return f"seed {seed}: {world.size} brokers, {world.shape}, replays {world.replays}, {dict(world.events)}"


@pytest.mark.large
@pytest.mark.parametrize("seed", FEW_SEEDS)
def test_a_network_keeps_its_promises_whatever_breaks(seed: int) -> None:
    world = live(LargeWorld(seed), STEPS)
    assert world.faults == {}, told(world, seed)


@pytest.mark.parametrize("seed", SEEDS[::100])
@pytest.mark.large
def test_a_network_of_a_hundred_brokers_keeps_its_promises(seed: int) -> None:
    world = live(LargeWorld(seed, size=100), STEPS)
    assert world.faults == {}, told(world, seed)
    assert len(world.granted) > 20


def test_the_same_seed_plays_the_same_life() -> None:
    first, second = (live(LargeWorld(3), STEPS) for _ in range(2))
    assert (first.events, first.granted, first.received) == (second.events, second.granted, second.received)


@pytest.mark.large
def test_the_seeds_reach_what_they_are_for() -> None:
    worlds = [live(LargeWorld(seed), STEPS) for seed in range(8)]
    assert {world.shape for world in worlds} == {TREE, MESH}
    assert {world.replays for world in worlds} == {False, True}
    events: Counter[str] = Counter()
    for world in worlds:
        events.update(world.events)
    assert min(events[one] for one in ("crash", "break", "move", "cut one way", "cut both ways")) > 5
    reasons = {reason for world in worlds for link in world.links for reason in link.reasons}
    assert any("silent" in reason for reason in reasons), "no cut has lasted until one end gave up"


class DeafLink(WorldLink):
    """Most of what consumers at the far end ask for never arrives, and nobody notices."""

    def deliver(self, count: int = MAX_ROUNDS) -> bool:
        if self.running and self.near.network.now.monotonic > self._began + 0.5:
            self.to_near.clear()
        return super().deliver(count)


class DeafWorld(LargeWorld):
    """Demand is not heard of."""

    def new_link(self, near: Site, far: Site, settings: BridgeSettings) -> WorldLink:
        return DeafLink(near, far, settings)


class ResigningLink(WorldLink):
    """A link that is given up for good when it breaks for the third time."""

    def breaks(self) -> None:
        super().breaks()
        self.tries = len(self.reasons) < 3


class ResigningWorld(LargeWorld):
    """Some links are not tried again."""

    def new_link(self, near: Site, far: Site, settings: BridgeSettings) -> WorldLink:
        return ResigningLink(near, far, settings)


class EndlessWorld(LargeWorld):
    """Bridges allow more hops than the network is meant to have."""

    def settings_of(self, name: str, duplex: bool) -> BridgeSettings:
        return replace(super().settings_of(name, duplex), message_ttl=-1, consumer_ttl=-1)


class CirclingWorld(LargeWorld):
    """Messages go back although they must not, and consumers move."""

    def new_site(self, name: str) -> Site:
        entry = PolicyEntry(parse_destination("queue://>"), queue=QueuePolicy(bridges=BridgePolicy(replays=True)))
        return self.network.site(name, policies=PolicyMap([entry]))

    def _client_acts(self, site: Site) -> None:
        before, self.replays = self.replays, True
        super()._client_acts(site)
        self.replays = before


class EmptyDiskWorld(LargeWorld):
    """A disk is empty when the power comes back."""

    def disk_after(self, site: Site) -> SimulatedDisk:
        return SimulatedDisk()


class RepeatingLink(WorldLink):
    """What goes to the far end arrives twice."""

    repeats = False

    def deliver(self, count: int = MAX_ROUNDS) -> bool:
        if self.repeats and self.to_far:
            data = b"".join(self.to_far)
            self.to_far.clear()
            self.to_far.extend((data, data))
        return super().deliver(count)


class RepeatingWorld(LargeWorld):
    """In the end links repeat what they carry, and no broker looks for copies."""

    audits_copies = False

    def new_link(self, near: Site, far: Site, settings: BridgeSettings) -> WorldLink:
        return RepeatingLink(near, far, settings)

    def _check_topic(self) -> None:
        for link in self.links:
            assert isinstance(link, RepeatingLink)
            link.repeats = True
        super()._check_topic()


@pytest.mark.large
@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (EmptyDiskWorld, "I1"),
        (RepeatingWorld, "I13"),
        (DeafWorld, "I14"),
        (ResigningWorld, "I15"),
        (EndlessWorld, "I16"),
        (CirclingWorld, "I16"),
    ],
)
def test_a_planted_fault_is_found(kind: type[LargeWorld], fault: str) -> None:
    found: set[str] = set()
    for seed in range(ENOUGH):
        found.update(live(kind(seed), STEPS).faults)
        if fault in found:
            return
    pytest.fail(f"no seed of {ENOUGH} shows {fault}, but {found}")
