"""Links of AMQP 1.0: a receiver with credit, a sender with awaited outcomes.

A receiver has acknowledgements with answers.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import Any, Final

from proton import UNDESCRIBED, Array, Data, Described, Terminus, symbol, ulong

from spanwire.bridges.providers.amqp.connection import AmqpConnection, reason_of
from spanwire.bridges.providers.amqp.sections import MAX_MESSAGE
from spanwire.bridges.providers.inbox import MAX_OCTETS, Inbox
from spanwire.model.errors import JmsError

SEND_S: Final = 300.0  # seconds without credit or an outcome; a broker with a full disk is silent longer
OUTCOMES: Final = ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list")
SELECTOR: Final = "jms-selector"
SELECTOR_FILTER: Final = 0x0000468C00000004  # apache.org:selector-filter:string
ACCEPTED: Final = 0x24  # states of deliveries (OASIS AMQP 1.0, part 3, section 3.4; part 4, section 4.5)
REJECTED: Final = 0x25
RELEASED: Final = 0x26
MODIFIED: Final = 0x27
DECLARED: Final = 0x33
TRANSACTIONAL: Final = 0x34
PERMANENT: Final = frozenset(
    {
        "amqp:precondition-failed",
        "amqp:decode-error",
        "amqp:invalid-field",
        "amqp:not-implemented",
        "amqp:link:message-size-exceeded",
    }
)  # reasons that lie in the message; others, as a full queue, pass
NAMED_STATES: Final = dict(zip(OUTCOMES, (ACCEPTED, REJECTED, RELEASED, MODIFIED), strict=True))
FINAL_STATES: Final = frozenset({ACCEPTED, REJECTED, RELEASED, MODIFIED, DECLARED})


@dataclass(frozen=True, slots=True)
class Subscription:
    """Source of a receiver. ``name`` is the name of a durable subscription, or None."""

    address: str
    capability: str | None
    name: str | None = None
    selector: str | None = None


class Received:
    """A message of a receiver that is not settled yet."""

    __slots__ = ("delivery", "octets")

    def __init__(self, delivery: Any, octets: bytes) -> None:
        self.delivery: Final[Any] = delivery
        self.octets: Final[bytes] = octets


class _Link:
    """The common part of both directions: attach, and the end."""

    def __init__(self, connection: AmqpConnection, link: Any, address: str) -> None:
        self._connection: Final = connection
        self._link: Final[Any] = link
        self._address: Final[str] = address
        self._attached: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self._error: JmsError | None = None

    async def attach(self) -> None:
        """Open the link, and wait for the broker. Raises `JmsError` with the broker's reason."""
        self._link.open()
        await self._connection.answer(self._attached, f"the attach to {self._address}")

    def check(self) -> None:
        """Raise `JmsError` if the link is lost."""
        if self._error is not None:
            raise JmsError(str(self._error))
        self._connection.check()

    def on_attached(self) -> None:
        """Count the link as open, unless a terminus without an address announces the broker's refusal."""
        link = self._link
        terminus = link.remote_target if link.is_sender else link.remote_source
        if not self._attached.done() and terminus.type != Terminus.UNSPECIFIED:
            self._attached.set_result(None)

    def on_detached(self, reason: str) -> None:
        """Fail with the broker's reason."""
        self.fail(JmsError(f"{self._connection.place.shown}: {self._address}: {reason}"))

    def on_credit(self) -> None:
        """Do nothing; a sender waits for credit."""

    def fail(self, error: JmsError) -> None:
        """Count the link as lost; the first error counts."""
        if self._error is None:
            self._error = error
        if not self._attached.done():
            self._attached.set_exception(error)


class ReceiverLink(_Link):
    """A link from the broker. Messages are the broker's until `accept`, and go back with `release`."""

    def __init__(self, connection: AmqpConnection, subscription: Subscription, credit: int) -> None:
        """Describe the link; ``credit`` is the number of messages sent ahead by the broker."""
        self._subscription: Final = subscription
        self._credit: Final = credit
        self.inbox: Final[Inbox[Received]] = Inbox()
        self._parts: Final[list[bytes]] = []
        self._size = 0
        link = connection.session.receiver(subscription.name or f"from-{secrets.token_hex(8)}")
        link.rcv_settle_mode = link.RCV_FIRST  # RabbitMQ refuses the other one
        link.snd_settle_mode = link.SND_UNSETTLED
        _describe_source(link.source, subscription)
        super().__init__(connection, link, subscription.address)
        connection.add(link, self)

    async def attach(self) -> None:
        """Open the link and grant the first credit."""
        await super().attach()
        self._link.flow(self._credit)
        self._connection.flush()

    @property
    def has_selector(self) -> bool:
        """Return True if the broker has confirmed the selector."""
        data = self._link.remote_source.filter
        data.rewind()
        found = data.get_object() if data.next() else None
        return isinstance(found, dict) and SELECTOR in {str(name) for name in found}

    async def take(self, max_messages: int, max_bytes: int, wait_s: float) -> list[Received]:
        """Take messages as in `MessageSource.receive`, and let the broker send as many further messages."""
        taken = await self.inbox.take(max_messages, max_bytes, wait_s)
        if taken:
            self._link.flow(len(taken))
            self._read()
            self._connection.flush()
        return taken

    def accept(self, messages: list[Received], transaction: bytes | None = None) -> None:
        """Acknowledge messages.

        In a transaction the messages are the broker's until the commit, then call `settle`.
        """
        self.check()
        for message in messages:
            if transaction is None:
                message.delivery.update(ACCEPTED)
            else:
                message.delivery.local.data = [transaction, Described(ulong(ACCEPTED), [])]
                message.delivery.update(TRANSACTIONAL)
        if transaction is None:
            self.settle(messages)

    def settle(self, messages: list[Received]) -> None:
        """Forget messages."""
        for message in messages:
            message.delivery.settle()

    def release(self, messages: list[Received]) -> None:
        """Give unacknowledged messages back, without counting a delivery."""
        for message in messages:
            message.delivery.update(RELEASED)
        self.settle(messages)

    def detach(self) -> None:
        """End the link; a durable subscription stays at the broker."""
        if self._subscription.name is not None:
            self._link.detach()
        else:
            self._link.close()

    def on_delivery(self, delivery: Any) -> None:
        """Read octets."""
        self._read()

    def fail(self, error: JmsError) -> None:
        """Let all further calls fail."""
        super().fail(error)
        self.inbox.fail(error)

    def _read(self) -> None:
        """Move complete messages to the inbox.

        A full inbox leaves the rest with the engine, and the broker waits.
        """
        while self._error is None and self.inbox.octets < MAX_OCTETS:
            delivery = self._link.current
            if delivery is None:
                return
            if delivery.aborted:
                self._forget()
                delivery.settle()
                self._link.flow(1)  # the broker has spent a credit for nothing
                continue
            if size := delivery.pending:
                self._parts.append(self._link.recv(size) or b"")
                self._size += size
            if self._size > MAX_MESSAGE:
                self._refuse(f"a message has more than {MAX_MESSAGE} bytes")
            elif delivery.partial:
                return
            elif delivery.settled:
                self._refuse("the broker forgets messages before they are acknowledged, so they could be lost")
            else:
                octets = b"".join(self._parts)
                self._forget()
                self._link.advance()
                self.inbox.put(Received(delivery, octets), len(octets))

    def _forget(self) -> None:
        self._parts.clear()
        self._size = 0

    def _refuse(self, reason: str) -> None:
        self._forget()
        self.fail(JmsError(f"{self._connection.place.shown}: {self._address}: {reason}"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The fate of a sent message. ``reason`` is empty for a stored one, ``data`` is for transactions."""

    reason: str = ""
    is_permanent: bool = False  # the broker can never take the message
    data: Any = None


STORED: Final = Outcome()


class SenderLink(_Link):
    """A link to the broker; the link keeps the order of messages."""

    def __init__(
        self, connection: AmqpConnection, address: str | None, capability: str | None, is_durable: bool = False
    ) -> None:
        """Describe the link. Without an address the link leads to the coordinator of transactions.

        RabbitMQ creates the queue of the address, durable by ``is_durable``.
        """
        self._tags = 0
        self._waiting: Final[dict[Any, int]] = {}  # deliveries without an outcome, with their index in the batch
        self._outcomes: list[Outcome] = []
        self._changed: Final = asyncio.Event()  # credit, an outcome or the end
        link = connection.session.sender(f"to-{secrets.token_hex(8)}")
        link.snd_settle_mode = link.SND_UNSETTLED
        link.rcv_settle_mode = link.RCV_FIRST
        if address is None:
            link.target.type = Terminus.COORDINATOR
        else:
            link.target.address = address
        if is_durable:
            link.target.durability = Terminus.CONFIGURATION
        _add_capability(link.target, capability)
        super().__init__(connection, link, address or "the coordinator of transactions")
        connection.add(link, self)

    @property
    def max_message(self) -> int:
        """Return the largest message in octets that the broker takes, or 0 without a limit."""
        return int(self._link.remote_max_message_size)

    async def send(self, messages: list[bytes], transaction: bytes | None = None) -> list[Outcome]:
        """Send messages in order, and wait for the outcomes of all. Raises `JmsError` for a lost link."""
        self.check()
        self._outcomes = [STORED] * len(messages)
        for index, octets in enumerate(messages):
            while self._link.credit <= 0:
                await self._wait("credit")
            self._tags += 1
            delivery = self._link.delivery(str(self._tags))
            self._waiting[delivery] = index
            if transaction is not None:
                delivery.local.data = [transaction]
                delivery.update(TRANSACTIONAL)
            self._link.stream(octets)
            self._link.advance()
            self._connection.flush()
            self.check()
        while self._waiting:
            await self._wait("the outcome of a send")
        return self._outcomes

    def detach(self) -> None:
        """End the link."""
        self._connection.close_link(self._link)

    def on_credit(self) -> None:
        """Let a send go on."""
        self._changed.set()

    def on_delivery(self, delivery: Any) -> None:
        """Keep the outcome of a message."""
        if delivery not in self._waiting:
            return
        state, data = int(delivery.remote_state), delivery.remote.data
        if state == TRANSACTIONAL and isinstance(data, list) and len(data) > 1 and isinstance(data[1], Described):
            state = _state_of(data[1].descriptor)
        if state in FINAL_STATES or delivery.settled:
            self._outcomes[self._waiting.pop(delivery)] = _outcome(delivery, state, data)
            delivery.settle()
            self._changed.set()

    def fail(self, error: JmsError) -> None:
        """Let all further calls fail."""
        super().fail(error)
        self._changed.set()

    async def _wait(self, what: str) -> None:
        """Wait for the broker. Raises `JmsError` after `SEND_S` without a change."""
        self._changed.clear()
        self._connection.flush()
        self.check()
        try:
            async with asyncio.timeout(SEND_S):
                await self._changed.wait()
        except TimeoutError:
            raise JmsError(
                f"{self._connection.place.shown}: {self._address}: {what} is missing for {SEND_S:g} seconds; is the "
                "memory or the disk of the broker full?"
            ) from None
        self.check()


def _state_of(descriptor: object) -> int:
    """Return the state of a descriptor, which is a number or a name; 0 for an unknown one."""
    if isinstance(descriptor, int):
        return int(descriptor)
    return NAMED_STATES.get(str(descriptor), 0)


def _outcome(delivery: Any, state: int, data: Any) -> Outcome:
    if state in (ACCEPTED, DECLARED):
        return Outcome(data=data)
    if state == REJECTED:
        condition = delivery.remote.condition
        if condition is None or not condition.name:
            return Outcome("rejected without a reason")
        return Outcome(reason_of(condition), is_permanent=condition.name in PERMANENT)
    return Outcome("the broker gave the message back")


def _describe_source(source: Any, subscription: Subscription) -> None:
    source.address = subscription.address
    source.outcomes.put_object(Array(UNDESCRIBED, Data.SYMBOL, *(symbol(name) for name in OUTCOMES)))
    _add_capability(source, subscription.capability)
    if subscription.name is not None:
        source.durability = Terminus.DELIVERIES
        source.expiry_policy = Terminus.EXPIRE_NEVER
    if subscription.selector is not None:
        source.filter.put_object({symbol(SELECTOR): Described(ulong(SELECTOR_FILTER), subscription.selector)})


def _add_capability(terminus: Any, capability: str | None) -> None:
    if capability is not None:
        terminus.capabilities.put_object(Array(UNDESCRIBED, Data.SYMBOL, symbol(capability)))
