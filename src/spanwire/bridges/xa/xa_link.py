"""The link of a bridge between two brokers: drives the branches of one batch at a time.

| stopped                                   | the next recovery                                               |
|-------------------------------------------|-----------------------------------------------------------------|
| before both branches are prepared         | rolls prepared branches back; the source delivers again         |
| prepared, without a decision in the log   | the same                                                        |
| with a decision in the log                | commits the prepared branches that the decision names           |
| both committed                            | finds no branch                                                 |

The messages of the next batch cross while both brokers commit. Its branches are prepared only after that, so one batch
at a time is in doubt.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from spanwire.bridges.completing import Completing
from spanwire.bridges.model.definition import BridgeDefinition
from spanwire.bridges.model.diagram import place
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import BegunXaSource, NamingTarget, Provider, WindowedSource, XaBranches, XaSource, XaTarget
from spanwire.bridges.xa.branches import BranchNames, Side, transaction_of
from spanwire.bridges.xa.decision_log import DecisionLog
from spanwire.bridges.xa.outcomes import Outcome, heuristic_text, outcome_of
from spanwire.bridges.xa.records import Decision, Heuristic
from spanwire.client.branch_recovery import divide
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError, JmsError, SpanwireError
from spanwire.model.ids import XaTransactionId

Answer = TypeVar("Answer")

UNDO_S: Final = 2.0  # seconds for the rollback of prepared branches, when the link is closed; else the recovery does it


@dataclass(slots=True)
class Unfinished:
    """Transactions with messages counted and perhaps not committed, from one link of a bridge to the next.

    ``problems`` are heuristic outcomes not returned yet.
    """

    counted: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def take_problems(self) -> list[str]:
        """Return the heuristic outcomes, each once."""
        found, self.problems = self.problems, []
        return found


class XaLink:
    """A source and a target in a distributed transaction."""

    def __init__(
        self,
        definition: BridgeDefinition,
        source: XaSource,
        target: XaTarget,
        log: DecisionLog,
        names: BranchNames,
        clock: Callable[[], Time],
        unfinished: Unfinished | None = None,
    ) -> None:
        """``unfinished`` comes from earlier links of the bridge."""
        self._unfinished: Final[Unfinished] = unfinished or Unfinished()
        self._completing: Final = Completing()
        self._definition: Final[BridgeDefinition] = definition
        self._source: Final[XaSource] = source
        self._target: Final[XaTarget] = target
        self._log: Final[DecisionLog] = log
        self._names: Final[BranchNames] = names
        self._clock: Final = clock
        self._places: Final[dict[Side, str]] = {
            Side.SOURCE: place(definition.source.factory),
            Side.TARGET: place(definition.target.factory),
        }
        self._begun: Final = source if isinstance(source, BegunXaSource) else None
        self._windowed: Final = source if isinstance(source, WindowedSource) else None
        self._has_begun = False  # the source has the branch of the next transaction
        self._transaction = ""
        self._prepared: list[Side] = []  # sides with a branch to finish
        self._may_undo = False  # there are prepared branches, and certainly no decision

    async def recover(self) -> tuple[int, list[str]]:
        """Finish all branches of this bridge.

        Returns the number of messages committed now, and heuristic outcomes.

        Raises:
            JmsError: a broker is lost.
            StoreError: the log cannot be read or written.
            ConfigurationError: a decision is for other brokers.
        """
        await self.settle()
        await self._log.repair()
        decisions = {decision.transaction: decision for decision in self._log.pending(self._definition.name)}
        for decision in decisions.values():
            self._check_places(decision)
        committed: set[str] = set()
        problems: list[str] = []
        for side in Side:
            for branch in await self._finish_side(side):
                transaction = transaction_of(branch)
                problem = await self._commit(side, transaction, branch, was_lost=True)
                problems += [problem] if problem else []
                committed.add(transaction)
        for transaction in decisions:
            self._log.finish(transaction)
        unfinished = self._unfinished
        count = sum(decisions[transaction].messages for transaction in committed - unfinished.counted)
        unfinished.counted.clear()
        return count, [*unfinished.take_problems(), *problems]

    async def _finish_side(self, side: Side) -> list[XaTransactionId]:
        """Roll back prepared branches without a decision. Returns the branches to commit."""
        branches = self._branches_at(side)
        own = [branch for branch in await branches.prepared_branches() if self._names.is_own(branch, side)]
        commits, rollbacks = divide(own, lambda branch: self._log.is_decided(transaction_of(branch)), lambda _: True)
        for branch in rollbacks:
            try:
                await branches.roll_back(branch)
            except JmsError as error:
                if outcome_of(error) is Outcome.OTHER:
                    raise
        return commits

    def _check_places(self, decision: Decision) -> None:
        for former, side in ((decision.source, Side.SOURCE), (decision.target, Side.TARGET)):
            if former != self._places[side]:
                raise ConfigurationError(
                    f"a batch of {decision.messages} messages is decided and perhaps not committed at the former "
                    f"{side.value} {former}; let the bridge run once with its former {side.value}, or settle the "
                    "branches with spanwire transaction and remove the log of decisions"
                )

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive from the source. Ends with an error as soon as the batch before cannot be committed."""
        if self._begun is not None and not self._has_begun:
            self._transaction = self._names.next_transaction()
            self._begun.begin(self._branch(Side.SOURCE))
            self._has_begun = True
        return await self._completing.received(self._source.receive(max_messages, max_bytes, wait_s))

    def is_exhausted(self) -> bool:
        """Return True if the source hands over no further message before the end of a branch."""
        return self._windowed is not None and self._windowed.is_exhausted()

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Begin a transaction, and send in the branch of the target."""
        if not self._has_begun:
            self._transaction = self._names.next_transaction()
        self._has_begun = False
        await self._target.send(self._names.branch(self._transaction, Side.TARGET), messages)

    def sent_ids(self, target: int, count: int) -> list[str]:
        """Return the ids of the last sent messages at the target; an empty list if unknown."""
        return self._target.sent_ids(count) if isinstance(self._target, NamingTarget) else []

    async def prepare(self) -> None:
        """Prepare both branches at once, once the batch before is committed."""
        await self.settle()
        self._may_undo = True
        self._prepared = list(Side)
        votes = await _both(self._branches_at(side).prepare(self._branch(side)) for side in Side)
        self._prepared = [side for side, vote in zip(Side, votes, strict=True) if vote]

    async def decide(self, messages: int) -> None:
        """Store the decision to commit."""
        self._may_undo = False  # an error does not say whether the decision is stored
        source, target = self._places[Side.SOURCE], self._places[Side.TARGET]
        at_ms = self._clock().wall_ms
        await self._log.decide(Decision(self._transaction, self._definition.name, source, target, messages, at_ms))

    async def commit(self) -> None:
        """Fail: `complete` commits."""
        raise AssertionError("a distributed transaction is completed")

    async def complete(self) -> list[str]:
        """Begin to commit both branches at once. Returns heuristic outcomes of the batch before."""
        transaction = self._transaction
        commits = [
            asyncio.create_task(self._commit(side, transaction, self._branch(side), was_lost=False))
            for side in self._prepared
        ]
        self._unfinished.counted.add(transaction)
        self._completing.begin(self._finish(transaction, commits))
        await asyncio.sleep(0)  # the commits are written before the next branch begins
        return self._unfinished.take_problems()

    async def _finish(self, transaction: str, commits: list[asyncio.Task[str]]) -> None:
        problems = await _both(commits)
        self._log.finish(transaction)
        self._unfinished.counted.discard(transaction)
        self._unfinished.problems += [problem for problem in problems if problem]

    async def settle(self) -> None:
        """Wait until the batch before is committed."""
        await self._completing.settle()

    async def _commit(self, side: Side, transaction: str, branch: XaTransactionId, was_lost: bool) -> str:
        """Commit a branch. Returns the heuristic outcome, or an empty text.

        After a lost connection a branch that the broker does not know any more has been committed.
        """
        branches = self._branches_at(side)
        try:
            await branches.commit(branch)
            return ""
        except JmsError as error:
            outcome = outcome_of(error)
            if outcome is Outcome.OTHER:
                raise
            if outcome is Outcome.GONE and was_lost:
                return ""
            text = "rolled back" if outcome is Outcome.ROLLED_BACK else heuristic_text(error)
            problem = f"the branch at the {side.value} {self._places[side]} of {transaction} was {text}: {error}"
        if outcome is Outcome.HEURISTIC:
            await branches.forget(branch)
        await self._log.report(Heuristic(transaction, self._definition.name, side, problem, self._clock().wall_ms))
        return problem

    async def acknowledge(self) -> None:
        """Fail: the commit acknowledges."""
        raise AssertionError("the commit of the transaction acknowledges")

    async def dead_letter(self, cause: str) -> None:
        """Hand the only received message to the source's broker as a dead letter."""
        await self.settle()
        self._has_begun = False
        await self._source.dead_letter(cause)

    def check(self) -> None:
        """Raise `JmsError` if a connection is lost, or a commit under way has failed."""
        self._completing.check()
        self._target.check()
        self._source.check()

    async def close(self) -> None:
        """Roll back a transaction without a decision as far as possible, and close the connections."""
        async with contextlib.AsyncExitStack() as closing:  # what fails to close leaves nothing else open
            closing.push_async_callback(self._target.close)
            closing.push_async_callback(self._source.close)
            await self._completing.close()  # the recovery finishes what is not committed
            if self._may_undo:
                await self._undo()

    async def _undo(self) -> None:
        with contextlib.suppress(SpanwireError, TimeoutError):
            async with asyncio.timeout(UNDO_S):
                await asyncio.gather(
                    *(self._branches_at(side).roll_back(self._branch(side)) for side in self._prepared),
                    return_exceptions=True,
                )

    def _branches_at(self, side: Side) -> XaBranches:
        return self._source if side is Side.SOURCE else self._target

    def _branch(self, side: Side) -> XaTransactionId:
        return self._names.branch(self._transaction, side)


async def open_xa_link(
    definition: BridgeDefinition,
    source: Provider,
    target: Provider,
    credit: int,
    log: DecisionLog,
    names: BranchNames,
    clock: Callable[[], Time],
    unfinished: Unfinished,
) -> XaLink:
    """Connect to the target first. Raises `JmsError`, or `ConfigurationError`."""
    open_target = await target.open_xa_target(definition.target)
    try:
        open_source = await source.open_xa_source(definition.source, credit)
    except BaseException:
        await open_target.close()
        raise
    return XaLink(definition, open_source, open_target, log, names, clock, unfinished)


async def _both(calls: Iterable[Awaitable[Answer]]) -> list[Answer]:
    """Wait until all calls have ended, and raise the first error."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    answers: list[Answer] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        answers.append(result)
    return answers
