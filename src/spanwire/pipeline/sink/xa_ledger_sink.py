"""Exactly-once sink for brokers without batches: ActiveMQ Classic, ActiveMQ Artemis.

Each attempt of a partition sends its rows in a branch of a distributed transaction and has the broker prepare the
branch. From then on the messages are stored and invisible. The ledger, one message in a separate queue, names the last
committed batch and its branches:

    lock → take the ledger → all branches prepared? → put the ledger with this batch → commit    the decision
         → commit the branches that the ledger names → roll back all others of the query

| stopped                       | afterwards                                                                     |
|-------------------------------|--------------------------------------------------------------------------------|
| before a branch is prepared   | the broker rolls it back                                                       |
| before the decision           | the batch is repeated; the branches of the first attempt are rolled back       |
| behind the decision           | the batch is repeated; the branches that the ledger names are committed, and   |
|                               | the newly staged branches are rolled back                                      |

The rows and partitions of a repeated batch may differ; one attempt of the batch counts as a whole. A late commit, from
a process that outlived its driver, finds the lock taken, a later batch in the ledger, or its run superseded. Only
Spanwire prevents the following: a branch that is prepared late stays prepared until the next commit of the query. The
rows of a batch become visible branch by branch, in the order of partitions, not at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from spanwire.client.branch_recovery import divide
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.sink.batch_sink import NO_BRANCH, Batch, BatchSink, StagedPart, check_first
from spanwire.pipeline.storage.state_format import DAMAGED, check_format

MAX_RUNS: Final = 32  # runs in the ledger; processes of older runs have certainly ended
MAX_PARTS: Final = 4096  # branches of one batch; their names make a message of 400 KiB
BRANCH_PREFIX: Final = "spanwire"  # first part of the names of all branches
MANY_TARGETS: Final = "the queues of its rows"
QUERY_DIGITS: Final = 16  # hexadecimal digits of a query's hash; a branch id has at most 64 octets

BranchName = str  # spanwire:<hash of the query>:<batch>:<unique>:<partition>


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of the ledger.

    ``batch`` is the last committed batch, ``branches`` are its branches, ``target`` is the destination of the query,
    and ``runs`` are its last runs with the present one at the end.
    """

    batch: int
    branches: tuple[BranchName, ...] = ()
    target: str = ""
    runs: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the entry as the body of a message."""
        return json.dumps({"batch": self.batch, "branches": self.branches, "target": self.target, "runs": self.runs})


def entry_of(text: str | None) -> Entry:
    """Return the entry in a body.

    Raises:
        ConfigurationError: the body is no entry, or that of a newer version.
    """
    try:
        fields = json.loads(text or "")
        check_format(fields, "the entry in the query's ledger queue")
        return Entry(int(fields["batch"]), tuple(fields["branches"]), str(fields["target"]), tuple(fields["runs"]))
    except DAMAGED:
        raise ConfigurationError(
            "spanwire: the message in the query's ledger queue is no ledger entry; another program has sent it"
        ) from None


class BranchSession(Protocol):
    """The connection of a task."""

    def prepare(self, branch: BranchName, rows: Iterable[Outgoing]) -> int:
        """Send the rows in a branch, prepare it, and return their number; 0 if there is no branch to commit.

        Raises:
            JmsError: the broker is lost or refuses a message.
        """
        ...

    def close(self) -> None:
        """Close the connection and roll back an unprepared branch. Raises nothing."""
        ...


class LedgerLink(Protocol):
    """The connection of the driver, which excludes all other commits of the query while it is open."""

    def take(self, must_exist: bool) -> Entry | None:
        """Receive the entry, or ``None`` without an entry; `save` or `undo` ends the transaction.

        With ``must_exist`` wait longer, because there must be an entry.

        Raises:
            JmsError: the broker is lost.
        """
        ...

    def save(self, entry: Entry) -> None:
        """Replace the received entry, in one transaction.

        Raises:
            JmsError: the outcome is unknown.
        """
        ...

    def drop(self) -> None:
        """Remove the received entry.

        Raises:
            JmsError: the outcome is unknown.
        """
        ...

    def undo(self) -> None:
        """Return the received entry to the queue.

        Raises:
            JmsError: the broker is lost.
        """
        ...

    def prepared_branches(self) -> list[BranchName]:
        """Return all prepared branches with Spanwire's prefix.

        Raises:
            JmsError: the broker is lost.
        """
        ...

    def commit(self, branch: BranchName) -> None:
        """Deliver the messages of a prepared branch.

        Raises:
            JmsError: the broker is lost.
        """
        ...

    def roll_back(self, branch: BranchName) -> None:
        """Drop the messages of a prepared branch.

        Raises:
            JmsError: the broker is lost.
        """
        ...

    def close(self) -> None:
        """Close the connection, so that another process can commit. Raises nothing."""
        ...


class LedgerSink(BatchSink):
    """Stages in branches and commits by the ledger."""

    def __init__(
        self,
        target: str,
        first: int,
        open_branch_session: Callable[[], BranchSession],
        open_ledger: Callable[[str], LedgerLink],
        unique: Callable[[], str],
    ) -> None:
        """Create a sink for a target.

        Args:
            target: the destination of the rows; empty if each row names a destination.
            first: the number of the batch that may begin a ledger.
            open_branch_session: connects for one branch.
            open_ledger: connects to the ledger of a query.
            unique: returns another text at each call.
        """
        self._target: Final[str] = target
        self._first: Final[int] = first
        self._open_branch_session: Final[Callable[[], BranchSession]] = open_branch_session
        self._open_ledger: Final[Callable[[str], LedgerLink]] = open_ledger
        self._unique: Final[Callable[[], str]] = unique

    def stage(self, batch: Batch, partition: int, attempt: int, rows: Iterable[Outgoing]) -> StagedPart:
        """Stage the rows in a branch, or without a branch if no destination receives a row."""
        branch = branch_name(batch, partition, self._unique())
        link = self._open_branch_session()
        try:
            count = link.prepare(branch, rows)
        finally:
            link.close()
        return StagedPart(partition, count, attempt=attempt, branch=branch if count else NO_BRANCH)

    def commit(self, batch: Batch, parts: Sequence[StagedPart]) -> bool:
        """Decide about the batch unless the ledger has it, then carry the decision out."""
        branches = tuple(part.branch for part in sorted(parts, key=_partition_of) if part.branch != NO_BRANCH)
        if len(branches) > MAX_PARTS:
            raise ConfigurationError(
                f"spanwire: {len(branches)} partitions in a batch are more than {MAX_PARTS}; coalesce them"
            )
        link = self._open_ledger(batch.query)
        try:
            previous = self._take_entry(link, batch)
            self._check(previous, batch)
            prepared = link.prepared_branches()
            is_first = previous.batch < batch.number
            if is_first:
                prepared = self._finish(link, previous, prepared)
                entry = self._decide(previous, batch, branches, prepared)
                link.save(entry)
            else:
                entry = previous
                link.undo()
            prepared = self._finish(link, entry, prepared)
            self._roll_back_others(link, batch, prepared)
        finally:
            link.close()
        return is_first

    def forget(self, query: str) -> None:
        """Carry the last decision out, roll back all other branches of the query, and remove its ledger."""
        link = self._open_ledger(query)
        try:
            entry = link.take(False)
            prepared = link.prepared_branches()
            if entry is not None:
                prepared = self._finish(link, entry, prepared)
            for branch in prepared:
                if batch_of(branch, query) is not None:
                    link.roll_back(branch)
            if entry is not None:
                link.drop()
        finally:
            link.close()

    def close(self) -> None:
        """Do nothing; each call closes its own connections."""

    def _take_entry(self, link: LedgerLink, batch: Batch) -> Entry:
        """Return the entry, after saving a first entry if necessary.

        So every decision replaces an entry.

        A transaction with a received message ends with its connection, even if the client reconnects.
        """
        entry = link.take(batch.number > self._first)
        if entry is None:
            check_first(batch, None, self._first)
            link.save(Entry(-1, target=self._target))
            entry = link.take(True)
        if entry is None:
            raise JmsError(f"the ledger of the query {batch.query} is missing; repeat the batch")
        return entry

    def _check(self, entry: Entry, batch: Batch) -> None:
        """Check that this run may write to this target.

        Raises:
            ConfigurationError: the run was superseded, or the query wrote to another target before.
        """
        if entry.target != self._target:
            raise ConfigurationError(
                f"spanwire: up to batch {entry.batch} the query {batch.query} wrote to {entry.target or MANY_TARGETS}, "
                f"now it is {self._target or MANY_TARGETS}; give it a checkpoint of its own"
            )
        if batch.run in entry.runs[:-1]:
            raise ConfigurationError(
                f"spanwire: the query {batch.query} was started again elsewhere with the same checkpoint; this run "
                "must stop"
            )

    def _decide(
        self, previous: Entry, batch: Batch, branches: tuple[BranchName, ...], prepared: Sequence[BranchName]
    ) -> Entry:
        """Return the entry with this batch.

        Raises:
            JmsError: a branch of the batch is no longer prepared.
        """
        prepared_names = set(prepared)
        for branch in branches:
            if branch not in prepared_names:
                raise JmsError(
                    f"the messages staged for batch {batch.number} of the query {batch.query} are no longer at the "
                    "broker; repeat the batch"
                )
        runs = previous.runs if previous.runs[-1:] == (batch.run,) else (*previous.runs, batch.run)[-MAX_RUNS:]
        return Entry(batch.number, branches, self._target, runs)

    def _finish(self, link: LedgerLink, entry: Entry, prepared: Sequence[BranchName]) -> list[BranchName]:
        """Commit the prepared branches of the entry, in order; return the other prepared branches."""
        order = {branch: index for index, branch in enumerate(entry.branches)}
        commits, others = divide(prepared, order.__contains__, lambda _: True)
        for branch in sorted(commits, key=order.__getitem__):
            link.commit(branch)
        return others

    def _roll_back_others(self, link: LedgerLink, batch: Batch, prepared: Sequence[BranchName]) -> None:
        """Roll back branches of other attempts of this batch or of earlier ones.

        Branches of later batches stay, because the present commit may be late.
        """
        for branch in prepared:
            number = batch_of(branch, batch.query)
            if number is not None and number <= batch.number:
                link.roll_back(branch)


def branch_name(batch: Batch, partition: int, unique: str) -> BranchName:
    """Return a unique name for a branch."""
    return f"{BRANCH_PREFIX}:{_query_hash(batch.query)}:{batch.number}:{unique}:{partition}"


def batch_of(branch: BranchName, query: str) -> int | None:
    """Return the batch of a branch of this query, or ``None`` for a branch of another query."""
    fields = branch.split(":")
    if len(fields) != 5 or fields[0] != BRANCH_PREFIX or fields[1] != _query_hash(query) or not fields[2].isdecimal():
        return None
    return int(fields[2])


def _query_hash(query: str) -> str:
    return sha256(query.encode()).hexdigest()[:QUERY_DIGITS]


def _partition_of(part: StagedPart) -> int:
    return part.partition
