"""The twenty findings of ``spanwire network lint``, each from files that have it and from files that have it not."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.service.config.network_lint import LintFinding, NetworkLint
from spanwire.service.config.network_plan import read_network

PORTS = {"A": 61001, "B": 61002, "C": 61003}


def broker(
    tmp_path: Path, name: str, connectors: str = "", attributes: str = "", inside: str = "", broker_id: bool = True
) -> str:
    path = tmp_path / f"{name}.xml"
    identity = f'brokerId="{name}"' if broker_id else ""
    path.write_text(
        f'<broker brokerName="broker{name}" {identity} {attributes}>{inside}\n'
        f"<networkConnectors>{connectors}</networkConnectors>\n"
        f'<transportConnectors><transportConnector uri="tcp://127.0.0.1:{PORTS[name]}"/></transportConnectors></broker>',
        "utf-8",
    )
    return str(path)


def to(name: str, more: str = "", inside: str = "") -> str:
    return (
        f'<networkConnector name="to{name}" uri="static:(tcp://localhost:{PORTS[name]})" {more}>'
        f"{inside}</networkConnector>"
    )


def found(*paths: str) -> list[LintFinding]:
    return NetworkLint(read_network(paths, {})).findings()


def numbers(*paths: str) -> set[int]:
    return {finding.number for finding in found(*paths)}


def test_a_plain_pair_has_nothing(tmp_path: Path) -> None:
    assert found(broker(tmp_path, "A", to("B")), broker(tmp_path, "B")) == []


def routes(*paths: str) -> set[tuple[str, str]]:
    return {(link.near, link.far) for link in read_network(paths, {}).plan.links}


def test_a_link_to_one_of_several_leads_to_the_first_that_is_there(tmp_path: Path) -> None:
    one_of = f'<networkConnector uri="masterslave:(tcp://elsewhere:1,tcp://localhost:{PORTS["B"]})"/>'
    assert routes(broker(tmp_path, "A", one_of), broker(tmp_path, "B")) == {("brokerA", "brokerB")}


def test_brokers_of_one_group_are_linked_as_they_will_be(tmp_path: Path) -> None:
    paths = []
    for name, group in (("A", "x"), ("B", "x"), ("C", "y")):
        path = Path(broker(tmp_path, name, f'<networkConnector uri="multicast://default?group={group}"/>'))
        announced = '"/></transportConnectors>', f'" discoveryUri="multicast://{group}"/></transportConnectors>'
        path.write_text(path.read_text("utf-8").replace(*announced), "utf-8")
        paths.append(str(path))
    assert routes(*paths) == {("brokerA", "brokerB"), ("brokerB", "brokerA")}


@pytest.mark.parametrize(
    ("number", "more", "inside"),
    [
        (5, 'decreaseNetworkConsumerPriority="false"', ""),
        (6, 'conduitSubscriptions="false"', ""),
        (
            12,
            "",
            '<excludedDestinations><queue physicalName="X"/></excludedDestinations>'
            '<staticallyIncludedDestinations><queue physicalName="X"/></staticallyIncludedDestinations>',
        ),
        (
            13,
            "",
            '<staticallyIncludedDestinations><queue physicalName="X.&gt;"/></staticallyIncludedDestinations>',
        ),
        (16, 'prefetchSize="0"', ""),
        (17, 'bridgeTempDestinations="false"', ""),
        (20, 'prefetchSize="5"', ""),
    ],
)
def test_a_word_of_one_connector_is_found(tmp_path: Path, number: int, more: str, inside: str) -> None:
    findings = found(broker(tmp_path, "A", to("B", more, inside)), broker(tmp_path, "B"))
    assert [finding.number for finding in findings] == [number]
    assert findings[0].place == f"{tmp_path / 'A.xml'}:2"
    assert findings[0].why and findings[0].mend


def test_1_advisories_are_off(tmp_path: Path) -> None:
    silent = broker(tmp_path, "B", attributes='advisorySupport="false"')
    assert numbers(broker(tmp_path, "A", to("B")), silent) == {1}
    assert numbers(broker(tmp_path, "A", to("B", 'staticBridge="true"')), silent) == set()


def test_2_the_way_is_longer_than_a_message_may_go(tmp_path: Path) -> None:
    far = broker(tmp_path, "C")
    first = found(broker(tmp_path, "A", to("B")), broker(tmp_path, "B", to("C", 'networkTTL="2"')), far)
    assert [(finding.number, finding.place) for finding in first] == [(2, f"{tmp_path / 'A.xml'}:2")]
    assert "a consumer at brokerC is 2 hops from brokerA and consumerTTL is 1" in first[0].why
    second = found(broker(tmp_path, "A", to("B", 'networkTTL="2"')), broker(tmp_path, "B", to("C")), far)
    assert [(finding.number, finding.place) for finding in second] == [(2, f"{tmp_path / 'B.xml'}:2")]
    assert "a message from brokerA makes 2 hops to brokerC and messageTTL is 1" in second[0].why


def ring(tmp_path: Path, more: str) -> list[str]:
    return [
        broker(tmp_path, "A", to("B", more)),
        broker(tmp_path, "B", to("C", more)),
        broker(tmp_path, "C", to("A", more)),
    ]


def test_3_consumers_are_counted_more_than_once_in_a_loop(tmp_path: Path) -> None:
    assert 3 in numbers(*ring(tmp_path, 'networkTTL="2"'))
    assert 3 not in numbers(*ring(tmp_path, 'messageTTL="2" consumerTTL="1"'))
    assert 3 not in numbers(*ring(tmp_path, 'networkTTL="2" suppressDuplicateQueueSubscriptions="true"'))


def test_4_a_conduit_leads_two_ways(tmp_path: Path) -> None:
    ends = broker(tmp_path, "B"), broker(tmp_path, "C")
    assert numbers(broker(tmp_path, "A", to("B") + to("C")), *ends) == {4}


def test_7_both_ends_open_a_duplex_link(tmp_path: Path) -> None:
    duplex = 'duplex="true"'
    assert 7 in numbers(broker(tmp_path, "A", to("B", duplex)), broker(tmp_path, "B", to("A", duplex)))
    queues = '<excludedDestinations><topic physicalName="&gt;"/></excludedDestinations>'
    topics = '<excludedDestinations><queue physicalName="&gt;"/></excludedDestinations>'
    paths = broker(tmp_path, "A", to("B", duplex, queues)), broker(tmp_path, "B", to("A", duplex, topics))
    assert 7 not in numbers(*paths)


def test_8_two_connectors_have_one_name(tmp_path: Path) -> None:
    assert numbers(broker(tmp_path, "A", to("B") + to("B")), broker(tmp_path, "B")) == {8}


def test_9_names_that_are_not_set(tmp_path: Path) -> None:
    unnamed = to("B").replace('name="toB" ', "")
    assert numbers(broker(tmp_path, "A", unnamed), broker(tmp_path, "B")) == {9}


def test_10_two_brokers_have_one_id(tmp_path: Path) -> None:
    twin = broker(tmp_path, "B", attributes="").replace("B.xml", "B.xml")
    Path(twin).write_text(Path(twin).read_text("utf-8").replace('brokerId="B"', 'brokerId="A"'), "utf-8")
    assert numbers(broker(tmp_path, "A", to("B")), twin) == {10}


def test_11_suppression_without_ids(tmp_path: Path) -> None:
    link = to("B", 'suppressDuplicateQueueSubscriptions="true"')
    assert numbers(broker(tmp_path, "A", link), broker(tmp_path, "B", broker_id=False)) == {11}


REPLAY = (
    "<destinationPolicy><policyMap><policyEntries><policyEntry queue='&gt;'><networkBridgeFilterFactory>"
    "<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers='true'/></networkBridgeFilterFactory></policyEntry>"
    "</policyEntries></policyMap></destinationPolicy>"
)


def test_14_messages_do_not_follow_a_consumer_that_fails_over(tmp_path: Path) -> None:
    assert 14 in numbers(broker(tmp_path, "A", to("B", 'duplex="true"')), broker(tmp_path, "B"))


def test_15_replay_and_old_peers(tmp_path: Path) -> None:
    link = to("B", 'duplex="true" networkTTL="5"')
    paths = broker(tmp_path, "A", link, inside=REPLAY), broker(tmp_path, "B", inside=REPLAY)
    assert numbers(*paths) == {15}


def test_18_a_connector_that_sends_to_several_brokers(tmp_path: Path) -> None:
    fanout = '<networkConnector name="f" uri="fanout:(static:(tcp://b:1))"/>'
    assert 18 in numbers(broker(tmp_path, "A", fanout)) or found(broker(tmp_path, "A", fanout)) == []


SECURED = (
    "<plugins><simpleAuthenticationPlugin><users>"
    "<authenticationUser username='bridge' password='p' groups='bridges'/></users></simpleAuthenticationPlugin>"
    "<authorizationPlugin><map><authorizationMap><authorizationEntries>"
    "<authorizationEntry topic='ActiveMQ.Advisory.&gt;' read='{groups}' write='{groups}' admin='{groups}'/>"
    "</authorizationEntries></authorizationMap></map></authorizationPlugin></plugins>"
)


def test_19_the_user_of_the_bridge_may_not_listen(tmp_path: Path) -> None:
    link = to("B", 'userName="bridge" password="p"')
    refused = broker(tmp_path, "B", inside=SECURED.format(groups="others"))
    assert numbers(broker(tmp_path, "A", link), refused) == {19}
    assert numbers(broker(tmp_path, "A", to("B")), refused) == {19}
    allowed = broker(tmp_path, "B", inside=SECURED.format(groups="bridges"))
    assert numbers(broker(tmp_path, "A", link), allowed) == set()


def test_a_file_that_cannot_be_read_is_told_with_its_line(tmp_path: Path) -> None:
    path = broker(tmp_path, "A", to("B", 'networkTLL="1"'))
    (finding,) = found(path)
    assert (finding.number, finding.place) == (0, f"{path}:2")
    assert "did you mean networkTTL?" in finding.why


def test_connectors_to_brokers_without_a_file_are_told_apart(tmp_path: Path) -> None:
    files = read_network([broker(tmp_path, "A", to("B"))], {})
    assert files.plan.links == []
    assert files.strangers == (
        f"{tmp_path / 'A.xml'}:2: tcp://localhost:61002 of connector toB is none of these brokers",
    )
