"""Route files whose routes name the engine ``embedded``."""

from __future__ import annotations

import re

import pytest

from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.files.route_bridges import bridges_of
from spanwire.bridges.model.definition import BatchLimits, BridgeDefinition, Quality, RetryPolicy
from spanwire.bridges.model.steps import AppendMessageId, DropTemporaryReplyTo
from spanwire.model.errors import ConfigurationError
from spanwire.routes.model import EMBEDDED, SPARK
from spanwire.routes.readers.parsing import RouteFile, read_routes
from spanwire.routes.readers.placeholders import Placeholders

BRIDGE = """\
- jmsBridge:
    name: orders
    engine: embedded
    source: {uri: "near:queue:A"}
    target: {uri: "far:queue:B"}
    sourceUsername: u
    sourcePassword: p
    selector: n > 1
    qualityOfServiceMode: AT_MOST_ONCE
    maxBatchSize: 50
    maxBatchTime: 5000
    failureRetryInterval: 2000
    maxRetries: 3
    addMessageIDInHeader: true
"""
SAME = """\
[connectionFactories.near]
url = "tcp://near:61616"
[bridges.orders]
sourceConnectionFactory = "near"
sourceDestination = "queue://A"
targetConnectionFactory = "tcp://far:61616"
targetDestination = "queue://B"
sourceUsername = "u"
sourcePassword = "p"
selector = "n > 1"
qualityOfServiceMode = "AT_MOST_ONCE"
maxBatchSize = 50
maxBatchTime = 5000
failureRetryInterval = 2000
maxRetries = 3
addMessageIDInHeader = true
"""
BROKERS = {"near": "tcp://near:61616", "far": "tcp://far:61616"}
NOTHING = Placeholders({}, {})


def read(text: str) -> RouteFile:
    return read_routes(text.encode(), "r.yaml", NOTHING, BROKERS)


def one(text: str) -> BridgeDefinition:
    (definition,) = bridges_of(read(text).only(EMBEDDED).routes)
    assert isinstance(definition, BridgeDefinition)
    return definition


def test_a_jms_bridge_of_a_route_file_is_the_bridge_of_a_toml_file() -> None:
    assert [one(BRIDGE)] == read_bridges(SAME.encode(), "b.toml", NOTHING)


def in_both(words: dict[str, str]) -> tuple[str, str]:
    """A bridge with these parameters in a route file and in TOML."""
    bridge = "- jmsBridge: {name: b, engine: embedded, source: 'near:A', target: 'far:B'"
    head = "[bridges.b]\n" + "".join(line + "\n" for line in SAME.splitlines()[3:7]).replace(
        '"near"', f'"{BROKERS["near"]}"'
    )
    return (
        "".join([bridge, *(f", {name}: {value}" for name, value in words.items()), "}\n"]),
        "".join([head, *(f"{name} = {value}\n" for name, value in words.items())]),
    )


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"maxRetries": "7"},
        {"maxRetries": "0", "failureRetryInterval": "-1"},
        {"failureRetryInterval": "-1"},
        {"maxBatchTime": "-1"},
        {"maxBatchTime": "3600000"},
        {"maxBatchSize": "100000"},
        {"addMessageIDInHeader": "true"},
        {"addMessageIDInHeader": "true", "messageIDHeader": '"passed"'},
        {"failoverTimeout": "5000"},
    ],
    ids=str,
)
def test_a_parameter_means_the_same_in_both_files(words: dict[str, str]) -> None:
    route, table = in_both(words)
    assert [one(route)] == read_bridges(table.encode(), "b.toml", NOTHING)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"maxRetries": "1000001"}, "maxRetries is 1000001; it must lie between -1 and 1000000"),
        ({"maxRetries": "1", "failureRetryInterval": "-1"}, "failureRetryInterval is -1; it must be at least 1, or -1"),
        (
            {"failureRetryInterval": "0"},
            "failureRetryInterval is 0; it must be at least 1, or -1 with maxRetries -1 or 0",
        ),
        ({"maxBatchTime": "3600001"}, "maxBatchTime is 3600001; it must lie between -1 and 3600000"),
        ({"maxBatchSize": "100001"}, "maxBatchSize is 100001; it must lie between 1 and 100000"),
        ({"addMessageIDInHeader": '"yes"'}, "addMessageIDInHeader is 'yes', neither true nor false"),
    ],
)
def test_a_wrong_parameter_is_refused_alike_in_both_files(words: dict[str, str], expected: str) -> None:
    route, table = in_both(words)
    with pytest.raises(ConfigurationError, match=re.escape(expected)):
        one(route)
    with pytest.raises(ConfigurationError, match=re.escape(expected)):
        read_bridges(table.encode(), "b.toml", NOTHING)


def test_a_route_from_one_destination_to_another_is_a_bridge() -> None:
    definition = one(
        """\
- route:
    id: prices
    engine: embedded
    from:
      uri: "near:topic:PRICES?subscription=s&clientId=c"
      steps: [{to: "far:queue:PRICES?qualityOfServiceMode=DUPLICATES_OK"}]
"""
    )
    assert (str(definition.source.destination), str(definition.target.destination)) == (
        "topic://PRICES",
        "queue://PRICES",
    )
    assert (definition.source.subscription, definition.source.client_id) == ("s", "c")
    assert definition.quality is Quality.DUPLICATES_OK
    assert (definition.batch, definition.retry) == (BatchLimits(), RetryPolicy(-1, -1))
    assert definition.steps == (DropTemporaryReplyTo(),)


def test_the_ids_are_appended_within_one_broker_without_dropping_replies() -> None:
    assert one(BRIDGE.replace("far:", "near:").replace("    sourceUsername: u\n    sourcePassword: p\n", "")).steps == (
        AppendMessageId(),
    )


ROUTE = "- route: {id: r, engine: embedded, from: {uri: 'near:queue:A', steps: [%s]}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ROUTE % "{to: 'parquet:/x'}", "the engine embedded has no endpoint parquet"),
        (
            ROUTE % "{filter: {sql: 'n > 1'}}, {to: 'far:queue:B'}",
            "the language sql needs Spark; write selector, simple or constant",
        ),
        (
            ROUTE.replace("queue:A", "queue:A?maxBatchMs=5") % "{to: 'far:queue:B'}",
            "the engine embedded has no option maxBatchMs",
        ),
        (ROUTE % "{to: 'far:queue:B?duplicateIdProperty=x'}", "the engine embedded has no option duplicateIdProperty"),
        (BRIDGE + "    deadLetter: 'near:queue:D'\n", "the bridge orders has a dead letter endpoint"),
        (BRIDGE.replace("embedded", "embeded"), "there is no engine 'embeded'; did you mean embedded?"),
        (
            BRIDGE.replace("embedded", "spark"),
            "there is no route with engine: embedded; run them with spanwire pipeline",
        ),
    ],
)
def test_a_route_that_no_bridge_can_be_is_refused_by_name(text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        one(text)
    assert str(caught.value).startswith("r.yaml:") and expected in str(caught.value)


COMPONENT = """<beans><bean id="near" class="x.ActiveMQComponent"><property name="connectionFactory">
<bean class="org.apache.activemq.{}"><property name="brokerURL" value="tcp://near:61616"/>
{}</bean></property></bean>
<camelContext><route id="r"><from uri="near:A"/><to uri="near:B"/></route></camelContext></beans>"""


def test_a_property_of_a_factory_is_honoured_told_or_refused_by_name() -> None:
    def embedded(kind: str, name: str, value: str) -> RouteFile:
        text = COMPONENT.format(kind, f'<property name="{name}" value="{value}"/>')
        return read_routes(text.encode(), "r.xml", NOTHING).only(EMBEDDED)

    (definition,) = bridges_of(embedded("ActiveMQConnectionFactory", "userName", "u").routes)
    assert isinstance(definition, BridgeDefinition) and definition.source.factory.user_name == "u"
    told = embedded("ActiveMQConnectionFactory", "useAsyncSend", "true").warnings
    assert told == ["r.xml:2: useAsyncSend of ActiveMQConnectionFactory has no effect here"]
    with pytest.raises(
        ConfigurationError, match=r"^r\.xml:3: nonBlockingRedelivery of ActiveMQConnectionFactory is not"
    ):
        embedded("ActiveMQConnectionFactory", "nonBlockingRedelivery", "true")
    with pytest.raises(ConfigurationError, match=r"transactionManager of ActiveMQXAConnectionFactory is not supported"):
        embedded("ActiveMQXAConnectionFactory", "transactionManager", "x")


def test_each_engine_leaves_the_routes_of_the_other_alone() -> None:
    file = read(BRIDGE + ROUTE.replace("embedded", "spark") % "{to: 'parquet:/x'}")
    embedded, spark = file.only(EMBEDDED), file.only(SPARK)
    assert ([route.name for route in embedded.routes], [route.name for route in spark.routes]) == (["orders"], ["r"])
    assert "the route r has engine: spark, so spanwire pipeline run runs it" in embedded.warnings[-1]
    assert "the route orders has engine: embedded, so spanwire bridge run runs it" in spark.warnings[-1]


def test_spark_refuses_a_failover_timeout() -> None:
    text = in_both({"failoverTimeout": "5000"})[0].replace("engine: embedded, ", "")
    with pytest.raises(ConfigurationError, match="failoverTimeout is for the engine embedded"):
        read(text).only(SPARK)
