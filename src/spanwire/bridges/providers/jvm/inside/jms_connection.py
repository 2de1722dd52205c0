"""One connection of JMS with a transacted session: receives, sends, and commits.

All calls come from one thread, because a session of JMS belongs to one. Replies have sessions of their own.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import jpype

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.jvm.frames import MESSAGES, Header
from spanwire.bridges.providers.jvm.inside.java import Java, JavaError, make_factory, one_line, text_of
from spanwire.bridges.providers.jvm.inside.jms_messages import MessageReader, write_message
from spanwire.model.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, Destination, parse_destination
from spanwire.model.errors import MessageFormatError

SLICE_MS: Final = 250  # milliseconds of one wait in Java; a call that is cancelled ends within this time
MAX_TEMPORARY: Final = 10_000  # temporary destinations of requesters that are remembered, replyToDestinationCacheSize
CAUSE: Final = "dlqDeliveryFailureCause"  # properties of a dead letter, with ActiveMQ's name for the cause
ORIGIN: Final = "originalDestination"
SUFFIX: Final = ".DLQ"  # behind the name of the source
MAX_CAUSE: Final = 1_000  # characters
FAULTS: Final = ("MessageFormatException", "MessageNotWriteableException", "InvalidDestinationException")

Tell = Callable[[Header, list[bytes]], None]


class RefusedError(Exception):
    """The message ``index`` of a batch can never be sent."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index: Final = index


class JmsConnection:
    """A connection with a consumer, a producer, or both in one transaction."""

    def __init__(self, spec: dict[str, Any], tell: Tell) -> None:
        """Connect. ``tell`` sends an event. Raises `JavaError`, or a Java exception."""
        self._tell: Final = tell
        self._cancelled: Final = threading.Event()
        self._temporary: Final[OrderedDict[str, Java]] = OrderedDict()
        self._last: Java = None  # the last received message
        self._source: Destination | None = None
        self._consumer: Java = None
        self._producer: Java = None
        self._replies: dict[str, tuple[Java, Java]] = {}
        factory, self._api = make_factory(spec["factory"])
        self._reader: Final = MessageReader(self._api, self._name_of)
        user = spec["user"]
        self._connection: Final = self._connect(factory, user, spec["password"] or "")
        try:
            self._open(spec)
        except BaseException:
            self.close()
            raise

    def _connect(self, factory: Java, user: str | None, password: str) -> Java:
        """Return a connection."""
        return factory.createConnection() if user is None else factory.createConnection(user, password)

    def _new_session(self) -> Java:
        """Return the session for receipts and sends."""
        kind = jpype.JClass(f"{self._api}.Session")
        return self._connection.createSession(True, kind.SESSION_TRANSACTED)

    def _open(self, spec: dict[str, Any]) -> None:
        if spec["client_id"] is not None:
            self._connection.setClientID(spec["client_id"])
        self._connection.setExceptionListener(
            jpype.JProxy(f"{self._api}.ExceptionListener", dict={"onException": self._lost})
        )
        self._session: Java = self._new_session()
        kind = jpype.JClass(f"{self._api}.Session")
        self._other: Java = self._connection.createSession(False, kind.AUTO_ACKNOWLEDGE)  # for replies
        if spec["target"] is not None:
            self._producer = self._session.createProducer(self._java_destination(parse_destination(spec["target"])))
        if spec["source"] is not None:
            self._source = parse_destination(spec["source"])
            self._consumer = self._consume(self._java_destination(self._source), spec["selector"], spec["subscription"])
        self._connection.start()

    def _consume(self, destination: Java, selector: str | None, subscription: str | None) -> Java:
        if subscription is not None:
            return self._session.createDurableSubscriber(destination, subscription, selector, False)
        if selector is not None:
            return self._session.createConsumer(destination, selector)
        return self._session.createConsumer(destination)

    def cancel(self) -> None:
        """Let `receive` of another thread return soon."""
        self._cancelled.set()

    def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> tuple[Header, list[bytes]]:
        """Wait for a message, then take the messages at hand."""
        deadline = time.monotonic() + wait_s
        headers: list[Header] = []
        blobs: list[bytes] = []
        octets = 0
        message = None
        while message is None and not self._cancelled.is_set():
            left_ms = int((deadline - time.monotonic()) * 1000)
            if left_ms <= 0:
                break
            message = self._consumer.receive(jpype.JLong(min(left_ms, SLICE_MS)))
        self._cancelled.clear()
        while message is not None:
            self._last = message
            header, parts = self._reader.read(message)
            headers.append(header)
            blobs += parts
            octets += len(parts[0]) + len(parts[1])
            if len(headers) >= max_messages or octets >= max_bytes:
                break
            message = self._consumer.receiveNoWait()
        return {MESSAGES: headers}, blobs

    def commit(self) -> None:
        """Commit receipts and sends."""
        self._session.commit()

    def send(self, messages: list[BridgeMessage]) -> None:
        """Send in the transaction. Raises `RefusedError` for a message at fault."""
        for index, message in enumerate(messages):
            self._send(self._session, self._producer, message, index)

    def roll_back(self) -> None:
        """Roll back receipts and sends."""
        self._session.rollback()

    def dead_letter(self, cause: str) -> None:
        """Send the last message to the dead letter queue, in the transaction of its receipt."""
        self._send_dead_letter(cause)
        self._session.commit()

    def _send_dead_letter(self, cause: str) -> None:
        message, source = self._last, self._source
        assert message is not None and source is not None
        properties = self._property_objects(message)
        message.clearProperties()
        for name, value in properties.items():
            message.setObjectProperty(name, value)
        message.setStringProperty(CAUSE, one_line(cause)[:MAX_CAUSE])
        message.setStringProperty(ORIGIN, source.qualified_name)
        producer = self._session.createProducer(self._session.createQueue(source.name + SUFFIX))
        try:
            producer.send(message, message.getJMSDeliveryMode(), message.getJMSPriority(), jpype.JLong(0))
        finally:
            producer.close()

    def _property_objects(self, message: Java) -> dict[str, Java]:
        names, found = message.getPropertyNames(), dict[str, Java]()
        while names.hasMoreElements():
            name = str(names.nextElement())
            if not name.startswith(("JMSX", "JMS_")):
                found[name] = message.getObjectProperty(name)
        return found

    def send_reply(self, message: BridgeMessage, qualified_name: str) -> None:
        """Send a reply outside of the transaction."""
        destination = self._java_destination(parse_destination(qualified_name))
        producer = self._other.createProducer(destination)
        try:
            self._send(self._other, producer, message, 0)
        finally:
            producer.close()

    def open_reply_queue(self) -> str:
        """Create a temporary queue; messages become events. Returns the qualified name of the queue."""
        session = self._connection.createSession(False, jpype.JClass(f"{self._api}.Session").AUTO_ACKNOWLEDGE)
        queue = session.createTemporaryQueue()
        name = self._name_of(queue)

        def on_message(message: Java) -> None:
            header, blobs = self._reader.read(message)
            self._tell({"event": "reply", "queue": name, MESSAGES: [header]}, blobs)

        consumer = session.createConsumer(queue)
        consumer.setMessageListener(jpype.JProxy(f"{self._api}.MessageListener", dict={"onMessage": on_message}))
        self._replies[name] = session, queue
        return name

    def close_reply_queue(self, name: str) -> None:
        """Remove a temporary queue."""
        session, queue = self._replies.pop(name)
        session.close()
        queue.delete()
        self._temporary.pop(name, None)

    def close(self) -> None:
        """Close the connection; the broker rolls back."""
        try:
            self._connection.close()
        except jpype.JException:
            return  # it is lost already

    def _send(self, session: Java, producer: Java, message: BridgeMessage, index: int) -> None:
        try:
            written = write_message(session, message, self._java_destination)
            mode = jpype.JClass(f"{self._api}.DeliveryMode")
            live_ms = 0
            if message.expiration_ms > 0:
                live_ms = max(1, message.expiration_ms - time.time_ns() // 1_000_000)
            producer.send(
                written,
                jpype.JInt(mode.PERSISTENT if message.persistent else mode.NON_PERSISTENT),
                jpype.JInt(message.priority),
                jpype.JLong(live_ms),
            )
        except MessageFormatError as error:
            raise RefusedError(index, str(error)) from None
        except jpype.JException as error:
            if is_fault(error):
                raise RefusedError(index, text_of(error)) from None
            raise

    def _java_destination(self, destination: Destination) -> Java:
        """Return a destination. Raises `JavaError` for a temporary destination unknown to the connection."""
        if destination.kind in (TEMP_QUEUE, TEMP_TOPIC):
            known = self._temporary.get(destination.qualified_name)
            if known is None:
                raise JavaError(f"{destination} is a temporary destination of another connection, and gone")
            return known
        create = self._session.createTopic if destination.kind == TOPIC else self._session.createQueue
        return create(destination.name)

    def _name_of(self, destination: Java) -> str:
        """Return the qualified name of a destination, and remember a temporary destination."""
        for word, kind, temporary in (("Queue", QUEUE, TEMP_QUEUE), ("Topic", TOPIC, TEMP_TOPIC)):
            if isinstance(destination, jpype.JClass(f"{self._api}.{word}")):
                is_temporary = isinstance(destination, jpype.JClass(f"{self._api}.Temporary{word}"))
                name = str(destination.getQueueName() if word == "Queue" else destination.getTopicName())
                qualified = Destination(temporary if is_temporary else kind, name).qualified_name
                if is_temporary:
                    self._temporary[qualified] = destination
                    self._temporary.move_to_end(qualified)
                    if len(self._temporary) > MAX_TEMPORARY:
                        self._temporary.popitem(last=False)
                return qualified
        raise MessageFormatError("a destination is neither a queue nor a topic")

    def _lost(self, error: Java) -> None:
        self._tell({"event": "lost", "reason": text_of(error)}, [])


def is_fault(error: Java) -> bool:
    """Return True for a Java exception about one message, after which the session can be used further."""
    name = str(error.getClass().getSimpleName())
    return name in FAULTS or name in ("IllegalArgumentException", "MessageEOFException")
