"""The twenty findings of ``spanwire network lint``: files that have the fault, and the same files mended, in XML and in
TOML.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from spanwire.documents.xml import read_xml
from spanwire.model.errors import ConfigurationError
from spanwire.service.network_lint.lint_findings import LintFinding
from spanwire.service.network_lint.network_clients import read_clients
from spanwire.service.network_lint.network_files import read_network
from spanwire.service.network_lint.network_lint import NetworkLint
from tests.unit.service.config.test_equivalence import as_toml

PORTS = {"A": 61001, "B": 61002, "C": 61003, "D": 61004}
OLD_SCHEMA = (
    'xmlns="http://activemq.apache.org/schema/core" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xsi:schemaLocation="http://activemq.apache.org/schema/core '
    'http://activemq.apache.org/schema/core/activemq-core-{}.xsd"'
)


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


def changed(path: str, old: str, new: str) -> str:
    text = Path(path).read_text("utf-8")
    assert old in text
    Path(path).write_text(text.replace(old, new), "utf-8")
    return path


def in_toml(path: str) -> str:
    made = Path(path).with_suffix(".toml")
    made.write_text("\n".join(as_toml(read_xml(Path(path).read_bytes(), path), "")) + "\n", "utf-8")
    return str(made)


class Look:
    """Looks at files as they are, or at the same in TOML."""

    def __init__(self, translate: Callable[[str], str]) -> None:
        self._translate = translate

    def at(self, *paths: str, clients: str | None = None, before: tuple[str, ...] = ()) -> list[LintFinding]:
        known = None
        if clients is not None:
            described = Path(paths[0]).with_name("clients.toml")
            described.write_text(clients, "utf-8")
            known = read_clients(str(described))
        until_now = read_network([self._translate(path) for path in before], {}) if before else None
        found = NetworkLint(read_network([self._translate(path) for path in paths], {}), known, until_now).findings()
        for finding in found:
            assert finding.reason and finding.remedy
            place, _, line = finding.location.rpartition(":")
            assert 0 < int(line) <= len(Path(place).read_text("utf-8").splitlines())
        return found

    def numbers(self, *paths: str, clients: str | None = None) -> set[int]:
        return {finding.number for finding in self.at(*paths, clients=clients)}

    def faults(self, *paths: str, clients: str | None = None, before: tuple[str, ...] = ()) -> set[int]:
        return {finding.number for finding in self.at(*paths, clients=clients, before=before) if finding.is_fault}


@pytest.fixture(params=["xml", "toml"])
def look(request: pytest.FixtureRequest) -> Look:
    return Look(in_toml if request.param == "toml" else str)


XML = Look(str)  # for what can stand in XML alone


def text_at(finding: LintFinding) -> str:
    place, _, line = finding.location.rpartition(":")
    return Path(place).read_text("utf-8").splitlines()[int(line) - 1]


def test_a_plain_pair_has_nothing(tmp_path: Path, look: Look) -> None:
    assert look.at(broker(tmp_path, "A", to("B")), broker(tmp_path, "B")) == []


def routes(*paths: str) -> set[tuple[str, str]]:
    return {(link.near, link.far) for link in read_network(paths, {}).plan.links}


def test_a_link_to_one_of_several_leads_to_the_first_that_is_there(tmp_path: Path) -> None:
    one_of = f'<networkConnector uri="masterslave:(tcp://elsewhere:1,tcp://localhost:{PORTS["B"]})"/>'
    assert routes(broker(tmp_path, "A", one_of), broker(tmp_path, "B")) == {("brokerA", "brokerB")}


def test_brokers_of_one_group_are_linked_as_they_will_be(tmp_path: Path) -> None:
    paths = []
    for name, group in (("A", "x"), ("B", "x"), ("C", "y")):
        path = broker(tmp_path, name, f'<networkConnector uri="multicast://default?group={group}"/>')
        announced = '"/></transportConnectors>', f'" discoveryUri="multicast://{group}"/></transportConnectors>'
        paths.append(changed(path, *announced))
    assert routes(*paths) == {("brokerA", "brokerB"), ("brokerB", "brokerA")}


STATIC = '<staticallyIncludedDestinations><queue physicalName="{}"/></staticallyIncludedDestinations>'
EXCLUDED = '<excludedDestinations><queue physicalName="X"/></excludedDestinations>'
NO_TOPICS = '<excludedDestinations><topic physicalName="&gt;"/></excludedDestinations>'
NO_QUEUES = '<excludedDestinations><queue physicalName="&gt;"/></excludedDestinations>'
PRICES = '<dynamicallyIncludedDestinations><topic physicalName="PRICE.&gt;"/></dynamicallyIncludedDestinations>'


@pytest.mark.parametrize(
    ("number", "more", "inside", "mended", "mended_inside"),
    [
        (5, 'decreaseNetworkConsumerPriority="false"', "", "", ""),
        (
            5,
            'decreaseNetworkConsumerPriority="false"',
            NO_TOPICS,
            'decreaseNetworkConsumerPriority="false" conduitSubscriptions="false"',
            NO_TOPICS,
        ),
        (6, 'conduitSubscriptions="false"', "", 'conduitSubscriptions="false"', NO_TOPICS),
        (6, 'conduitSubscriptions="false"', PRICES, "", PRICES),
        (12, "", EXCLUDED + STATIC.format("X"), "", STATIC.format("X")),
        (12, "", EXCLUDED.replace("X", "X.&gt;") + STATIC.format("X.A"), "", EXCLUDED + STATIC.format("X.A")),
        (13, "", STATIC.format("X.&gt;"), "", STATIC.format("X.A")),
        (16, 'prefetchSize="0"', "", 'prefetchSize="1000"', ""),
        (17, 'bridgeTempDestinations="false"', "", 'bridgeTempDestinations="true"', ""),
        (20, 'prefetchSize="5"', "", 'prefetchSize="500"', ""),
    ],
)
def test_a_word_of_one_connector_is_found(
    tmp_path: Path, look: Look, number: int, more: str, inside: str, mended: str, mended_inside: str
) -> None:
    (finding,) = look.at(broker(tmp_path, "A", to("B", more, inside)), broker(tmp_path, "B"))
    assert finding.number == number
    assert re.search("networkConnector |network_connectors|prefetch_size", text_at(finding))
    assert look.at(broker(tmp_path, "A", to("B", mended, mended_inside)), broker(tmp_path, "B")) == []


def gossiping(tmp_path: Path, name: str, duplex: str) -> str:
    uri = f"gossip:(tcp://127.0.0.1:{PORTS['A']})"
    return broker(tmp_path, name, f'<networkConnector name="mesh" duplex="{duplex}" networkTTL="1" uri="{uri}"/>')


@pytest.mark.parametrize("duplex", ["true", "false"])
def test_brokers_that_gossip_are_a_mesh_and_no_pair_has_two_ways(tmp_path: Path, duplex: str) -> None:
    files = [gossiping(tmp_path, name, duplex) for name in "BCA"]  # all with the same lines
    network = read_network(files)
    links = [(link.near, link.far) for link in network.plan.links if not link.reverse]
    mesh = [(f"broker{near}", f"broker{far}") for near, far in ("AB", "AC", "BC")]
    assert sorted(links) == sorted(mesh if duplex == "true" else mesh + [(far, near) for near, far in mesh])
    assert not [finding for finding in NetworkLint(network).findings() if finding.is_fault]


def test_a_duplex_link_leads_to_a_seed_that_opens_none_whatever_its_name_is(tmp_path: Path) -> None:
    network = read_network([broker(tmp_path, "A"), gossiping(tmp_path, "B", "true"), gossiping(tmp_path, "C", "true")])
    links = [(link.near, link.far) for link in network.plan.links if not link.reverse]
    assert sorted(links) == [("brokerB", "brokerA"), ("brokerB", "brokerC"), ("brokerC", "brokerA")]


def test_1_advisories_are_off(tmp_path: Path, look: Look) -> None:
    silent = broker(tmp_path, "B", attributes='advisorySupport="false"')
    assert look.faults(broker(tmp_path, "A", to("B")), silent) >= {1}
    assert look.numbers(broker(tmp_path, "A", to("B", 'staticBridge="true"', STATIC.format("X"))), silent) == set()
    assert look.numbers(broker(tmp_path, "A", to("B")), broker(tmp_path, "B")) == set()


def test_2_the_way_is_longer_than_a_message_may_go(tmp_path: Path, look: Look) -> None:
    far = broker(tmp_path, "C")
    (first,) = look.at(broker(tmp_path, "A", to("B")), broker(tmp_path, "B", to("C", 'networkTTL="2"')), far)
    assert (first.number, first.is_fault, "toB" in first.location or "/A." in first.location) == (2, True, True)
    assert "a consumer at brokerC is 2 hops from brokerA and consumerTTL is 1" in first.reason
    assert 'set networkTTL="2"' in first.remedy
    (second,) = look.at(broker(tmp_path, "A", to("B", 'networkTTL="2"')), broker(tmp_path, "B", to("C")), far)
    assert (second.number, "/B." in second.location) == (2, True)
    assert "a message from brokerA makes 2 hops to brokerC and messageTTL is 1" in second.reason
    enough = to("B", 'networkTTL="2"'), to("C", 'networkTTL="2"')
    assert look.at(broker(tmp_path, "A", enough[0]), broker(tmp_path, "B", enough[1]), far) == []


def test_2_what_the_lists_keep_back_needs_no_longer_way(tmp_path: Path, look: Look) -> None:
    """A hub that keeps what its spokes send: nothing is to go from one spoke to the other."""
    local = '<excludedDestinations><queue physicalName="&gt;"/><topic physicalName="&gt;"/></excludedDestinations>'
    paths = broker(tmp_path, "A", to("B")), broker(tmp_path, "B", to("C", "", local)), broker(tmp_path, "C")
    assert look.at(*paths) == []


def ring(tmp_path: Path, more: str) -> list[str]:
    return [
        broker(tmp_path, "A", to("B", more)),
        broker(tmp_path, "B", to("C", more)),
        broker(tmp_path, "C", to("A", more)),
    ]


def test_3_consumers_are_counted_more_than_once_in_a_mesh(tmp_path: Path, look: Look) -> None:
    assert 3 in look.faults(*ring(tmp_path, 'duplex="true" networkTTL="2"'))
    assert 3 not in look.numbers(*ring(tmp_path, 'duplex="true" messageTTL="2" consumerTTL="1"'))
    suppressed = 'duplex="true" networkTTL="2" suppressDuplicateQueueSubscriptions="true"'
    assert 3 not in look.numbers(*ring(tmp_path, suppressed))


def test_3_a_ring_of_one_way_links_has_one_way_to_each_consumer(tmp_path: Path, look: Look) -> None:
    assert 3 not in look.numbers(*ring(tmp_path, 'networkTTL="2"'))


def fork(tmp_path: Path, more: str = "", link_of_ends: str = "") -> list[str]:
    return [
        broker(tmp_path, "A", to("B", more, NO_TOPICS) + to("C", more, NO_TOPICS)),
        broker(tmp_path, "B", link_of_ends),
        broker(tmp_path, "C", to("B", 'networkTTL="2"') if link_of_ends else ""),
    ]


def test_4_a_conduit_leads_two_ways_from_which_none_goes_on(tmp_path: Path, look: Look) -> None:
    first, *others = look.at(*fork(tmp_path))
    assert {(finding.number, finding.is_fault) for finding in (first, *others)} == {(4, False)}
    assert "nothing that brokerA sends to brokerB goes on to brokerC" in first.reason
    assert look.at(*fork(tmp_path, 'conduitSubscriptions="false"')) == []


def test_4_messages_that_can_go_on_are_not_stuck(tmp_path: Path, look: Look) -> None:
    linked = fork(tmp_path, 'networkTTL="2" suppressDuplicateQueueSubscriptions="true"', to("C", 'networkTTL="2"'))
    assert 4 not in look.numbers(*linked)


REGIONS = """
[[client]]
broker = "B"
consumes = "queue://ORDERS"
selector = "region = 'us'"
[[client]]
broker = "brokerC"
consumes = "queue://ORDERS"
selector = "region = 'emea'"
[[client]]
broker = "A"
sends = "queue://ORDERS"
"""


def test_4_known_selectors_make_it_a_fault(tmp_path: Path, look: Look) -> None:
    assert look.faults(*fork(tmp_path), clients=REGIONS) == {4}
    assert look.numbers(*fork(tmp_path, 'conduitSubscriptions="false"'), clients=REGIONS) == set()
    assert look.numbers(*fork(tmp_path), clients=re.sub("selector.*", "", REGIONS)) == set()
    assert look.numbers(*fork(tmp_path), clients=REGIONS.replace('"brokerC"', '"B"')) == set()


SPLIT = """
[[client]]
broker = "A"
consumes = "queue://Q"
sends = "queue://Q"
[[client]]
broker = "B"
consumes = "queue://Q"
consumers = 2
"""


def test_5_known_consumers_get_their_shares_told(tmp_path: Path, look: Look) -> None:
    even = 'decreaseNetworkConsumerPriority="false"'
    far = broker(tmp_path, "B")
    (finding,) = look.at(broker(tmp_path, "A", to("B", even)), far, clients=SPLIT)
    assert (finding.number, finding.is_fault) == (5, True)
    assert "of 12 messages sent at brokerA 1 at brokerA 6, 2 at brokerB 6" in finding.reason
    separate = to("B", even + ' conduitSubscriptions="false"', NO_TOPICS)
    assert look.numbers(broker(tmp_path, "A", separate), far, clients=SPLIT) == set()
    assert look.numbers(broker(tmp_path, "A", to("B", even)), far, clients=SPLIT.replace("= 2", "= 1")) == set()
    assert look.numbers(broker(tmp_path, "A", to("B")), far, clients=SPLIT) == set()  # those here come first


def test_7_both_ends_open_a_duplex_link(tmp_path: Path, look: Look) -> None:
    duplex = 'duplex="true"'
    twice = look.at(broker(tmp_path, "A", to("B", duplex)), broker(tmp_path, "B", to("A", duplex)))
    assert {Path(one.location.rpartition(":")[0]).stem for one in twice if one.number == 7 and one.is_fault} == {
        "A",
        "B",
    }
    paths = broker(tmp_path, "A", to("B", duplex, NO_TOPICS)), broker(tmp_path, "B", to("A", duplex, NO_QUEUES))
    assert 7 not in look.numbers(*paths)
    assert 7 not in look.numbers(broker(tmp_path, "A", to("B", duplex)), broker(tmp_path, "B"))
    assert 7 not in look.numbers(broker(tmp_path, "A", to("B")), broker(tmp_path, "B", to("A")))


def test_7_a_duplex_link_and_a_connector_back_are_two_ways_too(tmp_path: Path, look: Look) -> None:
    assert 7 in look.faults(broker(tmp_path, "A", to("B", 'duplex="true"')), broker(tmp_path, "B", to("A")))


def test_7_several_duplex_links_for_different_topics_are_none_of_it(tmp_path: Path, look: Look) -> None:
    """The two systems of ActiveMQ's own page."""
    one = to("B", 'duplex="true"', PRICES)
    other = one.replace("PRICE.", "ORDER.").replace('"toB"', '"again"')
    assert 7 not in look.numbers(broker(tmp_path, "A", one), broker(tmp_path, "B", other.replace("61002", "61001")))


def test_8_two_connectors_have_one_name(tmp_path: Path, look: Look) -> None:
    far = broker(tmp_path, "B")
    assert look.faults(broker(tmp_path, "A", to("B", "", NO_TOPICS) + to("B", "", NO_QUEUES)), far) == {8}
    other = to("B", "", NO_QUEUES).replace('name="toB"', 'name="topics"')
    assert look.at(broker(tmp_path, "A", to("B", "", NO_TOPICS) + other), far) == []


def test_9_names_that_are_not_set(tmp_path: Path, look: Look) -> None:
    unnamed = to("B").replace('name="toB" ', "")
    assert look.numbers(broker(tmp_path, "A", unnamed), broker(tmp_path, "B")) == {9}
    assert look.at(broker(tmp_path, "A", to("B")), broker(tmp_path, "B")) == []


@pytest.mark.parametrize(
    ("old", "new"), [('name="toB"', 'name="other"'), ("brokerA", "brokerX"), ("brokerB", "brokerX")]
)
def test_9_names_that_were_changed(tmp_path: Path, look: Look, old: str, new: str) -> None:
    until_now, after = tmp_path / "before", tmp_path / "after"
    pairs = []
    for place in (until_now, after):
        place.mkdir()
        pairs.append((broker(place, "A", to("B")), broker(place, "B")))
    before, now = pairs
    assert look.at(*now, before=before) == []
    for path in now:
        Path(path).write_text(Path(path).read_text("utf-8").replace(old, new), "utf-8")
    (finding,) = look.at(*now, before=before)
    assert (finding.number, finding.is_fault) == (9, True)
    assert "durable subscriptions of toB_brokerB_inbound_brokerA at broker" in finding.reason


def test_9_names_of_a_connector_for_queues_may_change(tmp_path: Path, look: Look) -> None:
    (tmp_path / "before").mkdir()
    before = broker(tmp_path / "before", "A", to("B", "", NO_TOPICS)), broker(tmp_path / "before", "B")
    renamed = to("B", "", NO_TOPICS).replace('name="toB"', 'name="other"')
    assert look.at(broker(tmp_path, "A", renamed), broker(tmp_path, "B"), before=before) == []


@pytest.mark.parametrize(("word", "old", "new"), [("brokerId", '"B"', '"A"'), ("brokerName", "brokerB", "brokerA")])
def test_10_two_brokers_have_one_identity(tmp_path: Path, look: Look, word: str, old: str, new: str) -> None:
    near = broker(tmp_path, "A", to("B"))
    twin = changed(
        broker(tmp_path, "B"),
        f"{word}={old}" if word == "brokerId" else old,
        f"{word}={new}" if word == "brokerId" else new,
    )
    assert look.faults(near, twin) == {10}
    assert look.at(near, broker(tmp_path, "B")) == []


def test_11_suppression_without_ids(tmp_path: Path, look: Look) -> None:
    link = to("B", 'suppressDuplicateQueueSubscriptions="true"')
    assert look.faults(broker(tmp_path, "A", link), broker(tmp_path, "B", broker_id=False)) == {11}
    assert look.at(broker(tmp_path, "A", link), broker(tmp_path, "B")) == []
    elsewhere = broker(tmp_path, "C", broker_id=False)
    assert look.at(broker(tmp_path, "A", link), broker(tmp_path, "B"), elsewhere) == []


def test_13_a_file_for_an_old_broker_makes_it_a_fault(tmp_path: Path) -> None:
    link = to("B", "", STATIC.format("X.&gt;"))
    far = broker(tmp_path, "B")
    assert XML.faults(broker(tmp_path, "A", link, OLD_SCHEMA.format("5.8.0")), far) == {13}
    assert XML.faults(broker(tmp_path, "A", link, OLD_SCHEMA.format("5.17.2")), far) == set()
    assert XML.at(broker(tmp_path, "A", to("B", "", STATIC.format("X")), OLD_SCHEMA.format("5.8.0")), far) == []


REPLAY = (
    "<destinationPolicy><policyMap><policyEntries><policyEntry queue='&gt;'><networkBridgeFilterFactory>"
    "<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers='true'/></networkBridgeFilterFactory></policyEntry>"
    "</policyEntries></policyMap></destinationPolicy>"
)
UNAUDITED = REPLAY.replace("<policyEntry queue='&gt;'>", "<policyEntry queue='&gt;' enableAudit='false'>")


def test_14_messages_do_not_follow_a_consumer_that_fails_over(tmp_path: Path, look: Look) -> None:
    link = to("B", 'duplex="true"')
    (first, *others) = look.at(broker(tmp_path, "A", link), broker(tmp_path, "B"))
    assert (first.number, first.is_fault, others) == (14, False, [])
    replayed = broker(tmp_path, "A", link, inside=UNAUDITED), broker(tmp_path, "B", inside=UNAUDITED)
    assert look.at(*replayed) == []


def test_14_a_client_that_is_known_to_fail_over_makes_it_a_fault(tmp_path: Path, look: Look) -> None:
    link = to("B", 'duplex="true"')
    client = f"""[[client]]
uri = "failover:(tcp://localhost:{PORTS["A"]},tcp://localhost:{PORTS["B"]})?randomize=true"
consumes = "queue://Q"
"""
    plain = broker(tmp_path, "A", link), broker(tmp_path, "B")
    assert look.faults(*plain, clients=client) == {14}
    assert look.numbers(*plain, clients=client.replace(f",tcp://localhost:{PORTS['B']}", "")) == set()
    replayed = broker(tmp_path, "A", link, inside=UNAUDITED), broker(tmp_path, "B", inside=UNAUDITED)
    assert look.numbers(*replayed, clients=client) == set()


def test_14_a_connector_that_sends_clients_elsewhere_makes_it_a_fault(tmp_path: Path, look: Look) -> None:
    moving = '<transportConnector uri="', '<transportConnector updateClusterClients="true" uri="'
    near = changed(broker(tmp_path, "A", to("B", 'duplex="true"')), *moving)
    found = [one for one in look.at(near, broker(tmp_path, "B")) if one.is_fault]
    assert [one.number for one in found] == [14]
    assert re.search("transportConnector|transport_connectors", text_at(found[0]))
    near = changed(broker(tmp_path, "A", to("B", 'duplex="true"'), inside=UNAUDITED), *moving)
    assert look.at(near, broker(tmp_path, "B", inside=UNAUDITED)) == []


def test_14_a_client_in_the_same_file_is_known(tmp_path: Path) -> None:
    uri = f"failover:(tcp://localhost:{PORTS['A']},tcp://localhost:{PORTS['B']})"
    near = changed(broker(tmp_path, "A", to("B", 'duplex="true"')), "<broker ", "<beans><broker ")
    bean = '<bean id="f" class="org.apache.activemq.ActiveMQConnectionFactory"><property name="brokerURL" value="{}"/>'
    changed(near, "</broker>", "</broker>" + bean.format(uri) + "</bean></beans>")
    assert XML.faults(near, broker(tmp_path, "B")) == {14}


def test_15_replay_and_old_peers(tmp_path: Path) -> None:
    link = to("B", 'duplex="true" networkTTL="5"')
    paths = broker(tmp_path, "A", link, inside=REPLAY), broker(tmp_path, "B", inside=REPLAY)
    assert [(one.number, one.is_fault) for one in XML.at(*paths)] == [(15, False), (15, False)]
    assert Look(in_toml).at(*paths) == []  # no ActiveMQ reads TOML
    old = broker(tmp_path, "B", "", OLD_SCHEMA.format("5.8.0"), REPLAY)
    assert XML.faults(paths[0], old) == {15}
    new = [broker(tmp_path, name, link if name == "A" else "", OLD_SCHEMA.format("5.17.2"), REPLAY) for name in "AB"]
    assert XML.at(*new) == []
    mended = (
        broker(tmp_path, "A", link, inside=UNAUDITED),
        broker(tmp_path, "B", "", OLD_SCHEMA.format("5.8.0"), UNAUDITED),
    )
    assert XML.at(*mended) == []


REQUESTS = """
[[client]]
broker = "A"
sends = "queue://ASKED"
requests = true
[[client]]
broker = "B"
consumes = "queue://ASKED"
"""


def test_17_an_answer_that_does_not_come_back(tmp_path: Path, look: Look) -> None:
    closed = broker(tmp_path, "A", to("B")), broker(tmp_path, "B", to("A", 'bridgeTempDestinations="false"'))
    found = look.at(*closed, clients=REQUESTS)
    assert [(one.number, one.is_fault, "/B." in one.location) for one in found] == [(17, True, True)]
    assert look.at(broker(tmp_path, "A", to("B")), broker(tmp_path, "B", to("A")), clients=REQUESTS) == []
    other = broker(tmp_path, "A", to("B", 'bridgeTempDestinations="false"')), broker(tmp_path, "B", to("A"))
    assert look.at(*other, clients=REQUESTS) == []  # nothing is asked that way


def test_18_a_client_that_sends_to_several_brokers_of_one_network(tmp_path: Path, look: Look) -> None:
    fanout = f'[[client]]\nuri = "fanout:(static:(tcp://localhost:{PORTS["A"]},tcp://localhost:{PORTS["B"]}))"\n'
    (finding,) = look.at(broker(tmp_path, "A", to("B")), broker(tmp_path, "B"), clients=fanout)
    assert (finding.number, finding.is_fault, text_at(finding)) == (18, True, "[[client]]")
    assert "a consumer at brokerB gets 2 copies of each message" in finding.reason
    assert look.at(broker(tmp_path, "A"), broker(tmp_path, "B"), clients=fanout) == []  # these are no network
    kept = to("B", "", '<excludedDestinations><queue physicalName="X"/></excludedDestinations>')
    only = fanout + 'sends = "queue://X"\n'
    assert look.at(broker(tmp_path, "A", kept), broker(tmp_path, "B"), clients=only) == []
    assert (
        look.at(broker(tmp_path, "A", to("B")), broker(tmp_path, "B"), clients=fanout.replace("fanout", "failover"))
        == []
    )


def test_18_a_client_in_the_same_file_and_a_connector_are_found(tmp_path: Path) -> None:
    uri = f"fanout:(static:(tcp://localhost:{PORTS['A']},tcp://localhost:{PORTS['B']}))"
    near = changed(broker(tmp_path, "A", to("B")), "<broker ", "<beans><broker ")
    bean = (
        '\n<bean id="f" class="org.apache.activemq.ActiveMQConnectionFactory"><property name="brokerURL" value="{}"/>'
    )
    changed(near, "</broker>", "</broker>" + bean.format(uri) + "</bean></beans>")
    (finding,) = XML.at(near, broker(tmp_path, "B"))
    assert (finding.number, "fanout:" in text_at(finding)) == (18, True)
    connector = f'<networkConnector name="f" uri="{uri}"/>'
    found = XML.at(broker(tmp_path, "A", connector), broker(tmp_path, "B"))
    assert 18 in {one.number for one in found}


SECURED = (
    "<plugins><simpleAuthenticationPlugin><users>"
    "<authenticationUser username='bridge' password='p' groups='bridges'/></users></simpleAuthenticationPlugin>"
    "<authorizationPlugin><map><authorizationMap><authorizationEntries>"
    "<authorizationEntry topic='ActiveMQ.Advisory.&gt;' read='{groups}' write='{groups}' admin='{groups}'/>"
    "</authorizationEntries></authorizationMap></map></authorizationPlugin></plugins>"
)


def test_19_the_user_of_the_bridge_may_not_listen(tmp_path: Path, look: Look) -> None:
    link = to("B", 'userName="bridge" password="p"')
    refused = broker(tmp_path, "B", inside=SECURED.format(groups="others"))
    assert look.faults(broker(tmp_path, "A", link), refused) == {19}
    assert look.faults(broker(tmp_path, "A", to("B")), refused) == {19}
    allowed = broker(tmp_path, "B", inside=SECURED.format(groups="bridges"))
    assert look.at(broker(tmp_path, "A", link), allowed) == []
    stranger = to("B", 'userName="nobody" password="p"')
    assert look.faults(broker(tmp_path, "A", stranger), allowed) == {19}


GROUPED = (
    "<destinationPolicy><policyMap><policyEntries><policyEntry queue='G.&gt;' messageGroupMapFactoryType='cached'/>"
    "</policyEntries></policyMap></destinationPolicy>"
)
GROUPS = """
[[client]]
broker = "A"
sends = "queue://G.1"
group_size = 50
[[client]]
broker = "B"
consumes = "queue://G.1"
"""


def test_20_message_groups_that_are_known(tmp_path: Path, look: Look) -> None:
    small, far = to("B", 'prefetchSize="20"'), broker(tmp_path, "B")
    assert look.faults(broker(tmp_path, "A", small, inside=GROUPED), far) == {20}
    assert look.at(broker(tmp_path, "A", to("B"), inside=GROUPED), far) == []
    assert look.faults(broker(tmp_path, "A", small), far, clients=GROUPS) == {20}
    assert look.at(broker(tmp_path, "A", to("B", 'prefetchSize="50"')), far, clients=GROUPS) == []
    assert look.at(broker(tmp_path, "A", small), far, clients=GROUPS.replace("group_size = 50", "")) == []


SOUND = {
    "hub and spokes": (
        {"A": "AB AC AD", "B": "", "C": "", "D": ""},
        'duplex="true" networkTTL="2"',
    ),
    "complete graph": ({"A": "AB AC AD", "B": "BA BC BD", "C": "CA CB CD", "D": "DA DB DC"}, 'networkTTL="1"'),
    "tree": ({"A": "AB AC", "B": "BD", "C": "", "D": ""}, 'duplex="true" networkTTL="3"'),
    "chain": ({"A": "AB", "B": "BC", "C": "CD", "D": ""}, 'networkTTL="3"'),
    "concentrators": ({"A": "AC AD", "B": "BC BD", "C": "", "D": ""}, ""),
    "mesh without long subscriptions": (
        {"A": "AB AC", "B": "BD", "C": "CD", "D": ""},
        'duplex="true" messageTTL="2" consumerTTL="2" suppressDuplicateQueueSubscriptions="true"',
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_the_topologies_of_the_books_have_no_faults(tmp_path: Path, look: Look, name: str) -> None:
    links, more = SOUND[name]
    paths = [
        broker(tmp_path, near, "".join(to(pair[1], more) for pair in pairs.split())) for near, pairs in links.items()
    ]
    assert [str(finding) for finding in look.at(*paths) if finding.is_fault] == []
    assert look.numbers(*paths, clients="client = []") == set()


def test_what_one_file_shows_is_found_without_those_of_the_others(tmp_path: Path, look: Look) -> None:
    assert look.numbers(broker(tmp_path, "A", to("B", 'conduitSubscriptions="false"'))) == {6}
    assert look.numbers(broker(tmp_path, "A", to("B", "", NO_TOPICS) + to("C", "", NO_TOPICS))) == {4}
    assert look.numbers(broker(tmp_path, "A", to("B"), 'advisorySupport="false"')) == {1}
    assert look.numbers(broker(tmp_path, "A", to("B", 'duplex="true"'))) == {14}
    assert look.at(broker(tmp_path, "A", to("B"))) == []


def test_a_file_that_cannot_be_read_is_told_with_its_line(tmp_path: Path) -> None:
    path = broker(tmp_path, "A", to("B", 'networkTLL="1"'))
    (finding,) = XML.at(path)
    assert (finding.number, finding.location) == (0, f"{path}:2")
    assert "did you mean networkTTL?" in finding.reason


def test_connectors_to_brokers_without_a_file_are_told_apart(tmp_path: Path) -> None:
    files = read_network([broker(tmp_path, "A", to("B"))], {})
    assert [(link.near, link.far) for link in files.plan.links] == [("brokerA", "tcp://localhost:61002")]
    assert files.strangers == (
        f"{tmp_path / 'A.xml'}:2: tcp://localhost:61002 of connector toB is none of these brokers",
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[client]]\nbroker = 'A'\nconsume = 'queue://Q'", ":1: unknown word 'consume'; did you mean consumes?"),
        ("\n[[client]]\nconsumes = 'queue://Q'", ":2: a client needs a broker or a uri"),
        ("[[client]]\nbroker = 'A'\nconsumes = 'Q'", ":1: consumes must name destinations such as queue://ORDERS"),
        ("[[client]]\nbroker = 'A'\nconsumers = -1", ":1: consumers must be a whole number from 0 to 1000000000"),
        ("[[client]]\nbroker = 'A'\nrequests = 1", ":1: requests must be true or false"),
        ("[[client]]\nbroker = 7", ":1: broker must be a text"),
        ("[client]\nbroker = 'A'", ":1: write a [[client]] table for each client and nothing else"),
        ("client = ", ":1: the TOML is broken: "),
    ],
)
def test_a_description_of_clients_that_makes_no_sense_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "clients.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigurationError) as raised:
        read_clients(str(path))
    assert str(raised.value).startswith(f"{path}{told}")


def test_a_client_of_an_unknown_broker_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no broker 'X'; there are brokerA"):
        XML.at(broker(tmp_path, "A"), clients="[[client]]\nbroker = 'X'")
