"""Views of work that the broker keeps for later: scheduled messages and prepared XA branches."""

from __future__ import annotations

from dataclasses import dataclass

from spanwire.broker.connections.xa_branch import Branch
from spanwire.broker.scheduler.schedule import Job


@dataclass(frozen=True)
class JobView:
    """A scheduled message.

    ``due_ms`` is the time of the next delivery in milliseconds since 1970; ``repeat`` counts the deliveries after it,
    below 0 without end. A ``redelivery`` brings a failed message back to its destination.
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
    """A prepared XA branch, open to every connection and operator. The three parts of the id are as the manager's.

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
        sends, acknowledgements = len(branch.sends), max(0, branch.count - len(branch.sends))
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
