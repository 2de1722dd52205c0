"""The brokers that the bridges of this folder reach; each is started once, when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bridge_peers import (
    ActiveMqPeer,
    ArtemisPeer,
    BridgePeer,
    JavaPeer,
    KafkaPeer,
    MosquittoPeer,
    NatsPeer,
    RabbitPeer,
    RabbitPlugInPeer,
    RedisPeer,
)
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority, Certified
from tests.support.distributions import ARTEMIS, ArtemisProcess, find_destination
from tests.support.java_clients import activemq_jars
from tests.support.kafka import KafkaProcess, kafka_jars
from tests.support.mosquitto import MosquittoProcess
from tests.support.nats_server import NatsProcess
from tests.support.peers import require, require_library
from tests.support.rabbitmq import RabbitProcess
from tests.support.redis_server import RedisProcess

PEERS = (
    "classic_stomp",
    "rabbit_stomp",
    "rabbit_amqp091",
    "rabbit_amqp",
    pytest.param("artemis_amqp", marks=pytest.mark.long),
    pytest.param("classic_jvm", marks=pytest.mark.long),
    "mosquitto_mqtt",
    "kafka_peer",
    "nats_peer",
    "redis_peer",
)


@pytest.fixture(scope="session")
def authority() -> Authority:
    """The authority that has signed the certificates of the brokers."""
    return Authority()


@pytest.fixture(scope="session")
def certified(authority: Authority) -> Certified:
    """The key and certificate of the brokers, for their number and for no name."""
    return authority.issue(("127.0.0.1",))


@pytest.fixture(scope="session")
def certificate(certified: Certified, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of `certified`."""
    return certified.write_pem(tmp_path_factory.mktemp("certificate") / "broker.pem")


@pytest.fixture(scope="session")
def artemis(certified: Certified, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """ActiveMQ Artemis, with TLS beside."""
    home = find_destination(ARTEMIS)
    if isinstance(home, str):
        pytest.skip(home)
    directory = tmp_path_factory.mktemp("artemis")
    store = certified.write_pkcs12(directory / "broker.p12", "store-word"), "store-word"
    with ArtemisProcess(home, directory, store) as broker:
        yield broker


@pytest.fixture(scope="session")
def rabbitmq(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitProcess]:
    """A running RabbitMQ, with TLS beside."""
    require("rabbitmq")
    with RabbitProcess(tmp_path_factory.mktemp("rabbitmq"), certificate) as broker:
        yield broker


@pytest.fixture(scope="session")
def classic_stomp(classic: BrokerProcess) -> BridgePeer:
    """ActiveMQ Classic's STOMP connector."""
    return ActiveMqPeer(classic)


@pytest.fixture(scope="session")
def classic_jvm(classic: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> BridgePeer:
    """ActiveMQ Classic, reached by its client in Java."""
    require("activemq-client", "jpype")
    directory = tmp_path_factory.mktemp("jars")
    activemq_jars(directory)
    return JavaPeer(classic, directory)


@pytest.fixture(scope="session")
def rabbit_stomp(rabbitmq: RabbitProcess) -> BridgePeer:
    """RabbitMQ's STOMP plug-in."""
    return RabbitPeer(rabbitmq, "stomp", rabbitmq.stomp_url)


@pytest.fixture(scope="session")
def rabbit_amqp091(rabbitmq: RabbitProcess) -> BridgePeer:
    """RabbitMQ itself."""
    return RabbitPeer(rabbitmq, "amqp091", rabbitmq.amqp_url)


@pytest.fixture(scope="session")
def rabbit_amqp(rabbitmq: RabbitProcess) -> BridgePeer:
    """RabbitMQ's plug-in for AMQP 1.0."""
    require_library("proton")
    return RabbitPlugInPeer(rabbitmq, "amqp", rabbitmq.amqp_url)


@pytest.fixture(scope="session")
def artemis_amqp(artemis: BrokerProcess) -> BridgePeer:
    """Artemis."""
    require_library("proton")
    return ArtemisPeer(artemis)


@pytest.fixture(scope="session")
def mosquitto(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MosquittoProcess]:
    """A running Mosquitto, with TLS beside."""
    require("mosquitto")
    with MosquittoProcess(tmp_path_factory.mktemp("mosquitto"), certificate) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    """A running Kafka."""
    with KafkaProcess(kafka_jars(), tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsProcess]:
    """A running server of NATS."""
    require("nats")
    with NatsProcess(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="session")
def nats_peer(nats: NatsProcess) -> BridgePeer:
    """Streams of NATS."""
    return NatsPeer(nats)


@pytest.fixture(scope="session")
def redis(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    """A running Redis, with TLS beside."""
    require("redis")
    with RedisProcess(tmp_path_factory.mktemp("redis"), certificate) as server:
        yield server


@pytest.fixture(scope="session")
def redis_peer(redis: RedisProcess) -> BridgePeer:
    """Streams of Redis."""
    return RedisPeer(redis)


@pytest.fixture(scope="session")
def mosquitto_mqtt(mosquitto: MosquittoProcess) -> BridgePeer:
    """Mosquitto."""
    return MosquittoPeer(mosquitto)


@pytest.fixture(scope="session")
def kafka_peer(kafka: KafkaProcess) -> BridgePeer:
    """Kafka."""
    return KafkaPeer(kafka)


@pytest.fixture(params=PEERS)
def peer(request: pytest.FixtureRequest) -> BridgePeer:
    """Each of the brokers."""
    found: BridgePeer = request.getfixturevalue(request.param)
    return found
