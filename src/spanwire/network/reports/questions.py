"""Asks a remote broker for a report.

A Spanwire is asked by the control destination, an ActiveMQ by the statistics plug-in.

The login is the link's login, and goes to the address of the link's connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from spanwire.client import aio
from spanwire.client.messages.message import Message
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.network.reports.known_brokers import (
    ACTIVEMQ,
    MAX_DESTINATIONS,
    MAX_LINKS,
    MAX_REPORT_BYTES,
    MAX_TEXT,
    SILENT,
    Peer,
    Row,
    read_rows,
    silent,
)
from spanwire.network.reports.message_questions import read_explanations
from spanwire.network.reports.statistics import BROKER, CONSUMERS, LAST, BrokerReport, read
from spanwire.protocols.openwire.codec.wire_format import PROVIDER_NAME

CONTROL: Final = "queue://ActiveMQ.Spanwire.Control"
ACTION: Final = "network"
GOSSIP: Final = "gossip"
PATIENCE_S: Final = 3.0  # seconds for all answers to a question, after the login
CONNECT_MS: Final = 3_000
QUESTION_MS: Final = 5_000  # a question that no plug-in takes expires, and fills no queue
CLOSE_MS: Final = 500  # a broker that is late with its answer does not get long for the farewell
MAX_ANSWERS: Final = 5_000  # consumers of an ActiveMQ; its bridges are among the first, as they are consumers for long
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024  # bytes of all these answers; one has about 1 KiB
KEPT: Final = (
    "brokerName", "brokerId", "size", "consumerCount", "clientId", "destinationName", "dispatchedQueueSize",
    "dequeueCounter",
)  # fmt: skip


async def ask(peer: Peer, watch_s: int, report: str) -> list[Row]:
    """Return the rows of a broker: its own, and the rows of brokers known there.

    Errors are a row with ``silence``.

    Args:
        peer: the broker at the other end of a link.
        watch_s: seconds for which the broker is to ask others in turn.
        report: the report of this broker as JSON, for a broker that has asked for it; "" for others.
    """
    try:
        async with _connected(peer) as connection:
            link = connection.shared.core.correlator.link
            if link is not None and link.wire_format.provider_name == PROVIDER_NAME:
                return await _control(connection, peer, watch_s, report)
            return [await _statistics(connection, peer)]
    except (SpanwireError, OSError) as error:
        return [silent(peer, f"cannot be asked: {error}")]


async def ask_why(peer: Peer, message_id: str, asked: Sequence[str], seconds: float, question: str) -> list[Row]:
    """Return a broker's explanations of a message, and the explanations of the brokers behind.

    Args:
        peer: the broker at the other end of a link.
        message_id: the id of the message.
        asked: names of the brokers already asked.
        seconds: the time for the answer.
        question: the id of the question, the same for all brokers.

    Raises:
        SpanwireError: the broker cannot be asked, refuses, or is of another kind.
        OSError: the broker cannot be reached.
    """
    properties = {"message": message_id}
    return read_explanations(await _asked(peer, "why", "", properties, asked, seconds, question))


async def ask_brokers(peer: Peer, action: str, text: str, asked: Sequence[str], seconds: float, question: str) -> str:
    """Return a broker's answer to a question of another kind, of any form.

    Args:
        peer: the broker at the other end of a link.
        action: the kind of the question.
        text: the question, as JSON.
        asked: names of the brokers already asked.
        seconds: the time for the answer.
        question: the id of the question, the same for all brokers.

    Raises:
        SpanwireError: the broker cannot be asked, refuses, or is of another kind.
        OSError: the broker cannot be reached.
    """
    return await _asked(peer, action, text, {}, asked, seconds, question)


async def _asked(
    peer: Peer, action: str, text: str, more: dict[str, str], asked: Sequence[str], seconds: float, question: str
) -> str:
    async with _connected(peer) as connection:
        link = connection.shared.core.correlator.link
        if link is None or link.wire_format.provider_name != PROVIDER_NAME:
            raise JmsError("is no Spanwire, and tells nothing of single messages: browse its queues")
        properties: dict[str, str | int] = {
            "action": action, **more, "asked": "\n".join(asked), "seconds": int(seconds),
            "question": question,
        }  # fmt: skip
        answer = await connection.session().request(CONTROL, text, properties, timeout=seconds)
        if answer is None:
            raise JmsError("does not answer")
        if answer.properties.get("status") != "ok":
            raise JmsError(f"tells nothing: {answer.properties.get('reason')}")
        return str(answer.body or "")


async def ask_gossip(peer: Peer, text: str) -> str:
    """Tell a broker the members known here; return the members known there.

    Args:
        peer: the broker at the other end of a link.
        text: the members as JSON.

    Raises:
        SpanwireError: the broker cannot be asked, refuses, or is of another kind.
        OSError: the broker cannot be reached.
    """
    async with _connected(peer) as connection:
        link = connection.shared.core.correlator.link
        if link is None or link.wire_format.provider_name != PROVIDER_NAME:
            raise JmsError("is no Spanwire, and knows no members")
        answer = await connection.session().request(CONTROL, text, {"action": GOSSIP}, timeout=PATIENCE_S)
        if answer is None:
            raise JmsError("does not answer")
        if answer.properties.get("status") != "ok":
            raise JmsError(f"tells no members: {answer.properties.get('reason')}")
        return str(answer.body or "")


def _connected(peer: Peer) -> aio.Connecting:
    """Return a connection to a broker by the address and login of the link, to be entered."""
    mark = "&" if "?" in peer.uri else "?"
    url = f"{peer.uri}{mark}connectionTimeout={CONNECT_MS}&jms.closeTimeout={CLOSE_MS}"
    password = None if peer.password is None else peer.password.reveal()
    return aio.connect(url, peer.user_name, password, None, peer.tls)


async def _control(connection: aio.Connection, peer: Peer, watch_s: int, report: str) -> list[Row]:
    session = connection.session()
    answer = await session.request(CONTROL, report, {"action": ACTION, "seconds": watch_s}, timeout=PATIENCE_S)
    if answer is None:
        return [silent(peer, "does not answer")]
    if answer.properties.get("status") != "ok":
        return [silent(peer, f"tells nothing: {answer.properties.get('reason')}")]
    text = str(answer.body or "")
    if len(text) > MAX_REPORT_BYTES:
        return [silent(peer, f"tells more than {MAX_REPORT_BYTES} bytes")]
    return read_rows(text)


async def _statistics(connection: aio.Connection, peer: Peer) -> Row:
    session = connection.session()
    replies = await session.create_temporary_queue()
    consumer = await session.create_consumer(replies)
    producer = await session.create_producer(None, persistent=False, time_to_live_ms=QUESTION_MS)
    for name, mark in ((BROKER, None), (CONSUMERS, None), (BROKER, LAST)):
        await producer.send(None, destination=f"queue://{name}", reply_to=replies, correlation_id=mark)
    answers = await received(consumer)
    if not answers:
        return silent(peer, SILENT)
    report = BrokerReport(peer.uri)
    read(report, answers)
    return row_of(report)


class Receiving(Protocol):
    """The part of a consumer used here."""

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message."""
        ...


async def received(consumer: Receiving) -> list[dict[str, object]]:
    """Return the answers of the statistics plug-in within `PATIENCE_S`, in bounded number and size.

    Other messages, and the parts of an answer without use for a map, are not kept.
    """
    answers: list[dict[str, object]] = []
    size, clock = 0, asyncio.get_running_loop().time
    until = clock() + PATIENCE_S
    for _ in range(MAX_ANSWERS):
        message = await consumer.receive(max(0.0, until - clock()))
        if message is None:
            break
        size += len(message.raw)
        if size > MAX_ANSWER_BYTES:
            break
        body = message.body
        if isinstance(body, dict) and ("clientId" in body or "brokerName" in body):
            answers.append({name: body[name] for name in KEPT if name in body})
        if message.correlation_id == LAST:
            break
    return answers


def row_of(report: BrokerReport) -> Row:
    """Return the statistics of an ActiveMQ as a row: demand and counters of the links, without states."""
    return {
        "name": report.name[:MAX_TEXT],
        "id": report.broker_id[:MAX_TEXT],
        "kind": ACTIVEMQ,
        "silence": "" if report.tells_links else 'tells no links: set useJmx="true"',
        "age_s": 0.0,
        "links": [
            {
                "name": link.connector[:MAX_TEXT], "uri": "", "remote": link.remote[:MAX_TEXT],
                "state": "", "reason": "",
                "demand": float(len(link.demand)), "in_flight": float(sum(one.in_flight for one in link.demand)),
                "dequeued": float(sum(one.forwarded for one in link.demand)), "duplex": False, "accepted": False,
                "incoming": link.incoming,
                "destinations": [one.destination[:MAX_TEXT] for one in link.demand[:MAX_DESTINATIONS]],
            }
            for link in report.links[:MAX_LINKS]
        ],
    }  # fmt: skip
