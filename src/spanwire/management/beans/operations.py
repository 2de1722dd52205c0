"""The operations of beans under ActiveMQ's names, each as one command of the broker.

No other operation exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanwire.management.beans import executions as kinds
from spanwire.management.beans.bean import bean_word
from spanwire.management.beans.executions import MEASURED, Answer, Arguments, Execution
from spanwire.management.beans.messages import composites
from spanwire.management.beans.queries import queried
from spanwire.management.beans.words import (
    at_instant,
    attribute,
    between,
    bridge_of,
    browsed,
    browsed_one,
    browsed_queue,
    connector_uri,
    destination,
    first_messages,
    flag,
    jobs_between,
    keys_of,
    level_of,
    logger_of,
    matches,
    new_subscription,
    one_message,
    one_message_to,
    queue_of,
    root_level,
    slow_connection,
    slow_consumer,
    some_messages,
    some_messages_to,
    subject_of,
    text_message,
    whole,
    with_value,
)
from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.view_table import QUEUES, TOPICS


def _setting(command: str, base: Arguments, name: str, read: Callable[[str], object]) -> Execution:
    return Execution(command, with_value(base, name, read))


def _parameter(word: str) -> Execution:
    """Return the operation that sets one parameter of a bridge; an empty text takes the parameter away."""
    return Execution(
        "bridge-change", lambda subject, words: {**bridge_of(subject, words), "settings": {word: words[0] or None}}
    )


def _query(view: ViewTable) -> Execution:
    return Execution(
        view.command,
        lambda subject, words: {},
        shown=lambda answer, broker, words: queried(view, answer, broker, words),
    )


def _first(answer: object) -> object:
    found = composites(answer)
    return found[0] if found else None


def _job_removal(arguments: Arguments) -> Execution:
    return Execution("jobs-remove", arguments)


RESET: Final = Execution("reset-statistics", queue_of)
SEND: Final = Execution("send", text_message, "message_id")
SEND_WITH_HEADERS: Final = Execution("send", text_message, "message_id", takes_objects=True)
BROWSE: Final = Execution("browse", browsed, shown=lambda answer, broker, words: composites(answer))
BROWSE_SUBSCRIPTION: Final = Execution(
    "browse-subscription", keys_of("client_id", "name"), shown=lambda answer, broker, words: composites(answer)
)
CONSUMER_RESET: Final = Execution("reset-consumer", keys_of("consumer_id"))
# Operations by the kind of a bean, by name and number of arguments.
EXECUTABLE: Final[dict[str, dict[tuple[str, int], Execution]]] = {
    kinds.QUEUE: {
        ("purge", 0): Execution("purge", queue_of),
        ("purge", 1): Execution("purge", first_messages),
        ("pause", 0): Execution("pause", queue_of),
        ("resume", 0): Execution("resume", queue_of),
        ("resetStatistics", 0): RESET,
        ("retryMessages", 0): Execution("retry", queue_of, "retried"),
        ("retryMessage", 1): Execution("retry", one_message, "retried", True),
        ("removeMessage", 1): Execution("purge", one_message, "removed", True),
        ("removeMatchingMessages", 1): Execution("purge", some_messages, "removed"),
        ("removeMatchingMessages", 2): Execution("purge", some_messages, "removed"),
        ("moveMessageTo", 2): Execution("move", one_message_to, "moved", True),
        ("moveMatchingMessagesTo", 2): Execution("move", some_messages_to, "moved"),
        ("moveMatchingMessagesTo", 3): Execution("move", some_messages_to, "moved"),
        ("copyMessageTo", 2): Execution("copy", one_message_to, "copied", True),
        ("copyMatchingMessagesTo", 2): Execution("copy", some_messages_to, "copied"),
        ("copyMatchingMessagesTo", 3): Execution("copy", some_messages_to, "copied"),
        ("removeMessageGroup", 1): _setting("ungroup", queue_of, "group", str),
        ("removeAllMessageGroups", 0): Execution("ungroup", queue_of),
        ("browse", 0): BROWSE,
        ("browse", 1): BROWSE,
        ("browseMessages", 0): BROWSE,
        ("browseMessages", 1): BROWSE,
        ("browseAsTable", 0): BROWSE,
        ("browseAsTable", 1): BROWSE,
        ("getMessage", 1): Execution("browse", browsed_one, shown=lambda answer, broker, words: _first(answer)),
        ("sendTextMessage", 1): SEND,
        ("sendTextMessage", 2): SEND_WITH_HEADERS,
    },
    kinds.TOPIC: {
        ("resetStatistics", 0): RESET,
        ("sendTextMessage", 1): SEND,
        ("sendTextMessage", 2): SEND_WITH_HEADERS,
    },
    kinds.BROKER: {
        ("addQueue", 1): Execution("create", destination("queue")),
        ("addTopic", 1): Execution("create", destination("topic")),
        ("removeQueue", 1): Execution("delete", destination("queue")),
        ("removeTopic", 1): Execution("delete", destination("topic")),
        ("createDurableSubscriber", 4): Execution("create-subscription", new_subscription),
        ("destroyDurableSubscriber", 2): Execution(
            "remove-subscription", lambda subject, words: {"client_id": words[0], "name": words[1]}
        ),
        ("addNetworkConnector", 1): Execution("network-add", lambda subject, words: {"uri": words[0]}, "name"),
        ("removeNetworkConnector", 1): Execution(
            "network-remove", lambda subject, words: {"connectors": [words[0]]}, "name", True
        ),
        ("addConnector", 1): Execution("connector-add", lambda subject, words: {"uri": words[0]}, "name"),
        ("removeConnector", 1): Execution(
            "connector-remove", lambda subject, words: {"connectors": [words[0]]}, "name", True
        ),
        ("browseQueue", 1): Execution("browse", browsed_queue, shown=lambda answer, broker, words: composites(answer)),
        ("queryQueues", 3): _query(QUEUES),
        ("queryTopics", 3): _query(TOPICS),
    },
    kinds.CONNECTOR: {
        ("start", 0): Execution("connector-start", subject_of),
        ("stop", 0): Execution("connector-stop", subject_of),
        ("resetStatistics", 0): Execution("connector-reset", subject_of),
    },
    kinds.CONNECTION: {("stop", 0): Execution("disconnect", subject_of)},
    kinds.CONSUMER: {("resetStatistics", 0): CONSUMER_RESET},
    kinds.PRODUCER: {
        ("resetStatistics", 0): Execution("reset-producer", subject_of),
        ("resetFlowControlStats", 0): Execution(
            "reset-producer", lambda subject, words: {**subject, "only_waits": True}
        ),
    },
    kinds.NETWORK_CONNECTOR: {
        ("start", 0): Execution("network-start", subject_of),
        ("stop", 0): Execution("network-stop", subject_of),
    },
    kinds.LINK: {("resetStats", 0): Execution("network-reset", subject_of)},
    kinds.JMS_BRIDGE: {
        ("start", 0): Execution("bridge-resume", subject_of),
        ("stop", 0): Execution("bridge-pause", subject_of),
        ("resume", 0): Execution("bridge-resume", subject_of),
        ("pause", 0): Execution("bridge-pause", subject_of),
        ("restart", 0): Execution("bridge-restart", subject_of),
    },
    kinds.SUBSCRIPTION: {
        ("browse", 0): BROWSE_SUBSCRIPTION,
        ("browseAsTable", 0): BROWSE_SUBSCRIPTION,
        ("destroy", 0): Execution("remove-subscription", keys_of("client_id", "name")),
        ("resetStatistics", 0): CONSUMER_RESET,
    },
    kinds.BRANCH: {
        ("heuristicCommit", 0): Execution("commit-branch", subject_of),
        ("heuristicRollback", 0): Execution("roll-back-branch", subject_of),
    },
    kinds.STRATEGY: {
        ("abortConsumer", 1): Execution("end-consumer", slow_consumer, takes_objects=True),
        ("abortConnection", 1): Execution("disconnect", slow_connection, takes_objects=True),
    },
    kinds.LOGGING: {
        ("getLogLevel", 1): Execution("log-level", logger_of, "level"),
        ("setLogLevel", 2): Execution("log-level", level_of),
    },
    kinds.SCHEDULER: {
        ("removeAllJobs", 0): _job_removal(subject_of),
        ("removeAllJobs", 2): _job_removal(between),
        ("removeAllJobsAtScheduledTime", 1): _job_removal(at_instant),
        ("removeJob", 1): Execution("job-remove", lambda subject, words: {"job_id": words[0]}),
    },
}
BRIDGE_PARAMETERS: Final = (
    "sourceUsername", "sourcePassword", "targetUsername", "targetPassword", "selector", "failureRetryInterval",
    "maxRetries", "qualityOfServiceMode", "maxBatchSize", "maxBatchTime", "subscriptionName", "clientID",
    "addMessageIDInHeader", "messageIDHeader", "failoverTimeout", "duplicateDetection",
)  # fmt: skip
SETTINGS: Final = {
    "MemoryLimit": _setting("settings", queue_of, "memory_limit_bytes", whole),
    "ProducerFlowControl": _setting("settings", queue_of, "producer_flow_control", flag),
    "BlockedProducerWarningInterval": _setting("settings", queue_of, "blocked_warning_ms", whole),
    MEASURED: _setting("statistics", queue_of, "enabled", flag),
}
# Attributes that may be written, by the kind of a bean: the operation gets the value as its word.
WRITABLE: Final[dict[str, dict[str, Execution]]] = {
    kinds.BROKER: {
        "MemoryLimit": _setting("limits", subject_of, "memory_limit_bytes", whole),
        "StoreLimit": _setting("limits", subject_of, "store_limit_bytes", whole),
        "TempLimit": _setting("limits", subject_of, "temporary_limit_bytes", whole),
        "MaxUncommittedCount": _setting("limits", subject_of, "maximum_uncommitted", whole),
    },
    kinds.QUEUE: SETTINGS,
    kinds.TOPIC: {**SETTINGS, "EnableAudit": _setting("settings", queue_of, "audits_copies", flag)},
    kinds.STRATEGY: {
        "MaxSlowCount": _setting("strategy-change", keys_of("name"), "max_slow_count", whole),
        "MaxSlowDuration": _setting("strategy-change", keys_of("name"), "max_slow_ms", whole),
        "MaxTimeSinceLastAck": _setting("strategy-change", keys_of("name"), "max_since_ack_ms", whole),
        "IgnoreIdleConsumers": _setting("strategy-change", keys_of("name"), "ignores_idle", flag),
        "IgnoreNetworkConsumers": _setting("strategy-change", keys_of("name"), "ignores_network", flag),
    },
    kinds.JMS_BRIDGE: {bean_word(word): _parameter(word) for word in BRIDGE_PARAMETERS},
    kinds.LOGGING: {"RootLogLevel": Execution("log-level", root_level)},
}
# Operations that ask the broker nothing: functions of the attributes and the words of the request.
CURSOR_SPACE: Final[dict[tuple[str, int], Answer]] = {
    ("doesCursorHaveMessagesBuffered", 0): lambda attributes, words: bool(attributes.get("MessagesCachedCount")),
    ("doesCursorHaveSpace", 0): lambda attributes, words: not attributes.get("CursorFull"),
}
MATCHING: Final[dict[tuple[str, int], Answer]] = {
    ("isMatchingQueue", 1): matches("queue"),
    ("isMatchingTopic", 1): matches("topic"),
}
ANSWERS: Final[dict[str, dict[tuple[str, int], Answer]]] = {
    kinds.BROKER: {("getTransportConnectorByType", 1): connector_uri},
    kinds.CONNECTOR: {("connectionCount", 0): attribute("ConnectionCount")},
    kinds.QUEUE: {("cursorSize", 0): attribute("QueueSize"), **CURSOR_SPACE},
    kinds.CONSUMER: MATCHING,
    kinds.SUBSCRIPTION: {("cursorSize", 0): attribute("PendingQueueSize"), **CURSOR_SPACE, **MATCHING},
    kinds.HEALTH: {
        ("healthStatus", 0): attribute("CurrentStatus"),
        ("health", 0): attribute("Checks"),
        ("healthList", 0): attribute("Checks"),
    },
    kinds.SCHEDULER: {
        ("getAllJobs", 0): attribute("AllJobs"),
        ("getAllJobs", 2): jobs_between,
        ("getNextScheduleJobs", 0): attribute("NextScheduleJobs"),
    },
}
