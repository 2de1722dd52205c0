"""Reads the answers of ActiveMQ's statistics plug-in: the links of a broker, from its consumers.

A bridge is an ordinary consumer. The client id of a bridge names the connector and both brokers, so the statistics of a
broker's consumers show the broker's links, for Spanwire and ActiveMQ alike. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_ANSWERS: Final = 100_000  # consumers and destinations of one broker; bounds the memory of the map
INBOUND: Final = "_inbound_"
OUTBOUND: Final = "_outbound"
BROKER: Final = "ActiveMQ.Statistics.Broker"
CONSUMERS: Final = "ActiveMQ.Statistics.Subscription"
LAST: Final = "last"  # the correlation id of the last question; a broker answers questions in order


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
