"""Five brokers as processes that find each other from one seed, by the configuration of the guide."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Final

import pytest

from spanwire.network.reports.known_brokers import Peer
from spanwire.network.reports.questions import ask_gossip
from tests.service.started import Started
from tests.service.test_networks import eventually, send_and_receive
from tests.support.ports import free_port

NAMES: Final = ("anna", "berta", "clara", "dora", "emil")


class Gossiping(Started):
    """A broker that knows the address of one other."""

    def __init__(self, directory: Path, name: str, seed: int, more: str = "", networks: str = "127.0.0.1") -> None:
        super().__init__(directory / name)
        self.name: Final = name
        self._networks: Final = networks
        self._seed: Final = seed
        self._more: Final = more

    def text(self) -> str:
        uri = f"gossip:(tcp://127.0.0.1:{self._seed})?networks={self._networks}&amp;initialReconnectDelay=200"
        connector = f'<networkConnector name="mesh" uri="{uri}"{self._more}/>'
        text = super().text().replace('"tested"', f'"{self.name}"')
        return text.replace(
            "  <transportConnectors>", f"  <networkConnectors>{connector}</networkConnectors><transportConnectors>"
        )

    def links(self) -> list[dict[str, object]]:
        """The links of its connector, and those that were opened by others."""
        return self.network("network_connectors")

    def linked(self) -> list[str]:
        """The names at the other ends of running links that were opened here."""
        return sorted(
            str(link["remote"]) for link in self.links() if link["state"] == "running" and not link["accepted"]
        )


def are_a_mesh(brokers: list[Gossiping]) -> bool:
    """Whether each has exactly one link to each other one."""
    names = [broker.name for broker in brokers]
    return all(broker.linked() == sorted(set(names) - {broker.name}) for broker in brokers)


@pytest.mark.long
def test_five_brokers_from_one_seed_survive_its_kill_and_find_one_at_its_next_port(tmp_path: Path) -> None:
    seed = free_port()
    brokers = [Gossiping(tmp_path, name, seed) for name in NAMES]
    brokers[0].ports["tcp"] = seed
    try:
        for broker in brokers:
            broker.start()
        assert eventually(lambda: are_a_mesh(brokers))
        assert [link["state"] for link in brokers[0].links()] == ["running"] * 4  # and none to itself
        assert send_and_receive(brokers[1].broker_url, brokers[4].broker_url, "Q", ["m"]) == ["m"]
        brokers[0].kill()
        assert eventually(lambda: are_a_mesh(brokers[1:]))
        moved = brokers[3]
        moved.kill()
        moved.ports["tcp"] = free_port()
        brokers[0].start()
        moved.start()
        assert eventually(lambda: are_a_mesh(brokers))
        assert send_and_receive(moved.broker_url, brokers[2].broker_url, "R", ["n"]) == ["n"]
    finally:
        for broker in brokers:
            broker.__exit__(None, None, None)


def test_three_brokers_have_one_duplex_link_for_each_pair(tmp_path: Path) -> None:
    seed = free_port()
    brokers = [Gossiping(tmp_path, name, seed, ' duplex="true"') for name in NAMES[:3]]
    brokers[0].ports["tcp"] = seed
    try:
        for broker in brokers:
            broker.start()

        def pairs() -> list[list[str]]:
            return sorted(sorted((broker.name, name)) for broker in brokers for name in broker.linked())

        assert eventually(lambda: pairs() == [["anna", "berta"], ["anna", "clara"], ["berta", "clara"]])
        assert eventually(lambda: all(link["state"] == "running" for broker in brokers for link in broker.links()))
        assert send_and_receive(brokers[1].broker_url, brokers[2].broker_url, "Q", ["m"]) == ["m"]
        assert send_and_receive(brokers[2].broker_url, brokers[1].broker_url, "R", ["n"]) == ["n"]
    finally:
        for broker in brokers:
            broker.__exit__(None, None, None)


def test_s37_a_lying_broker_leads_nobody_outside_of_the_networks(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.2", 0)) as forbidden, socket.create_server(("127.0.0.1", 0)) as allowed:
        lies = [
            f'{{"name": "{name}", "id": "", "age_s": 0, "addresses": ["tcp://{host}:{server.getsockname()[1]}"]}}'
            for name, host, server in (
                ("liar-1", "127.0.0.2", forbidden),
                ("liar-2", "2130706434", forbidden),  # 127.0.0.2, as a resolver reads it
                ("liar-3", "0x7f.2", forbidden),
                ("liar-4", "127.0.0.1", allowed),
            )
        ]
        with Gossiping(tmp_path, "anna", free_port()) as broker:
            text = f'{{"brokers": [{", ".join(lies)}]}}'
            asyncio.run(ask_gossip(Peer("anna", broker.broker_url), text))
            allowed.settimeout(60)
            knock, _ = allowed.accept()  # so all lies were taken and judged
            knock.close()
            forbidden.setblocking(False)
            with pytest.raises(BlockingIOError):
                forbidden.accept()
            assert {link["uri"] for link in broker.links()} <= {
                f"tcp://127.0.0.1:{allowed.getsockname()[1]}", f"tcp://127.0.0.1:{broker._seed}"
            }  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("duplex", [False, True])
def test_a_broker_that_was_killed_and_moved_finds_the_network_though_its_seed_is_gone_for_good(
    tmp_path: Path, *, duplex: bool
) -> None:
    seed = free_port()
    more = ' duplex="true"' if duplex else ""
    brokers = [Gossiping(tmp_path, name, seed, more) for name in NAMES[:3]]
    brokers[0].ports["tcp"] = seed
    _, stays, moves = brokers

    def are_linked() -> bool:
        links = [stays.linked().count(moves.name), moves.linked().count(stays.name)]
        return sum(links) == (1 if duplex else 2)

    try:
        for broker in brokers:
            broker.start()
        assert eventually(are_linked)
        assert eventually(lambda: f'"{stays.name}":"{stays.broker_url}"' in kept(moves))
        brokers[0].kill()
        moves.kill()
        moves.ports["tcp"] = free_port()  # so nobody but the moved one knows where to connect
        moves.start()
        assert eventually(are_linked)
        assert send_and_receive(stays.broker_url, moves.broker_url, "Q", ["m"]) == ["m"]
    finally:
        for broker in brokers:
            broker.__exit__(None, None, None)


def kept(broker: Gossiping) -> str:
    """What its journal holds of the members."""
    return "".join(file.read_bytes().decode("latin-1") for file in broker.data.rglob("*") if file.is_file())
