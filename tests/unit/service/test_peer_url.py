"""What a peer: URL asks for."""

from __future__ import annotations

import pytest

from spanwire.discovery.groups.group import MulticastSettings
from spanwire.model.errors import JmsError
from spanwire.service.embedding.vm_url import parse_vm_url


def test_a_peer_announces_a_connector_in_its_group_and_looks_for_others() -> None:
    wanted = parse_vm_url("peer://sales/broker1", {})
    found = wanted.configuration()
    assert (wanted.name, wanted.address, wanted.allow_anonymous) == ("broker1", "peer://sales/broker1", False)
    (connector,) = found.connectors
    assert (connector.scheme, connector.host, connector.port) == ("tcp", "127.0.0.1", 0)
    assert connector.discovery_uri == "multicast://default?group=sales"
    (network,) = found.network_connectors
    assert network.discovery is not None
    assert network.discovery.agent == MulticastSettings(group="sales")
    assert not found.persistence.persistent


@pytest.mark.parametrize(
    ("url", "options", "name"),
    [
        ("peer://sales/one", {"brokerName": "two"}, "two"),
        ("peer://sales", {}, "sales"),
        ("peer:sales/one", {}, "one"),
    ],
)
def test_where_the_name_of_a_peer_stands(url: str, options: dict[str, str], name: str) -> None:
    assert parse_vm_url(url, options).configuration().broker_name == name


def test_the_options_of_a_peer_are_those_of_its_broker() -> None:
    options = {"persistent": "true", "populateJMSXUserID": "true", "useJmx": "false", "useShutdownHook": "false",
               "deleteAllMessagesOnStartup": "true", "enableStatistics": "true"}  # fmt: skip
    found = parse_vm_url("peer://sales/one", options).configuration()
    assert (found.persistence.persistent, found.delete_all_messages_on_startup) == (True, True)


def test_a_peer_listens_elsewhere_if_it_is_told_to() -> None:
    wanted = parse_vm_url("peer://sales/one", {"bindAddress": "0.0.0.0", "allowAnonymous": "true"})
    assert wanted.allow_anonymous and wanted.configuration().connectors[0].host == "0.0.0.0"


@pytest.mark.parametrize("url", ["peer:", "peer:///x", "peer://a b/x", "peer://a/b/c", "peer://%/x"])
def test_what_names_no_group_is_refused(url: str) -> None:
    with pytest.raises(JmsError, match="names a group and a broker"):
        parse_vm_url(url, {})
