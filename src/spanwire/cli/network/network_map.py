"""Asks brokers of a network for their links and pending messages by ActiveMQ's statistics plugin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.client import blocking
from spanwire.client.messages.message import Message
from spanwire.model.errors import SpanwireError
from spanwire.network.reports.known_brokers import SILENT
from spanwire.network.reports.statistics import BROKER, CONSUMERS, LAST, MAX_ANSWERS, BrokerReport, read
from spanwire.tls.settings import ClientTlsSettings

PATIENCE_S: Final = 5.0  # seconds; a broker with the plugin answers at once
CONNECT_MS: Final = 5_000
MAX_BROKERS: Final = 100  # brokers; bounds the time, because they are asked in sequence
QUEUES: Final = "ActiveMQ.Statistics.Destination.>"


@dataclass(slots=True)
class Login:
    """The credentials for asking a broker."""

    user: str | None = None
    password: str | None = None
    tls: ClientTlsSettings | None = None


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
