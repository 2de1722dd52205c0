"""Connections of the ledger sink: one for the branch of a task, one for the ledger.

The ledger queue is read under an exclusive client id. The client id is the lock. A broker refuses a second connection
with the same client id. Before the broker accepts the next connection, the transactions of the first are rolled back.
So the owner of the client id sees the last entry, and no other process can commit after it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Final

from spanwire.client import blocking
from spanwire.client.branch_recovery import FORMAT_ID
from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.errors import InvalidClientIdError, JmsError
from spanwire.model.ids import XaTransactionId
from spanwire.pipeline.link.batch_sender import SENT_AT_ONCE, portions
from spanwire.pipeline.link.broker_link import create_producer
from spanwire.pipeline.link.connections import connect_for_redelivery
from spanwire.pipeline.options import Login, WriteOptions
from spanwire.pipeline.sink.xa_ledger_sink import BRANCH_PREFIX, BranchName, BranchSession, Entry, LedgerLink, entry_of

LEDGER_QUEUE: Final = "queue://SPANWIRE.LEDGER."  # prefix before the query; each queue has one message
LOCK_TIMEOUT_S: Final = 60.0  # seconds; a broker needs 30 s to notice a dead client machine
LOCK_PAUSE_S: Final = 0.2
TAKE_TIMEOUT_S: Final = 20.0  # seconds; for an entry that must exist
BROWSE_TIMEOUT_S: Final = 0.5  # seconds; for an entry that the browser has not shown
MAX_ENTRIES: Final = 10  # entries received at once; more than one means that two processes had the lock


class BlockingBranchSession(BranchSession):
    """A connection for one branch."""

    def __init__(self, options: WriteOptions) -> None:
        """Connect to the broker.

        Raises:
            JmsError: the broker is lost or refuses the login.
            ConfigurationError: the URL is invalid.
        """
        self._connection: Final = connect_for_redelivery(options.login, None)
        try:
            self._session: Final = self._connection.session(acknowledge="xa")
            self._producer: Final = create_producer(self._session, options)
        except BaseException:
            self.close()
            raise

    def prepare(self, branch: BranchName, rows: Iterable[Outgoing]) -> int:
        """Send the rows in a branch, end and prepare the branch.

        A read-only vote of the broker ends the branch: no destination receives any message, for example a composite
        destination whose filters accept no row.
        """
        xid = xid_of(branch)
        xa = self._session.xa
        count = 0
        for portion in portions(rows, SENT_AT_ONCE):
            if count == 0:
                xa.start(xid)
            self._producer.send_all(portion)
            count += len(portion)
        if count == 0:
            return 0
        xa.end(xid)
        return count if xa.prepare(xid) else 0

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(JmsError):
            self._connection.close()


class BlockingLedger(LedgerLink):
    """A connection under the client id of one query."""

    def __init__(self, options: WriteOptions, query: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Connect and open the ledger queue.

        Raises:
            JmsError: the broker is lost, or another process keeps the client id for a minute.
            ConfigurationError: the URL is invalid.
        """
        self._queue: Final = LEDGER_QUEUE + query
        self._connection: Final = _connect_exclusively(options.login, query, clock)
        try:
            self._session: Final = self._connection.session(acknowledge="transacted")
            self._xa: Final = self._connection.session(acknowledge="xa").xa
            self._browse_session: Final = self._connection.session(acknowledge="auto")
            self._consumer: Final = self._session.create_consumer(self._queue, prefetch=MAX_ENTRIES)
            self._producer: Final = self._session.create_producer(self._queue)
        except BaseException:
            self.close()
            raise

    def take(self, must_exist: bool) -> Entry | None:
        """Browse the ledger queue and receive as many entries, usually one; return the latest."""
        browsed = min(sum(1 for _ in self._browse_session.create_browser(self._queue)), MAX_ENTRIES)
        messages: list[Message] = []
        timeout_s = TAKE_TIMEOUT_S if browsed or must_exist else BROWSE_TIMEOUT_S
        while len(messages) < max(browsed, 1):
            message = self._consumer.receive(timeout=timeout_s)
            if message is None:
                break
            messages.append(message)
        if len(messages) < browsed:
            raise JmsError(f"{self._queue} has the query's ledger, but another consumer has received it")
        entries = [entry_of(message.body if isinstance(message.body, str) else None) for message in messages]
        return max(entries, key=_batch_number, default=None)

    def save(self, entry: Entry) -> None:
        """Send the entry and commit it together with the received one."""
        self._producer.send(entry.text())
        self._session.commit()

    def drop(self) -> None:
        """Commit the receipt of the entry."""
        self._session.commit()

    def undo(self) -> None:
        """Roll back, so that the broker delivers the received entry again."""
        self._session.rollback()

    def prepared_branches(self) -> list[BranchName]:
        """Return the prepared branches of all queries in Spanwire's format."""
        return [branch_name_of(xid) for xid in self._xa.recover() if is_spanwire_branch(xid)]

    def commit(self, branch: BranchName) -> None:
        """Commit a prepared branch."""
        self._xa.commit(xid_of(branch))

    def roll_back(self, branch: BranchName) -> None:
        """Roll back a prepared branch."""
        self._xa.rollback(xid_of(branch))

    def close(self) -> None:
        """Close the connection; a received entry returns to the queue."""
        with contextlib.suppress(JmsError):
            self._connection.close()


def _connect_exclusively(login: Login, query: str, clock: Callable[[], float]) -> blocking.Connection:
    deadline = clock() + LOCK_TIMEOUT_S
    while True:
        try:
            return connect_for_redelivery(login, f"spanwire-ledger:{query}")
        except InvalidClientIdError as error:
            if clock() > deadline:
                raise JmsError(
                    f"another process commits for the query {query} since {LOCK_TIMEOUT_S:.0f} s: two queries with one "
                    f"checkpoint, or one that was not stopped ({error})"
                ) from None
        time.sleep(LOCK_PAUSE_S)


def xid_of(branch: BranchName) -> XaTransactionId:
    """Return the id of a branch; the part after the last colon is the branch qualifier."""
    transaction, _, qualifier = branch.rpartition(":")
    return XaTransactionId(FORMAT_ID, transaction.encode(), qualifier.encode())


def is_spanwire_branch(xid: XaTransactionId) -> bool:
    """Return True if the ledger sink named the branch."""
    return xid.format_id == FORMAT_ID and xid.global_id.startswith(BRANCH_PREFIX.encode()) and xid.global_id.isascii()


def branch_name_of(xid: XaTransactionId) -> BranchName:
    """Return the name of a branch, the inverse of `xid_of`."""
    return f"{xid.global_id.decode()}:{xid.branch_qualifier.decode('latin-1')}"


def _batch_number(entry: Entry) -> int:
    return entry.batch
