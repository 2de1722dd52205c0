"""What this version does otherwise than ActiveMQ Classic: on purpose, or because it cannot do it yet.

`DEVIATIONS` names the lines of a transcript that differ on purpose (`docs/reference/deviations.md` says why). `NOT_YET`
names the scenarios that a later version makes equal. Where Spanwire refuses, ``refusal`` is what it says; where it goes
on without the feature, the feature is one whose configuration it refuses by name unless it is started with
``--skip-unsupported``, or ``silent`` says that nothing tells the user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NotYet:
    """Why a scenario differs today, and how a user learns of it."""

    reason: str
    refusal: str = ""  # part of an exception's text
    configured: str = ""  # what the log says of the configuration at the start
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Deviation:
    """What of a scenario differs on purpose: the ends of the lines of Spanwire's transcript that Classic's has not."""

    reason: str
    lines: tuple[str, ...]


NOT_YET: Final[dict[str, NotYet]] = {
    # queues
    # topics
    # transactions
    # time
    # advisories
}

DEVIATIONS: Final[dict[str, Deviation]] = {
    "policies.a_new_durable_subscription_may_get_what_the_store_has_for_others": Deviation(
        "a retroactive durable subscriber gets what its topics keep, not what the store has for others",
        ("drains → []",),
    ),
    "dead_letters.two_subscribers_give_up_on_one_message": Deviation(
        "each message that dies leaves a dead letter of its own", ('drains → ["a"]',)
    ),
    "acknowledgement.rollbacks_in_one_session_are_counted_by_the_client": Deviation(
        "each delivery within the client that it reports counts; this client does not report the first rollback",
        (
            'receives → {"body": "a", "deliveries": 3, "redelivered": true, '
            '"to": "queue://rollbacks_in_one_session_are_counted_by_the_client.Q"}',
        ),
    ),
    "acknowledgement.a_dead_client_s_rollbacks_are_counted": Deviation(
        "each delivery within the client that it reports counts; this client does not report the first rollback",
        (
            'receives → {"body": "a", "deliveries": 3, "redelivered": true, '
            '"to": "queue://a_dead_client_s_rollbacks_are_counted.Q"}',
        ),
    ),
    "queues.order_is_kept": Deviation(
        "persistent and other messages of one queue keep their order",
        ('receives → {"body": "c", "persistent": false, "to": "queue://order_is_kept.Q"}',),
    ),
    "queues.a_group_that_begins_with_its_end_is_closed": Deviation(
        "a negative sequence closes a group that has no owner, too",
        (
            'receives → {"body": "next", "first_for_consumer": true, "group": "g", "group_sequence": 2, '
            '"to": "queue://a_group_that_begins_with_its_end_is_closed.Q"}',
        ),
    ),
    "queues.what_comes_back_stands_where_it_stood": Deviation(
        "messages that a consumer gives back take their old places",
        (
            'receives → {"body": "a", "properties": {"n": "Long 1"}, '
            '"to": "queue://what_comes_back_stands_where_it_stood.Q"}',
        ),
    ),
    "messages.a_large_message_survives_a_kill": Deviation(
        "after a stop that was not in order, every message is flagged: it may have been delivered",
        (
            'receives → {"body": "3000000 characters 115777536", "deliveries": 2, "redelivered": true, '
            '"to": "queue://a_large_message_survives_a_kill.Q"}',
        ),
    ),
    "destinations.a_send_to_a_wildcard_reaches_what_is_there": Deviation(
        "a send to a pattern reaches what it matches", ('drains → ["x"]', 'drains → ["x"]')
    ),
    "advisories.a_slow_consumer_of_a_queue": Deviation(
        "a slow consumer of a queue is told, as by later versions of ActiveMQ",
        (
            '"properties": {"consumerId": "String ID:<conn>:1:1", "originBrokerId": "String ID:<conn>", '
            '"originBrokerName": "String differential", "originBrokerURL": "String tcp://HOST:PORT"}, '
            '"timestamp": false, "to": "topic://ActiveMQ.Advisory.SlowConsumer.Queue.TARDY.Q", "type": "Advisory"}',
        ),
    ),
    "policies.a_topic_without_a_policy_may_retain_a_message": Deviation(
        "messages are retained where a policy keeps some for consumers to come", ("receives → null",)
    ),
    "advisories.clients_cannot_send_advisories": Deviation(
        "advisories come from the broker alone",
        (
            "to topic://ActiveMQ.Advisory.Consumer.Queue.clients_cannot_send_advisories.Q ✗ "
            "javax.jms.JMSSecurityException: User anonymous is not authorized to write to: "
            "topic://ActiveMQ.Advisory.Consumer.Queue.clients_cannot_send_advisories.Q (only the broker does)",
        ),
    ),
}

# Rows of `tests/vectors/exceptions.json` that come out otherwise, by their ids.
FAILURES_NOT_YET: Final[dict[str, NotYet]] = {}
_NOT_OUT: Final = (
    "✗ javax.jms.JMSException: Could not correlate acknowledgment with dispatched message: ID:<conn>:-1:1:4711"
)
_NOT_YOURS: Final = (
    "✗ javax.jms.InvalidDestinationException: Cannot use a Temporary destination from another Connection"
)
FAILURES_DEVIATING: Final[dict[str, Deviation]] = {
    "sel-runtime-error-topic": Deviation("a selector that fails does not match", ("→ null",)),
    "browse-topic": Deviation(
        "Classic tells of a failed cast between two of its Java classes",
        ("✗ javax.jms.InvalidDestinationException: topic://BROWSE cannot be browsed: only a single queue can",),
    ),
    "tmp-consume-other-raw": Deviation("the broker itself sees whose it is", (_NOT_YOURS,)),
    "tmp-delete-other": Deviation("the broker itself sees whose it is", (_NOT_YOURS,)),
    "ack-unknown-message": Deviation("a mistake is told", (f"{_NOT_OUT} is not out at consumer ID:<conn>:-1:95",)),
    "ack-individual-unknown": Deviation("a mistake is told", (f"{_NOT_OUT} is not out at consumer ID:<conn>:-1:95",)),
    "ack-unknown-consumer": Deviation(
        "a mistake is told", ("✗ javax.jms.JMSException: The subscription does not exist: ID:<conn>:-1:888",)
    ),
    "dur-destroy-active-topic": Deviation(
        "Classic goes on with its own description of the subscription",
        ("✗ javax.jms.JMSException: Destination: topic://T.d7 still has an active subscription",),
    ),
    "raw-destroy-in-use": Deviation(
        "Classic goes on with its own description of the subscription",
        ("✗ javax.jms.JMSException: Destination: queue://INUSE still has an active subscription",),
    ),
}
# Rows that Java's client library decides, whatever the broker.
CLIENT_ALONE: Final = (
    "conn-refused", "conn-unknown-host", "conn-bad-scheme", "conn-bad-option", "conn-bad-jms-option",
    "conn-failover-gives-up", "conn-failover-timeout", "conn-broker-stops-in-receive", "conn-vm-missing",
    "browse-closed", "dur-null-topic",
    "cli-send-null-dest", "cli-send-other-dest", "cli-send-explicit-null", "cli-consumer-null",
    "cli-queue-empty", "cli-queue-null", "cli-receive-with-listener", "cli-bad-ack-mode", "cli-tx-mode-false",
    "cli-priority", "cli-delivery-mode", "cli-property-object", "cli-property-empty", "cli-property-convert",
    "cli-property-missing-int", "cli-read-only-body", "cli-read-only-props", "cli-bytes-write-only", "cli-stream-eof",
    "cli-stream-convert", "cli-map-convert", "cli-object-untrusted",
)  # fmt: skip
# Rows that need a broker of another configuration, and the tests that are about them.
_RIGHTS: Final = "tests/interop/test_java_rights.py"
_USAGE: Final = "tests/unit/broker/test_usage_dialogues.py"
ELSEWHERE: Final[dict[str, str]] = {
    **{
        f"sec-{name}": _RIGHTS
        for name in (
            "wrong-password", "unknown-user", "no-credentials", "no-read-queue", "no-read-topic", "no-read-durable",
            "no-read-browse", "no-write-producer", "no-write-anonymous", "no-write-async", "no-write-tx",
            "no-admin-consumer", "no-admin-producer", "no-admin-existing", "no-temp", "no-admin-destroy", "no-entry",
        )
    },
    **{
        f"lim-{name}": _USAGE
        for name in (
            "memory-fail", "memory-fail-async", "memory-fail-topic", "memory-timeout", "memory-block",
            "memory-tx-commit", "send-timeout",
        )
    },
    "lim-max-consumers": "tests/unit/broker/test_limit_dialogues.py",
    "lim-max-producers": "tests/unit/broker/test_limit_dialogues.py",
    "lim-max-destinations": "tests/unit/broker/test_limit_dialogues.py",
    "conn-max-connections": "tests/unit/transports/test_connector.py",
}  # fmt: skip
# Rows that nothing checks yet, each with the reason.
UNCHECKED: Final[dict[str, str]] = {
    **{
        f"lim-frame-{name}": "the Java client refuses by the limit that the broker announces; no test shows it one"
        for name in ("sync", "async", "client", "client-no-check")
    },
}
