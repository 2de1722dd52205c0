"""Brokers that find each other, each test in a network namespace of its own: no beacon gets out, none gets in.

What happens inside is in `tests/service/discovery_scenarios.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.service.started import spanwire
from tests.support import peers

ROOT: Final = Path(__file__).parents[2]
# ActiveMQ takes no loopback interface, so there is another one, whose other end nobody looks at.
NETWORK: Final = (
    "ip link set lo up && ip link add near type veth peer name far && ip addr add 10.99.0.1/24 dev near && "
    'ip link set near up && ip link set far up && ip route add 224.0.0.0/4 dev near && exec "$@"'
)
TIMEOUT_S: Final = 300.0


def run_inside(scenario: str, directory: Path, module: str = "discovery_scenarios") -> None:
    """One scenario to its end; what it said is the reason when it fails."""
    inside = [sys.executable, "-m", f"tests.service.{module}", scenario, str(directory)]
    done = subprocess.run(
        ["unshare", "-rn", "sh", "-c", NETWORK, "sh", *inside],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _import_path() -> list[str]:
    """What this process imports from, so that a broker inside is of the same build."""
    return [path for path in sys.path if path]


@pytest.mark.parametrize(
    "scenario",
    [
        "brokers_find_each_other_and_not_themselves",
        pytest.param("a_broker_that_leaves_is_lost_and_found_when_it_comes_back", marks=pytest.mark.long),
        "another_name_of_the_broker_itself_is_no_other_broker",
        "a_client_finds_a_broker_and_another_one_when_that_is_gone",
        "a_client_sends_its_login_to_no_rogue",
        pytest.param("groups_do_not_hear_each_other", marks=pytest.mark.long),
        "whatever_a_rogue_announces_no_login_reaches_it",
        pytest.param("a_login_reaches_a_verified_broker", marks=pytest.mark.long),
        pytest.param("one_link_leads_to_the_master_and_then_to_the_next", marks=pytest.mark.long),
        pytest.param("peers_share_their_messages", marks=pytest.mark.long),
        pytest.param("a_fanout_reaches_all_that_announce_themselves", marks=pytest.mark.long),
        pytest.param("zeroconf_finds_brokers_that_multicast_announces_and_the_other_way_round", marks=pytest.mark.long),
    ],
)
def test_inside_a_network_of_their_own(scenario: str, tmp_path: Path) -> None:
    peers.require("network-namespace")
    run_inside(scenario, tmp_path)


@pytest.mark.long
def test_a_query_inside_a_network_of_its_own(tmp_path: Path) -> None:
    peers.require("network-namespace")
    run_inside("a_query_reads_all_brokers_of_a_group_and_one_that_joins", tmp_path, "discovery_queries")


def test_a_broker_that_cannot_meet_the_others_says_so_and_does_not_start(tmp_path: Path) -> None:
    agent = "multicast://default?mcInterface=203.0.113.7"  # an address for documentation, which no machine has
    configuration = tmp_path / "activemq.xml"
    configuration.write_text(
        f'<broker dataDirectory="{tmp_path}/data">'
        f'<networkConnectors><networkConnector uri="{agent}"/></networkConnectors>'
        '<transportConnectors><transportConnector uri="tcp://127.0.0.1:0"/></transportConnectors></broker>',
        "utf-8",
    )
    done = spanwire("start", str(configuration))
    assert done.returncode == 1
    assert "cannot join 239.255.2.3:6155 for discovery: " in done.stderr
    assert "Traceback" not in done.stderr


def test_brokers_meet_in_a_registry(tmp_path: Path) -> None:
    peers.require("network-namespace", "zookeeper")
    run_inside("brokers_of_a_fabric_find_each_other_and_clients_them", tmp_path)


def test_an_activemq_classic_and_a_spanwire_find_each_other(tmp_path: Path) -> None:
    peers.require("network-namespace", "activemq-broker")
    run_inside("classic_and_spanwire_find_each_other", tmp_path)
