"""The table of an operator's operations and reading commands, each with the needed role.

The control socket refuses a handle every command outside of the table. The HTTP API and its description have one route
for each operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from spanwire.management.tables.attributes import BOOLEAN, INTEGER, LIST, OBJECT, TEXT
from spanwire.management.tables.view_table import VIEWS


class Role(IntEnum):
    """A role of an operator; each role includes the lower roles."""

    NONE = 0
    VIEW = 1
    OPERATE = 2
    ADMIN = 3


QUEUE: Final = "queue"
TOPIC: Final = "topic"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operation, with a type of JSON Schema.

    ``least`` is the lowest number, and ``most`` the highest; ``choices`` are the valid texts, if not all are valid.
    Without a value for an argument that ``stays`` the present setting is kept, and is neither true nor false.
    """

    name: str
    type: str
    meaning: str
    required: bool = False
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: its path below ``/api/v1``, the command of the control socket, role and arguments.

    ``subject`` is the kind of the one destination in the path, "" for operations without a destination. An operation
    that is ``always_task`` answers with the id of a task, even without the argument that makes a task of others.
    """

    path: str
    command: str
    role: Role
    meaning: str
    arguments: tuple[Argument, ...] = ()
    subject: str = ""
    always_task: bool = False

    @property
    def may_begin_task(self) -> bool:
        """True if the answer may be the id of a task."""
        return self.always_task or LATER in self.arguments


SELECTOR: Final = Argument("selector", TEXT, "a selector; without one all messages")
CONNECTORS: Final = (Argument("connectors", LIST, "names of network connectors", required=True),)
LISTENERS: Final = (Argument("connectors", LIST, "names of connectors", required=True),)
BRIDGES: Final = (Argument("bridges", LIST, "names of bridges", required=True),)
MOST: Final = Argument("limit", INTEGER, "most messages", least=0)
LIFETIME: Final = Argument(
    "lifetime_ms", INTEGER, "another time to live in milliseconds, 0 for none; else as they were sent", least=0
)
BYTES_LIMIT: Final = "bytes; 0 for the whole disk"
LATER: Final = Argument("as_task", BOOLEAN, "true for an answer at once, with the id of a task")
ONLY_TASKS: Final = "; only as a task"
RATE: Final = Argument("rate", INTEGER, f"most messages a second{ONLY_TASKS}", least=1, most=1_000_000)
FOLLOW: Final = Argument(
    "follow",
    BOOLEAN,
    f"true to wait while 1,000 messages are pending at a target with consumers{ONLY_TASKS}",
)
DRY_RUN: Final = Argument("dry_run", BOOLEAN, "true to count the messages and show some, and change nothing")
SAFELY: Final = (RATE, FOLLOW, DRY_RUN, LATER)
TARGET: Final = Argument("target", TEXT, "queue or topic that gets the messages", required=True)
TASK_ID: Final = Argument("id", TEXT, "id of the task", required=True)
XID: Final = Argument("xid", TEXT, "id of the branch", required=True)
MEASURES: Final = "measure sizes and times of messages from now on, or no longer"
ENABLED: Final = (Argument("enabled", BOOLEAN, "true to measure", required=True),)
SENDS: Final = "send a text message with the rights of the user"
SETTINGS: Final = (
    Argument("memory_limit_bytes", INTEGER, "bytes of memory; 0 for the broker's limit alone", least=0),
    Argument("producer_flow_control", BOOLEAN, "true if sends wait at that limit", stays=True),
    Argument("blocked_warning_ms", INTEGER, "milliseconds between two warnings of waiting sends", least=0),
)
TOPIC_SETTINGS: Final = (
    *SETTINGS, Argument("audits_copies", BOOLEAN, "true if copies over several routes are taken once", stays=True)
)  # fmt: skip
MESSAGE: Final = (
    Argument("body", TEXT, "the text", required=True),
    Argument("properties", OBJECT, "properties: texts, numbers, true and false"),
    Argument("persistent", BOOLEAN, "false for a message that a restart may lose"),
    Argument("priority", INTEGER, "0 to 9, 4 by default", least=0, most=9),
    Argument("lifetime_ms", INTEGER, "milliseconds after which the message expires; 0 for never", least=0),
    Argument("correlation_id", TEXT, "correlation id"),
    Argument("type", TEXT, "JMS type"),
    Argument("group", TEXT, "message group"),
    Argument("reply_to", TEXT, "queue or topic for answers"),
)
BROWSED: Final = (
    SELECTOR,
    Argument("limit", INTEGER, "most messages, 400 at most", least=1),
    Argument("skip", INTEGER, "messages at the front that are left out", least=0, most=100_000),
)
MANAGING: Final = (
    Operation("/queues/{name}/browse", "browse", Role.OPERATE, "show pending messages and leave them in the queue",
              BROWSED, QUEUE),
    Operation("/queues/{name}/purge", "purge", Role.OPERATE, "remove pending messages", (SELECTOR, MOST, LATER), QUEUE),
    Operation("/queues/{name}/move", "move", Role.OPERATE, "move pending messages to another queue or topic",
              (TARGET, SELECTOR, MOST, *SAFELY), QUEUE),
    Operation("/queues/{name}/copy", "copy", Role.OPERATE, "copy pending messages to another queue or topic",
              (TARGET, SELECTOR, MOST, *SAFELY), QUEUE),
    Operation("/queues/{name}/send", "send", Role.OPERATE, SENDS, MESSAGE, QUEUE),
    Operation("/topics/{name}/send", "send", Role.OPERATE, SENDS, MESSAGE, TOPIC),
    Operation("/queues/{name}/retry", "retry", Role.OPERATE, "send dead letters back to their destinations",
              (SELECTOR, MOST, LIFETIME, *SAFELY), QUEUE),
    Operation("/queues/{name}/pause", "pause", Role.OPERATE, "stop the dispatch", subject=QUEUE),
    Operation("/queues/{name}/resume", "resume", Role.OPERATE, "dispatch again", subject=QUEUE),
    Operation("/queues/{name}/ungroup", "ungroup", Role.OPERATE,
              "take a message group from its consumer, or all of them; the next consumer gets it",
              (Argument("group", TEXT, "the group; without one all"),), QUEUE),
    Operation("/queues/{name}/create", "create", Role.ADMIN, "create a queue", subject=QUEUE),
    Operation("/topics/{name}/create", "create", Role.ADMIN, "create a topic", subject=TOPIC),
    Operation("/queues/{name}/statistics", "statistics", Role.OPERATE, MEASURES, ENABLED, QUEUE),
    Operation("/topics/{name}/statistics", "statistics", Role.OPERATE, MEASURES, ENABLED, TOPIC),
    Operation("/queues/{name}/settings", "settings", Role.ADMIN,
              "set limits of a queue until the next start or reload of the broker", SETTINGS, QUEUE),
    Operation("/topics/{name}/settings", "settings", Role.ADMIN,
              "set limits of a topic until the next start or reload of the broker", TOPIC_SETTINGS, TOPIC),
    Operation("/broker/limits", "limits", Role.ADMIN, "set limits of the broker until its next start",
              (Argument("memory_limit_bytes", INTEGER, "bytes of memory for pending messages", least=1),
               Argument("store_limit_bytes", INTEGER, f"size of the store in {BYTES_LIMIT}", least=0),
               Argument("temporary_limit_bytes", INTEGER, f"non-persistent messages on the disk, {BYTES_LIMIT}",
                        least=0),
               Argument("maximum_uncommitted", INTEGER, "messages in the open transactions of a connection",
                        least=1))),
    Operation("/slow_consumer_strategies/change", "strategy-change", Role.ADMIN,
              "set the bounds of a strategy for slow consumers until the next start of the broker",
              (Argument("name", TEXT, "pattern of its policy entry, such as topic://PRICES.>", required=True),
               Argument("max_slow_count", INTEGER, "slow phases; 0 or less for no such limit", least=-1),
               Argument("max_slow_ms", INTEGER, "milliseconds of slowness; 0 or less for no such limit", least=-1),
               Argument("max_since_ack_ms", INTEGER, "milliseconds without an acknowledgement", least=0),
               Argument("ignores_idle", BOOLEAN, "true to leave out consumers without messages", stays=True),
               Argument("ignores_network", BOOLEAN, "true to leave out bridges", stays=True))),
    Operation("/producers/reset", "reset-producer", Role.OPERATE, "set the counters of a producer to 0",
              (Argument("producer_id", TEXT, "id of the producer", required=True),
               Argument("only_waits", BOOLEAN, "true for those of sends that waited"))),
    Operation("/consumers/reset", "reset-consumer", Role.OPERATE, "set the counters of a consumer to 0",
              (Argument("consumer_id", TEXT, "id of the consumer", required=True),)),
    Operation("/links/reset", "network-reset", Role.OPERATE,
              "set the counters of a link to 0, or those of one destination",
              (Argument("name", TEXT, "name of the network connector", required=True),
               Argument("uri", TEXT, "address of the remote broker, as in the list of links", required=True),
               Argument("direction", TEXT, "direction of the destination's messages",
                        choices=("outbound", "inbound")),
               Argument("destination", TEXT, "the destination, such as queue://ORDERS"))),
    Operation("/connectors/reset", "connector-reset", Role.OPERATE, "set the counters of connectors to 0", LISTENERS),
    Operation("/connectors/add", "connector-add", Role.ADMIN,
              "listen at a further address until the next start of the broker",
              (Argument("uri", TEXT, "the address, such as stomp://127.0.0.1:61613", required=True),
               Argument("name", TEXT, "name of the connector; else the address"),
               Argument("settings", OBJECT, "attributes of <transportConnector>, as texts"))),
    Operation("/connectors/remove", "connector-remove", Role.ADMIN,
              "close the ports of connectors and their connections, and forget these until the next start of the "
              "broker", LISTENERS),
    Operation("/queues/{name}/reset", "reset-statistics", Role.OPERATE, "set the counters to 0", subject=QUEUE),
    Operation("/topics/{name}/reset", "reset-statistics", Role.OPERATE, "set the counters to 0", subject=TOPIC),
    Operation("/queues/{name}/delete", "delete", Role.ADMIN, "remove an empty queue that is not in use",
              subject=QUEUE),
    Operation("/topics/{name}/delete", "delete", Role.ADMIN, "remove a topic that is not in use", subject=TOPIC),
    Operation("/subscriptions/browse", "browse-subscription", Role.OPERATE,
              "show pending messages of a durable subscription and leave them there",
              (Argument("client_id", TEXT, "its client id", required=True),
               Argument("name", TEXT, "its name", required=True), *BROWSED)),
    Operation("/subscriptions/remove", "remove-subscription", Role.ADMIN,
              "remove a durable subscription without a subscriber, and its messages",
              (Argument("client_id", TEXT, "its client id", required=True),
               Argument("name", TEXT, "its name", required=True))),
    Operation("/subscriptions/create", "create-subscription", Role.ADMIN,
              "create a durable subscription without a subscriber, with the rights of the user",
              (Argument("client_id", TEXT, "its client id", required=True),
               Argument("name", TEXT, "its name", required=True),
               Argument("topic", TEXT, "topic, wildcards or several names", required=True),
               Argument("selector", TEXT, "a selector; without one all messages"))),
    Operation("/branches/commit", "commit-branch", Role.ADMIN,
              "commit a prepared XA branch whose transaction manager is gone", (XID,)),
    Operation("/branches/rollback", "roll-back-branch", Role.ADMIN,
              "roll back a prepared XA branch whose transaction manager is gone", (XID,)),
    Operation("/consumers/end", "end-consumer", Role.ADMIN, "end a consumer; its connection stays",
              (Argument("consumer_id", TEXT, "id of the consumer", required=True),)),
    Operation("/jobs/remove", "job-remove", Role.ADMIN, "remove a scheduled message",
              (Argument("job_id", TEXT, "id of the job", required=True),)),
    Operation("/jobs/remove_all", "jobs-remove", Role.ADMIN, "remove scheduled messages, all or those of a time",
              (Argument("from_ms", INTEGER, "first time of the next delivery, milliseconds since 1970", least=0),
               Argument("to_ms", INTEGER, "last time of the next delivery", least=0))),
    Operation("/connections/disconnect", "disconnect", Role.ADMIN, "close connections",
              (Argument("client", TEXT, "a client id, a connection id or a remote address", required=True),)),
    Operation("/tasks/cancel", "task-cancel", Role.OPERATE, "end a task; what it has done stays",
              (TASK_ID,)),
    Operation("/tasks/resume", "task-resume", Role.OPERATE, "go on with a cancelled or failed move or drain",
              (TASK_ID,), always_task=True),
    Operation("/tasks/undo", "task-undo", Role.OPERATE,
              "bring back what a move has moved and nobody has consumed, as a task of its own", (TASK_ID,),
              always_task=True),
    Operation("/links/start", "network-start", Role.ADMIN, "start network connectors", CONNECTORS),
    Operation("/log/level", "log-level", Role.ADMIN,
              "set the level of a logger, and show the loggers with a level of their own",
              (Argument("logger", TEXT, "the name of a logger, or root"),
               Argument("level", TEXT, "debug, info, warning, error or inherited"))),
    Operation("/connectors/start", "connector-start", Role.ADMIN, "accept connections again at stopped connectors",
              LISTENERS),
    Operation("/connectors/rebalance", "connector-rebalance", Role.ADMIN,
              "ask failover clients once to spread over this broker and those that it is linked to", LISTENERS),
    Operation("/connectors/stop", "connector-stop", Role.ADMIN, "close the ports of connectors, and their connections",
              LISTENERS),
    Operation("/network_connectors/add", "network-add", Role.ADMIN,
              "add a network connector until it is removed; with a password in clear until the broker starts again",
              (Argument("uri", TEXT, "brokers to link to, such as static:(tcp://host:61616)", required=True),
               Argument("name", TEXT, "its name; else NC, NC-2, …"),
               Argument("settings", OBJECT, "attributes of <networkConnector>, as texts, and its lists of names"))),
    Operation("/network_connectors/remove", "network-remove", Role.ADMIN,
              "end the links of network connectors, and forget these; those of the configuration until the next start",
              CONNECTORS),
    Operation("/network_connectors/drain", "drain", Role.ADMIN,
              "send what waits in queues to another broker, over a link of its own, as a task",
              (Argument("uri", TEXT, "address of the other broker, such as tcp://host:61616", required=True),
               Argument("queues", LIST, "names or patterns of queues; else all"),
               Argument("keep", INTEGER, "messages that stay, about", least=0),
               Argument("settings", OBJECT, "attributes of the <networkConnector>, as texts")), always_task=True),
    Operation("/links/drain", "link-drain", Role.ADMIN,
              "stop network connectors once no message is on its way over them; they take no further ones meanwhile",
              CONNECTORS),
    Operation("/links/stop", "network-stop", Role.ADMIN, "stop network connectors", CONNECTORS),
    Operation("/bridges/pause", "bridge-pause", Role.OPERATE, "pause bridges, also over a restart of the broker",
              BRIDGES),
    Operation("/bridges/resume", "bridge-resume", Role.OPERATE, "start paused bridges", BRIDGES),
    Operation("/bridges/restart", "bridge-restart", Role.OPERATE, "start bridges anew, also failed and paused ones",
              BRIDGES),
    Operation("/bridges/create", "bridge-create", Role.ADMIN,
              "create and start a bridge, until it is deleted; with a password in clear until the broker starts again",
              (Argument("definition", TEXT, "a document of one bridge or route", required=True),
               Argument("format", TEXT, "format of the definition, toml by default", choices=("toml", "yaml", "xml")),
               Argument("file", TEXT, "name of the definition in errors"),
               Argument("replace", BOOLEAN, "true to take the place of a created bridge of its name"))),
    Operation("/bridges/change", "bridge-change", Role.ADMIN,
              "set parameters of a bridge until the next start of the broker; it completes its batch and starts anew",
              (Argument("name", TEXT, "name of the bridge", required=True),
               Argument("settings", OBJECT, "parameters of a JMS bridge, such as maxBatchSize; null takes one away",
                        required=True))),
    Operation("/bridges/delete", "bridge-delete", Role.ADMIN,
              "let created bridges complete their batches and end, and forget them", BRIDGES),
)  # fmt: skip
TRACE: Final = Operation(
    "/traces/start", "trace", Role.OPERATE, "follow messages of a queue or topic, and return the id of the trace",
    (Argument("destination", TEXT, "the queue, or topic://NAME", required=True),
     SELECTOR,
     Argument("ids", LIST, "ids of the only messages"),
     Argument("one_in", INTEGER, "follow one of so many messages", least=1, most=1_000_000),
     Argument("seconds", INTEGER, "seconds after which the trace ends, 60 by default", least=1, most=3_600),
     Argument("messages", INTEGER, "messages that are followed, 100 by default", least=1, most=1_000),
     Argument("network", BOOLEAN, "true to follow them at the other brokers of the network, too")),
)  # fmt: skip
TRACE_END: Final = Operation(
    "/traces/end", "trace-end", Role.OPERATE, "end a trace; what was observed stays readable for a while",
    (Argument("trace", TEXT, "id of the trace", required=True),),
)  # fmt: skip
OPERATIONS: Final = (*MANAGING, TRACE, TRACE_END)
# A question changes nothing: it is no operation, and viewers may ask.
WHY: Final = Operation(
    "/why", "why", Role.VIEW, "explain why a message, queue, topic, subscription, connection or link does not move",
    (Argument("name", TEXT, "message id, or name of the object", required=True),
     Argument("kind", TEXT, "what the name is of; else the first object with the name",
              choices=("message", "queue", "topic", "subscription", "connection", "link")),
     Argument("client_id", TEXT, "client id of a durable subscription"),
     Argument("queue", TEXT, "the only queue whose stored messages are compared with the id"),
     Argument("network", TEXT, "true to ask the other brokers about the message, too", choices=("true", "false"))),
)  # fmt: skip
OBSERVATIONS: Final = Operation(
    "/traces", "observations", Role.VIEW, "steps of the messages of a trace; without an id all traces of this broker",
    (Argument("trace", TEXT, "id of the trace"),
     Argument("after", TEXT, "the next of the answer before; else all steps")),
)  # fmt: skip
TRACE_DRY_RUN: Final = Operation(
    "/traces/dry_run", "trace-dry-run", Role.VIEW, "the brokers that a message would pass now, which nobody sends",
    (Argument("destination", TEXT, "the queue, or topic://NAME", required=True),
     Argument("from", TEXT, "name of the broker where it would be sent; else this one"),
     Argument("properties", TEXT, "its properties as a JSON object, for selectors")),
)  # fmt: skip
BRIDGE_PARAMETERS: Final = Operation(
    "/bridges/parameters", "bridge-parameters", Role.VIEW, "parameters of a bridge, without its passwords",
    (Argument("name", TEXT, "name of the bridge", required=True),),
)  # fmt: skip
QUESTIONS: Final = (WHY, OBSERVATIONS, TRACE_DRY_RUN, BRIDGE_PARAMETERS)
READING: Final = (
    "status", "summary", "destination", "changes", "ages", "network", "pipelines", "headers",
    *(question.command for question in QUESTIONS),
    *(view.command for view in VIEWS),
)  # fmt: skip
# Commands of the control socket for the holder of a handle. A command that is not listed is refused.
COMMAND_ROLES: Final[dict[str, Role]] = {
    **dict.fromkeys(READING, Role.VIEW),
    **{operation.command: operation.role for operation in OPERATIONS},
}
