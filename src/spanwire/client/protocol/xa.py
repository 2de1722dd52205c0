"""The branches of distributed transactions in which a session works (X/Open XA; `javax.transaction.xa.XAResource`).

    start(xid)      what the session sends and receives from now on belongs to the branch
    end(xid)        no longer; the branch may be started again, here or in another session
    prepare(xid)    the broker promises to be able to do both, commit and rollback, also after a restart
    commit(xid), rollback(xid), forget(xid), recover()

A branch that is not prepared ends with its link: then its prepare and its commit say that it is rolled back. A prepared
one is the broker's. What was received in a branch comes again here when it is rolled back.
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
XA_OK: Final = 0  # the broker's vote, beside XA_RDONLY: there is nothing to commit
MAX_BRANCHES: Final = 1_000  # that one session has ended and nobody has settled; the broker's limit for a connection
BROKEN_BRANCH: Final = "the connection broke before the branch was prepared, and the broker has rolled it back"

ReceivedMessages = list[tuple[ClientConsumer, list[Message]]]


class XaTransaction(LocalTransaction):
    """The branch in which a session works just now, if any."""

    def __init__(self, correlator: ResponseCorrelator, connection_id: str, session: int) -> None:
        super().__init__(correlator, connection_id, session, True)
        self.branch: XaTransactionId | None = None

    def begin(self) -> None:
        """Raises `IllegalStateError` outside of a branch."""
        if self.branch is None:
            raise IllegalStateError("the session works in no branch; xa.start one first")

    def join(self, xid: XaTransactionId) -> None:
        """Everything belongs to this branch from now on."""
        self.branch = xid
        self.is_broken = False
        self.set_id(wire_xa_transaction_id(xid))

    def leave(self) -> None:
        """Nothing belongs to a branch."""
        self.branch = None
        self.is_broken = False
        self.reset()

    def mark_broken(self) -> None:
        """The link is gone, and with it the branch, which has yet to be ended."""
        self.is_broken = self.branch is not None


class BranchWork:
    """What a session knows of a branch in which it has worked."""

    def __init__(self) -> None:
        self.received: ReceivedMessages = []
        self.is_prepared = False
        self.is_broken = False


class XaBranches:
    """The branches of one session. ``acknowledge`` has all that was received acknowledged in the current branch and
    gives it; ``leave`` closes the consumers that waited for its end.
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
        self._steps: Final[dict[int, tuple[int, bytes]]] = {}  # requests: what was asked for, of which branch

    def start(self, xid: XaTransactionId) -> Request:
        """Begin a branch, join one of another session, or go on with one that was ended."""
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
        """There is no such branch."""
        self._transaction.leave()

    def end(self, xid: XaTransactionId) -> Request | None:
        """The session works in the branch no longer; None when its link broke meanwhile."""
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
        """Ask for the broker's vote, which is the request's result."""
        self._check_not_current(xid)
        self._check_whole(xid)
        return self._ask(PREPARE, xid)

    def commit(self, xid: XaTransactionId, one_phase: bool) -> Request:
        """Commit what is prepared, or with ``one_phase`` what is not."""
        self._check_not_current(xid)
        self._check_whole(xid)
        return self._ask(COMMIT_ONE_PHASE if one_phase else COMMIT_TWO_PHASE, xid)

    def rollback(self, xid: XaTransactionId, now: Time) -> Request | None:
        """Undo; what was received comes again. None when the broker has done so already."""
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
        """Ask for all prepared branches: the request's structures."""
        return self._ask(RECOVER, None)

    def on_answer(self, request: Request, error: JmsError | None, now: Time) -> None:
        """The broker has answered a step, or the link broke before it did."""
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
        """The link is gone: with it every branch that is not prepared."""
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
    """What was received in a branch comes again from its consumers."""
    for consumer, messages in work.received:
        consumer.redeliver(messages, now)
    work.received = []


def check_xid(xid: XaTransactionId) -> None:
    """Raises `IllegalStateError` for an id that is longer than X/Open allows."""
    if len(xid.global_id) > MAX_XID_PART_BYTES or len(xid.branch_qualifier) > MAX_XID_PART_BYTES:
        raise IllegalStateError(f"a part of a branch's id has more than {MAX_XID_PART_BYTES} bytes")
    nested_octets(wire_xa_transaction_id(xid))


def branches_of(request: Request) -> list[XaTransactionId]:
    """The prepared branches that a broker has told."""
    branches: list[XaTransactionId] = []
    for structure in request.structures:
        if isinstance(structure, wire.XATransactionId):
            branches.append(
                XaTransactionId(
                    structure.format_id, structure.global_transaction_id or b"", structure.branch_qualifier or b""
                )
            )
    return branches
