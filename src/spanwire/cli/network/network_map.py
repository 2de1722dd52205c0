"""Asks brokers of a network for their links and pending messages by ActiveMQ's statistics plugin.

A bridge is an ordinary consumer. The client id of a bridge names the connector and both brokers, so the statistics of a
broker's consumers show the broker's links, for Spanwire and ActiveMQ alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.client import blocking
from spanwire.client.messages.message import Message
from spanwire.model.errors import SpanwireError
from spanwire.tls.settings import ClientTlsSettings

PATIENCE_S: Final = 5.0  # seconds; a broker with the plugin answers at once
CONNECT_MS: Final = 5_000
MAX_ANSWERS: Final = 100_000  # consumers and destinations of one broker; bounds the memory of the map
MAX_BROKERS: Final = 100  # brokers; bounds the time, because they are asked in sequence
INBOUND: Final = "_inbound_"
OUTBOUND: Final = "_outbound"
BROKER: Final = "ActiveMQ.Statistics.Broker"
CONSUMERS: Final = "ActiveMQ.Statistics.Subscription"
QUEUES: Final = "ActiveMQ.Statistics.Destination.>"
LAST: Final = "last"
SILENT: Final = "tells nothing: it has no <statisticsBrokerPlugin>"


@dataclass(slots=True)
class Login:
    """The credentials for asking a broker."""

    user: str | None = None
    password: str | None = None
    tls: ClientTlsSettings | None = None


@dataclass(slots=True)
class ReportedDemand:
    """A destination of a link.

    ``waiting`` messages are pending at the broker, ``in_flight`` are being forwarded.
    """

    destination: str
    waiting: int
    in_flight: int
    forwarded: int


@dataclass(slots=True)
class ReportedLink:
    """A link of a broker: messages go to ``remote``, or come from it if ``incoming``."""

    remote: str
    connector: str
    incoming: bool = False
    demand: list[ReportedDemand] = field(default_factory=list)


@dataclass(slots=True)
class BrokerReport:
    """The answers of a broker, or in ``silence`` the reason for missing answers."""

    address: str
    name: str = ""
    broker_id: str = ""
    messages: int = 0
    consumers: int = 0
    links: list[ReportedLink] = field(default_factory=list)
    silence: str = ""
    tells_links: bool = True


def ask(address: str, login: Login) -> BrokerReport:
    """Ask one broker; errors are part of the report."""
    report = BrokerReport(address)
    url = f"{address}{'&' if '?' in address else '?'}connectionTimeout={CONNECT_MS}"
    try:
        with blocking.connect(url, login.user, login.password, None, login.tls) as connection:
            answers = _answers(connection)
    except (SpanwireError, OSError) as error:
        report.silence = f"cannot be asked: {error}"
        return report
    if not answers:
        report.silence = SILENT
        return report
    read(report, answers)
    return report


def _answers(connection: blocking.Connection) -> list[dict[str, object]]:
    """Return all answers up to the last; a broker answers questions in order."""
    session = connection.session()
    replies = session.create_temporary_queue()
    consumer = session.create_consumer(replies)
    producer = session.create_producer()
    for name, mark in ((BROKER, ""), (CONSUMERS, ""), (QUEUES, ""), (BROKER, LAST)):
        producer.send(
            None, destination=f"queue://{name}", reply_to=replies, correlation_id=mark or None, persistent=False
        )
    answers: list[dict[str, object]] = []
    while len(answers) < MAX_ANSWERS:
        message: Message | None = consumer.receive(PATIENCE_S)
        if message is None:
            break
        body = message.body
        if isinstance(body, dict):
            answers.append(body)
        if message.correlation_id == LAST:
            break
    return answers


def read(report: BrokerReport, answers: list[dict[str, object]]) -> None:
    """Combine the answers of a broker."""
    first = answers[0]
    report.name, report.broker_id = str(first.get("brokerName", "")), str(first.get("brokerId", ""))
    report.messages, report.consumers = _number(first, "size"), _number(first, "consumerCount")
    waiting = {
        str(answer["destinationName"]): _number(answer, "size")
        for answer in answers
        if "clientId" not in answer and "destinationName" in answer
    }
    report.tells_links = any("clientId" in answer for answer in answers)  # the asking client is a consumer as well
    links: dict[tuple[str, str, bool], ReportedLink] = {}
    for answer in answers:
        link = _link(report.name, str(answer.get("clientId") or ""))
        if link is None:
            continue
        link = links.setdefault((link.remote, link.connector, link.incoming), link)
        name = str(answer.get("destinationName", ""))
        if not link.incoming:
            size = waiting.get(f"queue://{name}", 0)
            in_flight = _number(answer, "dispatchedQueueSize")
            forwarded = _number(answer, "dequeueCounter")
            link.demand.append(ReportedDemand(name, max(0, size - in_flight), in_flight, forwarded))
    report.links = [links[key] for key in sorted(links)]


def _link(name: str, client_id: str) -> ReportedLink | None:
    """Return the link of a bridge's client id.

    The client id is ``connector_remote_inbound_name``, or ``connector_remote_outbound`` for an incoming link. If a name
    contains underscores, the shortest possible remote name is assumed.
    """
    if client_id.endswith(INBOUND + name):
        connector, _, remote = client_id.removesuffix(INBOUND + name).rpartition("_")
        return ReportedLink(remote, connector)
    if client_id.endswith(OUTBOUND):
        connector, _, remote = client_id.removesuffix(OUTBOUND).rpartition("_")
        return ReportedLink(remote, connector, incoming=True)
    return None


def _number(answer: dict[str, object], name: str) -> int:
    value = answer.get(name, 0)
    return value if isinstance(value, int) else 0


def lines(report: BrokerReport) -> list[str]:
    """Return a report as lines for an operator."""
    if report.silence:
        return [f"broker at {report.address} {report.silence}"]
    report_lines = [
        f"broker {report.name} (id {report.broker_id}) at {report.address}: {report.messages} messages, "
        f"{report.consumers} consumers"
    ]
    if not report.tells_links:
        report_lines.append('  does not report its links; an ActiveMQ does with useJmx="true"')
    for link in report.links:
        if link.incoming:
            report_lines.append(f"  <-- {link.remote} by {link.connector}")
            continue
        in_flight = sum(demand.in_flight for demand in link.demand)
        report_lines.append(f"  --> {link.remote} by {link.connector}: {in_flight} on their way")
        report_lines += [
            f"    wants {demand.destination}: {demand.waiting} waiting, {demand.in_flight} on their way"
            for demand in sorted(link.demand, key=lambda demand: demand.destination)
        ]
    return report_lines
