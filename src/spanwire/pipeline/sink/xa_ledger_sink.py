"""Once and only once into a broker that knows nothing of batches: ActiveMQ Classic, ActiveMQ Artemis.

Each attempt of a partition sends its rows in a branch of a distributed transaction and has the broker prepare it: from
then on the messages are safe there and seen by nobody. The ledger, one message in a queue of its own, names the last
batch that counts and its branches:

    lock → take the ledger → all branches prepared? → put the ledger with this batch → commit    the decision
         → commit the branches that the ledger names → roll back all others of the query

| stopped                       | afterwards                                                                     |
|-------------------------------|--------------------------------------------------------------------------------|
| before a branch is prepared   | the broker rolls it back                                                       |
| before the decision           | the batch is repeated; the branches of the first try are rolled back           |
| behind the decision           | the batch is repeated; the branches that the ledger names are committed, and   |
|                               | what was staged again is rolled back                                           |

The rows of a repeated batch need not be the same, nor its partitions: one try counts as a whole. A commit that comes
late, from a process that outlived its driver, finds the lock held, or the ledger further on, or its run superseded.
What no broker but Spanwire keeps from happening: a branch that is prepared late stays prepared until the query's next
commit. The rows of a batch appear branch after branch, in the order of partitions, not at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.sink.batch_sink import NO_BRANCH, Batch, BatchSink, StagedPart, check_first

MAX_RUNS: Final = 32  # of a query that the ledger remembers: a process of an older one would have to be very old
MAX_PARTS: Final = 4096  # branches of one batch: their names are one message of 400 KiB
BRANCH_PREFIX: Final = "spanwire"  # what the names of all branches begin with
MANY_TARGETS: Final = "the queues of its rows"
QUERY_DIGITS: Final = 16  # of its hash: the id of a branch has 64 octets

BranchName = str  # spanwire:<hash of the query>:<batch>:<unique>:<partition>


@dataclass(frozen=True, slots=True)
class Entry:
    """What the ledger says: the last batch that counts, the branches that it consists of, where the query sends, and
    the last runs of the query, the present one behind the others.
    """

    batch: int
    branches: tuple[BranchName, ...] = ()
    target: str = ""
    runs: tuple[str, ...] = ()

    def text(self) -> str:
        """As the body of a message."""
        return json.dumps({"batch": self.batch, "branches": self.branches, "target": self.target, "runs": self.runs})


def entry_of(text: str | None) -> Entry:
    """The entry in a body. Raises `ConfigurationError` when it is none."""
    try:
        fields = json.loads(text or "")
        return Entry(int(fields["batch"]), tuple(fields["branches"]), str(fields["target"]), tuple(fields["runs"]))
    except (ValueError, KeyError, TypeError):
        raise ConfigurationError(
            "spanwire: the message in the query's ledger queue is none of Spanwire's; somebody else has written there"
        ) from None


class BranchSession(Protocol):
    """A task's connection."""

    def prepare(self, branch: BranchName, rows: Iterable[Outgoing]) -> int:
        """Send the rows in a branch and prepare it. Return their number; 0 when there is no branch to commit. Raises
        `JmsError`.
        """
        ...

    def close(self) -> None:
        """What is not prepared is rolled back. Raises nothing."""
        ...


class LedgerLink(Protocol):
    """The driver's connection, which excludes every other of the same query as long as it lasts."""

    def take(self, must_exist: bool) -> Entry | None:
        """The entry, kept from everybody else until `save` or `undo`; None when there is none. ``is_there``: there must
        be one, and it may take a while to come. Raises `JmsError`.
        """
        ...

    def save(self, entry: Entry) -> None:
        """Put an entry in the place of what was taken, at once. Raises `JmsError` when it may or may not be done."""
        ...

    def undo(self) -> None:
        """Put back what was taken. Raises `JmsError`."""
        ...

    def prepared_branches(self) -> list[BranchName]:
        """All prepared branches that carry the mark. Raises `JmsError`."""
        ...

    def commit(self, branch: BranchName) -> None:
        """Deliver the messages of a prepared branch. Raises `JmsError`."""
        ...

    def roll_back(self, branch: BranchName) -> None:
        """Drop the messages of a prepared branch. Raises `JmsError`."""
        ...

    def close(self) -> None:
        """Let others in. Raises nothing."""
        ...


class LedgerSink(BatchSink):
    """Stages in branches, commits by the ledger."""

    def __init__(
        self,
        target: str,
        first: int,
        open_branch_session: Callable[[], BranchSession],
        open_ledger: Callable[[str], LedgerLink],
        unique: Callable[[], str],
    ) -> None:
        """``target``: where the rows go, empty when each says so itself. ``first``: the batch that may begin a ledger.
        ``brancher`` and ``ledger`` connect, the latter for a query; ``unique`` gives another text at each call.
        """
        self._target: Final[str] = target
        self._first: Final[int] = first
        self._open_branch_session: Final[Callable[[], BranchSession]] = open_branch_session
        self._open_ledger: Final[Callable[[str], LedgerLink]] = open_ledger
        self._unique: Final[Callable[[], str]] = unique

    def stage(self, batch: Batch, partition: int, attempt: int, rows: Iterable[Outgoing]) -> StagedPart:
        """In a branch; in none when there are no rows, or none of them has a destination that gets it."""
        branch = branch_name(batch, partition, self._unique())
        link = self._open_branch_session()
        try:
            count = link.prepare(branch, rows)
        finally:
            link.close()
        return StagedPart(partition, count, attempt=attempt, branch=branch if count else NO_BRANCH)

    def commit(self, batch: Batch, parts: Sequence[StagedPart]) -> bool:
        """Decide, if nobody has, and do what was decided."""
        branches = tuple(part.branch for part in sorted(parts, key=_partition_of) if part.branch != NO_BRANCH)
        if len(branches) > MAX_PARTS:
            raise ConfigurationError(f"spanwire: {len(branches)} partitions in a batch; at most {MAX_PARTS}, coalesce")
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

    def close(self) -> None:
        """Nothing is kept between two calls."""

    def _take_entry(self, link: LedgerLink, batch: Batch) -> Entry:
        """The entry; the first one is put before it is taken, so that every decision takes one. A transaction in which
        something was received ends with its connection, whatever the client does to bring others to the next one.
        """
        entry = link.take(batch.number > self._first)
        if entry is None:
            check_first(batch, None, self._first)
            link.save(Entry(-1, target=self._target))
            entry = link.take(True)
        if entry is None:
            raise JmsError(f"the ledger of the query {batch.query} is gone; the batch is to be tried again")
        return entry

    def _check(self, entry: Entry, batch: Batch) -> None:
        """Raises `ConfigurationError` for a run or a target that may not go on."""
        if entry.target != self._target:
            raise ConfigurationError(
                f"spanwire: up to batch {entry.batch} the query {batch.query} wrote to {entry.target or MANY_TARGETS}, "
                f"now it is {self._target or MANY_TARGETS}; give it a checkpoint of its own"
            )
        if batch.run in entry.runs[:-1]:
            raise ConfigurationError(
                f"spanwire: the query {batch.query} was started again elsewhere with the same checkpoint; this run may "
                "not go on"
            )

    def _decide(
        self, previous: Entry, batch: Batch, branches: tuple[BranchName, ...], prepared: Sequence[BranchName]
    ) -> Entry:
        """The entry with this batch. Raises `JmsError` when a branch of it is gone."""
        prepared_names = set(prepared)
        for branch in branches:
            if branch not in prepared_names:
                raise JmsError(
                    f"what was staged for batch {batch.number} of the query {batch.query} is no longer at the broker; "
                    "the batch is to be tried again"
                )
        runs = previous.runs if previous.runs[-1:] == (batch.run,) else (*previous.runs, batch.run)[-MAX_RUNS:]
        return Entry(batch.number, branches, self._target, runs)

    def _finish(self, link: LedgerLink, entry: Entry, prepared: Sequence[BranchName]) -> list[BranchName]:
        """Deliver what was decided, in its order; gives what is prepared besides."""
        prepared_names = set(prepared)
        for branch in entry.branches:
            if branch in prepared_names:
                link.commit(branch)
                prepared_names.remove(branch)
        return [branch for branch in prepared if branch in prepared_names]

    def _roll_back_others(self, link: LedgerLink, batch: Batch, prepared: Sequence[BranchName]) -> None:
        """Drop what other tries of this batch or of earlier ones have left. Later batches are not this commit's
        business: it may be a late one itself.
        """
        for branch in prepared:
            number = batch_of(branch, batch.query)
            if number is not None and number <= batch.number:
                link.roll_back(branch)


def branch_name(batch: Batch, partition: int, unique: str) -> BranchName:
    """The name of a branch that nobody else has."""
    return f"{BRANCH_PREFIX}:{_query_hash(batch.query)}:{batch.number}:{unique}:{partition}"


def batch_of(branch: BranchName, query: str) -> int | None:
    """The batch of a branch of this query; None for a branch of another one."""
    fields = branch.split(":")
    if len(fields) != 5 or fields[0] != BRANCH_PREFIX or fields[1] != _query_hash(query) or not fields[2].isdecimal():
        return None
    return int(fields[2])


def _query_hash(query: str) -> str:
    return sha256(query.encode()).hexdigest()[:QUERY_DIGITS]


def _partition_of(part: StagedPart) -> int:
    return part.partition
