"""The operations of beans under ActiveMQ's names, each as one command of the broker. No other operation exists."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spanwire.logs.levels import ROOT
from spanwire.web.jolokia.errors import ILLEGAL, JolokiaError

DATE: Final = "%Y-%m-%d %H:%M:%S"  # as ActiveMQ shows times of jobs, in the zone of this process
LOG4J: Final = {"warn": "warning", "fatal": "error", "trace": "debug"}  # levels that this broker names otherwise
MEASURED: Final = "AdvancedMessageStatisticsEnabled"
MAX_DIGITS: Final = 9  # of a number of messages

# kinds of beans
BROKER: Final = "broker"
QUEUE: Final = "queue"
TOPIC: Final = "topic"
CONNECTOR: Final = "connector"
CONNECTION: Final = "connection"
NETWORK_CONNECTOR: Final = "network connector"
JMS_BRIDGE: Final = "JMS bridge"
SUBSCRIPTION: Final = "durable subscription"
BRANCH: Final = "prepared branch"
SCHEDULER: Final = "scheduler"
HEALTH: Final = "health"
LOGGING: Final = "logging"

Node = dict[str, object]


@dataclass(frozen=True, slots=True)
class Execution:
    """An operation of a bean: the command, its arguments, and the key of the value in the first row of the result.

    ``arguments`` gets the subject of the bean and the words of the request. An ``is_flag`` value is true unless 0.
    """

    command: str
    arguments: Callable[[Node, list[str]], Node]
    value: str = ""
    is_flag: bool = False


def _message(message_id: str) -> str:
    """Return the selector of one message."""
    quoted = message_id.replace("'", "''")
    return f"JMSMessageID = '{quoted}'"


def _subject(subject: Node, words: list[str]) -> Node:
    return dict(subject)


def _queue(subject: Node, words: list[str]) -> Node:
    return {"destinations": [subject["destination"]]}


def _one(subject: Node, words: list[str]) -> Node:
    return {**_queue(subject, words), "selector": _message(words[0]), "limit": 1}


def _some(subject: Node, words: list[str]) -> Node:
    return {**_queue(subject, words), "selector": words[0], **_most(words, 1)}


def _one_to(subject: Node, words: list[str]) -> Node:
    return {**_one(subject, words), "target": words[1]}


def _some_to(subject: Node, words: list[str]) -> Node:
    return {**_queue(subject, words), "selector": words[0], "target": words[1], **_most(words, 2)}


def _most(words: list[str], index: int) -> Node:
    if len(words) <= index:
        return {}
    if not (words[index].isascii() and words[index].isdigit() and len(words[index]) <= MAX_DIGITS):
        raise JolokiaError(400, ILLEGAL, "the number of messages is no whole number")
    return {"limit": int(words[index])}


def _text(subject: Node, words: list[str]) -> Node:
    return {"destination": subject["destination"], "body": words[0]}


def _destination(scheme: str) -> Callable[[Node, list[str]], Node]:
    return lambda subject, words: {"destinations": [f"{scheme}://{words[0]}"]}


def _subscription(subject: Node, words: list[str]) -> Node:
    selector: Node = {"selector": words[3]} if words[3].strip() else {}
    return {"client_id": words[0], "name": words[1], "topic": words[2], **selector}


def _logger(name: str) -> str:
    return ROOT if name in ("", "ROOT") else name


def _level(logger: str, level: str) -> Node:
    """Return the arguments for a level of Log4J."""
    return {"logger": _logger(logger), "level": LOG4J.get(level.lower(), level.lower())}


def _measured(subject: Node, words: list[str]) -> Node:
    if words[0] not in ("true", "false"):
        raise JolokiaError(400, ILLEGAL, f"{MEASURED} is true or false")
    return {"destinations": [subject["destination"]], "enabled": words[0] == "true"}


def _instant(text: str) -> int:
    """Return the milliseconds since 1970 of a time as the scheduler's bean shows it."""
    try:
        return int(time.mktime(time.strptime(text, DATE))) * 1000
    except (ValueError, OverflowError) as error:
        raise JolokiaError(400, ILLEGAL, "a time has the form 2026-01-31 23:59:59") from error


def _at(subject: Node, words: list[str]) -> Node:
    first = _instant(words[0])
    return {"from_ms": first, "to_ms": first + 999}


def _attribute(name: str) -> Callable[[Node, list[str]], object]:
    return lambda attributes, words: attributes.get(name)


def _jobs_between(attributes: Node, words: list[str]) -> object:
    first, last = _instant(words[0]), _instant(words[1])
    jobs = attributes["AllJobs"]
    assert isinstance(jobs, dict)
    return {key: job for key, job in jobs.items() if first <= _instant(str(job["next"])) <= last}


SEND: Final = Execution("send", _text, "message_id")
RESET: Final = Execution("reset-statistics", _queue)
# Operations by the kind of a bean, by name and number of arguments.
EXECUTABLE: Final[dict[str, dict[tuple[str, int], Execution]]] = {
    QUEUE: {
        ("purge", 0): Execution("purge", _queue),
        ("pause", 0): Execution("pause", _queue),
        ("resume", 0): Execution("resume", _queue),
        ("resetStatistics", 0): RESET,
        ("retryMessages", 0): Execution("retry", _queue, "retried"),
        ("retryMessage", 1): Execution("retry", _one, "retried", True),
        ("removeMessage", 1): Execution("purge", _one, "removed", True),
        ("removeMatchingMessages", 1): Execution("purge", _some, "removed"),
        ("removeMatchingMessages", 2): Execution("purge", _some, "removed"),
        ("moveMessageTo", 2): Execution("move", _one_to, "moved", True),
        ("moveMatchingMessagesTo", 2): Execution("move", _some_to, "moved"),
        ("moveMatchingMessagesTo", 3): Execution("move", _some_to, "moved"),
        ("copyMessageTo", 2): Execution("copy", _one_to, "copied", True),
        ("copyMatchingMessagesTo", 2): Execution("copy", _some_to, "copied"),
        ("copyMatchingMessagesTo", 3): Execution("copy", _some_to, "copied"),
        ("sendTextMessage", 1): SEND,
    },
    TOPIC: {("resetStatistics", 0): RESET, ("sendTextMessage", 1): SEND},
    BROKER: {
        ("addQueue", 1): Execution("create", _destination("queue")),
        ("addTopic", 1): Execution("create", _destination("topic")),
        ("removeQueue", 1): Execution("delete", _destination("queue")),
        ("removeTopic", 1): Execution("delete", _destination("topic")),
        ("createDurableSubscriber", 4): Execution("create-subscription", _subscription),
        ("destroyDurableSubscriber", 2): Execution(
            "remove-subscription", lambda subject, words: {"client_id": words[0], "name": words[1]}
        ),
        ("addNetworkConnector", 1): Execution("network-add", lambda subject, words: {"uri": words[0]}, "name"),
        ("removeNetworkConnector", 1): Execution(
            "network-remove", lambda subject, words: {"connectors": [words[0]]}, "name", True
        ),
    },
    CONNECTOR: {
        ("start", 0): Execution("connector-start", _subject),
        ("stop", 0): Execution("connector-stop", _subject),
    },
    CONNECTION: {("stop", 0): Execution("disconnect", _subject)},
    NETWORK_CONNECTOR: {
        ("start", 0): Execution("network-start", _subject),
        ("stop", 0): Execution("network-stop", _subject),
    },
    JMS_BRIDGE: {("start", 0): Execution("bridge-resume", _subject), ("stop", 0): Execution("bridge-pause", _subject)},
    SUBSCRIPTION: {("destroy", 0): Execution("remove-subscription", _subject)},
    BRANCH: {
        ("heuristicCommit", 0): Execution("commit-branch", _subject),
        ("heuristicRollback", 0): Execution("roll-back-branch", _subject),
    },
    LOGGING: {
        ("getLogLevel", 1): Execution("log-level", lambda subject, words: {"logger": _logger(words[0])}, "level"),
        ("setLogLevel", 2): Execution("log-level", lambda subject, words: _level(words[0], words[1])),
    },
    SCHEDULER: {
        ("removeAllJobs", 0): Execution("jobs-remove", _subject),
        ("removeAllJobs", 2): Execution(
            "jobs-remove", lambda subject, words: {"from_ms": _instant(words[0]), "to_ms": _instant(words[1])}
        ),
        ("removeAllJobsAtScheduledTime", 1): Execution("jobs-remove", _at),
        ("removeJob", 1): Execution("job-remove", lambda subject, words: {"job_id": words[0]}),
    },
}
# Attributes that may be written, by the kind of a bean: the operation gets the value as its word.
WRITABLE: Final[dict[str, dict[str, Execution]]] = {
    LOGGING: {"RootLogLevel": Execution("log-level", lambda subject, words: _level(ROOT, words[0]))},
    QUEUE: {MEASURED: Execution("statistics", _measured)},
    TOPIC: {MEASURED: Execution("statistics", _measured)},
}
# Operations that ask the broker nothing: functions of the attributes and the words of the request.
Answer = Callable[[Node, list[str]], object]
ANSWERS: Final[dict[str, dict[tuple[str, int], Answer]]] = {
    CONNECTOR: {("connectionCount", 0): _attribute("ConnectionCount")},
    QUEUE: {
        ("cursorSize", 0): _attribute("QueueSize"),
        ("doesCursorHaveMessagesBuffered", 0): lambda attributes, words: bool(attributes.get("MessagesCachedCount")),
        ("doesCursorHaveSpace", 0): lambda attributes, words: not attributes.get("CursorFull"),
    },
    SUBSCRIPTION: {("cursorSize", 0): _attribute("PendingQueueSize")},
    HEALTH: {("healthStatus", 0): _attribute("CurrentStatus"), ("health", 0): _attribute("Checks"),
             ("healthList", 0): _attribute("Checks")},
    SCHEDULER: {
        ("getAllJobs", 0): _attribute("AllJobs"),
        ("getAllJobs", 2): _jobs_between,
        ("getNextScheduleJobs", 0): _attribute("NextScheduleJobs"),
    },
}  # fmt: skip
