"""Brokers at the far end of a bridge, each reached by a client that is not the provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

from spanwire import client
from tests.support.broker_process import BrokerProcess
from tests.support.java_clients import ACTIVEMQ
from tests.support.kafka import KafkaProcess
from tests.support.kafka_client import KafkaClient
from tests.support.mosquitto import PASSWORD, USER, MosquittoProcess
from tests.support.mqtt_client import MqttClient
from tests.support.nats_client import NatsClient
from tests.support.nats_server import PASSWORD as NATS_PASSWORD
from tests.support.nats_server import USER as NATS_USER
from tests.support.nats_server import NatsProcess
from tests.support.rabbit_client import RabbitClient
from tests.support.rabbitmq import RabbitProcess
from tests.support.redis_server import PASSWORD as REDIS_PASSWORD
from tests.support.redis_server import RedisProcess

GOOD_FACTORY: Final = '[connectionFactories.peer]\nurl = "{url}"\nprovider = "{provider}"\n'
JAVA_FACTORY: Final = """\
[connectionFactories.peer]
provider = "jvm"
factoryClass = "{factory}"
[connectionFactories.peer.properties]
brokerURL = "{url}"
"""
LAST: Final = "the last message"
WAIT_S: Final = 60.0
LOGIN: Final = 'userName = "{user}"\npassword = "{password}"\n'


class BridgePeer(Protocol):
    """A broker with one destination per name, a queue or a topic with a subscription."""

    stores_acknowledgements: bool  # before it answers, so that a killed broker delivers again at most one batch
    jars: Path | None  # of its provider

    def factory(self, password: str | None = None) -> str:
        """Return the table ``connectionFactories.peer``, with another password if given."""
        ...

    def source(self, name: str) -> str:
        """Return the parameters of a bridge from the destination."""
        ...

    def target(self, name: str) -> str:
        """Return the parameters of a bridge to the destination."""
        ...

    def create(self, name: str) -> None:
        """Create the destination, or empty it."""
        ...

    def send(self, name: str, texts: list[str]) -> None:
        """Send texts, and return when the broker has stored them."""
        ...

    def take(self, name: str) -> list[str]:
        """Remove all messages, and return their texts."""
        ...

    def dead_letters(self, name: str) -> list[tuple[str, str]]:
        """Remove the dead letters of the destination, and return their texts and causes."""
        ...

    def kill(self) -> None:
        """End the broker at once."""
        ...

    def start(self) -> None:
        """Start the broker with the same data."""
        ...


class ActiveMqPeer:
    """A broker of the ActiveMQ family over STOMP; the test's own client speaks OpenWire."""

    stores_acknowledgements = True
    jars: Path | None = None

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker: Final = broker

    def factory(self, password: str | None = None) -> str:
        """Return the table, without a login."""
        return GOOD_FACTORY.format(url=f"stomp://127.0.0.1:{self._broker.stomp_port}", provider="stomp")

    def source(self, name: str) -> str:
        """Return the queue as a source."""
        return f'sourceConnectionFactory = "peer"\nsourceDestination = "queue://{name}"\n'

    def target(self, name: str) -> str:
        """Return the queue as a target."""
        return f'targetConnectionFactory = "peer"\ntargetDestination = "queue://{name}"\n'

    def create(self, name: str) -> None:
        """Do nothing: the first use creates a queue."""

    def send(self, name: str, texts: list[str]) -> None:
        """Send persistent texts."""
        with client.connect(self._broker.openwire_uri()) as connection:
            with connection.session("transacted") as session:
                producer = session.create_producer(f"queue://{name}")
                for text in texts:
                    producer.send(text)
                session.commit()

    def take(self, name: str) -> list[str]:
        """Remove all messages."""
        return [message.text for message in self._messages(name)]

    def dead_letters(self, name: str) -> list[tuple[str, str]]:
        """Remove all messages of the dead letter queue."""
        messages = self._messages("ActiveMQ.DLQ")
        return [(message.text, str(message.properties["dlqDeliveryFailureCause"])) for message in messages]

    def kill(self) -> None:
        """Kill the broker."""
        self._broker.kill()

    def start(self) -> None:
        """Start the broker."""
        self._broker.start()

    def _messages(self, name: str) -> list[client.Message]:
        """Take all messages of a queue: until one arrives that is sent to its end now."""
        found: list[client.Message] = []
        with client.connect(self._broker.openwire_uri()) as connection, connection.session() as session:
            session.create_producer(f"queue://{name}").send(LAST)
            consumer = session.create_consumer(f"queue://{name}")
            while (message := consumer.receive(WAIT_S)) is not None and message.body != LAST:
                found.append(message)
        assert message is not None, f"{name} does not end"
        return found


class JavaPeer(ActiveMqPeer):
    """ActiveMQ Classic through its client in Java; the test's own client is ours."""

    def __init__(self, broker: BrokerProcess, jars: Path) -> None:
        super().__init__(broker)
        self.jars = jars

    def factory(self, password: str | None = None) -> str:
        """Return the table, without a login."""
        return JAVA_FACTORY.format(url=self._broker.openwire_uri(), factory=ACTIVEMQ)

    def dead_letters(self, name: str) -> list[tuple[str, str]]:
        """Remove all messages of the queue with the suffix DLQ."""
        messages = self._messages(f"{name}.DLQ")
        return [(message.text, str(message.properties["dlqDeliveryFailureCause"])) for message in messages]


class ArtemisPeer(ActiveMqPeer):
    """Artemis over AMQP 1.0; the test's own client speaks OpenWire."""

    def factory(self, password: str | None = None) -> str:
        """Return the table, without a login."""
        return GOOD_FACTORY.format(url=f"amqp://127.0.0.1:{self._broker.openwire_port}", provider="amqp")

    def dead_letters(self, name: str) -> list[tuple[str, str]]:
        """Remove all messages of the queue with the suffix DLQ."""
        messages = self._messages(f"{name}.DLQ")
        return [(message.text, str(message.properties["dlqDeliveryFailureCause"])) for message in messages]


class RabbitPeer:
    """RabbitMQ through one of its protocols."""

    stores_acknowledgements = False
    jars: Path | None = None

    def __init__(self, broker: RabbitProcess, provider: str, url: str) -> None:
        self.client: Final = RabbitClient(f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/")
        self._broker: Final = broker
        self._provider: Final = provider
        self._url: Final = url

    def factory(self, password: str | None = None) -> str:
        """Return the table with the user guest."""
        login = LOGIN.format(user="guest", password=password or "guest")
        return GOOD_FACTORY.format(url=self._url, provider=self._provider) + login

    def source(self, name: str) -> str:
        """Return the queue as a source."""
        return f'sourceConnectionFactory = "peer"\nsourceDestination = "queue://{name}"\n'

    def target(self, name: str) -> str:
        """Return the queue as a target."""
        return f'targetConnectionFactory = "peer"\ntargetDestination = "queue://{name}"\n'

    def create(self, name: str) -> None:
        """Declare the queue."""
        self.client.declare(name)
        self.client.delete(f"{name}.DLQ")

    def send(self, name: str, texts: list[str]) -> None:
        """Publish texts."""
        self.client.send(name, [text.encode() for text in texts], content_type="text/plain")

    def take(self, name: str) -> list[str]:
        """Remove all messages."""
        return [message.body.decode() for message in self.client.take(name)]

    def dead_letters(self, name: str) -> list[tuple[str, str]]:
        """Remove all messages of the queue with the suffix DLQ."""
        messages = self.client.take(f"{name}.DLQ")
        return [(message.body.decode(), str(message.headers["dlqDeliveryFailureCause"])) for message in messages]

    def kill(self) -> None:
        """Kill the node."""
        self._broker.kill()

    def start(self) -> None:
        """Start the node."""
        self._broker.start()


class RabbitPlugInPeer(RabbitPeer):
    """RabbitMQ through its plug-in for AMQP 1.0, which keeps application properties encoded in one header."""

    def dead_letters(self, name: str) -> list[tuple[str, str]]:
        """Remove all messages of the queue with the suffix DLQ."""
        from proton import Data  # noqa: PLC0415 -- the library may be missing

        found: list[tuple[str, str]] = []
        for message in self.client.take(f"{name}.DLQ"):
            data = Data()
            data.decode(message.headers["x-amqp-1.0-app-properties"])
            data.rewind()
            data.next()
            found.append((message.body.decode(), data.get_object().value["dlqDeliveryFailureCause"]))
        return found


class MosquittoPeer:
    """Mosquitto; the source is one topic, the target another, because a topic has no owner."""

    stores_acknowledgements = True  # with its sessions, when it ends in order
    jars: Path | None = None

    def __init__(self, broker: MosquittoProcess) -> None:
        self._broker: Final = broker

    def factory(self, password: str | None = None) -> str:
        """Return the table with the user of the test."""
        login = LOGIN.format(user=USER, password=password or PASSWORD)
        return GOOD_FACTORY.format(url=self._broker.url, provider="mqtt") + login

    def source(self, name: str) -> str:
        """Return the topic ``NAME/in`` with a session as a source."""
        return (
            f'sourceConnectionFactory = "peer"\nsourceDestination = "topic://{name}/in"\n'
            f'subscriptionName = "session"\nclientID = "{name}"\n'
        )

    def target(self, name: str) -> str:
        """Return the topic ``NAME/out`` as a target."""
        return f'targetConnectionFactory = "peer"\ntargetDestination = "topic://{name}/out"\n'

    def create(self, name: str) -> None:
        """Subscribe the session of the bridge, and those of collectors, for which the broker keeps what is sent.

        A collector is not there while the broker ends, because the broker would deliver again what it was delivering.
        """
        for session, topic in ((name, f"{name}/in"), *((topic, topic) for topic in (f"{name}/out", f"{name}/in.DLQ"))):
            subscriber = MqttClient(self._broker.port, session)
            subscriber.subscribe(topic)
            subscriber.close()

    def send(self, name: str, texts: list[str]) -> None:
        """Publish texts with quality of service 1."""
        publisher = MqttClient(self._broker.port, f"{name}/publisher")
        publisher.publish(f"{name}/in", [text.encode() for text in texts], ContentType="text/plain")
        publisher.close()

    def take(self, name: str) -> list[str]:
        """Return what the collector gets."""
        return [message.payload.decode() for message in self._taken(f"{name}/out")]

    def dead_letters(self, name: str) -> list[tuple[str, str]]:
        """Return the dead letters that the collector gets."""
        return [
            (message.payload.decode(), dict(message.properties.UserProperty)["dlqDeliveryFailureCause"])
            for message in self._taken(f"{name}/in.DLQ")
        ]

    def kill(self) -> None:
        """Stop the broker: Mosquitto stores its sessions every half hour, and when it ends."""
        self._broker.stop()

    def start(self) -> None:
        """Start the broker."""
        self._broker.start()

    def _taken(self, topic: str) -> list[Any]:
        collector = MqttClient(self._broker.port, topic)
        messages = collector.take(topic)
        collector.close()
        return messages


class KafkaPeer:
    """Kafka; the source is one topic, the target another."""

    stores_acknowledgements = True
    jars: Path | None = None

    def __init__(self, broker: KafkaProcess) -> None:
        self._broker: Final = broker
        self._client: Final = KafkaClient(broker.servers)
        self._taken: Final[dict[str, int]] = {}  # offsets behind what was taken

    def factory(self, password: str | None = None) -> str:
        """Return the table, without a login."""
        return GOOD_FACTORY.format(url=f"kafka://{self._broker.servers}", provider="kafka")

    def source(self, name: str) -> str:
        """Return the topic ``NAME.in`` with a group as a source."""
        return (
            f'sourceConnectionFactory = "peer"\nsourceDestination = "topic://{name}.in"\nsubscriptionName = "{name}"\n'
        )

    def target(self, name: str) -> str:
        """Return the topic ``NAME.out`` as a target."""
        return f'targetConnectionFactory = "peer"\ntargetDestination = "topic://{name}.out"\n'

    def create(self, name: str) -> None:
        """Create both topics."""
        for topic in (f"{name}.in", f"{name}.out"):
            self._client.create(topic)

    def send(self, name: str, texts: list[str]) -> None:
        """Send texts."""
        self._client.send(f"{name}.in", [text.encode() for text in texts], [("content-type", b"text/plain")])

    def take(self, name: str) -> list[str]:
        """Return the committed records that were not taken yet."""
        topic = f"{name}.out"
        records = self._client.records(topic, self._taken.get(topic, 0), is_patient=True)
        if records:
            self._taken[topic] = records[-1].offset + 1
        return [record.value.decode() for record in records]

    def dead_letters(self, name: str) -> list[tuple[str, str]]:
        """Return the records of the topic with the suffix DLQ."""
        records = self._client.records(f"{name}.in.DLQ")
        return [(one.value.decode(), dict(one.headers)["dlqDeliveryFailureCause"].decode()) for one in records]

    def kill(self) -> None:
        """Kill the server."""
        self._broker.kill()

    def start(self) -> None:
        """Start the server."""
        self._broker.start()


class NatsPeer:
    """NATS; the source is the subject of one stream, the target that of another."""

    stores_acknowledgements = False
    jars: Path | None = None

    def __init__(self, server: NatsProcess) -> None:
        self._server: Final = server
        self._client: Final = NatsClient(server.port)
        self._taken: Final[dict[str, int]] = {}  # messages of a stream that were taken

    def factory(self, password: str | None = None) -> str:
        """Return the table with the user of the test."""
        login = LOGIN.format(user=NATS_USER, password=password or NATS_PASSWORD)
        return GOOD_FACTORY.format(url=self._server.url, provider="nats") + login

    def source(self, name: str) -> str:
        """Return the subject ``NAME.in`` with a durable consumer as a source."""
        return (
            f'sourceConnectionFactory = "peer"\nsourceDestination = "topic://{name}.in"\nsubscriptionName = "bridge"\n'
        )

    def target(self, name: str) -> str:
        """Return the subject ``NAME.out`` as a target."""
        return f'targetConnectionFactory = "peer"\ntargetDestination = "topic://{name}.out"\n'

    def create(self, name: str) -> None:
        """Create both streams, and a consumer that soon delivers the messages of a killed bridge again."""
        for side in ("in", "out"):
            self._client.create(f"{name}-{side}", f"{name}.{side}")
        self._client.add_consumer(
            f"{name}-in", durable_name="bridge", filter_subject=f"{name}.in", ack_wait=1.0, max_ack_pending=1_000
        )

    def send(self, name: str, texts: list[str]) -> None:
        """Publish texts."""
        self._client.publish(f"{name}.in", [text.encode() for text in texts], **{"content-type": "text/plain"})

    def take(self, name: str) -> list[str]:
        """Return the messages that were not taken yet."""
        found = self._client.messages(f"{name}.out")[self._taken.get(name, 0) :]
        self._taken[name] = self._taken.get(name, 0) + len(found)
        return [message.data.decode() for message in found]

    def dead_letters(self, name: str) -> list[tuple[str, str]]:
        """Return the messages of the subject with the suffix DLQ."""
        found = self._client.messages(f"{name}.in.DLQ")
        return [(message.data.decode(), message.headers["dlqDeliveryFailureCause"]) for message in found]

    def kill(self) -> None:
        """Kill the server."""
        self._server.kill()

    def start(self) -> None:
        """Start the server."""
        self._server.start()


class RedisPeer:
    """Redis; the source is one stream, the target another."""

    stores_acknowledgements = True
    jars: Path | None = None

    def __init__(self, server: RedisProcess) -> None:
        self._server: Final = server
        self._taken: Final[dict[str, int]] = {}  # entries of a stream that were taken

    def factory(self, password: str | None = None) -> str:
        """Return the table with the password of the test, and a short time until entries of a killed bridge return."""
        login = f'password = "{password or REDIS_PASSWORD}"\n'
        return GOOD_FACTORY.format(url=f"{self._server.url}?takeOverMs=500", provider="redis") + login

    def source(self, name: str) -> str:
        """Return the stream ``NAME.in`` with a group as a source."""
        return (
            f'sourceConnectionFactory = "peer"\nsourceDestination = "topic://{name}.in"\nsubscriptionName = "group"\n'
        )

    def target(self, name: str) -> str:
        """Return the stream ``NAME.out`` as a target."""
        return f'targetConnectionFactory = "peer"\ntargetDestination = "topic://{name}.out"\n'

    def create(self, name: str) -> None:
        """Empty both streams."""
        with self._server.client() as client:
            client.delete(f"{name}.in", f"{name}.out", f"{name}.in.DLQ")

    def send(self, name: str, texts: list[str]) -> None:
        """Add texts."""
        self._server.send(f"{name}.in", texts)

    def take(self, name: str) -> list[str]:
        """Return the entries that were not taken yet."""
        found = self._server.entries(f"{name}.out")[self._taken.get(name, 0) :]
        self._taken[name] = self._taken.get(name, 0) + len(found)
        return [fields["body"] for fields in found]

    def dead_letters(self, name: str) -> list[tuple[str, str]]:
        """Return the entries of the stream with the suffix DLQ."""
        return [(one["body"], one["dlqDeliveryFailureCause"]) for one in self._server.entries(f"{name}.in.DLQ")]

    def kill(self) -> None:
        """Kill the server."""
        self._server.kill()

    def start(self) -> None:
        """Start the server."""
        self._server.start()
