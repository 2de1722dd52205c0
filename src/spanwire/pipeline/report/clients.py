"""Senders and receivers: sending clients, destinations, receiving clients.

Advisories describe connections (with client ids), producers and consumers; the id of a message names the connection of
its sender. The number of messages dispatched to a consumer is known with `advisoryForDispatched`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spanwire.pipeline.report.model import MAX_FLOW_NODES, Column, FlowChart, Kind, Link, Table, Value, limit_rows
from spanwire.pipeline.report.sources import MESSAGES
from spanwire.pipeline.report.traffic import DELIVERED

MAX_CLIENTS: Final = 100_000  # connections and consumers in the driver's memory
SENDING_COLUMNS: Final = (
    Column("client"), Column("broker"), Column("destination"), Column("messages", Kind.COUNT),
)  # fmt: skip
SENDING_ABOUT: Final = (
    "A client is named by its client id where an advisory tells it, else by its connection; what was sent by one that "
    "nobody tells of is counted under the connection in the message's id."
)
RECEIVING_COLUMNS: Final = (
    Column("destination"), Column("client"), Column("broker"), Column("is"), Column("given", Kind.COUNT),
    Column("came", Kind.TIME), Column("went", Kind.TIME),
)  # fmt: skip
RECEIVING_ABOUT: Final = "As advisories tell. Given: messages dispatched, where advisoryForDispatched is set."
NETWORK: Final = "another broker"
DURABLE: Final = "durable subscriber"
CONSUMER: Final = "consumer"


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer in an advisory."""

    broker: str
    destination: str
    client: str
    is_network: bool


@dataclass(frozen=True, slots=True)
class ClientFlows:
    """Senders, receivers and the chart of both; ``consumers`` distinguishes bridges of other brokers."""

    sending: Table
    receiving: Table
    chart: FlowChart | None
    consumers: dict[str, Consumer]


def client_flows(messages: DataFrame, events: DataFrame) -> ClientFlows:
    """Return all known flows between clients and destinations."""
    clients = _clients(events)
    sending = _sending(messages, events, clients)
    consumers, receiving = _receiving(events, clients)
    return ClientFlows(
        limit_rows("senders", "Who sends", SENDING_ABOUT, SENDING_COLUMNS, sending),
        limit_rows("receivers", "Who receives", RECEIVING_ABOUT, RECEIVING_COLUMNS, receiving),
        _chart(sending, receiving),
        consumers,
    )


def network_only(consumers: Mapping[str, Consumer], destinations: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the brokers and destinations at which only bridges of other brokers are known to consume."""
    patterns: dict[str, list[tuple[re.Pattern[str], bool]]] = {}
    for consumer in set(consumers.values()):
        patterns.setdefault(consumer.broker, []).append((pattern_of(consumer.destination), consumer.is_network))
    network_destinations: set[tuple[str, str]] = set()
    for broker, destination in destinations:
        fitting = [is_network for pattern, is_network in patterns.get(broker, []) if pattern.fullmatch(destination)]
        if fitting and all(fitting):
            network_destinations.add((broker, destination))
    return network_destinations


def pattern_of(destination: str) -> re.Pattern[str]:
    """Return a pattern for the destinations of a consumer.

    ``*`` matches one part of a name, a trailing ``>`` all further parts, and commas separate several destinations
    (Apache ActiveMQ, Wildcards; Composite Destinations).
    """
    scheme, _, names = destination.partition("://")
    choices = []
    for name in names.split(","):
        prefix, _, bare = name.rpartition("://")
        parts = [r"[^.]*" if part == "*" else re.escape(part) for part in bare.split(".")]
        text = r"\.".join(parts[:-1]) if parts[-1] == ">" else r"\.".join(parts)
        if parts[-1] == ">":
            text += r"(?:\..*)?" if text else ".*"
        choices.append(re.escape(f"{prefix or scheme}://") + text)
    return re.compile("|".join(choices))


def _clients(events: DataFrame) -> dict[str, str]:
    """Return client ids by connection."""
    reported = events.where("connection IS NOT NULL AND client IS NOT NULL").select("connection", "client").distinct()
    return {row["connection"]: row["client"] for row in reported.limit(MAX_CLIENTS).collect()}


def _sending(messages: DataFrame, events: DataFrame, clients: Mapping[str, str]) -> list[tuple[Value, ...]]:
    reported = events.where((F.col("kind") == DELIVERED) & (F.size("path") == 0) & F.col("connection").isNotNull())
    by_event = reported.groupBy("connection", "broker", "destination").count()
    archived = messages.where((F.col("role") == MESSAGES) & F.col("connection").isNotNull() & F.col("cause").isNull())
    by_archive = archived.groupBy("connection", "destination").count().withColumn("broker", F.lit(""))
    producers = events.where("structure = 'ProducerInfo' AND connection IS NOT NULL AND destination IS NOT NULL")
    silent = producers.select("connection", "broker", "destination").distinct().withColumn("count", F.lit(0))
    sums: dict[tuple[str, str], int] = {}
    brokers: dict[tuple[str, str], str] = {}
    for frame in (by_event, by_archive, silent):
        limited = frame.orderBy(F.desc("count"), "destination", "connection").limit(MAX_CLIENTS)
        counts: dict[tuple[str, str], int] = {}
        for row in limited.collect():
            key = (clients.get(row["connection"], row["connection"]), row["destination"])
            counts[key] = counts.get(key, 0) + row["count"]
            if row["broker"]:
                brokers[key] = row["broker"]
        for key, count in counts.items():  # both sources count the same messages, so the larger count is better
            sums[key] = max(sums.get(key, 0), count)
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return [(client, brokers.get((client, name)), name, count) for (client, name), count in ordered]


def _receiving(events: DataFrame, clients: Mapping[str, str]) -> tuple[dict[str, Consumer], list[tuple[Value, ...]]]:
    infos = events.where("structure = 'ConsumerInfo' AND party IS NOT NULL AND destination IS NOT NULL")
    grouped = infos.groupBy("party").agg(
        F.first("broker").alias("broker"),
        F.first("destination").alias("destination"),
        F.first("connection").alias("connection"),
        F.first("client", ignorenulls=True).alias("client"),
        F.first("subscription", ignorenulls=True).alias("subscription"),
        F.bool_or("is_network").alias("is_network"),
        F.min("at").alias("came"),
    )
    removed = events.where("kind = 'Consumer' AND structure = 'RemoveInfo'").groupBy("party")
    dispatched = events.where("kind = 'MessageDispatched' AND party IS NOT NULL").groupBy("party")
    frame = grouped.join(removed.agg(F.max("at").alias("went")), "party", "left")
    frame = frame.join(dispatched.agg(F.count("*").alias("given")), "party", "left")
    consumers: dict[str, Consumer] = {}
    rows: list[tuple[Value, ...]] = []
    for row in frame.orderBy(F.desc_nulls_last("given"), "destination", "party").limit(MAX_CLIENTS).collect():
        client = row["client"] or clients.get(row["connection"]) or row["connection"] or row["party"]
        consumers[row["party"]] = Consumer(row["broker"], row["destination"], client, row["is_network"])
        kind = NETWORK if row["is_network"] else DURABLE if row["subscription"] else CONSUMER
        rows.append((row["destination"], client, row["broker"], kind, row["given"], row["came"], row["went"]))
    return consumers, rows


def _chart(sending: list[tuple[Value, ...]], receiving: list[tuple[Value, ...]]) -> FlowChart | None:
    """Return a chart of the largest clients and destinations."""
    senders = _largest([(str(row[0]), _count(row[3])) for row in sending])
    names = _largest([(str(row[2]), _count(row[3])) for row in sending] + [(str(row[0]), 0) for row in receiving])
    receivers = _largest([(str(row[1]), _count(row[4])) for row in receiving])
    before: dict[tuple[str, str], int] = {}
    for row in sending:
        if row[0] in senders and row[2] in names:
            before[str(row[0]), str(row[2])] = _count(row[3])
    after: dict[tuple[str, str], int | None] = {}
    for row in receiving:
        key = (str(row[0]), str(row[1]))
        if key[0] in names and key[1] in receivers:
            known = after.get(key)
            after[key] = known if row[4] is None else (known or 0) + _count(row[4])
    if not before and not after:
        return None
    sent = [Link(start, end, count) for (start, end), count in before.items()]
    return FlowChart("parties", "Who sends to whom", sent, [Link(start, end, n) for (start, end), n in after.items()])


def _largest(counted: list[tuple[str, int]]) -> set[str]:
    sums: dict[str, int] = {}
    for name, count in counted:
        sums[name] = sums.get(name, 0) + count
    return set(sorted(sums, key=lambda name: (-sums[name], name))[:MAX_FLOW_NODES])


def _count(value: Value) -> int:
    return value if isinstance(value, int) else 0
