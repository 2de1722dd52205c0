"""The ledger's way to a broker: branches of a task, and the ledger queue under a client id that only one can have.

The client id is the lock. A broker refuses a second connection with the same one, and has rolled back what the first
one did before it lets a second one in; so whoever gets in sees the last entry, and no other can commit behind it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Final

from spanwire.client import blocking
from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.errors import InvalidClientIdError, JmsError
from spanwire.model.ids import XaTransactionId
from spanwire.pipeline.link.batch_sender import SENT_AT_ONCE, portions
from spanwire.pipeline.link.broker_link import create_producer
from spanwire.pipeline.link.connections import connect_for_redelivery
from spanwire.pipeline.options import Login, WriteOptions
from spanwire.pipeline.sink.xa_ledger_sink import BRANCH_PREFIX, BranchName, BranchSession, Entry, LedgerLink, entry_of

FORMAT_ID: Final = 0x53505752  # "SPWR": of the branches of this module
LEDGER_QUEUE: Final = "queue://SPANWIRE.LEDGER."  # and the query's name: one message in each
LOCK_TIMEOUT_S: Final = 60.0  # a broker notices after 30 s that a client's machine is gone
LOCK_PAUSE_S: Final = 0.2
TAKE_TIMEOUT_S: Final = 20.0  # for an entry that must be there
BROWSE_TIMEOUT_S: Final = 0.5  # for one that the broker has not shown
MAX_ENTRIES: Final = 10  # taken at once; more than one would mean that two have had the lock


class BlockingBranchSession(BranchSession):
    """A connection for one branch."""

    def __init__(self, options: WriteOptions) -> None:
        """Raises `JmsError` or `ConfigurationError`."""
        self._connection: Final = connect_for_redelivery(options.login, None)
        try:
            self._session: Final = self._connection.session(acknowledge="xa")
            self._producer: Final = create_producer(self._session, options)
        except BaseException:
            self.close()
            raise

    def prepare(self, branch: BranchName, rows: Iterable[Outgoing]) -> int:
        """Send, end, prepare. A broker that votes to have nothing to commit has ended the branch: no destination gets
        any of these messages, as with a composite destination whose filters let none through.
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
        """Leave."""
        with contextlib.suppress(JmsError):
            self._connection.close()


class BlockingLedger(LedgerLink):
    """A connection under the client id of one query."""

    def __init__(self, options: WriteOptions, query: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises `JmsError`, also when another one stays in for a minute, or `ConfigurationError`."""
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
        """Look how many there are, one as a rule, and receive as many."""
        browsed = min(sum(1 for _ in self._browse_session.create_browser(self._queue)), MAX_ENTRIES)
        messages: list[Message] = []
        timeout_s = TAKE_TIMEOUT_S if browsed or must_exist else BROWSE_TIMEOUT_S
        while len(messages) < max(browsed, 1):
            message = self._consumer.receive(timeout=timeout_s)
            if message is None:
                break
            messages.append(message)
        if len(messages) < browsed:
            raise JmsError(f"{self._queue} shows the query's ledger, but somebody else holds it")
        entries = [entry_of(message.body if isinstance(message.body, str) else None) for message in messages]
        return max(entries, key=_batch_number, default=None)

    def save(self, entry: Entry) -> None:
        """One transaction with what was taken."""
        self._producer.send(entry.text())
        self._session.commit()

    def undo(self) -> None:
        """The broker gives it out again."""
        self._session.rollback()

    def prepared_branches(self) -> list[BranchName]:
        """Those with our format, of all queries."""
        return [branch_name_of(xid) for xid in self._xa.recover() if is_spanwire_branch(xid)]

    def commit(self, branch: BranchName) -> None:
        """The second phase."""
        self._xa.commit(xid_of(branch))

    def roll_back(self, branch: BranchName) -> None:
        """The other second phase."""
        self._xa.rollback(xid_of(branch))

    def close(self) -> None:
        """Leave; what was taken goes back."""
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
    """The id of a branch: what is behind the last colon is its qualifier."""
    transaction, _, qualifier = branch.rpartition(":")
    return XaTransactionId(FORMAT_ID, transaction.encode(), qualifier.encode())


def is_spanwire_branch(xid: XaTransactionId) -> bool:
    """Whether a branch was named here."""
    return xid.format_id == FORMAT_ID and xid.global_id.startswith(BRANCH_PREFIX.encode()) and xid.global_id.isascii()


def branch_name_of(xid: XaTransactionId) -> BranchName:
    """The other way round."""
    return f"{xid.global_id.decode()}:{xid.branch_qualifier.decode('latin-1')}"


def _batch_number(entry: Entry) -> int:
    return entry.batch
