"""Random networks of real brokers: the dry run is the way that a trace sees, and `spanwire network route`.

One network in each run, two more in `make test-all`, and as many as SPANWIRE_NETWORKS says.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

import pytest

from spanwire.client.blocking import connect
from spanwire.management.control_client import ControlClient
from spanwire.model.destination import parse_destination
from spanwire.service.network_lint.dry_run import dry_runs
from spanwire.service.network_lint.network_files import read_network
from tests.service.started import TIMEOUT_S, Started

Q: Final = "queue://WAY"
COUNT: Final = int(os.environ.get("SPANWIRE_NETWORKS", "3"))
SETTLED: Final = 3  # equal answers in a row, after which demand is taken to have come everywhere
Way = list[str]


class Linked(Started):
    """A broker with links to others, whose ports are known before it starts."""

    def __init__(self, directory: Path, name: str) -> None:
        super().__init__(directory)
        self.name: Final = name
        self.targets: list[tuple[Linked, int]] = []

    def text(self) -> str:
        links = "".join(
            f'<networkConnector name="{self.name}-{far.name}" messageTTL="{ttl}" consumerTTL="{ttl}" '
            f'decreaseNetworkConsumerPriority="true" uri="static:({far.broker_url})"/>'
            for far, ttl in self.targets
        )
        text = super().text().replace('"tested"', f'"{self.name}"')
        return text.replace(
            "  <transportConnectors>", f"  <networkConnectors>{links}</networkConnectors><transportConnectors>"
        )


def asked(broker: Started) -> tuple[Way, str]:
    """The brokers of a dry run from a broker, and its end."""
    answer = ControlClient(broker.data, TIMEOUT_S).ask("trace-dry-run", destination=Q)
    assert isinstance(answer, dict)
    hops = answer["hops"]
    return [str(one["broker"]) for one in hops], str(hops[-1]["end"])


def linked(brokers: Iterable[Linked]) -> None:
    """Wait for all links: a link to a broker that starts later may come up after a longer way works already."""
    deadline = time.monotonic() + TIMEOUT_S
    for broker in brokers:
        while True:
            links = broker.network("network_connectors")
            if sum(link["state"] == "running" for link in links) >= len(broker.targets):
                break
            assert time.monotonic() < deadline, links
            time.sleep(0.2)


def settled(broker: Started, wanted: str) -> Way:
    """The dry run that has stayed the same, and is delivered if ``wanted`` is not empty."""
    deadline = time.monotonic() + TIMEOUT_S
    same, last = 0, asked(broker)
    while same < SETTLED:
        assert time.monotonic() < deadline, (last, wanted)
        time.sleep(0.2)
        now = asked(broker)
        same = same + 1 if now == last and (now[1] == "delivered") == bool(wanted) else 0
        last = now
    return last[0]


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.long] if seed else []) for seed in range(COUNT)]
)
def test_the_dry_run_is_the_way_of_a_message_in_a_random_network_of_brokers(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    names = "abcde"[: random.choice((2, 3, 3, 4))]
    brokers = {name: Linked(tmp_path / name, name) for name in names}
    for near in names:
        for far in names:
            if near != far and random.random() < 0.6:
                brokers[near].targets.append((brokers[far], random.choice((1, 2, -1))))
    start, goal = random.sample(names, 2)
    with ExitStack() as running:
        for broker in brokers.values():
            running.enter_context(broker)
        linked(brokers.values())
        files = read_network([str(broker.configuration) for broker in brokers.values()])
        (route,) = list(dry_runs(files, start, parse_destination(Q), goal))
        on_paper = [start, *(hop.far for hop in route.hops)] if route.arrived else []
        with connect(brokers[goal].broker_url) as there, there.session() as session:
            consumer = session.create_consumer(Q)
            way = settled(brokers[start], goal if on_paper else "")
            trace = ControlClient(brokers[start].data, TIMEOUT_S).ask("trace", destination=Q, network=True, seconds=60)
            assert isinstance(trace, dict)
            expected = asked(brokers[start])
            with connect(brokers[start].broker_url) as here, here.session() as sender:
                sender.create_producer(Q).send("text")
                assert (consumer.receive(TIMEOUT_S if on_paper else 1.0) is not None) == bool(on_paper)
            assert way == expected[0]
            taken = seen(brokers[start], str(trace["trace"]), len(way))
        assert taken == way, f"seed {seed}"
        if on_paper and not any("is the same" in one.reason for one in route.closed):
            assert on_paper == way, f"seed {seed}"


def seen(broker: Started, trace: str, count: int) -> Way:
    """The brokers that accepted the message, in the order of its way, once there are so many."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        answer = ControlClient(broker.data, TIMEOUT_S).ask("observations", trace=trace)
        assert isinstance(answer, dict)
        accepted = sorted((one["hops"], one["broker"]) for one in answer["observations"] if one["step"] == "accepted")
        if len(accepted) >= count:
            return [name for _, name in accepted]
        assert time.monotonic() < deadline, answer
        time.sleep(0.2)
