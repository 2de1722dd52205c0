"""Network connectors in a configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.discovery.groups.agent_settings import FabricSettings, ZeroconfSettings
from spanwire.discovery.groups.gossip_settings import GossipSettings
from spanwire.discovery.groups.group import MulticastSettings
from spanwire.discovery.groups.sightings import FAILED_SIGHTING
from spanwire.model.destination import parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.network.connector.link import NetworkConnectorSettings, RemoteAddress
from spanwire.network.connector.socket_options import SocketOptions
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration


def load(tmp_path: Path, connectors: str, before: str = "", skip: bool = False) -> BrokerConfiguration:
    path = tmp_path / "activemq.xml"
    path.write_text(f"<broker>{before}<networkConnectors>{connectors}</networkConnectors></broker>", "utf-8")
    return load_configuration(str(path), environment={}, skip_unsupported=skip)


def connector(tmp_path: Path, connectors: str, before: str = "") -> NetworkConnectorSettings:
    (found,) = load(tmp_path, connectors, before).network_connectors
    return found


def obstacles(tmp_path: Path, connectors: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, connectors)
    return [line.partition(":1: ")[2] for line in str(raised.value).splitlines()]


def test_without_settings_the_defaults_of_activemq_hold(tmp_path: Path) -> None:
    found = connector(tmp_path, '<networkConnector uri="static:(tcp://b:61616)"/>')
    assert found == NetworkConnectorSettings(
        BridgeSettings(), (RemoteAddress("tcp://b:61616", "b", 61616),), ReconnectSettings()
    )
    bridge = found.bridge
    assert (bridge.name, bridge.message_ttl, bridge.consumer_ttl, bridge.prefetch_size) == ("NC", 1, 1, 1000)
    assert (bridge.conduit, bridge.decrease_priority, bridge.always_sync_send) == (True, True, True)


def test_every_setting_is_read(tmp_path: Path) -> None:
    found = connector(
        tmp_path,
        '<networkConnector name="toB" uri="static:(tcp://b:1,nio://[::1]:2)?initialReconnectDelay=5&amp;'
        "maxReconnectDelay=50&amp;useExponentialBackOff=false&amp;backOffMultiplier=1.5&amp;maxReconnectAttempts=7&amp;"
        'minConnectTime=8" networkTTL="4" consumerTTL="2" conduitSubscriptions="false" '
        'decreaseNetworkConsumerPriority="false" consumerPriorityBase="-7" prefetchSize="10" alwaysSyncSend="false" '
        'bridgeTempDestinations="false" userName="u" password="p" remoteUserName="ru" remotePassword="rp" '
        'staticBridge="true" destinationFilter="Queue.A" dynamicOnly="true" clientIdToken="-" '
        'duplex="true" syncDurableSubs="true" useVirtualDestSubs="true" '
        'checkDuplicateMessagesOnDuplex="true" '
        'suppressDuplicateQueueSubscriptions="true" suppressDuplicateTopicSubscriptions="false" '
        'conduitNetworkQueueSubscriptions="true">'
        '<excludedDestinations><queue physicalName="X.>"/></excludedDestinations>'
        '<dynamicallyIncludedDestinations><topic physicalName="T.*"/><queue physicalName="Q"/>'
        '<topic physicalName="F?forceDurable=true"/><topic physicalName="G?forceDurable=false"/>'
        "</dynamicallyIncludedDestinations>"
        '<staticallyIncludedDestinations><queue physicalName="S.>"/></staticallyIncludedDestinations>'
        "</networkConnector>",
    )
    assert found.bridge == BridgeSettings(
        name="toB",
        message_ttl=4,
        consumer_ttl=2,
        conduit=False,
        decrease_priority=False,
        priority_base=-7,
        prefetch_size=10,
        always_sync_send=False,
        bridge_temporary=False,
        user_name="u",
        password=Secret("p"),
        remote_user_name="ru",
        remote_password=Secret("rp"),
        excluded=(parse_destination("queue://X.>"),),
        included=tuple(map(parse_destination, ("queue://Q", "topic://T.*", "topic://F", "topic://G"))),
        static=(parse_destination("queue://S.>"),),
        forced_durable=(parse_destination("topic://F"),),
        static_bridge=True,
        advisory_filter="Queue.A",
        conduit_network_queues=True,
        suppress_queue_duplicates=True,
        suppress_topic_duplicates=False,
        dynamic_only=True,
        client_id_token="-",
        virtual_demand=True,
        sync_durable=True,
        check_duplicates=True,
        duplex=True,
    )
    assert [remote.uri for remote in found.remotes] == ["tcp://b:1", "nio://[::1]:2"]
    assert [remote.host for remote in found.remotes] == ["b", "::1"]
    assert found.reconnect == ReconnectSettings(5, 50, False, 1.5, 7, 8)
    assert "p" not in repr(found.bridge.password)


def test_gossip_has_its_seeds_its_bounds_and_the_settings_of_the_connector(tmp_path: Path) -> None:
    uri = "gossip:(tcp://10.1.2.3:1,ssl://b.mesh.org:2)?max=7&amp;maxReconnectDelay=50&amp;networkTTL=2"
    found = connector(tmp_path, f'<networkConnector uri="{uri}" duplex="true"/>')
    assert [remote.uri for remote in found.remotes] == ["tcp://10.1.2.3:1", "ssl://b.mesh.org:2"]
    assert found.discovery is not None
    assert found.discovery.agent == GossipSettings(("10.1.2.0/24", "*.mesh.org"), 7)
    assert found.discovery.uri == "gossip:(tcp://10.1.2.3:1,ssl://b.mesh.org:2)"
    assert (found.bridge.duplex, found.bridge.message_ttl, found.reconnect.max_delay_ms) == (True, 2, 50)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("gossip:(tcp://broker1:1)", "gossip: needs networks=…"),
        ("gossip:(stomp://10.0.0.1:1)", "unknown transport of a network connector 'stomp'"),
        ("gossip:(static:(tcp://10.0.0.1:1))", "static: is no address of one broker"),
        ("static:(gossip:(tcp://10.0.0.1:1))", "gossip: is no address of one broker"),
        ("gossip:(tcp://10.0.0.1:1)?maxDelay=3", "gossip: has no option 'maxDelay'"),
    ],
)  # fmt: skip
def test_gossip_is_refused(tmp_path: Path, uri: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, f'<networkConnector uri="{uri}"/>')
    assert reason in str(refused.value)


def test_toml_has_the_same_words(tmp_path: Path) -> None:
    path = tmp_path / "spanwire.toml"
    path.write_text(
        '[[network_connectors]]\nname = "toB"\nuri = "static:(tcp://b:1)"\nnetwork_ttl = 3\n'
        'conduit_subscriptions = false\n[[network_connectors.excluded_destinations]]\nqueue = "X"\n',
        "utf-8",
    )
    (found,) = load_configuration(str(path), environment={}).network_connectors
    assert (found.bridge.name, found.bridge.message_ttl, found.bridge.conduit) == ("toB", 3, False)
    assert found.bridge.excluded == (parse_destination("queue://X"),)


def test_a_remote_address_without_a_port_has_that_of_activemq_with_a_warning(tmp_path: Path) -> None:
    configuration = load(tmp_path, '<networkConnector uri="static:(tcp://host)"/>')
    assert configuration.network_connectors[0].remotes[0].port == 61616
    assert "names no port; 61616 is taken" in configuration.warnings[0]


def test_an_encrypted_remote_is_verified_unless_it_is_told_not_to_look_at_the_name(tmp_path: Path) -> None:
    stores = '<sslContext><sslContext trustStore="file:trust.pem"/></sslContext>'
    first = connector(tmp_path, '<networkConnector uri="static:(ssl://b:1)"/>', stores).remotes[0].tls
    assert first is not None and first.verify_host_name
    assert first.trust_store is not None and first.trust_store.path.name == "trust.pem"
    uri = "static:(ssl://b:1?socket.verifyHostName=false)"
    other = connector(tmp_path, f'<networkConnector uri="{uri}"/>', stores).remotes[0].tls
    assert other is not None and not other.verify_host_name


def test_inactivity_of_a_remote_is_its_option(tmp_path: Path) -> None:
    uri = "static:(tcp://b:1?wireFormat.maxInactivityDuration=5000)"
    assert connector(tmp_path, f'<networkConnector uri="{uri}"/>').remotes[0].max_inactivity_ms == 5000


def test_every_obstacle_is_told_at_once(tmp_path: Path) -> None:
    found = obstacles(
        tmp_path,
        '<networkConnector uri="static:()"/><networkConnector name="a"/>'
        '<networkConnector name="b" uri="tcp://b:1"/><networkConnector name="c" uri="fanout:(tcp://b:1)"/>'
        '<networkConnector name="d" uri="static:(tcp://b:1,stomp://b:2)?maxDelay=1" prefetchSize="0" nam="x"/>'
        '<networkConnector name="e" uri="static:(tcp://b:1)" useCompression="yes" networkTTL="many"/>',
    )
    assert sorted(found) == sorted(
        [
            "the static: uri names no broker; write static:(tcp://host:port)",
            '<networkConnector> has no uri; write uri="static:(tcp://host:port)"',
            "unknown discovery agent 'tcp'; there are discovery, fabric, gossip, http, https, masterslave, multicast, "
            "rendezvous, simple, static, zeroconf",
            "fanout: of <networkConnector> is not supported (it asks for one link to several brokers); "
            "write static:(uri,uri), a link to each or start with --skip-unsupported",
            "unknown attribute of <networkConnector> 'nam'; did you mean name?",
            "prefetchSize of <networkConnector> is '0', it must be a whole number from 1 to 32766",
            "unknown transport of a network connector 'stomp'; there are auto, auto+nio, auto+nio+ssl, auto+ssl, http, "
            "https, nio, nio+ssl, ssl, tcp",
            "unknown option of static: 'maxDelay'; did you mean maxReconnectDelay?",
            "useCompression of <networkConnector> is 'yes', it must be true or false",
            "networkTTL of <networkConnector> is 'many', it must be a whole number from -1 to 64",
        ]
    )


def test_hops_and_windows_above_the_limits_are_taken_as_the_limits_with_warnings(tmp_path: Path) -> None:
    settings = 'networkTTL="100" consumerTTL="3" prefetchSize="100000"'
    configuration = load(tmp_path, f'<networkConnector uri="static:(tcp://b:1)" {settings}/>')
    bridge = configuration.network_connectors[0].bridge
    assert (bridge.message_ttl, bridge.consumer_ttl, bridge.prefetch_size) == (64, 3, 32766)
    assert [line.partition(":1: ")[2] for line in configuration.warnings] == [
        "networkTTL of <networkConnector> is 100; the highest value 64 is used",
        "prefetchSize of <networkConnector> is 100000; the highest value 32766 is used",
    ]


def test_two_connectors_need_two_names(tmp_path: Path) -> None:
    one = '<networkConnector uri="static:(tcp://b:1)"/>'
    assert obstacles(tmp_path, one + one) == ["a second <networkConnector> is called 'NC'; give each its own name"]


def test_an_empty_name_in_a_list_of_destinations_is_refused(tmp_path: Path) -> None:
    inside = '<excludedDestinations><topic physicalName=""/><queue/></excludedDestinations>'
    found = obstacles(tmp_path, f'<networkConnector uri="static:(tcp://b:1)">{inside}</networkConnector>')
    assert sorted(found) == [
        "<queue> of <excludedDestinations> has no physicalName",
        "physicalName of <topic> is empty",
    ]


@pytest.mark.parametrize(
    "option",
    ["maxReconnectDelay=x", "useExponentialBackOff=maybe", "backOffMultiplier=0.5", "initialReconnectDelay=-1"],
)
def test_a_bad_option_of_the_agent_is_named(tmp_path: Path, option: str) -> None:
    (found,) = obstacles(tmp_path, f'<networkConnector uri="static:(tcp://b:1)?{option}"/>')
    assert option.partition("=")[0] in found


def test_what_is_skipped_leaves_the_rest_of_a_connector(tmp_path: Path) -> None:
    text = '<networkConnector name="a" uri="static:(tcp://b:1)"/><networkConnector name="b" uri="fanout:(tcp://b:1)"/>'
    configuration = load(tmp_path, text, skip=True)
    assert len(configuration.network_connectors) == 1
    assert "fanout: of" in configuration.skipped[0]


def test_a_link_over_http_is_one_of_a_list(tmp_path: Path) -> None:
    first, second = connector(tmp_path, '<networkConnector uri="static:(http://b:8080,tcp://c:1)"/>').remotes
    assert (first.uri, first.is_tunnelled, second.is_tunnelled) == ("http://b:8080", True, False)


@pytest.mark.parametrize(
    ("inside", "obstacle"),
    [
        (
            '<excludedDestinations><topic physicalName="T?forceDurable=true"/></excludedDestinations>',
            "unknown option of <topic> 'forceDurable'",
        ),
        (
            '<dynamicallyIncludedDestinations><topic physicalName="T?forceDurable=x"/>'
            "</dynamicallyIncludedDestinations>",
            "the option forceDurable of <topic> must be true or false",
        ),
        (
            '<dynamicallyIncludedDestinations><topic physicalName="T?forceDurabel=true"/>'
            "</dynamicallyIncludedDestinations>",
            "unknown option of <topic> 'forceDurabel'; did you mean forceDurable?",
        ),
    ],
)
def test_an_option_behind_a_name_is_known_or_refused(tmp_path: Path, inside: str, obstacle: str) -> None:
    text = f'<networkConnector uri="static:(tcp://b:1)">{inside}</networkConnector>'
    assert obstacles(tmp_path, text) == [obstacle]


def test_a_connector_that_discovers_has_an_agent_and_no_list(tmp_path: Path) -> None:
    found = connector(tmp_path, '<networkConnector uri="multicast://default?group=sales&amp;maxReconnectAttempts=3"/>')
    assert found.remotes == () and found.discovery is not None
    assert (found.discovery.agent, found.discovery.uri) == (MulticastSettings(group="sales"), "multicast://default")
    assert found.reconnect == replace(FAILED_SIGHTING, max_attempts=3)
    assert not found.discovery.sends_login


@pytest.mark.parametrize(
    "uri",
    [
        "discovery:(multicast://default?group=a)?initialReconnectDelay=7",
        "discovery://(multicast://default?group=a)?initialReconnectDelay=7",
        "discovery:(multicast://default)?group=a&amp;initialReconnectDelay=7",
        "discovery:multicast://default?group=a&amp;initialReconnectDelay=7",
        "discovery:(multicast://a)?initialReconnectDelay=7",
    ],
)
def test_options_of_discovery_are_those_of_its_agent(tmp_path: Path, uri: str) -> None:
    found = connector(tmp_path, f'<networkConnector uri="{uri}"/>')
    assert found.discovery is not None
    assert not isinstance(found.discovery.agent, GossipSettings)
    assert (found.discovery.agent.group, found.reconnect.initial_delay_ms) == ("a", 7)


def test_discovery_of_a_list_is_the_list(tmp_path: Path) -> None:
    uri = "discovery:(static:(tcp://b:1,tcp://c:2))?maxReconnectDelay=9"
    found = connector(tmp_path, f'<networkConnector uri="{uri}"/>')
    assert [remote.uri for remote in found.remotes] == ["tcp://b:1", "tcp://c:2"]
    assert (found.reconnect.max_delay_ms, found.discovery) == (9, None)
    simple = connector(tmp_path, '<networkConnector uri="simple://(tcp://b:1,tcp://c:2)?maxReconnectDelay=9"/>')
    assert simple == found


def test_tls_of_discovered_brokers_is_that_of_the_configuration(tmp_path: Path) -> None:
    stores = '<sslContext><sslContext trustStore="file:trust.pem"/></sslContext>'
    found = connector(tmp_path, '<networkConnector uri="multicast://default"/>', stores).discovery
    assert found is not None and found.tls.trust_store is not None
    assert found.tls.trust_store.path.name == "trust.pem" and found.tls.verify_host_name


def test_a_login_for_whoever_is_there_is_asked_for_by_name_and_warned_of(tmp_path: Path) -> None:
    configuration = load(tmp_path, '<networkConnector uri="multicast://default" sendLoginToDiscovered="true"/>')
    discovery = configuration.network_connectors[0].discovery
    assert discovery is not None and discovery.sends_login
    assert "any host in reach of the group can request the login" in configuration.warnings[0]


def test_one_link_leads_to_whichever_of_several_is_master(tmp_path: Path) -> None:
    found = connector(
        tmp_path, '<networkConnector uri="masterslave:(tcp://a:1,tcp://b:2,tcp://c:3)?initialReconnectDelay=5"/>'
    )
    others = (RemoteAddress("tcp://b:2", "b", 2), RemoteAddress("tcp://c:3", "c", 3))
    assert found.remotes == (RemoteAddress("tcp://a:1", "a", 1, others=others),)
    assert found.reconnect.initial_delay_ms == 5


@pytest.mark.parametrize(
    ("options", "shuffled"),
    [("?randomize=false&amp;maxReconnectAttempts=0", False), ("", True), ("?randomize=true", True)],
)
def test_failover_in_a_list_is_one_link(tmp_path: Path, options: str, shuffled: bool) -> None:
    configuration = load(
        tmp_path, f'<networkConnector uri="static:(failover:(tcp://a:1,tcp://b:2){options},tcp://c:3)"/>'
    )
    (found,) = configuration.network_connectors
    assert [(one.uri, [other.uri for other in one.others], one.shuffled) for one in found.remotes] == [
        ("tcp://a:1", ["tcp://b:2"], shuffled),
        ("tcp://c:3", [], False),
    ]
    assert configuration.warnings == ()


@pytest.mark.parametrize(
    ("option", "shuffled"),
    [
        ("backup=true", True),
        ("backOffMultiplier=1.5", True),
        ("maxReconnectDelay=5", True),
        ("priorityBackup=true", False),
        ("priorityURIs=tcp://a:1", False),
        ("startupMaxReconnectAttempts=3", True),
        ("timeout=3000", True),
        ("updateURIsSupported=true", True),
    ],
)
def test_what_failover_cannot_do_in_a_list_is_told(tmp_path: Path, option: str, shuffled: bool) -> None:
    uri = f"static:(failover:(tcp://a:1,tcp://b:2)?{option})"
    configuration = load(tmp_path, f'<networkConnector uri="{uri}"/>')
    (warning,) = configuration.warnings
    assert f"the option {option.partition('=')[0]} of failover: has no effect in a network connector" in warning
    assert configuration.network_connectors[0].remotes[0].shuffled == shuffled


def test_options_of_failover_that_ask_for_what_holds_need_no_word(tmp_path: Path) -> None:
    options = "backup=false&amp;priorityBackup=false&amp;trackMessages=true&amp;timeout=-1&amp;updateURIsURL=none"
    configuration = load(tmp_path, f'<networkConnector uri="failover:(tcp://a:1,tcp://b:2)?{options}"/>')
    assert configuration.warnings == ()


def test_nested_options_of_failover_are_those_of_each_of_its_brokers(tmp_path: Path) -> None:
    options = "nested.wireFormat.maxInactivityDuration=0&amp;nested.keepAlive=true"
    found = connector(
        tmp_path, f'<networkConnector uri="static:(failover:(tcp://a:1?tcpNoDelay=false,tcp://b:2)?{options})"/>'
    )
    first = found.remotes[0]
    assert [(one.max_inactivity_ms, one.options.keep_alive) for one in (first, *first.others)] == [(0, True), (0, True)]
    assert [one.options.tcp_no_delay for one in (first, *first.others)] == [False, True]


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("timeuot=5", "unknown option of failover: 'timeuot'; did you mean timeout?"),
        ("timeout=x", "the option timeout of failover: must be a whole number"),
        ("backup=1", "the option backup of failover: must be true or false"),
        ("backOffMultiplier=x", "the option backOffMultiplier of failover: must be a number"),
    ],
)
def test_an_option_of_failover_that_makes_no_sense_is_refused(tmp_path: Path, option: str, wrong: str) -> None:
    assert obstacles(tmp_path, f'<networkConnector uri="static:(failover:(tcp://a:1)?{option})"/>') == [wrong]


@pytest.mark.parametrize("agent", ["static:(tcp://b:1)", "multicast://default", "masterslave:(tcp://a:1,tcp://b:1)"])
def test_attempts_without_a_limit_are_asked_for_by_minus_one_as_well(tmp_path: Path, agent: str) -> None:
    found = connector(tmp_path, f'<networkConnector uri="{agent}?maxReconnectAttempts=-1"/>')
    assert found.reconnect.max_attempts == 0


REMOTE_OPTIONS = (
    "tcpNoDelay=false&amp;socket.keepAlive=true&amp;connectionTimeout=2500&amp;socketBufferSize=131072&amp;"
    "wireFormat.maxInactivityDuration=7000&amp;wireFormat.maxInactivityDurationInitalDelay=3000&amp;"
    "wireFormat.maxFrameSize=1048576&amp;wireFormat.version=11&amp;wireFormat.stackTraceEnabled=false&amp;"
    "wireFormat.tcpNoDelayEnabled=false&amp;wireFormat.host=virtual"
)


def test_options_of_a_remote_address_have_their_effect(tmp_path: Path) -> None:
    configuration = load(tmp_path, f'<networkConnector uri="static:(tcp://b:1?{REMOTE_OPTIONS})"/>')
    (remote,) = configuration.network_connectors[0].remotes
    assert configuration.warnings == ()
    assert remote.max_inactivity_ms == 7000
    assert remote.options == SocketOptions(
        connect_timeout_ms=2500,
        tcp_no_delay=False,
        keep_alive=True,
        buffer_size=131_072,
        wire_format=WireFormatPreferences(
            version=11,
            stack_traces=False,
            tcp_no_delay=False,
            max_inactivity_initial_delay_ms=3000,
            max_frame_size=1_048_576,
            host="virtual",
        ),
    )


def test_options_of_a_remote_address_that_ask_for_what_holds_need_no_word(tmp_path: Path) -> None:
    options = (
        "trace=false&amp;useLocalHost=false&amp;soTimeout=0&amp;soWriteTimeout=0&amp;useInactivityMonitor=true&amp;"
        "useKeepAlive=true&amp;wireFormat.tightEncodingEnabled=false&amp;wireFormat.cacheEnabled=false&amp;"
        "wireFormat.prefixPacketSize=true&amp;wireFormat.maxFrameSizeEnabled=true&amp;tcpNoDelay=true"
    )
    configuration = load(tmp_path, f'<networkConnector uri="static:(tcp://b:1?{options})"/>')
    assert configuration.warnings == ()
    assert configuration.network_connectors[0].remotes == (RemoteAddress("tcp://b:1", "b", 1),)


@pytest.mark.parametrize(
    "option",
    ["daemon=true", "ioBufferSize=5", "socket.soTimeout=5", "trace=true", "wireFormat.cacheEnabled=true", "soLinger=1"],
)
def test_an_option_of_a_remote_address_without_effect_is_told(tmp_path: Path, option: str) -> None:
    configuration = load(tmp_path, f'<networkConnector uri="static:(tcp://b:1?{option})"/>')
    (warning,) = configuration.warnings
    assert f"the option {option.partition('=')[0]} has no effect in a network connector" in warning


def test_without_the_inactivity_monitor_silence_ends_no_link(tmp_path: Path) -> None:
    found = connector(tmp_path, '<networkConnector uri="static:(tcp://b:1?useInactivityMonitor=false)"/>')
    assert found.remotes[0].max_inactivity_ms == 0


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("tcp://b:1?tcpNoDelai=true", "unknown option of tcp:// 'tcpNoDelai'; did you mean tcpNoDelay?"),
        ("tcp://b:1?keepAlive=yes", "the option keepAlive of a network connector's tcp:// must be true or false"),
        (
            "tcp://b:1?connectionTimeout=x",
            "the option connectionTimeout of a network connector's tcp:// must be a whole number",
        ),
        ("tcp://b:1?enabledProtocols=TLSv1.3", "unknown option of tcp:// 'enabledProtocols'"),
        (
            "ssl://b:1?socket.trustStore=trust.p12",
            "unknown option of ssl:// 'socket.trustStore'; write trustStore and trustStorePassword in the <sslContext>",
        ),
        ("ssl://b:1?socket.enabledProtocols=TLSv9", "unknown TLS version 'TLSv9'"),
    ],
)
def test_an_option_of_a_remote_address_that_makes_no_sense_is_refused(tmp_path: Path, address: str, wrong: str) -> None:
    found = obstacles(tmp_path, f'<networkConnector uri="static:({address})"/>')
    assert found[0].startswith(wrong)


def test_what_an_encrypted_remote_may_speak_is_its_option(tmp_path: Path) -> None:
    options = "socket.enabledProtocols=TLSv1.3&amp;enabledCipherSuites=TLS_AES_256_GCM_SHA384"
    tls = connector(tmp_path, f'<networkConnector uri="static:(ssl://b:1?{options})"/>').remotes[0].tls
    assert tls is not None
    assert (tls.protocols, tls.cipher_suites) == (("TLSv1.3",), ("TLS_AES_256_GCM_SHA384",))


def test_attributes_of_the_broker_list_connectors(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(
        '<broker brokerName="b" vmConnectorURI="vm://b" transportConnectorURIs="tcp://127.0.0.1:0,stomp://127.0.0.1:0"'
        ' networkConnectorURIs="static:(tcp://x:1,tcp://y:2),static:(tcp://z:3)?name=own"><networkConnectors>'
        '<networkConnector uri="static:(tcp://w:4)"/></networkConnectors></broker>',
        "utf-8",
    )
    configuration = load_configuration(str(path), environment={})
    assert [one.scheme for one in configuration.connectors] == ["tcp", "stomp"]
    links = [(one.bridge.name, [remote.uri for remote in one.remotes]) for one in configuration.network_connectors]
    assert links == [("NC", ["tcp://w:4"]), ("NC-1", ["tcp://x:1", "tcp://y:2"]), ("own", ["tcp://z:3"])]
    assert configuration.warnings == ()


def test_another_name_inside_the_process_and_a_broken_list_are_told(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text('<broker brokerName="b" vmConnectorURI="vm://c"/>', "utf-8")
    (warning,) = load_configuration(str(path), environment={}).warnings
    assert warning.endswith("vmConnectorURI of <broker> has no effect: clients in this process find it as vm://b")
    path.write_text('<broker networkConnectorURIs="static:(tcp://x:1"/>', "utf-8")
    with pytest.raises(ConfigurationError, match="networkConnectorURIs"):
        load_configuration(str(path), environment={})


def test_what_activemq_has_anyway_is_written_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text('<broker maxInflatedDataSize="104857600" useShutdownHook="true"/>', "utf-8")
    assert load_configuration(str(path), environment={}).warnings == ()
    path.write_text('<broker useShutdownHook="false"/>', "utf-8")
    assert "useShutdownHook of <broker> has no effect" in load_configuration(str(path), environment={}).warnings[0]


@pytest.mark.parametrize(
    ("uri", "wrong"),
    [
        ("masterslave:(tcp://a:1)", "needs two brokers at least"),
        ("masterslave:(tcp://a:1,multicast://default)", "multicast: is no address of one broker"),
        ("masterslave:(tcp://a:1,vm://b)", "vm: is no address of one broker"),
        ("multicast://10.0.0.1", "no multicast address"),
        ("multicast://default?initialReconnectDelay=x", "initialReconnectDelay of multicast: must be a whole number"),
        (
            "discovery:(tcp://a:1)",
            "unknown discovery agent 'tcp'; there are discovery, fabric, gossip, http, https, masterslave, multicast, "
            "rendezvous, simple, static, zeroconf",
        ),
        ("discovery:(multicast://default", "parentheses of the discovery: uri do not match"),
        ("discovery:", "names no agent"),
        ("discovery:(multicast://a,multicast://b)", "discovery: has one agent"),
        ("fanout:(tcp://a:1,tcp://b:1)", "fanout: of <networkConnector> is not supported"),
        ("peer://group/x", "peer: is for clients and links no brokers"),
        ("static:(static:(tcp://a:1)?maxReconnectDelay=5,tcp://b:2)", "options of static: inside of a list"),
        ("static:" * 50 + "tcp://a:1", "more than 8 lists inside each other"),
        ("zeroconf://a b", "needs the name of a group"),
        ("fabric://a?zookeeper.url=a b", "no list of hosts"),
        ("fabric://a?zookeper.url=a", "the fabric agent has no option 'zookeper.url'"),
    ],
)
def test_agents_that_make_no_sense_say_so(tmp_path: Path, uri: str, wrong: str) -> None:
    (found,) = obstacles(tmp_path, f'<networkConnector uri="{uri}"/>')
    assert wrong in found


def announced(tmp_path: Path, uri: str) -> BrokerConfiguration:
    path = tmp_path / "activemq.xml"
    connector = f'<transportConnector uri="tcp://0.0.0.0:0" discoveryUri="{uri}"/>'
    path.write_text(f"<broker><transportConnectors>{connector}</transportConnectors></broker>", "utf-8")
    return load_configuration(str(path), environment={})


def test_a_connector_is_announced_by_its_own_agent(tmp_path: Path) -> None:
    assert (
        announced(tmp_path, "multicast://default?group=x").connectors[0].discovery_uri == "multicast://default?group=x"
    )


def test_a_list_announces_nothing(tmp_path: Path) -> None:
    configuration = announced(tmp_path, "static:(tcp://a:1)")
    assert configuration.connectors[0].discovery_uri == ""
    assert "has no effect" in configuration.warnings[0]


@pytest.mark.parametrize(
    ("uri", "wrong"),
    [
        ("http://a b", "the http agent needs the address of a registry"),
        ("zeroconf://a b", "needs the name of a group"),
        ("multicst://default", "unknown agent of discoveryUri 'multicst'; did you mean multicast?"),
        ("multicast://default?group=", "discovery group"),
    ],
)
def test_an_announcement_that_cannot_be_made_is_refused(tmp_path: Path, uri: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong.replace("?", r"\?")):
        announced(tmp_path, uri)


@pytest.mark.parametrize(
    ("uri", "links"),
    [
        ("static:(static:(tcp://a:1,tcp://b:2),tcp://c:3)", ["tcp://a:1", "tcp://b:2", "tcp://c:3"]),
        ("static:(simple:(static:(tcp://a:1)),tcp://c:3)", ["tcp://a:1", "tcp://c:3"]),
        ("static:(masterslave:(tcp://a:1,tcp://b:2),tcp://c:3)", ["tcp://a:1|tcp://b:2", "tcp://c:3"]),
        ("failover:(tcp://a:1,tcp://b:2)", ["tcp://a:1|tcp://b:2"]),
        ("discovery:(static:(tcp://a:1,tcp://b:2))?initialReconnectDelay=5", ["tcp://a:1", "tcp://b:2"]),
    ],
)
def test_lists_may_stand_in_lists(tmp_path: Path, uri: str, links: list[str]) -> None:
    remotes = connector(tmp_path, f'<networkConnector uri="{uri}"/>').remotes
    assert ["|".join(one.uri for one in (remote, *remote.others)) for remote in remotes] == links


@pytest.mark.parametrize(
    ("uri", "agent"),
    [
        ("zeroconf://sales", ZeroconfSettings("sales")),
        ("rendezvous://sales", ZeroconfSettings("sales")),
        ("discovery:(zeroconf://sales)?initialReconnectDelay=5", ZeroconfSettings("sales")),
        ("fabric://sales?zookeeper.url=a:1,b:2", FabricSettings("sales", "a:1,b:2")),
        ("fabric://sales", FabricSettings("sales")),
    ],
)
def test_a_connector_may_look_by_any_agent(tmp_path: Path, uri: str, agent: object) -> None:
    discovery = connector(tmp_path, f'<networkConnector uri="{uri}"/>').discovery
    assert discovery is not None and discovery.agent == agent


def test_a_broker_without_advisories_that_is_to_link_others_says_what_it_misses(tmp_path: Path) -> None:
    link = '<networkConnector uri="static:(tcp://b:1)" {}/>'
    for static, warned in (("", True), ('staticBridge="true"', False)):
        path = tmp_path / "a.xml"
        connectors = f"<networkConnectors>{link.format(static)}</networkConnectors>"
        path.write_text(f'<broker brokerName="a" advisorySupport="false">{connectors}</broker>', "utf-8")
        told = [line for line in load_configuration(str(path)).warnings if "learn of no consumers" in line]
        assert bool(told) is warned
