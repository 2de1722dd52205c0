"""The nouns of commands over the management model, each with a view and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from spanwire.cli.arguments import Command, run_command
from spanwire.cli.management.actions import operate
from spanwire.cli.management.rows import list_rows, show_row
from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.network_tables import LINKS
from spanwire.management.tables.operation_table import OPERATIONS
from spanwire.management.tables.view_table import CONNECTIONS, CONSUMERS, PRODUCERS, QUEUES, SUBSCRIPTIONS, TOPICS
from spanwire.management.tables.work_tables import JOBS, TASKS

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "queues": ("destination", "pending", "in_flight", "consumers", "producers", "enqueued", "dequeued"),
    "topics": ("destination", "consumers", "producers", "enqueued", "dequeued"),
    "subscriptions": ("client_id", "name", "topic", "selector", "pending", "in_flight", "away_s"),
    "connections": ("connection_id", "client_id", "user_name", "remote_address", "protocol", "consumers", "producers"),
    "consumers": ("consumer_id", "destination", "selector", "in_flight", "dispatched", "dequeued"),
    "producers": ("producer_id", "destination", "sent", "waiting_sends"),
    "jobs": ("job_id", "due_ms", "cron", "period_ms", "repeat", "size_bytes"),
    "tasks": ("id", "operation", "sources", "target", "state", "processed", "seconds_left", "waits_for", "undoable"),
    "links": ("name", "remote", "state", "duplex", "in_flight", "enqueued", "dequeued", "reason"),
}
# ``spanwire browse`` shows messages, of any broker and in several forms.
LEFT_OUT: Final = "browse"


@dataclass(frozen=True, slots=True)
class Noun:
    """One noun: the word, the plural for people, and the view.

    The operations of the noun have the view's name in the HTTP API.
    """

    word: str
    meaning: str
    view: ViewTable

    def commands(self) -> Mapping[str, tuple[Command, str]]:
        """Return the actions by name, with lines of the help."""
        what = self.view.name
        commands: dict[str, tuple[Command, str]] = {
            "list": (partial(list_rows, self.word, self.view, COLUMNS[what]), f"list the {self.meaning}"),
            "show": (partial(show_row, self.word, self.view), "show all attributes of one"),
        }
        for operation in OPERATIONS:
            parts = operation.path.strip("/").split("/")
            if parts[0] == what and operation.command != LEFT_OUT:
                commands[parts[-1]] = (partial(operate, self.word, operation, self.view), operation.meaning)
        return commands

    def run(self, arguments: Sequence[str]) -> int:
        """Run an action and return the exit status."""
        return run_command(f"spanwire {self.word}", arguments, self.commands())


QUEUE: Final = Noun("queue", "queues", QUEUES)
TOPIC: Final = Noun("topic", "topics", TOPICS)
CONNECTION: Final = Noun("connection", "connected clients", CONNECTIONS)
CONSUMER: Final = Noun("consumer", "consumers", CONSUMERS)
PRODUCER: Final = Noun("producer", "producers", PRODUCERS)
SUBSCRIPTION: Final = Noun("subscription", "durable subscriptions", SUBSCRIPTIONS)
JOB: Final = Noun("job", "scheduled messages", JOBS)
TASK: Final = Noun("task", "tasks: moves of messages and other long operations", TASKS)
LINK: Final = Noun("link", "links of the network", LINKS)

subscription: Final = SUBSCRIPTION.run
queue: Final = QUEUE.run
topic: Final = TOPIC.run
connection: Final = CONNECTION.run
job: Final = JOB.run
task: Final = TASK.run
link: Final = LINK.run
consumer: Final = CONSUMER.run
producer: Final = PRODUCER.run
