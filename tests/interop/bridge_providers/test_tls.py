"""Providers reach real brokers over TLS, and refuse a certificate that nobody vouches for or that is another host's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.ports import Provider
from spanwire.bridges.running.process import provider_of
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import JmsError
from spanwire.model.secret import Secret
from tests.conformance.bridge_providers import CREDIT, bodies, neutral_message, runs, take
from tests.support.certificates import Authority
from tests.support.mosquitto import PASSWORD, USER, MosquittoProcess
from tests.support.nats_client import NatsClient
from tests.support.nats_server import PASSWORD as NATS_PASSWORD
from tests.support.nats_server import USER as NATS_USER
from tests.support.nats_server import NatsProcess
from tests.support.peers import require, require_library
from tests.support.rabbit_client import RabbitClient
from tests.support.rabbitmq import RabbitProcess
from tests.support.redis_server import PASSWORD as REDIS_PASSWORD
from tests.support.redis_server import RedisProcess
from tests.support.sqs_server import PASSWORD as SQS_PASSWORD
from tests.support.sqs_server import REGION, SqsProcess
from tests.support.sqs_server import USER as SQS_USER

NAME: Final = "bridges-over-tls"
Factory = Callable[..., ConnectionFactory]


class Secured:
    """A provider, and the port with TLS of a broker."""

    def __init__(self, name: str, scheme: str, port: int, user: str, password: str, kind: int = QUEUE) -> None:
        self.provider: Final[Provider] = provider_of(name)
        self.destination: Final = Destination(kind, NAME)
        self._name: Final = name
        self._address: Final = (scheme, port)
        self._login: Final = (user, Secret(password))
        self.verifies_always: Final = name == "sqs"  # its library has no way to skip the name of the host alone

    def source(self, factory: ConnectionFactory) -> Source:
        """The destination as a source; a stream of Redis needs a group."""
        return Source(factory, self.destination, None, "group" if self._name == "redis" else None)

    def factory(self, trust: Path | None, host: str = "127.0.0.1", options: str = "") -> ConnectionFactory:
        """The connection factory, with the certificate of an authority that it trusts."""
        scheme, port = self._address
        store = None if trust is None else str(trust)
        if self._name == "sqs":
            options = f"?region={REGION}"
        url = f"{scheme}://{host}:{port}{options}"
        return ConnectionFactory(url, *self._login, trust_store=store, provider=self._name)


@pytest.fixture
def rabbit_queue(rabbitmq: RabbitProcess) -> RabbitProcess:
    RabbitClient(f"amqp://guest:guest@127.0.0.1:{rabbitmq.amqp_port}/").declare(NAME)
    return rabbitmq


@pytest.fixture
def stomp(rabbit_queue: RabbitProcess) -> Secured:
    return Secured("stomp", "stomp+ssl", rabbit_queue.secure_stomp_port, "guest", "guest")


@pytest.fixture
def amqp091(rabbit_queue: RabbitProcess) -> Secured:
    return Secured("amqp091", "amqps", rabbit_queue.secure_amqp_port, "guest", "guest")


@pytest.fixture
def amqp(rabbit_queue: RabbitProcess) -> Secured:
    require_library("proton")
    return Secured("amqp", "amqps", rabbit_queue.secure_amqp_port, "guest", "guest")


@pytest.fixture
def amqp_artemis(artemis: Any) -> Secured:
    require_library("proton")
    return Secured("amqp", "amqps", artemis.secure_port, "admin", "admin")


@pytest.fixture
def mqtt(mosquitto: MosquittoProcess) -> Secured:
    return Secured("mqtt", "mqtts", mosquitto.secure_port, USER, PASSWORD, TOPIC)


@pytest.fixture
def nats_stream(certificate: Path, tmp_path: Path) -> Iterator[Secured]:
    require("nats")
    with NatsProcess(tmp_path / "nats", certificate) as server:
        NatsClient(server.port, certificate).create("TLS", NAME)
        yield Secured("nats", "nats+ssl", server.port, NATS_USER, NATS_PASSWORD, TOPIC)


@pytest.fixture
def redis_stream(redis: RedisProcess) -> Secured:
    return Secured("redis", "rediss", redis.secure_port, "default", REDIS_PASSWORD, TOPIC)


@pytest.fixture
def sqs_queue(certificate: Path, trust: Path, tmp_path: Path) -> Iterator[Secured]:
    with SqsProcess(tmp_path, certificate) as server:
        server.trust = trust
        server.create(NAME)
        yield Secured("sqs", "sqs+ssl", server.port, SQS_USER, SQS_PASSWORD)


@pytest.fixture(
    params=[
        "stomp",
        "amqp091",
        "amqp",
        "mqtt",
        "nats_stream",
        "redis_stream",
        "sqs_queue",
        pytest.param("amqp_artemis", marks=pytest.mark.long),
    ]
)
def secured(request: pytest.FixtureRequest) -> Secured:
    """Each of the providers with a broker."""
    found: Secured = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def trust(authority: Authority, tmp_path: Path) -> Path:
    """A file with the certificate of the authority."""
    return authority.write_certificate(tmp_path / "authority.pem")


def test_a_message_goes_to_the_broker_and_back_over_tls(secured: Secured, trust: Path) -> None:
    async def scenario() -> None:
        unverified = secured.factory(trust, "localhost", "?verifyHostName=false")
        if secured.verifies_always:
            unverified = secured.factory(trust)
        for text, factory in (("one", secured.factory(trust)), ("two", unverified)):
            source = await secured.provider.open_source(secured.source(factory), CREDIT)
            target = await secured.provider.open_target(Target(factory, secured.destination))
            await target.send([neutral_message(text)])
            assert bodies(await take(source, 1)) == [text]
            await source.acknowledge()
            await source.close()
            await target.close()

    runs(scenario)


def test_a_certificate_of_nobody_or_of_another_host_is_refused_in_one_line(secured: Secured, trust: Path) -> None:
    async def scenario() -> None:
        for factory in (secured.factory(None), secured.factory(trust, "localhost")):
            with pytest.raises(JmsError, match="certificate") as refusal:
                await secured.provider.open_target(Target(factory, secured.destination))
            assert "\n" not in str(refusal.value)

    runs(scenario)
