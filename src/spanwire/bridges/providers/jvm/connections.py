"""Source, target and local transaction as requests to a host."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, WrongConnectionError
from spanwire.bridges.providers.jvm.frames import MESSAGES, Header, UnwritableError, read_messages, write_messages
from spanwire.bridges.providers.jvm.host import Answer, HostAnswerError, JvmHost
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import JmsError

CLOSE_S: Final = 5.0  # seconds for the close of a connection; a broker that is silent must not hold up the next attempt
ANSWER_S: Final = (
    60.0  # seconds for all but a send; Artemis' client gives a silent broker up after 30 s, others never do
)
SEND_S: Final = 300.0  # seconds for a send; a broker with a full disk or memory lets producers wait
MAX_REPLIES: Final = 1_000  # replies that wait for their original destination; then the oldest ones are lost

SENDS: Final = ("send", "send_and_commit", "send_reply", "xa_send", "dead_letter")

OnReply = Callable[[BridgeMessage], Awaitable[None]]


class HostConnection:
    """A connection in a host: requests, receipts, and its loss."""

    def __init__(self, host: JvmHost, answer_s: float = ANSWER_S, send_s: float = SEND_S) -> None:
        """A Java provider that is silent for ``send_s`` seconds after a send, else ``answer_s``, counts as lost."""
        self._host: Final = host
        self._number = 0
        self._lost: JmsError | None = None
        self._answer_s = answer_s
        self._send_s = send_s
        self._limit_s = answer_s  # of the receive under way
        self._received: Final[deque[BridgeMessage]] = deque()  # beyond the limits of a cancelled call
        self._pending: asyncio.Future[Answer] | None = None  # the receive under way

    async def open(self, header: Header) -> None:
        """Connect. Raises `JmsError`, `WrongConnectionError` for a factory that can never connect."""
        self._number = await self._host.join(self._on_event)
        try:
            await self._ask({"do": "open", **header})
        except BaseException as error:
            await self.close()
            if isinstance(error, HostAnswerError) and error.is_permanent:
                raise WrongConnectionError(str(error)) from None
            raise

    async def receive_by(
        self, request: Header, max_messages: int, max_bytes: int, wait_s: float
    ) -> list[BridgeMessage]:
        """Receive by a request. Messages for a cancelled call are kept for the next call."""
        if self._received:
            return self._taken(max_messages, max_bytes)
        if self._pending is None:
            self.check()
            limits = {"max_messages": max_messages, "max_bytes": max_bytes, "wait_s": wait_s}
            self._pending = self._host.ask({**request, "connection": self._number, **limits})
            self._limit_s = wait_s + self._answer_s
        try:
            await asyncio.wait((self._pending,), timeout=self._limit_s)
        except asyncio.CancelledError:
            self._host.cancel(self._number)
            raise
        self._take_pending()
        return self._taken(max_messages, max_bytes)

    def _take_pending(self) -> None:
        pending, self._pending = self._pending, None
        assert pending is not None
        if not pending.done():
            raise self._silent("receive", self._limit_s)
        try:
            header, blobs = pending.result()
        except HostAnswerError as error:
            raise self._failed(error) from None
        self._received.extend(read_messages(header[MESSAGES], blobs))

    def _taken(self, max_messages: int, max_bytes: int) -> list[BridgeMessage]:
        taken: list[BridgeMessage] = []
        room = max_bytes
        while self._received and len(taken) < max_messages and (room > 0 or not taken):
            taken.append(self._received.popleft())
            room -= taken[-1].size
        return taken

    async def end_receive(self) -> None:
        """End a receive under way, before the end of its transaction.

        Raises:
            JmsError: a message has arrived for a cancelled call, which the transaction would acknowledge.
        """
        if self._pending is not None:
            self._host.cancel(self._number)
            self._limit_s = self._answer_s
            await asyncio.wait((self._pending,), timeout=self._limit_s)
            self._take_pending()
        if self._received:
            raise JmsError("a message has arrived for a call that was cancelled, so the batch is received anew")

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        if self._lost is not None:
            raise JmsError(str(self._lost))

    async def close(self) -> None:
        """Close the connection; the broker rolls back."""
        self._host.cancel(self._number)
        with contextlib.suppress(JmsError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._host.ask({"do": "close", "connection": self._number})
        self._host.leave(self._number)

    async def _ask(self, header: Header, blobs: list[bytes] | None = None) -> Answer:
        self.check()
        limit_s = self._send_s if header["do"] in SENDS else self._answer_s
        try:
            answer = self._host.ask({**header, "connection": self._number}, blobs or [])
            async with asyncio.timeout(limit_s):
                await self._host.drain()
                return await answer
        except TimeoutError:
            raise self._silent(header["do"], limit_s) from None
        except HostAnswerError as error:
            raise self._failed(error) from None

    def _silent(self, action: str, limit_s: float) -> JmsError:
        """Return the error of a request without an answer; the connection is not used again."""
        what = action.removeprefix("xa_").replace("_", " ")
        hint = "; a broker with a full disk or memory lets producers wait" if action in SENDS else ""
        error = JmsError(f"the Java provider has not answered for {limit_s:g} s: {what}{hint}")
        self._lost = self._lost or error
        return error

    def _failed(self, error: HostAnswerError) -> HostAnswerError:
        if error.is_lost and self._lost is None:
            self._lost = error
        return error

    def _on_event(self, header: Header, blobs: list[bytes]) -> None:
        if header["event"] == "lost":
            if self._lost is None:
                self._lost = JmsError(header["reason"])
            if self._pending is not None:
                self._host.cancel(self._number)


class JvmConnection(HostConnection):
    """Source, target and local transaction at once, by the purpose at opening."""

    def __init__(self, host: JvmHost, answer_s: float = ANSWER_S, send_s: float = SEND_S) -> None:
        super().__init__(host, answer_s, send_s)
        self._on_reply: Final[dict[str, OnReply]] = {}
        self._replies: Final[asyncio.Queue[tuple[OnReply, BridgeMessage]]] = asyncio.Queue(MAX_REPLIES)
        self._replying: asyncio.Task[None] | None = None

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive in the transaction."""
        return await self.receive_by({"do": "receive"}, max_messages, max_bytes, wait_s)

    async def acknowledge(self) -> None:
        """Commit the receipts."""
        await self.commit()

    async def commit(self) -> None:
        """Commit receipts and sends.

        Raises:
            JmsError: also if a message has arrived for a cancelled `receive`, which the commit would acknowledge.
        """
        await self.end_receive()
        await self._ask({"do": "commit"})

    async def dead_letter(self, cause: str) -> None:
        """Move the only received message to the dead letter queue, in the transaction of its receipt."""
        await self._ask({"do": "dead_letter", "cause": cause})

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send in the transaction."""
        await self._send("send", messages)

    async def send_and_commit(self, messages: list[BridgeMessage]) -> None:
        """Send and commit messages."""
        await self._send("send_and_commit", messages)

    async def _send(self, action: str, messages: list[BridgeMessage]) -> None:
        try:
            headers, blobs = write_messages(messages)
        except UnwritableError as error:
            raise MessageRefusedError(error.index, str(error)) from None
        try:
            await self._ask({"do": action, MESSAGES: headers}, blobs)
        except HostAnswerError as error:
            if error.refused is None:
                raise
            raise MessageRefusedError(error.refused, str(error)) from None

    async def send_reply(self, message: BridgeMessage, destination: Destination) -> None:
        """Send a reply to a destination of the broker."""
        headers, blobs = write_messages([message])
        await self._ask({"do": "send_reply", MESSAGES: headers, "destination": destination.qualified_name}, blobs)

    async def open_reply_queue(self, on_reply: OnReply) -> Destination:
        """Create a temporary queue for replies."""
        if self._replying is None:
            self._replying = asyncio.create_task(self._hand_over())
        header, _ = await self._ask({"do": "open_reply"})
        name: str = header["queue"]
        self._on_reply[name] = on_reply
        return parse_destination(name)

    async def close_reply_queue(self, queue: Destination) -> None:
        """Remove a queue for replies."""
        self._on_reply.pop(queue.qualified_name, None)
        await self._ask({"do": "close_reply", "queue": queue.qualified_name})

    async def close(self) -> None:
        """Close the connection; the broker rolls back."""
        if self._replying is not None:
            self._replying.cancel()
            await asyncio.gather(self._replying, return_exceptions=True)
        await super().close()

    def _on_event(self, header: Header, blobs: list[bytes]) -> None:
        super()._on_event(header, blobs)
        on_reply = None if header["event"] == "lost" else self._on_reply.get(header["queue"])
        if on_reply is not None:
            if self._replies.full():
                self._replies.get_nowait()
            self._replies.put_nowait((on_reply, read_messages(header[MESSAGES], blobs)[0]))

    async def _hand_over(self) -> None:
        while True:
            on_reply, message = await self._replies.get()
            await on_reply(message)


class JvmTarget(JvmConnection):
    """A producer; each call commits the messages."""

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send and commit messages."""
        await self.send_and_commit(messages)
