"""Streams and consumers of JetStream, as a bridge needs them."""

from __future__ import annotations

import asyncio
import json
import re
from hashlib import blake2b
from typing import Any, Final

from nats.js.api import AckPolicy, ConsumerConfig, ConsumerInfo, DeliverPolicy, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from spanwire.bridges.model.definition import Source
from spanwire.bridges.providers.nats.connecting import ANSWER_S, NatsConnection, translated
from spanwire.model.errors import JmsError

NAMES: Final = "$JS.API.STREAM.NAMES"
ACK_WAIT_S: Final = 10.0  # seconds until the stream delivers the messages of a bridge that was killed to another
EPHEMERAL_S: Final = 600.0  # seconds until the server forgets a consumer without a name whose bridge was killed
DEAD_LETTERS: Final = "DLQ"  # beginning of the names of streams for dead letters
MAX_PART: Final = 200  # characters of a subject in the name of a stream, which is the name of a directory, too
PLAIN: Final = re.compile(rf"[A-Za-z0-9_.]{{1,{MAX_PART}}}")  # subjects whose dots can be hyphens in a name
UNFIT: Final = re.compile("[^A-Za-z0-9_]")  # characters that a name of a stream cannot have, or that are ambiguous
DIGEST: Final = 8  # bytes of a digest of a subject
MAX_SHOWN: Final = 5  # streams in an error


def context_of(connection: NatsConnection) -> JetStreamContext:
    """Return the library's context for calls to JetStream."""
    return connection.jetstream(timeout=ANSWER_S)


async def stream_of(connection: NatsConnection, subject: str) -> StreamConfig:
    """Return the only stream with a subject.

    Raises:
        JmsError: there is none, there are several, or the server has no JetStream.
    """
    shown = connection.place.shown
    names = await names_of(connection, subject)
    if not names:
        raise JmsError(f"{shown}: no stream has the subject {subject}; create one: nats stream add")
    if len(names) > 1:
        raise JmsError(
            f"{shown}: {subject} is in several streams ({', '.join(names[:MAX_SHOWN])}); name a subject of one"
        )
    with translated(connection.place):
        async with asyncio.timeout(ANSWER_S):
            config = (await context_of(connection).stream_info(names[0])).config
    if config.no_ack:
        raise JmsError(f"{shown}: the stream {names[0]} acknowledges nothing; switch no_ack off: nats stream edit")
    return config


async def names_of(connection: NatsConnection, subject: str) -> list[str]:
    """Return the names of the streams with a subject."""
    answer: Any = json.loads(await connection.answer(NAMES, json.dumps({"subject": subject}).encode()))
    if "error" in answer:
        raise JmsError(f"{connection.place.shown}: {answer['error'].get('description', 'refused')}")
    return [str(name) for name in answer.get("streams") or ()]


async def consumer_of(connection: NatsConnection, source: Source, credit: int) -> ConsumerInfo:
    """Return the durable consumer of a source, which is created at need, or a new one without a name.

    A durable consumer begins with the oldest message, another one with the next.

    Raises:
        JmsError: there is no stream, or the consumer that is there would lose or withhold messages.
    """
    subject, name = source.destination.name, source.subscription
    stream = await stream_of(connection, subject)
    context = context_of(connection)
    with translated(connection.place):
        async with asyncio.timeout(ANSWER_S):
            if name is not None:
                try:
                    found = await context.consumer_info(str(stream.name), name)
                except NotFoundError:
                    pass
                else:
                    check_consumer(connection, found, stream, subject, credit)
                    return found
            wished = ConsumerConfig(
                durable_name=name,
                deliver_policy=DeliverPolicy.NEW if name is None else DeliverPolicy.ALL,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=ACK_WAIT_S,
                filter_subject=subject,
                inactive_threshold=EPHEMERAL_S if name is None else None,
            )
            return await context.add_consumer(str(stream.name), wished)


def check_consumer(
    connection: NatsConnection, found: ConsumerInfo, stream: StreamConfig, subject: str, credit: int
) -> None:
    """Raise `JmsError` for a consumer of somebody else that would lose or withhold messages."""
    config = found.config
    if config.deliver_subject:
        wrong = "pushes messages, and a bridge pulls them"
    elif config.ack_policy != AckPolicy.EXPLICIT:
        wrong = "does not ask for an acknowledgement of each message"
    elif (config.max_deliver or -1) > 0:
        wrong = f"gives a message up after {config.max_deliver} deliveries, which would lose it"
    elif config.headers_only:
        wrong = "delivers headers alone"
    elif config.filter_subjects or (config.filter_subject or (stream.subjects or [""])[0]) != subject:
        wrong = f"has other subjects than {subject}"
    elif 0 < (config.max_ack_pending or -1) < credit:
        wrong = (
            f"lets {config.max_ack_pending} messages wait for an acknowledgement, and this maxBatchSize needs {credit}"
        )
    else:
        return
    raise JmsError(
        f"{connection.place.shown}: the consumer {found.name} of the stream {found.stream_name} {wrong}; remove it, "
        "and the bridge creates its own"
    )


async def create_dead_letters(connection: NatsConnection, subject: str) -> None:
    """Create a stream for a subject of dead letters, unless a stream has it."""
    if await names_of(connection, subject):
        return
    with translated(connection.place):
        async with asyncio.timeout(ANSWER_S):
            config = StreamConfig(name=dead_letter_stream_of(subject), subjects=[subject])
            await context_of(connection).add_stream(config)


def dead_letter_stream_of(subject: str) -> str:
    """Return the name of the stream for a subject of dead letters; with a digest unless it is one subject's alone."""
    if PLAIN.fullmatch(subject):
        return f"{DEAD_LETTERS}-{subject.replace('.', '-')}"
    digest = blake2b(subject.encode(), digest_size=DIGEST).hexdigest()
    return f"{DEAD_LETTERS}-{UNFIT.sub('-', subject)[:MAX_PART]}-{digest}"
