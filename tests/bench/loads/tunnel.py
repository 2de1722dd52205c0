"""OpenWire over HTTP with prepared requests: a producer and a consumer, each with two sockets as activemq-http has.

The XML is that of Java's client. Messages are not persistent, and the consumer acknowledges each. Both sides count
messages, so a lost one or one that comes twice ends the run.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from typing import Final

from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.xstream.writer import XmlWriter

SEQUENCE: Final = re.compile(rb"<producerSequenceId>(\d+)</producerSequenceId>")
MESSAGE_ID: Final = re.compile(rb"<messageId>.*?</messageId>", re.DOTALL)
PREFETCH: Final = 1_000
DISPATCH: Final = b"<org.apache.activemq.command.MessageDispatch>"
RESPONSE: Final = b"command.Response>"
REFUSAL: Final = b"ExceptionResponse"

Ask = Callable[[socket.socket], tuple[bytes, bytes]]  # reads an answer: its head and body


class TunnelEnd:
    """One client of OpenWire over HTTP, whose session is open and logged in."""

    def __init__(self, connect: Callable[[int], socket.socket], ask: Ask, port: int, name: str) -> None:
        """``connect`` opens a socket to a port, and ``ask`` reads an answer: its head and body."""
        self._ask: Final = ask
        self._head: Final = f"Host: 127.0.0.1:{port}\r\nclientID: {name}\r\n"
        self._writer: Final = connect(port)
        self._reader: Final = connect(port)
        self._get: Final = f"GET / HTTP/1.1\r\n{self._head}\r\n".encode()
        self._commands = 0
        self.session_id: Final = wire.SessionId(connection_id=name, value=1)
        self._exchange(f"HEAD / HTTP/1.1\r\n{self._head}\r\n".encode())
        self.posts(wire.ConnectionInfo(connection_id=wire.ConnectionId(name), client_id=name), awaits=True)
        self.posts(wire.SessionInfo(self.session_id), awaits=True)

    def _exchange(self, request: bytes) -> None:
        self._writer.sendall(request)
        head, _ = self._ask(self._writer)
        if not head.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(head.decode("latin-1"))

    def text(self, command: DataStructure, *, awaits: bool = False) -> bytes:
        """Return the XML of a command with the next number."""
        if isinstance(command, wire.BaseCommand):
            self._commands += 1
            command.command_id = self._commands
            command.response_required = awaits
        return XmlWriter().text(FrameEncoder().encode(command))

    def posts(self, command: DataStructure, *, awaits: bool = False) -> None:
        """Send a command; with ``awaits`` read up to the broker's answer."""
        self.posts_text(self.text(command, awaits=awaits))
        while awaits:
            text = self.polls()
            if REFUSAL in text:
                raise ConnectionError(text.decode("utf-8", "replace"))
            awaits = RESPONSE not in text

    def posts_text(self, text: bytes) -> None:
        """Send the XML of a command."""
        head = f"POST / HTTP/1.1\r\n{self._head}Content-Type: text/plain\r\nContent-Length: {len(text)}\r\n\r\n"
        self._exchange(head.encode() + text)

    def polls(self) -> bytes:
        """Return the XML of the broker's next command."""
        self._reader.sendall(self._get)
        head, body = self._ask(self._reader)
        if not head.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(head.decode("latin-1"))
        return body[4:]

    def close(self) -> None:
        """End the session."""
        self.posts(wire.RemoveInfo(object_id=wire.ConnectionId(self.session_id.connection_id)))
        self._writer.close()
        self._reader.close()


def through_tunnel(
    connect: Callable[[int], socket.socket], ask: Ask, port: int, queue: str, count: int, body: bytes, wait_s: float
) -> None:
    """Send messages to a queue and receive them. Raises `ConnectionError` for a lost or repeated message."""
    destination = wire.ActiveMQQueue(physical_name=queue)
    consumer, producer = (TunnelEnd(connect, ask, port, f"ID:{queue}-{role}:1") for role in ("c", "p"))
    consumer_id = wire.ConsumerId(connection_id=consumer.session_id.connection_id, session_id=1, value=1)
    consumer.posts(
        wire.ConsumerInfo(consumer_id=consumer_id, destination=destination, prefetch_size=PREFETCH), awaits=True
    )
    producer_id = wire.ProducerId(connection_id=producer.session_id.connection_id, session_id=1, value=1)
    producer.posts(wire.ProducerInfo(producer_id=producer_id), awaits=True)
    found: list[int] = []
    reader = threading.Thread(target=_receive, args=(consumer, consumer_id, destination, count, found))
    reader.start()
    for number in range(count):
        message = wire.ActiveMQBytesMessage()
        message.producer_id = producer_id
        message.message_id = wire.MessageId(producer_id=producer_id, producer_sequence_id=number + 1)
        message.destination = destination
        message.content = body
        message.priority = 4
        producer.posts(message)
    reader.join(wait_s)
    if found != list(range(1, count + 1)):
        raise ConnectionError(f"of {count} messages {len(set(found))} have come, {len(found)} in all")
    consumer.close()
    producer.close()


def _receive(
    consumer: TunnelEnd, consumer_id: wire.ConsumerId, destination: wire.ActiveMQQueue, count: int, found: list[int]
) -> None:
    ack = wire.MessageAck(consumer_id=consumer_id, destination=destination, ack_type=2, message_count=1)
    end = b"</org.apache.activemq.command.MessageAck>"
    empty = consumer.text(ack).replace(b"<lastMessageId/>", b"")
    while len(found) < count:
        text = consumer.polls()
        if DISPATCH not in text:
            continue
        message_id = MESSAGE_ID.search(text)
        sequence = SEQUENCE.search(text, message_id.start() if message_id else 0)
        assert message_id is not None and sequence is not None, text
        found.append(int(sequence[1]))
        last = message_id[0].replace(b"messageId>", b"lastMessageId>")
        consumer.posts_text(empty.replace(end, last + end))
