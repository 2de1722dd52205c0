"""The operations of the control socket on the broker alone, and the view of pipelines."""

from __future__ import annotations

from collections.abc import Callable

from spanwire.broker.broker import Broker
from spanwire.management.browsing import QueueAges, QueueBrowsing, ReadStored
from spanwire.management.control import Operation
from spanwire.management.operations.actions import BrokerActions, JobRemoval
from spanwire.management.operations.adjustments import BrokerAdjustments
from spanwire.management.operations.administration import BrokerAdministration
from spanwire.management.operations.moves import MoveTasks
from spanwire.management.operations.operations import QueueOperations
from spanwire.management.operations.replays import ReplayTasks
from spanwire.management.questions.questions import NetworkSource, Questions, TraceCommands
from spanwire.management.tasks import Tasks
from spanwire.transports.base import Clock


def broker_operations(
    broker: Broker,
    clock: Clock,
    wake: Callable[[], None],
    read_stored: ReadStored,
    tasks: Tasks,
    network: NetworkSource | None = None,
    *,
    viewers_see_bodies: bool = False,
) -> dict[str, Operation]:
    """Return the operations by name; ``wake`` ends a turn of the loop soon.

    ``network`` has the links and asks other brokers. ``viewers_see_bodies`` shows the bodies of messages to users with
    the role of viewers only.
    """
    browsing = QueueBrowsing(broker, read_stored, viewers_see_bodies=viewers_see_bodies)
    queues = QueueOperations(broker.operations, clock, wake)
    moves = MoveTasks(broker.moves, broker.operations, tasks, clock, wake)
    administration = BrokerAdministration(broker.administration, clock, wake)
    adjustments = BrokerAdjustments(broker.assembly.adjustments, clock, wake)
    actions = BrokerActions(broker.assembly.operator_actions, broker.administration, broker.formats, clock, wake)
    ReplayTasks(broker.assembly.statuses, clock, tasks)
    traces = TraceCommands(broker, clock, wake) if network is None else network.traces(broker, wake)
    return {
        "ages": QueueAges(broker.overview, read_stored).ages,
        "browse": browsing.browse,
        "browse-subscription": browsing.browse_subscription,
        "headers": browsing.headers,
        "purge": tasks.startable("purge", queues.purge),
        "retry": moves.startable("retry", queues.retry),
        "move": moves.startable("move", queues.move),
        "copy": moves.startable("copy", queues.copy),
        "pause": queues.pause,
        "resume": queues.resume,
        "send": actions.send,
        "create": administration.create,
        "delete": administration.delete,
        "statistics": administration.statistics,
        "reset-statistics": administration.reset_statistics,
        "ungroup": administration.free_groups,
        "limits": adjustments.limits,
        "settings": adjustments.settings,
        "strategy-change": adjustments.strategy,
        "reset-producer": adjustments.reset_producer,
        "reset-consumer": adjustments.reset_consumer,
        "create-subscription": actions.create_subscription,
        "remove-subscription": administration.remove_subscription,
        "commit-branch": actions.commit_branch,
        "roll-back-branch": actions.roll_back_branch,
        "end-consumer": actions.end_consumer,
        "job-remove": actions.remove_job,
        "jobs-remove": JobRemoval(broker.overview, broker.assembly.operator_actions, clock, wake).remove,
        "disconnect": administration.disconnect,
        "task-cancel": tasks.cancel,
        "task-resume": tasks.resume,
        "task-undo": tasks.undo,
        "trace": traces.start,
        "trace-end": traces.end,
        "observations": traces.observations,
        "trace-dry-run": traces.dry_run,
        "why": Questions(broker, clock, read_stored, network).why,
    }


def pipelines(broker: Broker) -> dict[str, object]:
    """Return the published statuses of pipelines as texts, and all cursors and sinks, for an operator."""
    parts = broker.assembly
    return {
        "pipelines": parts.statuses.rows(None),
        "cursors": parts.cursors.table.rows(None, ""),
        "sinks": parts.sinks.rows(None, ""),
    }
