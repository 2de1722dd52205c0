"""Which brokers clients are told of, and when."""

from __future__ import annotations

import pytest

from spanwire.protocols.cluster import MAX_BROKERS, MEMBERS_PER_TURN, ClusterClients

A, B, C = "tcp://a:1", "tcp://b:1", "tcp://c:1"


class Told:
    """A client, by what it was told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bool]] = []

    def advise(self, connected_brokers: str, rebalance: bool) -> None:
        self.heard.append((connected_brokers, rebalance))


def test_a_client_hears_of_the_brokers_at_its_login_and_of_new_ones() -> None:
    cluster, client = ClusterClients(True, False, False), Told()
    cluster.change([A])
    cluster.join(client, False)
    cluster.change([A, B])
    cluster.change([A, B])
    assert client.heard == [(A, False), (f"{A},{B}", False)]


@pytest.mark.parametrize(
    ("patterns", "told"),
    [((), ["east1", "west1", ""]), (("east.*",), ["east1"]), (("east", "w.st1"), ["west1"]), (("",), [""])],
)
def test_patterns_say_the_whole_names_of_those_that_clients_hear_of(patterns: tuple[str, ...], told: list[str]) -> None:
    cluster = ClusterClients(True, False, False, patterns)
    assert [name for name in ("east1", "west1", "") if cluster.is_announced(name)] == told


def test_of_a_long_name_patterns_see_the_beginning() -> None:
    cluster = ClusterClients(True, False, False, ("a{256}",))
    assert cluster.is_announced("a" * 256 + "b" * 100_000)
    assert not cluster.is_announced("a" * 255)


@pytest.mark.parametrize(("on_remove", "heard"), [(False, []), (True, [(A, False)])])
def test_of_one_that_goes_it_hears_if_the_connector_says_so(on_remove: bool, heard: list[tuple[str, bool]]) -> None:
    cluster, client = ClusterClients(True, False, on_remove), Told()
    cluster.change([A, B])
    cluster.join(client, False)
    cluster.change([A])
    assert client.heard[1:] == heard


def test_to_spread_each_client_gets_another_broker_first() -> None:
    cluster = ClusterClients(True, True, False)
    cluster.change([A, B, C])
    clients = [Told() for _ in range(4)]
    for client in clients:
        cluster.join(client, False)
    assert [client.heard for client in clients] == [
        [(f"{A},{B},{C}", True)],
        [(f"{B},{C},{A}", True)],
        [(f"{C},{A},{B}", True)],
        [(f"{A},{B},{C}", True)],
    ]


def test_a_client_that_has_just_moved_is_not_asked_to() -> None:
    cluster, client = ClusterClients(True, True, False), Told()
    cluster.change([A, B])
    cluster.join(client, True)
    assert client.heard == [(f"{A},{B}", False)]
    cluster.change([A, B, C])
    assert client.heard[1][1] is True


def test_without_updates_no_broker_is_named() -> None:
    cluster, client = ClusterClients(False, True, False), Told()
    cluster.change([A, B])
    cluster.join(client, False)
    assert client.heard == [("", True)]


def test_who_has_gone_is_told_nothing() -> None:
    cluster, client = ClusterClients(True, False, False), Told()
    cluster.join(client, False)
    cluster.leave(client)
    cluster.leave(client)
    cluster.change([A])
    assert client.heard == [("", False)]


def test_a_list_has_an_end() -> None:
    cluster, client = ClusterClients(True, False, False), Told()
    cluster.change([f"tcp://h{n}:1" for n in range(1_000)])
    cluster.join(client, False)
    assert client.heard[0][0].count(",") == MAX_BROKERS - 1


def test_of_many_clients_some_are_told_of_a_change_in_each_turn_and_each_once() -> None:
    cluster = ClusterClients(True, False, False)
    cluster.change([A])
    clients = [Told() for _ in range(2 * MEMBERS_PER_TURN + 2)]
    for client in clients:
        cluster.join(client, False)
    cluster.change([A, B])
    late = Told()
    cluster.join(late, False)
    cluster.leave(clients[-1])
    assert [len(client.heard) for client in clients] == [2] * MEMBERS_PER_TURN + [1] * (MEMBERS_PER_TURN + 2)
    assert cluster.announce_more()
    assert not cluster.announce_more()
    assert [len(client.heard) for client in clients] == [2] * (2 * MEMBERS_PER_TURN + 1) + [1]
    assert late.heard == [(f"{A},{B}", False)]


def test_an_operator_spreads_the_clients_of_any_connector_once() -> None:
    cluster = ClusterClients(False, False, False)
    clients = [Told() for _ in range(3)]
    for client in clients:
        cluster.join(client, False)
    gone = Told()
    cluster.join(gone, False)
    assert cluster.spread([A, B]) == 4
    cluster.leave(gone)
    assert not cluster.announce_more()
    assert [client.heard[1:] for client in clients] == [
        [(f"{A},{B}", True)],
        [(f"{B},{A}", True)],
        [(f"{A},{B}", True)],
    ]
    cluster.announce_more()
    assert [len(client.heard) for client in [*clients, gone]] == [2, 2, 2, 1]
