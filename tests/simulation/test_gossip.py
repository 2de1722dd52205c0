"""Networks that form by gossip from one seed, with brokers that come, go and are cut off; each seed of dice replays."""

from __future__ import annotations

from random import Random

import pytest

from spanwire.network.gossip import link_plan
from spanwire.network.gossip.gossip import FAN_OUT
from spanwire.network.gossip.members import MAX_GOSSIP_BYTES
from tests.simulation import gossip_world
from tests.simulation.gossip_world import GossipWorld

SEED = "tcp://10.0.0.1:61616"  # of b0
CONVERGED_S = 90  # seconds in which a network of twelve is whole after the last event: a pause of 30 s, a forgotten one
RANDOM_EVENTS = 25


def test_five_brokers_form_a_full_mesh_from_one_seed() -> None:
    world = GossipWorld()
    for number in range(5):
        world.add(f"b{number}", [SEED])
    world.run(20)
    assert world.faults() == []


def test_pairs_have_one_duplex_link() -> None:
    world = GossipWorld()
    for number in range(6):
        world.add(f"b{number}", [SEED], duplex=True)
    world.run(40)
    assert world.faults() == []


def test_brokers_that_name_each_other_as_seeds_have_one_duplex_link() -> None:
    world = GossipWorld()
    first = world.add("b0", ["tcp://10.0.0.2:61616"], duplex=True)
    second = world.add("b1", [first.uri], duplex=True)
    world.run(10)
    assert sorted(first.linked() + second.linked()) == ["b1"]  # b0 has the lesser name


def test_a_network_goes_on_without_its_seed_and_finds_it_again() -> None:
    world = GossipWorld()
    for number in range(5):
        world.add(f"b{number}", [SEED])
    world.run(20)
    world.kill("b0")
    world.run(100)
    assert world.faults() == []
    world.add("b0", [SEED])
    world.run(60)
    assert world.faults() == []


def test_a_broker_is_found_at_its_next_port() -> None:
    world = GossipWorld()
    for number in range(5):
        world.add(f"b{number}", [SEED])
    world.run(20)
    world.kill("b3")
    world.run(5)
    world.add("b3", [SEED], port=62000)
    world.run(40)
    assert world.faults() == []


@pytest.mark.parametrize("duplex", [False, True])
def test_a_broker_that_moves_finds_the_network_without_its_seed(duplex: bool) -> None:
    for moved in ("b1", "b4"):
        world = GossipWorld()
        for number in range(5):
            world.add(f"b{number}", [SEED], duplex=duplex)
        world.run(40)
        world.kill("b0")
        world.run(10)
        world.restart(moved, port=62000)
        world.run(60)
        assert world.faults() == []


@pytest.mark.parametrize("duplex", [False, True])
def test_all_brokers_but_the_seed_are_started_anew_at_once_and_find_each_other(duplex: bool) -> None:
    world = GossipWorld()
    for number in range(5):
        world.add(f"b{number}", [SEED], duplex=duplex)
    world.run(40)
    for number in range(5):
        world.kill(f"b{number}")
    world.run(5)
    for number in range(1, 5):
        world.restart(f"b{number}")
    world.run(60)
    assert world.faults() == []


def test_the_count_finds_a_broker_that_forgets_its_members_at_a_restart() -> None:
    world = GossipWorld()
    for number in range(5):
        world.add(f"b{number}", [SEED])
    world.run(40)
    world.kill("b0")
    world.kept.clear()
    world.restart("b4", port=62000)
    world.run(60)
    assert "b4 has 0 links to b1" in world.faults()


def test_a_partition_heals_without_the_seed_after_all_members_are_forgotten() -> None:
    world = GossipWorld()
    for number in range(6):
        world.add(f"b{number}", [SEED])
    world.run(20)
    world.kill("b0")
    world.sides = {f"b{number}": number % 2 for number in range(6)}
    world.run(600)
    assert world.faults() != []
    world.sides = {}
    world.run(60)
    assert world.faults() == []


def test_the_count_finds_brokers_that_ask_nobody_and_brokers_that_forget_whom_they_were_linked_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = GossipWorld()
    with monkeypatch.context() as patched:
        patched.setattr(gossip_world, "choose", lambda names, turn: [])
        for number in range(4):
            world.add(f"b{number}", [SEED])
        world.run(60)
        assert "b1 has 0 links to b2" in world.faults()
    world.run(20)
    assert world.faults() == []
    monkeypatch.setattr(link_plan, "FORMER_S", 0.0)
    world.kill("b0")
    world.sides = {"b1": 1}
    world.run(100)
    world.sides = {}
    world.run(100)
    assert "b1 has 0 links to b2" in world.faults()


def test_a_network_beyond_the_bound_is_connected_by_symmetric_links() -> None:
    world = GossipWorld()
    limit = 4
    for number in range(20):
        world.add(f"b{number:02}", [SEED], limit=limit)
    world.run(80)
    reached, around = {"b00"}, ["b00"]
    for broker in world.brokers.values():
        assert len(broker.links) <= limit
    while around:
        near = around.pop()
        for name in world.brokers[near].links.values():
            if name not in reached:
                reached.add(name)
                around.append(name)
        for name in world.brokers[near].links.values():
            far = world.brokers[name]
            assert near in far.linked(), f"{near} links to {name}, and not back"
    assert reached == set(world.brokers)


def test_questions_are_bounded_by_time_and_size() -> None:
    world = GossipWorld()
    for number in range(10):
        world.add(f"b{number}", [SEED])
    world.run(60)
    questions = world.questions
    world.run(100)
    assert world.questions - questions <= 10 * FAN_OUT * 100 / 5  # a round in five seconds
    assert world.longest <= MAX_GOSSIP_BYTES


@pytest.mark.parametrize("seed", range(12))
def test_every_history_ends_in_a_full_mesh(seed: int) -> None:
    _random_history(seed)


def _random_history(seed: int) -> None:
    random = Random(seed)
    world = GossipWorld(seed)
    duplex = seed % 3 == 2
    ports = dict.fromkeys([f"b{number}" for number in range(12)], 61616)
    world.add("b0", [SEED], duplex=duplex)
    for _ in range(RANDOM_EVENTS):
        event = random.choice(("join", "join", "leave", "move", "restart", "partition", "heal", "wait"))
        name = f"b{random.randrange(12)}"
        if event == "join" and name not in world.brokers:
            world.add(name, [SEED], ports[name], duplex=duplex)
        elif event == "leave" and name in world.brokers and len(world.brokers) > 2:
            world.kill(name)
        elif event == "move" and name in world.brokers and name != "b0":
            ports[name] += 1
            world.add(name, [SEED], ports[name], duplex=duplex)
        elif event == "restart" and name in world.brokers:
            world.restart(name, ports[name])
        elif event == "partition":
            world.sides = {f"b{number}": random.randrange(2) for number in range(12)}
        elif event == "heal":
            world.sides = {}
        world.run(random.choice((1, 5, 20, 80)))
    world.sides = {}
    if "b0" not in world.brokers:
        world.add("b0", [SEED], duplex=duplex)
    world.run(CONVERGED_S)
    assert world.faults() == []
