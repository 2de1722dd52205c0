"""Source and target of distributed transactions, over XA sessions of the asyncio client.

Commands about a branch are sent one behind the other without waiting; the broker answers in order. So a batch costs one
round trip for its prepare, and one for its commit.
"""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.definition import Source
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError
from spanwire.bridges.providers.openwire.connecting import close
from spanwire.bridges.providers.openwire.parties import send, sent_ids
from spanwire.bridges.providers.openwire.source_consumer import SourceConsumer
from spanwire.client.aio.connection import Connection
from spanwire.client.aio.producer import Producer
from spanwire.client.aio.session import Session
from spanwire.client.protocol.response_correlator import Request
from spanwire.client.protocol.xa import XA_OK
from spanwire.model.errors import JmsError
from spanwire.model.ids import XaTransactionId


class OpenWireBranches:
    """The branches at one broker."""

    def __init__(self, connection: Connection, session: Session) -> None:
        self._connection: Final[Connection] = connection
        self._session: Final[Session] = session

    async def commit(self, branch: XaTransactionId) -> None:
        """Commit a prepared branch."""
        await self._session.xa.commit(branch)

    async def roll_back(self, branch: XaTransactionId) -> None:
        """Roll back a prepared branch."""
        await self._session.xa.rollback(branch)

    async def forget(self, branch: XaTransactionId) -> None:
        """Let the broker forget a branch with a heuristic outcome."""
        await self._session.xa.forget(branch)

    async def prepared_branches(self) -> list[XaTransactionId]:
        """Return the prepared branches of all programs."""
        return await self._session.xa.recover()

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._connection.shared.check()

    async def close(self) -> None:
        """Close the connection; the broker rolls back unprepared branches."""
        await close(self._connection)

    async def finish_prepare(self, earlier: list[Request], branch: XaTransactionId) -> bool:
        """End and prepare the branch, and wait for the answers to these and earlier requests."""
        shared, branches = self._connection.shared, self._session.core.branches()
        end = branches.end(branch)
        if end is None:
            raise JmsError("the connection was lost before the transaction was prepared")
        prepare = branches.prepare(branch)
        for request in (*earlier, end, prepare):
            await shared.answer(request)
        return prepare.result == XA_OK


class OpenWireXaSource(OpenWireBranches):
    """A consumer in an XA session. Acknowledgements belong to the branch that is prepared next."""

    def __init__(self, connection: Connection, session: Session, source: Source, credit: int) -> None:
        super().__init__(connection, session)
        self._consumer: Final = SourceConsumer(connection, session, source, credit, retains=True)
        self._is_open = False
        self._taken = 0  # received messages in no branch
        self._in_branches: Final[dict[XaTransactionId, int]] = {}  # messages of the branches without an outcome

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages without an acknowledgement.

        The first call creates the consumer, so that messages of rolled back branches keep their place in the order.
        """
        if not self._is_open:
            await self._consumer.open()
            self._is_open = True
        messages = await self._consumer.receive(max_messages, max_bytes, wait_s)
        self._taken += len(messages)
        return messages

    def is_exhausted(self) -> bool:
        """Return True if no message comes before the end of a branch."""
        return self._consumer.is_exhausted()

    async def prepare(self, branch: XaTransactionId) -> bool:
        """Acknowledge all received messages in a branch, and prepare the branch."""
        self._in_branches[branch], self._taken = self._taken, 0
        async with self._connection.shared.ready():
            begin = self._session.core.branches().start(branch)
            is_prepared = await self.finish_prepare([begin], branch)
        if not is_prepared:
            self._end(branch)
        return is_prepared

    def _end(self, branch: XaTransactionId) -> None:
        self._consumer.acknowledge(self._in_branches.pop(branch, 0))

    async def dead_letter(self, cause: str) -> None:
        """Send a poison acknowledgement: the broker applies the dead letter strategy."""
        self._consumer.core.poison_last(cause)
        self._consumer.acknowledge(self._taken)
        self._taken = 0
        self._connection.shared.write_soon()

    async def commit(self, branch: XaTransactionId) -> None:
        """Commit a prepared branch."""
        try:
            await super().commit(branch)
        finally:
            self._end(branch)  # also with a heuristic outcome, after which the bridge goes on

    async def roll_back(self, branch: XaTransactionId) -> None:
        """Roll back a prepared branch."""
        try:
            await super().roll_back(branch)
        finally:
            self._end(branch)

    async def close(self) -> None:
        """Close the connection; the broker rolls back unprepared branches."""
        await self._consumer.stop_opening()
        await super().close()


class OpenWireXaTarget(OpenWireBranches):
    """A producer in an XA session."""

    def __init__(self, connection: Connection, session: Session, producer: Producer) -> None:
        super().__init__(connection, session)
        self._producer: Final[Producer] = producer
        self._begin: list[Request] = []  # of the branch under way

    async def send(self, branch: XaTransactionId, messages: list[BridgeMessage]) -> None:
        """Begin a branch, and send in the branch without waiting."""
        async with self._connection.shared.ready():
            self._begin = [self._session.core.branches().start(branch)]
        try:
            await send(self._connection, self._producer, messages)
        except MessageRefusedError:
            await self._session.xa.rollback(branch)
            raise

    def sent_ids(self, count: int) -> list[str]:
        """Return the ids of the last sent messages."""
        return sent_ids(self._producer, count)

    async def prepare(self, branch: XaTransactionId) -> bool:
        """End and prepare the branch."""
        async with self._connection.shared.ready():
            return await self.finish_prepare(self._begin, branch)
