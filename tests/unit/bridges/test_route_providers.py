"""Endpoints of routes at brokers of other systems: which provider reaches them, with which words."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Final

import pytest

from spanwire.bridges.engine.machine import BridgeMachine
from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.files.definition_json import definition_of, plain_definition
from spanwire.bridges.files.route_bridges import bridges_of
from spanwire.bridges.jars import with_jars
from spanwire.bridges.model.definition import BridgeDefinition, ConnectionFactory, Source, Target
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.provider_description import MAX_CREDIT, ProviderDescription
from spanwire.bridges.model.route_definition import Definition, RouteDefinition
from spanwire.bridges.model.steps import DropTemporaryReplyTo
from spanwire.bridges.ports import PartlySentError, Provider
from spanwire.bridges.running.process import check_bridge
from spanwire.bridges.running.route_link import route_opener
from spanwire.bridges.running.runner import BridgeRunner
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.routes.model import EMBEDDED, SPARK
from spanwire.routes.readers.parsing import RouteFile, read_routes
from spanwire.routes.readers.placeholders import Placeholders
from tests.support.bridge_dialogue import text_messages

SAMPLES: Final = Path(__file__).resolve().parents[2] / "vectors/configurations"
NOTHING: Final = Placeholders({}, {})
BROKERS: Final = """\
- brokers:
    near: {url: "tcp://near:61616"}
    stomp: {url: "stomp://s:61613", user: u, password: p}
    rabbit: {provider: amqp091, url: "amqp://r:5672", userName: u, password: p}
    mosquitto: {url: "mqtt://m:1883"}
    kafka: {url: "kafka://k:9092"}
    nats: {url: "nats://n:4222"}
    streams: {url: "redis://r:6379"}
    amazon: {url: "sqs+ssl://sqs.eu-central-1.amazonaws.com"}
    core: {provider: nats-core, url: "nats://n:4222"}
    mq:
      provider: jvm
      factoryClass: com.ibm.mq.jms.MQConnectionFactory
      jars: [mq.jar, jms.jar]
      properties: {hostName: mq.example.com, port: "1414"}
    looked: {provider: jvm, jndiName: cf, jndi: {java.naming.factory.initial: x.Factory}}
"""


def read(route: str) -> RouteFile:
    return read_routes((BROKERS + route).encode(), "r.yaml", NOTHING, {})


def one(route: str) -> Definition:
    (definition,) = bridges_of(read(route).only(EMBEDDED).routes)
    return definition


def with_steps(source: str, target: str, dead: str = "near:queue:D") -> RouteDefinition:
    definition = one(
        f"- route: {{id: r, deadLetter: '{dead}', from: {{uri: '{source}', steps: [{{to: '{target}'}}]}}}}\n"
    )
    assert isinstance(definition, RouteDefinition)
    return definition


MQ: Final = JavaFactory(
    "com.ibm.mq.jms.MQConnectionFactory",
    (("hostName", Secret("mq.example.com")), ("port", Secret("1414"))),
    jars=("mq.jar", "jms.jar"),
)
LOOKED: Final = JavaFactory(None, (), "cf", (("java.naming.factory.initial", Secret("x.Factory")),))


@pytest.mark.parametrize(
    ("name", "factory"),
    [
        ("stomp", ConnectionFactory("stomp://s:61613", "u", Secret("p"), provider="stomp")),
        ("rabbit", ConnectionFactory("amqp://r:5672", "u", Secret("p"), provider="amqp091")),
        ("mosquitto", ConnectionFactory("mqtt://m:1883", provider="mqtt")),
        ("kafka", ConnectionFactory("kafka://k:9092", provider="kafka")),
        ("nats", ConnectionFactory("nats://n:4222", provider="nats")),
        ("streams", ConnectionFactory("redis://r:6379", provider="redis")),
        ("mq", ConnectionFactory("jvm:com.ibm.mq.jms.MQConnectionFactory", provider="jvm", java=MQ)),
        ("looked", ConnectionFactory("jvm:cf", provider="jvm", java=LOOKED)),
    ],
)
def test_a_route_reaches_each_provider_as_source_target_and_for_dead_letters(
    name: str, factory: ConnectionFactory
) -> None:
    definition = with_steps(f"{name}:topic:A", f"{name}:topic:B", f"{name}:topic:C")
    source, targets = definition.source, definition.targets
    assert isinstance(source, Source)
    assert source.factory == factory
    assert [target.factory for target in targets if isinstance(target, Target)] == [factory, factory]
    assert definition.dead_letters == 1
    assert definition_of(json.loads(json.dumps(plain_definition(definition)))) == definition
    assert with_steps("near:queue:A", f"{name}:topic:B").targets[0] == Target(factory, targets[0].destination)  # type: ignore[union-attr]


def test_a_topic_has_the_durable_subscription_that_its_provider_has() -> None:
    parties = [
        with_steps(f"{name}:topic:A", "near:queue:B").source for name in ("stomp", "rabbit", "mosquitto", "kafka")
    ]
    assert [(party.subscription, party.client_id) for party in parties if isinstance(party, Source)] == [
        ("r", "spanwire.r"),
        ("r", None),
        ("r", "spanwire.r"),
        ("r", None),
    ]
    plain = with_steps("rabbit:topic:A?subscriptionDurable=false", "near:queue:B").source
    assert isinstance(plain, Source)
    assert plain.subscription is None


@pytest.mark.parametrize(("source", "target"), [("core", "near"), ("near", "core")])
def test_a_route_is_refused_where_messages_may_be_lost(source: str, target: str) -> None:
    definition = with_steps(f"{source}:topic:A?subscriptionDurable=false", f"{target}:topic:B")
    with pytest.raises(ConfigurationError, match=r"provider nats-core has no acknowledgements, .* a route loses none"):
        check_bridge(definition)


def test_a_route_that_only_forwards_is_the_bridge_of_a_toml_file() -> None:
    toml = b"""
[connectionFactories.rabbit]
provider = "amqp091"
url = "amqp://r:5672"
userName = "u"
password = "p"
[bridges.b]
sourceConnectionFactory = "tcp://near:61616"
sourceDestination = "queue://A"
targetConnectionFactory = "rabbit"
targetDestination = "queue://B"
qualityOfServiceMode = "AT_MOST_ONCE"
maxBatchSize = 50
"""
    bridge = one(
        "- jmsBridge: {name: b, source: 'near:A', target: 'rabbit:B', qualityOfServiceMode: AT_MOST_ONCE, "
        "maxBatchSize: 50}\n"
    )
    assert [bridge] == read_bridges(toml, "b.toml", NOTHING)
    forwarding = one("- from: {uri: 'rabbit:queue:A', steps: [{to: 'near:queue:B'}]}\n")
    assert isinstance(forwarding, BridgeDefinition)
    assert forwarding.steps == (DropTemporaryReplyTo(),)


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ("rabbit:queue:A?selector=n%3D1", "near:queue:B", "the provider amqp091 has no selectors"),
        ("stomp:queue:A?maxRowsPerBatch=1001", "near:queue:B", "hands over at most 1000 messages"),
        (
            "near:queue:A",
            "rabbit:queue:B?priority=12",
            "r.yaml:17: the option priority is 12; it must lie between 0 and 9",
        ),
        ("stomp:queue:A?receiveTimeoutMs=1", "near:queue:B", "there is no parameter 'receiveTimeoutMs'"),
        ("stomp:queue:A?provider=stmp", "near:queue:B", "there is no provider 'stmp'; did you mean stomp?"),
        ("near:queue:A", "mosquitto:queue:B", "MQTT"),
        ("stomp:queue:A", "stomp:queue:A", "would go round to itself"),
        ("mq:queue:A?url=x", "near:queue:B", "the provider jvm has no url"),
        ("kafka:topic:A?subscriptionDurable=false", "near:queue:B", "needs a consumer group"),
    ],
)
def test_what_a_provider_cannot_do_is_refused_at_the_start(source: str, target: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        check_bridge(with_steps(source, target))


def test_spark_refuses_a_broker_of_another_system() -> None:
    with pytest.raises(ConfigurationError, match=r"^r\.yaml:17: the engine spark reaches brokers by OpenWire alone"):
        read("- from: {uri: 'rabbit:queue:A', steps: [{to: 'near:queue:B'}]}\n").only(SPARK)


def test_a_url_of_the_command_line_takes_the_place_of_a_provider() -> None:
    text = BROKERS + "- from: {uri: 'mq:queue:A', steps: [{to: 'near:queue:B'}]}\n"
    file = read_routes(text.encode(), "r.yaml", NOTHING, {"mq": "tcp://other:61616"})
    assert file.only(SPARK).routes[0].source.options["url"] == "tcp://other:61616"


def test_camels_component_with_a_factory_of_ibm_is_reached_through_java(tmp_path: Path) -> None:
    sample = SAMPLES / "25-camel-four-routes.xml"
    file = read_routes(sample.read_bytes(), "four.xml", NOTHING, {"activemq": "tcp://a:1"}).only(EMBEDDED)
    definitions = bridges_of(file.routes)
    parties = [definition.target for definition in definitions if isinstance(definition, BridgeDefinition)]
    assert [party.factory.provider for party in parties] == ["jvm", "jvm", "openwire", "openwire"]
    java = parties[0].factory.java
    assert java is not None
    assert (java.class_name, [name for name, _ in java.properties]) == (
        "com.ibm.mq.jms.MQConnectionFactory",
        ["transportType", "hostName", "port", "queueManager"],
    )
    with pytest.raises(ConfigurationError, match="needs --jars DIRECTORY"):
        with_jars(definitions, None)


def test_the_jars_of_a_route_are_files_of_the_directory(tmp_path: Path) -> None:
    for name in ("mq.jar", "jms.jar"):
        (tmp_path / name).touch(mode=0o600)
    tmp_path.chmod(0o700)
    (found,) = with_jars([with_steps("mq:queue:A", "near:queue:B")], tmp_path)
    assert isinstance(found.source, Source)
    assert found.source.factory.java is not None
    assert found.source.factory.java.jars == (str(tmp_path / "mq.jar"), str(tmp_path / "jms.jar"))
    (tmp_path / "jms.jar").unlink()
    with pytest.raises(ConfigurationError, match=r"^r\.yaml:17: route r: "):
        with_jars([with_steps("mq:queue:A", "near:queue:B")], tmp_path)


class Broker:
    """A provider whose target stores the messages before the one that it refuses, as RabbitMQ does."""

    def __init__(self, messages: list[BridgeMessage]) -> None:
        self.messages: Final = messages
        self.credits: Final[list[int]] = []
        self.sent: Final[dict[str, list[str]]] = {}
        self.dead: Final[list[str]] = []
        self.acknowledged = 0
        self.refused = "ID:1"

    def describe(self) -> ProviderDescription:
        return ProviderDescription("fake", False, False, (), atomic_batches=False, largest_batch=MAX_CREDIT)

    async def open_source(self, source: Source, credit: int) -> Party:
        self.credits.append(credit)
        return Party(self, source.destination.qualified_name)

    async def open_target(self, target: Target) -> Party:
        return Party(self, target.destination.qualified_name)


class Party:
    """A source and target of a `Broker`."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker: Final = broker
        self._name: Final = name
        self._taken: list[BridgeMessage] = []

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        messages = self._broker.messages
        self._taken, messages[:] = messages[:max_messages], messages[max_messages:]
        return list(self._taken)

    async def acknowledge(self) -> None:
        self._broker.acknowledged += len(self._taken)
        self._taken = []

    async def dead_letter(self, cause: str) -> None:
        self._broker.dead.append(self._taken.pop().message_id)

    async def send(self, messages: list[BridgeMessage]) -> None:
        for index, message in enumerate(messages):
            if message.message_id == self._broker.refused and self._name == "queue://B":
                raise PartlySentError(index, "too large")
            self._broker.sent.setdefault(self._name, []).append(message.message_id)

    def check(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        self._broker.messages[:0], self._taken = self._taken, []


@pytest.mark.parametrize("has_endpoint", [True, False])
def test_a_message_that_another_system_refuses_is_a_dead_letter_by_the_same_rules(
    has_endpoint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "deadLetter: 'rabbit:queue:D', " if has_endpoint else ""
    steps = "[{setHeader: {name: n, constant: x}}, {to: 'rabbit:queue:B'}]"
    definition = one(f"- route: {{id: r, {words}from: {{uri: 'rabbit:queue:A', steps: {steps}}}}}\n")
    assert isinstance(definition, RouteDefinition)
    broker = Broker(text_messages(3))

    def provider(name: str) -> Provider:
        assert name == "amqp091"
        return broker  # type: ignore[return-value]

    runner = BridgeRunner(
        BridgeMachine(definition, ends_when_empty=True),
        route_opener(definition, provider, None),
        lambda: Time(0.0, 0),
        lambda machine: None,
    )
    asyncio.run(runner.run())
    if has_endpoint:
        assert broker.sent == {"queue://B": ["ID:0", "ID:2"], "queue://D": ["ID:1"]}
        assert (broker.acknowledged, broker.dead) == (3, [])
    else:
        assert broker.sent == {"queue://B": ["ID:0", "ID:0", "ID:2"]}
        assert (broker.acknowledged, broker.dead) == (2, ["ID:1"])
    assert set(broker.credits) == {MAX_CREDIT}
    assert runner.machine.counters.dead_letters == 1
