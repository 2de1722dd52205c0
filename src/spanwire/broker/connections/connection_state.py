"""The broker's state of one client connection."""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.broker.connections.transaction import LocalTransaction, Uncommitted, UncommittedLimit
from spanwire.broker.connections.xa_branch import Branch
from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.persistence.producer_audit import AuditedProducer
from spanwire.broker.ports import NO_TOKEN, Principal
from spanwire.model.destination import Destination
from spanwire.model.info import ConnectionInfo, ProducerInfo
from spanwire.model.ledger import CLIENT
from spanwire.model.message import Message
from spanwire.model.routing import DestinationCounts

MAX_PARKED_BYTES: Final = 1024 * 1024  # bytes of blocked sends; above this the broker stops reading from the connection
MAX_SESSIONS_PER_CONNECTION: Final = 1_000
MAX_TRANSACTIONS_PER_CONNECTION: Final = 1_000  # local transactions, and as many branches; at most one per session


class ParkedSend:
    """A send that waits for room in ``destination``.

    The answer is withheld meanwhile. At ``deadline`` the send is refused. ``since`` is the begin of the wait. Both are
    in monotonic seconds.
    """

    __slots__ = ("deadline", "destination", "message", "since", "token")

    def __init__(
        self, destination: BrokerDestination, message: Message, token: int, deadline: float, since: float
    ) -> None:
        self.destination: Final[BrokerDestination] = destination
        self.message: Final[Message] = message
        self.token: Final[int] = token
        self.deadline: Final[float] = deadline
        self.since: Final[float] = since


class ConnectionState:
    """Announced objects, open transactions and flow control of one connection.

    Only the broker changes the state.

    With ``reading_paused`` the transport leaves the peer's bytes in the kernel. ``forwards`` marks a bridge of another
    broker. ``repeats`` marks a client that may repeat earlier sends (`spanwire.broker.persistence.producer_audit`).
    """

    def __init__(
        self, output: ConnectionOutput, info: ConnectionInfo, principal: Principal, limit: UncommittedLimit
    ) -> None:
        self.output: Final[ConnectionOutput] = output
        self.info: Final[ConnectionInfo] = info
        self.principal: Final[Principal] = principal
        self.sessions: Final[set[int]] = set()
        self.producers: Final[dict[str, ProducerInfo]] = {}
        self.consumers: Final[dict[str, Subscription]] = {}
        self.automatic: Final[list[Subscription]] = []
        self.temporary: Final[dict[str, Destination]] = {}
        self.transactions: Final[dict[str, LocalTransaction]] = {}
        self.branches: Final[dict[bytes, Branch]] = {}  # begun or joined here, and not finished
        self.uncommitted: Final[Uncommitted] = Uncommitted(limit)
        self.parked: Final[deque[ParkedSend]] = deque()
        self.parked_bytes = 0
        self.reading_paused = False
        self.network_role = False
        self.forwards = False
        self.link = CLIENT  # the number of the other broker in the ledger, of a link's connection
        self.connected_ms = 0  # time of the login in wall milliseconds
        self.repeats = info.reconnected
        self.received: DestinationCounts | None = None  # counts the messages of a duplex link's other end
        self.audited: AuditedProducer | None = None
        self.job: Job | None = None  # unfinished work; other requests wait for the end
        self.is_leaving = False  # the client is gone, but the job is unfinished
        self.removed = False

    @property
    def connection_id(self) -> str:
        """The id announced by the client."""
        return self.info.connection_id

    def receivers(self) -> list[Subscription]:
        """Return the consumers without those of a bridge that only announce a consumer of another broker."""
        return [
            one
            for one in self.consumers.values()
            if one.network_filter is None or not one.network_filter.passes_nothing
        ]

    def answer_last_parked(self, token: int) -> bool:
        """Answer ``token`` together with the last blocked send.

        Returns:
            False if no send waits, or if the last blocked send has an answer of its own.
        """
        if not self.parked or self.parked[-1].token != NO_TOKEN:
            return False
        last = self.parked.pop()
        self.parked.append(ParkedSend(last.destination, last.message, token, last.deadline, last.since))
        return True

    def may_pause_reading(self) -> bool:
        """Return True if the unread bytes of the peer cannot contain a request that frees space."""
        if self.network_role or self.transactions or self.branches:
            return False
        for subscription in self.consumers.values():
            if not subscription.info.destination.is_advisory:
                return False
        return True
