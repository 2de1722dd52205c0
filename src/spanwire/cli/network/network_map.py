"""What brokers of a network tell of themselves by ActiveMQ's statistics plugin: their links, and what waits for them.

A bridge is a consumer like any other, with a client id that names its connector and both brokers; so the statistics of
the consumers of a broker show its links, whether it is a Spanwire or an ActiveMQ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.client import blocking
from spanwire.client.messages.message import Message
from spanwire.model.errors import SpanwireError
from spanwire.tls.settings import ClientTlsSettings

PATIENCE_S: Final = 5.0  # a broker that has the plugin answers at once
CONNECT_MS: Final = 5_000
MAX_ANSWERS: Final = 100_000  # consumers and destinations of one broker
MAX_BROKERS: Final = 100  # asked one after the other
INBOUND: Final = "_inbound_"
OUTBOUND: Final = "_outbound"
BROKER: Final = "ActiveMQ.Statistics.Broker"
CONSUMERS: Final = "ActiveMQ.Statistics.Subscription"
QUEUES: Final = "ActiveMQ.Statistics.Destination.>"
LAST: Final = "last"
SILENT: Final = "tells nothing: it has no <statisticsBrokerPlugin>"


@dataclass(slots=True)
class Login:
    """With what a broker is asked."""

    user: str | None = None
    password: str | None = None
    tls: ClientTlsSettings | None = None


@dataclass(slots=True)
class ToldDemand:
    """What one link carries of one destination: ``waiting`` messages at its broker, ``in_flight`` of them on their way
    or about to be.
    """

    destination: str
    waiting: int
    in_flight: int
    forwarded: int


@dataclass(slots=True)
class ToldLink:
    """A link of a broker: messages go to ``remote``, or with ``incoming`` come from there."""

    remote: str
    connector: str
    incoming: bool = False
    demand: list[ToldDemand] = field(default_factory=list)


@dataclass(slots=True)
class ToldBroker:
    """What one broker told, or in ``silence`` why it did not."""

    address: str
    name: str = ""
    broker_id: str = ""
    messages: int = 0
    consumers: int = 0
    links: list[ToldLink] = field(default_factory=list)
    silence: str = ""
    tells_links: bool = True


def ask(address: str, login: Login) -> ToldBroker:
    """Asks one broker; what goes wrong is in the answer."""
    told = ToldBroker(address)
    url = f"{address}{'&' if '?' in address else '?'}connectionTimeout={CONNECT_MS}"
    try:
        with blocking.connect(url, login.user, login.password, None, login.tls) as connection:
            answers = _answers(connection)
    except (SpanwireError, OSError) as error:
        told.silence = f"cannot be asked: {error}"
        return told
    if not answers:
        told.silence = SILENT
        return told
    read(told, answers)
    return told


def _answers(connection: blocking.Connection) -> list[dict[str, object]]:
    """All answers up to the last; a broker answers one question after the other."""
    session = connection.session()
    replies = session.create_temporary_queue()
    consumer = session.create_consumer(replies)
    producer = session.create_producer()
    for name, mark in ((BROKER, ""), (CONSUMERS, ""), (QUEUES, ""), (BROKER, LAST)):
        producer.send(
            None, destination=f"queue://{name}", reply_to=replies, correlation_id=mark or None, persistent=False
        )
    found: list[dict[str, object]] = []
    while len(found) < MAX_ANSWERS:
        message: Message | None = consumer.receive(PATIENCE_S)
        if message is None:
            break
        body = message.body
        if isinstance(body, dict):
            found.append(body)
        if message.correlation_id == LAST:
            break
    return found


def read(told: ToldBroker, answers: list[dict[str, object]]) -> None:
    """Puts the answers of one broker together."""
    first = answers[0]
    told.name, told.broker_id = str(first.get("brokerName", "")), str(first.get("brokerId", ""))
    told.messages, told.consumers = _number(first, "size"), _number(first, "consumerCount")
    waiting = {
        str(one["destinationName"]): _number(one, "size")
        for one in answers
        if "clientId" not in one and "destinationName" in one
    }
    told.tells_links = any("clientId" in one for one in answers)  # the asker is a consumer itself
    links: dict[tuple[str, str, bool], ToldLink] = {}
    for one in answers:
        link = _link(told.name, str(one.get("clientId") or ""))
        if link is None:
            continue
        link = links.setdefault((link.remote, link.connector, link.incoming), link)
        name = str(one.get("destinationName", ""))
        if not link.incoming:
            size = waiting.get(f"queue://{name}", 0)
            in_flight = _number(one, "dispatchedQueueSize")
            forwarded = _number(one, "dequeueCounter")
            link.demand.append(ToldDemand(name, max(0, size - in_flight), in_flight, forwarded))
    told.links = [links[key] for key in sorted(links)]


def _link(name: str, client_id: str) -> ToldLink | None:
    """The link that a client id is made for: ``connector_remote_inbound_name``, or ``connector_remote_outbound`` of one
    that leads here. A name with underscores is taken for the shortest there can be.
    """
    if client_id.endswith(INBOUND + name):
        connector, _, remote = client_id.removesuffix(INBOUND + name).rpartition("_")
        return ToldLink(remote, connector)
    if client_id.endswith(OUTBOUND):
        connector, _, remote = client_id.removesuffix(OUTBOUND).rpartition("_")
        return ToldLink(remote, connector, incoming=True)
    return None


def _number(answer: dict[str, object], name: str) -> int:
    value = answer.get(name, 0)
    return value if isinstance(value, int) else 0


def lines(told: ToldBroker) -> list[str]:
    """A broker as an operator reads it."""
    if told.silence:
        return [f"broker at {told.address} {told.silence}"]
    found = [
        f"broker {told.name} (id {told.broker_id}) at {told.address}: {told.messages} messages, "
        f"{told.consumers} consumers"
    ]
    if not told.tells_links:
        found.append('  tells nothing of its links; an ActiveMQ does with useJmx="true"')
    for link in told.links:
        if link.incoming:
            found.append(f"  <-- {link.remote} by {link.connector}")
            continue
        out = sum(one.in_flight for one in link.demand)
        found.append(f"  --> {link.remote} by {link.connector}: {out} on their way")
        found += [
            f"    wants {one.destination}: {one.waiting} waiting, {one.in_flight} on their way"
            for one in sorted(link.demand, key=lambda one: one.destination)
        ]
    return found
