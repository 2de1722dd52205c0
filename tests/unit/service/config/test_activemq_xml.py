"""What an ``activemq.xml`` sets, and what its faults are told like."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration, LockConfiguration
from spanwire.service.config.reading import read_configuration
from spanwire.service.machine.local_zone import LocalZone

PATH = Path("/etc/spanwire/conf/activemq.xml")
MIB = 1024 * 1024


def read(
    xml: str, environment: dict[str, str] | None = None, given: dict[str, str] | None = None
) -> BrokerConfiguration:
    return read_configuration(xml.encode("utf-8"), PATH, given or {}, environment or {})


def broker(inside: str, attributes: str = "") -> BrokerConfiguration:
    return read(f'<broker xmlns="http://activemq.apache.org/schema/core" {attributes}>{inside}</broker>')


def obstacles(inside: str, attributes: str = "") -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        broker(inside, attributes)
    return [line.removeprefix(f"{PATH}:") for line in str(raised.value).splitlines()]


def test_an_empty_broker_has_the_defaults_and_listens_nowhere() -> None:
    configuration = broker("")
    assert configuration.broker_name == "localhost"
    assert configuration.persistence.persistent
    assert configuration.advisory_support
    assert not configuration.anonymous_producer_advisories
    assert configuration.connectors == ()
    assert configuration.warnings == ()


def test_without_a_file_the_default_listens_on_loopback_only() -> None:
    uris = [connector.uri() for connector in load_configuration(None).connectors]
    assert uris == ["tcp://127.0.0.1:61616", "stomp://127.0.0.1:61613"]


def test_the_broker_is_found_in_beans_and_with_a_prefix() -> None:
    text = (
        '<beans xmlns="http://www.springframework.org/schema/beans" xmlns:amq="http://activemq.apache.org/schema/core">'
        '<amq:broker brokerName="orders"><amq:destinations><amq:queue physicalName="A"/></amq:destinations>'
        "</amq:broker></beans>"
    )
    assert read(text).broker_name == "orders"


def test_attributes_of_the_broker_are_honoured() -> None:
    configuration = broker(
        "",
        'brokerName="b1" brokerId="ID:b1" dataDirectory="/var/b1" persistent="false" advisorySupport="false" '
        'anonymousProducerAdvisorySupport="true" '
        'deleteAllMessagesOnStartup="true" start="false" useJmx="true" schedulerSupport="false"',
    )
    assert configuration.broker_name == "b1"
    assert configuration.broker_id == "ID:b1"
    assert configuration.data_directory == Path("/var/b1")
    assert not configuration.persistence.persistent
    assert not configuration.advisory_support
    assert configuration.anonymous_producer_advisories
    assert configuration.delete_all_messages_on_startup
    assert not configuration.start


def test_a_scheduler_is_there_when_it_is_asked_for() -> None:
    assert broker("", 'maxSchedulerRepeatAllowed="5"').scheduler is None
    asked = broker("", 'schedulerSupport="true"').scheduler
    assert asked is not None
    assert (asked.max_repeat, asked.zone) == (1_000, LocalZone())
    several = broker("", 'schedulerSupport="true" maxSchedulerRepeatAllowed="5"').scheduler
    assert several is not None
    assert several.max_repeat == 5


def test_where_scheduled_messages_are_kept_is_no_choice() -> None:
    store = "<jobSchedulerStore><jobSchedulerStore directory='/var/j'/></jobSchedulerStore>"
    configuration = broker(store, 'schedulerSupport="true" schedulerDirectory="/var/s"')
    assert [warning.partition(" has no effect: ")[2] for warning in configuration.warnings] == [
        "scheduled messages are kept in the journal, which storeUsage limits"
    ] * 2


def test_connectors_keep_their_order_and_their_options() -> None:
    configuration = broker(
        "<transportConnectors>"
        '<transportConnector name="openwire" uri="tcp://127.0.0.1:61616?maximumConnections=7&amp;'
        'wireFormat.maxFrameSize=1048576&amp;wireformat.maxInactivityDuration=5000"/>'
        '<transportConnector uri="stomp+nio://[::1]:0?transport.defaultHeartBeat=1000,2000"/>'
        "</transportConnectors>"
    )
    first, second = configuration.connectors
    assert (first.name, first.protocol, first.port) == ("openwire", "openwire", 61616)
    assert first.maximum_connections == 7
    assert first.max_frame_size == MIB
    assert first.max_inactivity_ms == 5000
    assert (second.host, second.port, second.protocol) == ("::1", 0, "stomp")
    assert second.uri(61613) == "stomp+nio://[::1]:61613"
    assert second.options["defaultHeartBeat"] == "1000,2000"


def test_kaha_db_becomes_the_journal_in_that_directory() -> None:
    configuration = broker(
        "<persistenceAdapter>"
        '<kahaDB directory="/var/k" journalMaxFileLength="16mb" indexCacheSize="1000"/></persistenceAdapter>'
    )
    assert configuration.persistence.directory == Path("/var/k")
    assert configuration.persistence.segment_bytes == 16 * MIB
    assert len(configuration.warnings) == 1
    assert "indexCacheSize" in configuration.warnings[0]


def test_the_memory_adapter_turns_persistence_off() -> None:
    assert not broker("<persistenceAdapter><memoryPersistenceAdapter/></persistenceAdapter>").persistence.persistent


def test_the_control_destination_is_no_dead_letter_queue() -> None:
    with pytest.raises(
        ConfigurationError, match=r"ActiveMQ\.Spanwire\.Control, which takes requests of programs alone"
    ):
        broker(
            "<destinationPolicy><policyMap><policyEntries><policyEntry queue='&gt;'><deadLetterStrategy>"
            "<sharedDeadLetterStrategy deadLetterQueue='ActiveMQ.Spanwire.Control'/>"
            "</deadLetterStrategy></policyEntry></policyEntries></policyMap></destinationPolicy>"
        )


def test_destinations_and_policies_are_read() -> None:
    configuration = broker(
        '<destinations><queue physicalName="ORDERS"/><topic physicalName="PRICES"/></destinations>'
        "<destinationPolicy><policyMap><policyEntries>"
        '<policyEntry queue="&gt;" memoryLimit="64mb" producerFlowControl="true" queuePrefetch="10" '
        'expireMessagesPeriod="0">'
        '<deadLetterStrategy><sharedDeadLetterStrategy deadLetterQueue="queue://DEAD" processExpired="false" '
        'processNonPersistent="true"/></deadLetterStrategy></policyEntry>'
        '<policyEntry topic="PRICES.*" topicPrefetch="5"/>'
        "</policyEntries></policyMap></destinationPolicy>"
    )
    assert configuration.destinations == (Destination(QUEUE, "ORDERS"), Destination(TOPIC, "PRICES"))
    queues, prices = configuration.policies
    assert queues.destination == Destination(QUEUE, ">")
    assert queues.memory_limit_bytes == 64 * MIB
    assert queues.queue_prefetch == 10
    assert queues.expire_messages_period_ms == 0
    assert queues.dead_letter == DeadLetterStrategy("DEAD", process_expired=False, process_non_persistent=True)
    assert prices.destination == Destination(TOPIC, "PRICES.*")
    assert prices.topic_prefetch == 5


@pytest.mark.parametrize(
    ("usage", "limit"),
    [
        ('<memoryUsage><memoryUsage limit="64 mb"/></memoryUsage>', 64 * MIB),
        ('<memoryUsage limit="1 gb"/>', 1024 * MIB),
        ('<memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>', 1024 * MIB * 70 // 100),
    ],
)
def test_the_memory_limit_is_read_from_either_nesting(usage: str, limit: int) -> None:
    assert broker(f"<systemUsage><systemUsage>{usage}</systemUsage></systemUsage>").usage.memory_limit_bytes == limit
    assert broker(f"<systemUsage>{usage}</systemUsage>").usage.memory_limit_bytes == limit


def test_the_configuration_as_activemq_ships_it_names_all_that_stands_in_the_way() -> None:
    lines = obstacles(
        "<destinationPolicy><policyMap><policyEntries><policyEntry topic='>'><pendingMessageLimitStrategy>"
        "<constantPendingMessageLimitStrategy limit='1000'/></pendingMessageLimitStrategy></policyEntry>\n"
        "</policyEntries></policyMap></destinationPolicy>"
        "<managementContext><managementContext createConnector='false'/></managementContext>"
        "<persistenceAdapter><kahaDB directory='${activemq.data}/kahadb'/></persistenceAdapter>"
        "<transportConnectors>"
        "<transportConnector name='openwire' uri='tcp://0.0.0.0:61616?maximumConnections=1000&amp;wireFormat.maxFrameSize=1'/>"
        "<transportConnector name='amqp' uri='amqp://0.0.0.0:5672?maximumConnections=1000'/>\n"
        "<transportConnector name='mqtt' uri='mqtt://0.0.0.0:1883?maximumConnections=1000'/>"
        "</transportConnectors>"
    )
    assert lines == [
        "2: the transport amqp:// of amqp://0.0.0.0:5672?… is not yet supported (later feature: AMQP); use tcp:// or "
        "stomp://, remove it or start with --skip-unsupported",
        "3: the transport mqtt:// of mqtt://0.0.0.0:1883?… is not yet supported (later feature: MQTT); use tcp:// or "
        "stomp://, remove it or start with --skip-unsupported",
    ]


def test_a_word_nobody_knows_is_named_with_its_line_and_the_closest_known_one() -> None:
    lines = obstacles(
        "\n<transportConectors/>\n<destinations><queu physicalName='A'/></destinations>\n"
        "<transportConnectors><transportConnector url='tcp://localhost:1'/>"
        "<transportConnector uri='tpc://localhost:1'/>\n"
        "<transportConnector uri='tcp://localhost:1?maximumConections=1'/></transportConnectors>",
        "brokername='x'",
    )
    assert lines == [
        "1: unknown attribute of <broker> 'brokername'; did you mean brokerName?",
        "2: unknown element in <broker> 'transportConectors'; did you mean transportConnectors?",
        "3: unknown element in <destinations> 'queu'; did you mean queue?",
        "4: unknown attribute of <transportConnector> 'url'; did you mean uri?",
        '4: <transportConnector> has no uri; write uri="tcp://host:port"',
        "4: unknown transport 'tpc'; did you mean tcp?",
        "5: unknown option of tcp:// 'maximumConections'; did you mean maximumConnections?",
    ]


@pytest.mark.parametrize(
    ("inside", "attributes", "part"),
    [
        ("", 'persistent="maybe"', "persistent of <broker> is 'maybe', it must be true or false"),
        ("", 'maxSchedulerRepeatAllowed="10001"', "maxSchedulerRepeatAllowed"),
        ("", 'brokerName=""', "brokerName of <broker> must have 1 to 255 characters"),
        ("", 'name="a" brokerName="b"', "name and brokerName of <broker> differ"),
        ("", 'dataDirectory=""', "dataDirectory of <broker> is no directory name"),
        ("", 'slave="true"', "slave of <broker> with another value than false is not yet"),
        ("some text", "", "<broker> contains text"),
        ('<destinations><queue physicalName=""/></destinations>', "", "physicalName of <queue> is empty"),
        ("<destinations><queue/></destinations>", "", "<queue> has no physicalName"),
        ('<destinations><queue physicalName="A,B"/></destinations>', "", "must name one destination"),
        ('<destinations><queue physicalName="A.&gt;"/></destinations>', "", "must name one destination"),
        (f'<destinations><queue physicalName="{"x" * 1025}"/></destinations>', "", "longer than 1024 bytes"),
        ('<destinations><queue physicalName="a&#9;b"/></destinations>', "", "control character"),
        ('<persistenceAdapter><kahaDB journalMaxFileLength="1"/></persistenceAdapter>', "", "journalMaxFileLength"),
        ("<persistenceAdapter><kahaDB/><memoryPersistenceAdapter/></persistenceAdapter>", "", "more than one adapter"),
        ("<systemUsage><memoryUsage limit='0'/></systemUsage>", "", "must be above 0"),
        ("<systemUsage><memoryUsage limit='many'/></systemUsage>", "", "it must be a number of bytes"),
    ],
)
def test_a_wrong_value_is_told_in_one_line(inside: str, attributes: str, part: str) -> None:
    lines = obstacles(inside, attributes)
    assert len(lines) == 1
    assert part in lines[0]


@pytest.mark.parametrize(
    "uri",
    ["", "tcp", "tcp:localhost:1", "tcp://localhost", "tcp://a:b:1", "tcp://h:65536", "tcp://h:1/path", "tcp://h:1?=x",
     "tcp://user:secret@h:1", "tcp://h:1?wireFormat.maxFrameSize=-x", "(tcp://a:1,tcp://b:2)", "tcp://h:1?diffServ=XX"],
)  # fmt: skip
def test_a_uri_that_cannot_be_listened_at_is_one_obstacle(uri: str) -> None:
    lines = obstacles(f'<transportConnectors><transportConnector uri="{uri}"/></transportConnectors>')
    assert len(lines) == 1
    assert "secret" not in lines[0]


def test_what_asks_for_nothing_is_no_obstacle() -> None:
    broker("<networkConnectors/><plugins></plugins><jmsBridgeConnectors>  </jmsBridgeConnectors>")


def test_two_brokers_in_one_file_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="a second <broker>"):
        read("<beans><broker/><broker/></beans>")


def test_placeholders_take_values_from_everywhere_in_order() -> None:
    text = (
        '<beans><bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">'
        '<property name="properties"><props><prop key="name">fromFile</prop>'
        '<prop key="place">${name}-dir</prop></props></property></bean>'
        '<broker brokerName="${name}" brokerId="${broker.id}" dataDirectory="/x/${place}/${other:else}"/>'
        "</beans>"
    )
    configuration = read(text, environment={"BROKER_ID": "fromEnvironment"})
    assert configuration.broker_name == "fromFile"
    assert configuration.broker_id == "fromEnvironment"
    assert configuration.data_directory == Path("/x/fromFile-dir/else")
    assert read(text, {"BROKER_ID": "x"}, {"name": "given"}).broker_name == "given"


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({}, "/etc/spanwire/data"),
        ({"ACTIVEMQ_BASE": "/srv/b"}, "/srv/b/data"),
        ({"ACTIVEMQ_BASE": "/srv/b", "ACTIVEMQ_DATA": "/srv/d"}, "/srv/d"),
        ({"ACTIVEMQ_HOME": "/opt/a"}, "/opt/a/data"),
        ({"ACTIVEMQ_OPTS": "-Dactivemq.base=/srv/o -Dactivemq.conf=/etc/o"}, "/srv/o/data"),
        ({"ACTIVEMQ_OPTS": "-Dactivemq.data=/srv/p", "ACTIVEMQ_DATA": "/srv/d"}, "/srv/p"),
    ],
)
def test_the_places_of_activemq_are_known(environment: dict[str, str], directory: str) -> None:
    configuration = read('<broker dataDirectory="${activemq.data}"/>', environment)
    assert configuration.data_directory == Path(directory)


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({}, "/opt/a|/opt/a|/opt/a/conf|/opt/a/data"),
        ({"activemq.base": "/srv/b"}, "/opt/a|/srv/b|/srv/b/conf|/srv/b/data"),
        ({"activemq.conf": "/etc/c", "activemq.data": "/d"}, "/opt/a|/opt/a|/etc/c|/d"),
        ({"activemq.home": "/h"}, "/h|/h|/h/conf|/h/data"),
    ],
)
def test_the_places_given_at_start_win_and_the_others_follow_them(given: dict[str, str], value: str) -> None:
    text = '<broker brokerId="${activemq.home}|${activemq.base}|${activemq.conf}|${activemq.data}"/>'
    assert read(text, {"ACTIVEMQ_HOME": "/opt/a"}, given).broker_id == value


def test_a_property_file_that_may_be_absent_is_not_missed() -> None:
    text = (
        '<beans><bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">'
        '<property name="location" value="file:/nowhere/x.properties"/>{}</bean><broker brokerName="${{a:b}}"/></beans>'
    )
    assert read(text.format('<property name="ignoreResourceNotFound" value="true"/>')).broker_name == "b"
    with pytest.raises(ConfigurationError, match="there is no such file"):
        read(text.format(""))


def test_a_shutdown_hook_of_springs_context_means_nothing_and_any_other_is_an_obstacle() -> None:
    hook = "<shutdownHooks><bean class='{}'/></shutdownHooks>"
    (warning,) = broker(hook.format("org.apache.activemq.hooks.SpringContextHook")).warnings
    assert "there is no Spring context here" in warning
    (line,) = obstacles(hook.format("org.example.Farewell"))
    assert "the shutdown hook org.example.Farewell is not supported" in line


def test_what_jmx_would_need_means_nothing_and_is_told() -> None:
    (warning,) = broker('<managementContext><managementContext createConnector="true"/></managementContext>').warnings
    assert warning.endswith("createConnector of <managementContext> has no effect: there is no JMX here; "
                            "use spanwire status and dstat")  # fmt: skip
    assert broker('<managementContext createConnector="false"/>').warnings == ()


def test_start_false_is_for_programs_that_start_the_broker_themselves() -> None:
    (warning,) = broker("", 'start="false"').warnings
    assert "spanwire start starts the broker at once" in warning


@pytest.mark.parametrize(
    "uri", ["failover:(tcp://a:1)", "static:(tcp://a:1,tcp://b:2)", "multicast:(x)", "discovery:x"]
)
def test_what_finds_brokers_is_nothing_to_listen_at(uri: str) -> None:
    (line,) = obstacles(f'<transportConnectors><transportConnector uri="{uri}"/></transportConnectors>')
    assert "no connector can listen there; write tcp://host:port" in line


def test_a_placeholder_without_a_value_is_named_with_the_closest_one() -> None:
    with pytest.raises(ConfigurationError, match=r"\{activemq\.dat\} has no value; did you mean activemq\.data"):
        read('<broker dataDirectory="${activemq.dat}"/>')


def test_a_placeholder_without_a_value_says_how_to_give_one() -> None:
    (line,) = obstacles("", 'brokerName="${shop.name}"')
    assert line.endswith(
        "brokerName of <broker>: the placeholder ${shop.name} has no value; "
        "give one with -D shop.name=VALUE, or as SHOP_NAME in the environment"
    )


@pytest.mark.parametrize(
    ("inside", "attributes"),
    [
        ('<transportConnectors><transportConnector uri="tcp://a:${gone}"/></transportConnectors>', ""),
        ("", 'maxSchedulerRepeatAllowed="${gone}"'),
        ("", 'persistent=" ${gone} "'),
        ("", 'persistent="#{gone}"'),
        ("", f'maxSchedulerRepeatAllowed="${{gone.{"x" * 60}}}"'),
    ],
)
def test_a_value_that_is_not_known_is_told_once(inside: str, attributes: str) -> None:
    (line,) = obstacles(inside, attributes)
    assert "has no value" in line or "is not evaluated" in line


def test_two_settings_with_one_unknown_placeholder_are_told_each() -> None:
    assert len(obstacles("", 'brokerName="${gone}" persistent="${gone}"')) == 2


def test_placeholders_that_name_each_other_come_to_an_end() -> None:
    with pytest.raises(ConfigurationError, match="have no end"):
        read('<broker dataDirectory="${a}"/>', given={"a": "${b}${b}", "b": "${a}${a}"})


def test_expressions_are_refused_and_not_evaluated() -> None:
    with pytest.raises(ConfigurationError, match="is not evaluated"):
        read("<broker brokerName=\"#{T(java.lang.Runtime).getRuntime().exec('x')}\"/>")


def test_a_property_file_beside_the_configuration_is_read(tmp_path: Path) -> None:
    (tmp_path / "credentials.properties").write_text("# comment\nbroker.name = orders\nlong = a\\\n  b\n", "utf-8")
    path = tmp_path / "activemq.xml"
    path.write_text(
        '<beans><bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">'
        '<property name="locations"><value>file:${activemq.conf}/credentials.properties</value></property></bean>'
        '<broker brokerName="${broker.name}" brokerId="${long}"/></beans>',
        "utf-8",
    )
    configuration = load_configuration(f"xbean:{path}", environment={})
    assert configuration.broker_name == "orders"
    assert configuration.broker_id == "ab"


@pytest.mark.parametrize(
    ("reference", "part"),
    [
        ("broker:(tcp://localhost:61616", "do not match"),
        ("properties:x.properties", "there is no such file"),
        ("http://h/x.xml", "not yet supported"),
        ("xbean:", "names no file"),
        ("/nowhere/activemq.xml", "there is no such file"),
        ("/nowhere/activemq.yaml", "neither .xml nor .toml"),
        ("/nowhere/a\0.xml", "cannot be read"),
    ],
)
def test_a_reference_that_leads_nowhere_is_told_in_one_line(reference: str, part: str) -> None:
    with pytest.raises(ConfigurationError, match=part) as raised:
        load_configuration(reference, environment={})
    assert "\n" not in str(raised.value)


def test_the_settings_of_the_lock_are_those_of_store_and_locker() -> None:
    store = (
        '<persistenceAdapter><kahaDB useLock="false" lockKeepAlivePeriod="0" databaseLockedWaitDelay="50">{}</kahaDB>'
        "</persistenceAdapter>"
    )
    locker = '<locker><shared-file-locker lockAcquireSleepInterval="20" failIfLocked="true"/></locker>'
    configuration = broker(store.format(""), 'waitForSlave="true" waitForSlaveTimeout="7"')
    assert configuration.persistence.lock == LockConfiguration(False, 0, 50, False, True, 7)
    assert broker(store.format(locker)).persistence.lock == LockConfiguration(False, 0, 20, True)
    assert broker("").persistence.lock == LockConfiguration()


LEASE = "<persistenceAdapter><kahaDB {0}><locker><lease-database-locker {1}/></locker></kahaDB></persistenceAdapter>"


def test_a_lease_has_the_words_of_activemq() -> None:
    assert broker(LEASE.format("", "")).persistence.lock == LockConfiguration(keep_alive_ms=2500, lease_ms=10_000)
    words = LEASE.format(
        'lockKeepAlivePeriod="500"', 'lockAcquireSleepInterval="1000" leaseHolderId="broker-a" failIfLocked="true"'
    )
    assert broker(words).persistence.lock == LockConfiguration(
        keep_alive_ms=500, fail_if_locked=True, lease_ms=1000, holder_id="broker-a"
    )
    assert broker("").persistence.lock.lease_ms == 0


@pytest.mark.parametrize(
    ("store", "locker", "refusal"),
    [
        ('lockKeepAlivePeriod="0"', "", "must be from 1 to half of lockAcquireSleepInterval"),
        ('lockKeepAlivePeriod="501"', 'lockAcquireSleepInterval="1000"', "must be from 1 to half of"),
        ('enableJournalDiskSyncs="false"', "", "<lease-database-locker> needs disk syncs"),
        ('journalDiskSyncStrategy="periodic"', "", "<lease-database-locker> needs disk syncs"),
        ('useLock="false"', "", 'useLock="false" of <kahaDB> contradicts <lease-database-locker>; remove one'),
        ("", 'leaseHolderId="a b"', "leaseHolderId of <lease-database-locker> must have 1 to 255 letters"),
        ("", 'lockAcquireSleepInterval="499"', "lockAcquireSleepInterval of <lease-database-locker>"),
    ],
)
def test_what_contradicts_a_lease_is_refused_in_one_line(store: str, locker: str, refusal: str) -> None:
    lines = obstacles(LEASE.format(store, locker))
    assert len(lines) == 1 and refusal in lines[0], lines


def test_a_connector_that_does_not_start_with_the_broker_is_marked() -> None:
    configuration = broker(
        '<transportConnectors><transportConnector uri="tcp://127.0.0.1:0" autoStart="false"/>'
        '<transportConnector uri="stomp://127.0.0.1:0" autoStart="true"/></transportConnectors>'
    )
    assert [connector.auto_start for connector in configuration.connectors] == [False, True]
    assert configuration.warnings == ()


@pytest.mark.parametrize(
    ("advised", "connector", "warnings"),
    [
        ("false", '<networkConnector uri="static:(tcp://b:61616)"/>', 1),
        ("false", '<networkConnector uri="static:(tcp://b:61616)" staticBridge="true"/>', 0),
        ("true", '<networkConnector uri="static:(tcp://b:61616)"/>', 0),
    ],
)
def test_bridges_of_a_broker_without_advisories_are_warned_of(advised: str, connector: str, warnings: int) -> None:
    text = f'<broker advisorySupport="{advised}"><networkConnectors>{connector}</networkConnectors></broker>'
    found = read_configuration(text.encode("utf-8"), Path("/etc/activemq.xml"), {}, {}).warnings
    assert len([line for line in found if "advisorySupport" in line]) == warnings
