"""Views of scheduled messages, prepared XA branches and strategies for slow consumers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.broker.connections.xa_branch import Branch
from spanwire.broker.dispatch.slow_consumer_strategy import SlowConsumerWatch
from spanwire.broker.scheduler.schedule import Job

MAX_SLOW: Final = 1_000  # slow consumers in the view of a strategy; some 100 KB of JSON


@dataclass(frozen=True)
class StrategyView:
    """A strategy for slow consumers, ``name`` is the pattern of the policy entry.

    ``max_since_ack_ms`` is None for a strategy that compares pending messages with the prefetch. ``slow`` are at most
    `MAX_SLOW` slow consumers, each with the number of slow phases and of checks in the present phase.
    """

    name: str
    max_slow_count: int
    max_slow_ms: int
    check_period_ms: int
    aborts_connections: bool
    max_since_ack_ms: int | None
    ignores_idle: bool
    ignores_network: bool
    slow: list[dict[str, object]]


@dataclass(frozen=True)
class JobView:
    """A scheduled message.

    ``due_ms`` is the time of the next delivery in milliseconds since 1970; ``repeat`` counts the further deliveries,
    below 0 without end. A ``redelivery`` brings a failed message back to the destination.
    """

    job_id: str
    due_ms: int
    cron: str
    delay_ms: int
    period_ms: int
    repeat: int
    user_name: str
    size_bytes: int
    redelivery: bool


@dataclass(frozen=True)
class BranchView:
    """A prepared XA branch, open to every connection and operator.

    The three parts of the id are the manager's.

    ``sends`` and ``acknowledgements`` count messages. ``finishing`` says that a commit or rollback is under way.
    """

    xid: str
    format_id: int
    global_id: str
    branch_qualifier: str
    user_name: str
    sends: int
    acknowledgements: int
    recovered: bool
    finishing: bool


def job_view(job: Job) -> JobView:
    """Return the view of a scheduled message."""
    return JobView(
        job_id=job.job_id,
        due_ms=job.due_ms,
        cron=job.cron,
        delay_ms=job.delay_ms,
        period_ms=job.period_ms,
        repeat=job.repeat,
        user_name=job.principal.name,
        size_bytes=job.size,
        redelivery=job.redelivery is not None,
    )


def branch_view(branch: Branch) -> BranchView:
    """Return the view of a prepared branch. After a restart the store's record has the numbers."""
    record = branch.record
    from_record = branch.on_disk and not branch.loaded and record is not None
    if from_record and record is not None:
        sends = len(record.sends)
        acknowledgements = sum([len(acks.sequences) for acks in record.acks])
    else:
        sends, acknowledgements = len(branch.sends), max(0, branch.count + branch.late - len(branch.sends))
    xid = branch.xid
    return BranchView(
        xid=str(xid),
        format_id=xid.format_id,
        global_id=xid.global_id.hex(),
        branch_qualifier=xid.branch_qualifier.hex(),
        user_name=branch.user,
        sends=sends,
        acknowledgements=acknowledgements,
        recovered=branch.on_disk,
        finishing=branch.finishing,
    )


def strategy_view(watch: SlowConsumerWatch) -> StrategyView:
    """Return the view of a strategy for slow consumers."""
    strategy = watch.strategy
    return StrategyView(
        name=watch.policy.destination.qualified_name,
        max_slow_count=strategy.max_slow_count,
        max_slow_ms=strategy.max_slow_ms,
        check_period_ms=strategy.check_period_ms,
        aborts_connections=strategy.abort_connection,
        max_since_ack_ms=strategy.max_since_ack_ms,
        ignores_idle=strategy.ignore_idle_consumers,
        ignores_network=strategy.ignore_network_consumers,
        slow=[
            {
                "consumer_id": str(one.subscription.info.consumer_id),
                "slow_count": one.slow_count,
                "mark_count": one.marks,
            }
            for one in watch.slow()[:MAX_SLOW]
        ],
    )
