"""Branches of distributed transactions (X/Open XA; `javax.transaction.xa.XAResource`).

    start(xid)      sends and receives of the session belong to the branch from now on
    end(xid)        the session leaves the branch; the branch may be resumed, here or in another session
    prepare(xid)    the broker guarantees commit and rollback, also after a restart
    commit(xid), rollback(xid), forget(xid), recover()

An unprepared branch ends with its link, and its prepare or commit fails. A prepared branch survives at the broker.
After a rollback the session redelivers the messages received in the branch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import nested_octets
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.client.protocol.response_correlator import XA, Request, ResponseCorrelator
from spanwire.client.protocol.transaction import BEGIN, COMMIT_ONE_PHASE, ROLLBACK, LocalTransaction
from spanwire.model.environment import Time
from spanwire.model.errors import IllegalStateError, JmsError, TransactionRolledBackError
from spanwire.model.ids import XaTransactionId
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.messages.identities import MAX_XID_PART_BYTES, wire_xa_transaction_id

PREPARE: Final = 1
COMMIT_TWO_PHASE: Final = 3
RECOVER: Final = 5
FORGET: Final = 6
END: Final = 7
XA_OK: Final = 0  # vote of the broker; the other vote is XA_RDONLY, for a branch without changes
MAX_BRANCHES: Final = 1_000  # ended branches of a session without commit or rollback; the broker's limit
BROKEN_BRANCH: Final = "the connection broke before the branch was prepared, and the broker has rolled it back"

ReceivedMessages = list[tuple[ClientConsumer, list[Message]]]


class XaTransaction(LocalTransaction):
    """The branch of a distributed transaction in which a session works, if any."""

    def __init__(self, correlator: ResponseCorrelator, connection_id: str, session: int) -> None:
        super().__init__(correlator, connection_id, session, True)
        self.branch: XaTransactionId | None = None

    def begin(self) -> None:
        """Raise `IllegalStateError` outside of a branch."""
        if self.branch is None:
            raise IllegalStateError("the session has no current branch; call xa.start first")

    def join(self, xid: XaTransactionId) -> None:
        """Put further messages and acknowledgements into a branch."""
        self.branch = xid
        self.is_broken = False
        self.set_id(wire_xa_transaction_id(xid))

    def leave(self) -> None:
        """Put further messages and acknowledgements into no branch."""
        self.branch = None
        self.is_broken = False
        self.reset()

    def mark_broken(self) -> None:
        """Note that a lost link has rolled the branch back; the branch is still to be ended."""
        self.is_broken = self.branch is not None


class BranchWork:
    """Messages received in a branch, and the state of the branch."""

    def __init__(self) -> None:
        self.received: ReceivedMessages = []
        self.is_prepared = False
        self.is_broken = False


class XaBranches:
    """Branches of one session.

    ``acknowledge`` acknowledges all messages received in the current branch and returns them. ``leave`` closes the
    consumers that wait for the end of the branch.
    """

    def __init__(
        self,
        correlator: ResponseCorrelator,
        transaction: XaTransaction,
        acknowledge: Callable[[], ReceivedMessages],
        leave: Callable[[], None],
    ) -> None:
        self._correlator: Final[ResponseCorrelator] = correlator
        self._transaction: Final[XaTransaction] = transaction
        self._acknowledge: Final[Callable[[], ReceivedMessages]] = acknowledge
        self._leave: Final[Callable[[], None]] = leave
        self._work: Final[dict[bytes, BranchWork]] = {}
        self._steps: Final[dict[int, tuple[int, bytes]]] = {}  # command id: step and branch of the request

    def start(self, xid: XaTransactionId) -> Request:
        """Start a branch, join a branch of another session, or resume an ended branch."""
        check_xid(xid)
        transaction = self._transaction
        if transaction.branch is not None:
            raise IllegalStateError(f"the session works in {transaction.branch}; xa.end that first")
        work = self._work.get(xid.key)
        if work is not None and work.is_prepared:
            raise IllegalStateError(f"{xid} is prepared; it can be committed or rolled back")
        if work is not None and work.is_broken:
            raise TransactionRolledBackError(BROKEN_BRANCH)
        if work is None and len(self._work) >= MAX_BRANCHES:
            raise IllegalStateError(f"{MAX_BRANCHES} branches of this session wait for their commit or rollback")
        request = self._ask(BEGIN, xid)
        transaction.join(xid)
        return request

    def on_start_refused(self) -> None:
        """Leave the branch that the broker refused."""
        self._transaction.leave()

    def end(self, xid: XaTransactionId) -> Request | None:
        """End the work of the session in the branch. Returns None if the link broke meanwhile."""
        transaction = self._transaction
        if transaction.branch is None or transaction.branch != xid:
            raise IllegalStateError(f"the session does not work in {xid}")
        work = self._work.get(xid.key)
        if work is None:
            work = BranchWork()
            self._work[xid.key] = work
        if transaction.is_broken:
            work.is_broken = True
            transaction.leave()
            self._leave()
            return None
        work.received += self._acknowledge()
        transaction.leave()
        request = self._ask(END, xid)
        self._leave()
        return request

    def prepare(self, xid: XaTransactionId) -> Request:
        """Prepare the branch; the result of the request is the broker's vote."""
        self._check_not_current(xid)
        self._check_whole(xid)
        return self._ask(PREPARE, xid)

    def commit(self, xid: XaTransactionId, one_phase: bool) -> Request:
        """Commit a prepared branch, or with ``one_phase`` a branch that is not prepared."""
        self._check_not_current(xid)
        self._check_whole(xid)
        return self._ask(COMMIT_ONE_PHASE if one_phase else COMMIT_TWO_PHASE, xid)

    def rollback(self, xid: XaTransactionId, now: Time) -> Request | None:
        """Roll back and redeliver received messages. Returns None if a lost link has rolled the branch back."""
        check_xid(xid)
        if self._transaction.branch == xid:
            self.end(xid)
        work = self._work.pop(xid.key, None)
        if work is not None and work.is_broken:
            return None
        request = self._ask(ROLLBACK, xid)
        if work is not None:
            redeliver_received(work, now)
        return request

    def forget(self, xid: XaTransactionId) -> Request:
        """Forget a branch that was completed heuristically."""
        self._check_not_current(xid)
        self._work.pop(xid.key, None)
        return self._ask(FORGET, xid)

    def recover(self) -> Request:
        """Ask for all prepared branches; the structures of the request name them."""
        return self._ask(RECOVER, None)

    def on_answer(self, request: Request, error: JmsError | None, now: Time) -> None:
        """Handle the response to a step, or the loss of the link before the response."""
        step, key = self._steps.pop(request.number, (END, b""))
        work = self._work.get(key)
        if work is None or step not in (PREPARE, COMMIT_ONE_PHASE, COMMIT_TWO_PHASE):
            return
        if isinstance(error, TransactionRolledBackError):
            del self._work[key]
            redeliver_received(work, now)
        elif error is None and step == PREPARE and request.result == XA_OK:
            work.is_prepared = True
        elif error is None:
            del self._work[key]

    def on_interrupted(self) -> None:
        """Handle a lost link: every branch that is not prepared is rolled back."""
        for work in self._work.values():
            work.received = []
            work.is_broken = not work.is_prepared

    def _ask(self, step: int, xid: XaTransactionId | None) -> Request:
        command = self._transaction.step(step, None if xid is None else wire_xa_transaction_id(xid))
        request = self._correlator.request(command, XA, self._transaction.session)
        self._steps[request.number] = (step, b"" if xid is None else xid.key)
        return request

    def _check_not_current(self, xid: XaTransactionId) -> None:
        check_xid(xid)
        if self._transaction.branch == xid:
            raise IllegalStateError(f"the session works in {xid}; xa.end it first")

    def _check_whole(self, xid: XaTransactionId) -> None:
        work = self._work.get(xid.key)
        if work is not None and work.is_broken:
            del self._work[xid.key]
            raise TransactionRolledBackError(BROKEN_BRANCH)


def redeliver_received(work: BranchWork, now: Time) -> None:
    """Redeliver the messages that were received in a branch."""
    for consumer, messages in work.received:
        consumer.redeliver(messages, now)
    work.received = []


def check_xid(xid: XaTransactionId) -> None:
    """Raise `IllegalStateError` for an id that exceeds the limits of X/Open."""
    if len(xid.global_id) > MAX_XID_PART_BYTES or len(xid.branch_qualifier) > MAX_XID_PART_BYTES:
        raise IllegalStateError(f"a part of a branch's id has more than {MAX_XID_PART_BYTES} bytes")
    nested_octets(wire_xa_transaction_id(xid))


def branches_of(request: Request) -> list[XaTransactionId]:
    """Return the prepared branches in a response."""
    branches: list[XaTransactionId] = []
    for structure in request.structures:
        if isinstance(structure, wire.XATransactionId):
            branches.append(
                XaTransactionId(
                    structure.format_id, structure.global_transaction_id or b"", structure.branch_qualifier or b""
                )
            )
    return branches
