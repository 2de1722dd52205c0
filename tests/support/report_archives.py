"""Archives as ``spanwire pipeline archive`` writes them, made without a broker: messages, advisories, statistics."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pyarrow.parquet as pq

from spanwire.model.message_view import LONG_VALUE, STRING_VALUE, PropertyValue
from spanwire.pipeline.arrow.record_batch import record_batch
from spanwire.pipeline.columns.body_types import BODY_KINDS
from spanwire.pipeline.columns.column_decoder import ColumnDecoder
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.primitive_map import encode_map
from tests.support.pipeline_messages import raw_of, structure

BEFORE_MS: Final = 600_000


class Beginning:
    """When an archive begins: ten minutes before it is made, so that what running brokers tell comes right behind."""

    def __init__(self) -> None:
        self.ms = 0
        self.is_now()

    def is_now(self) -> None:
        """Another archive is begun."""
        self.ms = time.time_ns() // 1_000_000 - BEFORE_MS


BEGINNING: Final = Beginning()
DAY = "2023-11-14"
SENDER = "ID:sender-1"


def message_id(number: int) -> str:
    return f"{SENDER}:1:1:{number}"


def message(number: int, queue: str, at_ms: int = 0, path: tuple[str, ...] = (), body: object = "text") -> wire.Message:
    """A message sent at that time after the epoch; ``path`` are names of brokers."""
    made = structure(number, body)
    producer = wire.ProducerId(connection_id=SENDER, session_id=1, value=1)
    made.producer_id = producer
    made.message_id = wire.MessageId(producer_id=producer, producer_sequence_id=number, broker_sequence_id=number)
    made.destination = wire.ActiveMQQueue(queue)
    made.timestamp = BEGINNING.ms + at_ms
    made.broker_path = [wire.BrokerId(f"ID:{name}") for name in path] or None
    return made


@dataclass
class Archive:
    """What is to be written."""

    messages: list[wire.Message] = field(default_factory=list)

    def put(self, one: wire.Message) -> None:
        self.messages.append(one)

    def write(self, directory: Path) -> str:
        """The files; gives the directory's name."""
        by_destination: dict[str, list[wire.Message]] = {}
        for one in self.messages:
            to = one.destination
            assert to is not None
            scheme = "topic://" if isinstance(to, wire.ActiveMQTopic) else "queue://"
            by_destination.setdefault(f"{scheme}{to.physical_name}", []).append(one)
        (directory / "_archive").mkdir(parents=True)
        for destination, found in by_destination.items():
            decoder = ColumnDecoder(frozenset(BODY_KINDS))
            for one in found:
                raw = raw_of(one)
                decoder.add(raw.raw, raw.version, 0)
            folder = directory / f"destination={quote(destination, safe='')}" / f"day={DAY}"
            folder.mkdir(parents=True)
            batch = record_batch(decoder.take_columns())
            with pq.ParquetWriter(folder / "part-0.parquet", batch.schema) as writer:
                writer.write_batch(batch)
        return str(directory)


class Teller:
    """Writes advisories of brokers into an archive."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._number = 0

    def connection(self, broker: str, connection: str, client: str, at_ms: int = 0) -> None:
        told = wire.ConnectionInfo(connection_id=wire.ConnectionId(connection), client_id=client)
        self._tell(broker, "Connection", told, at_ms)

    def consumer(
        self, broker: str, queue: str, connection: str, client: str | None, is_network: bool = False, at_ms: int = 0
    ) -> None:
        told = wire.ConsumerInfo(
            consumer_id=wire.ConsumerId(connection_id=connection, session_id=1, value=1),
            client_id=client,
            destination=wire.ActiveMQQueue(queue),
            network_subscription=is_network,
        )
        self._tell(broker, f"Consumer.Queue.{queue}", told, at_ms)

    def producer(self, broker: str, queue: str, connection: str, at_ms: int = 0) -> None:
        producer_id = wire.ProducerId(connection_id=connection, session_id=1, value=1)
        told = wire.ProducerInfo(producer_id=producer_id, destination=wire.ActiveMQQueue(queue))
        self._tell(broker, f"Producer.Queue.{queue}", told, at_ms)

    def of_message(self, broker: str, kind: str, told: wire.Message, at_ms: int, **properties: str) -> None:
        """MessageDelivered, MessageConsumed, MessageDispatched, MessageDLQd or Expired."""
        assert told.destination is not None
        told.content = None
        entries: dict[str, PropertyValue] = {name: (STRING_VALUE, value) for name, value in properties.items()}
        self._tell(broker, f"{kind}.Queue.{told.destination.physical_name}", told, at_ms, entries)

    def _tell(
        self,
        broker: str,
        topic: str,
        told: DataStructure,
        at_ms: int,
        properties: dict[str, PropertyValue] | None = None,
    ) -> None:
        self._number += 1
        made = structure(self._number, None)
        producer = wire.ProducerId(connection_id=f"ID:{broker}-advisories", session_id=0, value=0)
        made.producer_id = producer
        made.message_id = wire.MessageId(producer_id=producer, producer_sequence_id=self._number)
        made.destination = wire.ActiveMQTopic(f"ActiveMQ.Advisory.{topic}")
        made.timestamp = 0
        made.broker_in_time = BEGINNING.ms + at_ms
        made.type = "Advisory"
        made.data_structure = told
        origin: dict[str, PropertyValue] = {
            "originBrokerId": (STRING_VALUE, f"ID:{broker}"),
            "originBrokerName": (STRING_VALUE, broker),
        }
        made.marshalled_properties = encode_map({**origin, **(properties or {})})
        self._archive.put(made)


def answer(number: int, broker: str, destination: str, at_ms: int, **counts: int) -> wire.Message:
    """An answer of the statistics plugin."""
    body: dict[str, PropertyValue] = {
        "brokerName": (STRING_VALUE, broker),
        "destinationName": (STRING_VALUE, destination),
    }
    body.update({name: (LONG_VALUE, value) for name, value in counts.items()})
    made = message(number, "STATISTICS", at_ms, body=body)
    return made
