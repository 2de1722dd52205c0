"""Prompts: the words of the console before an operation and for the result. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Prompt:
    """The words of one operation: title, label of the button, consequence, and result.

    Button and result may have ``{count}`` messages, the title the ``{subject}``. A prompt with ``needs_count`` names
    the concerned messages. ``is_dangerous`` marks an operation without an undo. ``example`` is a text for the largest
    field.
    """

    title: str
    button: str
    consequence: str
    done: str
    needs_count: bool = False
    is_dangerous: bool = True
    example: str = ""


BRIDGE: Final = """\
[connectionFactories.here]
url = "tcp://localhost:61616"
[connectionFactories.archive]
url = "tcp://archive.example.org:61616"
userName = "bridge"
password = "{{env:SPANWIRE_ARCHIVE_PASSWORD}}"
[bridges.orders-to-archive]
sourceConnectionFactory = "here"
sourceDestination = "queue://ORDERS"
targetConnectionFactory = "archive"
targetDestination = "queue://ORDERS.ARCHIVE"
"""
PROMPTS: Final[dict[str, Prompt]] = {
    "purge": Prompt(
        "Remove messages",
        "Remove {count}",
        "They are gone for good. Messages at consumers stay.",
        "Removed {count}.",
        True,
    ),
    "move": Prompt("Move messages", "Move {count}", "They leave this queue.", "Moved {count}.", True, False),
    "copy": Prompt("Copy messages", "Copy {count}", "They stay in this queue, too.", "Copied {count}.", True, False),
    "retry": Prompt(
        "Retry dead letters",
        "Send {count} back",
        "Each goes back to the destination where it died; messages that are no dead letters stay.",
        "Sent {count} back.",
        True,
        False,
    ),
    "pause": Prompt(
        "Pause the dispatch",
        "Pause",
        "Messages come in, and consumers get none.",
        "The dispatch is paused.",
        is_dangerous=False,
    ),
    "resume": Prompt(
        "Resume the dispatch", "Resume", "Consumers get messages again.", "The dispatch goes on.", is_dangerous=False
    ),
    "create": Prompt(
        "Create a {subject}", "Create", "One that exists stays as it is.", "It exists now.", is_dangerous=False
    ),
    "delete": Prompt(
        "Delete a {subject}", "Delete", "The broker refuses one that has messages or is in use.", "It is deleted."
    ),
    "statistics": Prompt(
        "Measure messages",
        "Save",
        "Sizes and times of messages cost each message some steps.",
        "The setting is saved.",
        is_dangerous=False,
    ),
    "reset-statistics": Prompt(
        "Reset the counters", "Reset", "Sent, acknowledged and expired messages count from 0.", "The counters are 0."
    ),
    "ungroup": Prompt(
        "Take message groups from their consumers",
        "Take",
        "The next consumer of a group may get messages before the present one has acknowledged its own.",
        "The groups are free.",
    ),
    "limits": Prompt(
        "Set limits of the broker",
        "Set",
        "They hold until its next start. Empty fields stay as they are.",
        "The limits are set.",
        is_dangerous=False,
    ),
    "settings": Prompt(
        "Set limits",
        "Set",
        "They hold until the next start, or a reload of a changed policy. Empty fields stay as they are.",
        "The limits are set.",
        is_dangerous=False,
    ),
    "strategy-change": Prompt(
        "Set the bounds of the strategy",
        "Set",
        "They hold until the next start of the broker, and may end slow consumers at the next check.",
        "The bounds are set.",
    ),
    "reset-producer": Prompt(
        "Reset the counters of the producer", "Reset", "Its messages count from 0.", "The counters are 0."
    ),
    "reset-consumer": Prompt(
        "Reset the counters of the consumer", "Reset", "Its messages count from 0.", "The counters are 0."
    ),
    "network-reset": Prompt(
        "Reset the counters of the link", "Reset", "Its messages and failures count from 0.", "The counters are 0."
    ),
    "connector-reset": Prompt(
        "Reset the counters of the connector", "Reset", "Its connections count from 0.", "The counters are 0."
    ),
    "connector-add": Prompt(
        "Add a connector",
        "Add",
        "It listens until the next start of the broker.",
        "It is added.",
        is_dangerous=False,
    ),
    "connector-remove": Prompt(
        "Remove the connector",
        "Remove",
        "Port and connections are closed. It comes back at the next start if the configuration has it.",
        "It is removed.",
    ),
    "remove-subscription": Prompt(
        "Delete the durable subscription",
        "Delete",
        "Its messages are gone for good.",
        "The durable subscription is deleted.",
    ),
    "create-subscription": Prompt(
        "Create a durable subscription",
        "Create",
        "It keeps messages for a subscriber from now on.",
        "The durable subscription exists now.",
        is_dangerous=False,
    ),
    "commit-branch": Prompt(
        "Commit the branch", "Commit", "Its transaction manager must agree.", "The branch is committed."
    ),
    "roll-back-branch": Prompt(
        "Roll the branch back", "Roll back", "Its transaction manager must agree.", "The branch is rolled back."
    ),
    "end-consumer": Prompt(
        "End the consumer",
        "End",
        "Its messages in flight go back. The connection stays.",
        "The consumer is asked to close, and ended after a second.",
    ),
    "job-remove": Prompt(
        "Remove the scheduled message", "Remove", "It is never delivered.", "The scheduled message is removed."
    ),
    "jobs-remove": Prompt(
        "Remove scheduled messages", "Remove", "They are never delivered.", "The scheduled messages are removed."
    ),
    "disconnect": Prompt(
        "Disconnect the client", "Disconnect", "Most clients connect again by themselves.", "The connection is closed."
    ),
    "task-cancel": Prompt("Cancel the task", "Cancel the task", "What it has done stays.", "The task ends."),
    "task-resume": Prompt(
        "Resume the task",
        "Resume",
        "It goes on with the messages that were left.",
        "The task has ended.",
        is_dangerous=False,
    ),
    "task-undo": Prompt(
        "Undo the move",
        "Bring the messages back",
        "Messages that are still at their new place go back; copies are removed. What was consumed stays so.",
        "Brought {count} back.",
        is_dangerous=False,
    ),
    "network-start": Prompt(
        "Start the network connector", "Start", "It links to its brokers.", "It starts.", is_dangerous=False
    ),
    "network-stop": Prompt(
        "Stop the network connector", "Stop", "Its links end until somebody starts it.", "It is stopped."
    ),
    "link-drain": Prompt(
        "Drain the links of the network connector",
        "Drain",
        "It takes no further messages, and stops once those on their way have arrived.",
        "It is stopped.",
    ),
    "drain": Prompt(
        "Drain the broker",
        "Drain",
        "What waits in the queues goes to the other broker. What has gone is brought back only from there.",
        "Sent {count} to the other broker.",
    ),
    "network-add": Prompt(
        "Add a network connector",
        "Add",
        "It stays until it is removed, also over starts of the broker; with a password in clear until the next one.",
        "It is added.",
        is_dangerous=False,
    ),
    "network-remove": Prompt(
        "Remove the network connector",
        "Remove",
        "Its links end. It comes back at the next start if the configuration has it.",
        "It is removed.",
    ),
    "connector-start": Prompt(
        "Open the connector", "Open", "It accepts connections again.", "The connector is open.", is_dangerous=False
    ),
    "connector-rebalance": Prompt(
        "Spread the clients of the connector",
        "Spread",
        "Clients with failover are asked to connect to this broker or to one that it is linked to, in turns.",
        "The clients are asked.",
        is_dangerous=False,
    ),
    "connector-stop": Prompt(
        "Close the connector",
        "Close",
        "Its port is closed, and its clients are disconnected.",
        "The connector is closed.",
    ),
    "log-level": Prompt(
        "Set the level of a logger",
        "Set",
        "It holds until the next start of the broker.",
        "The level is set.",
        is_dangerous=False,
    ),
    "bridge-pause": Prompt(
        "Pause the bridge", "Pause", "It stays paused over a restart.", "The bridge is paused.", is_dangerous=False
    ),
    "bridge-resume": Prompt(
        "Resume the bridge", "Resume", "It forwards again.", "The bridge goes on.", is_dangerous=False
    ),
    "bridge-restart": Prompt(
        "Restart the bridge", "Restart", "It connects again.", "The bridge starts again.", is_dangerous=False
    ),
    "bridge-create": Prompt(
        "Create a bridge",
        "Create",
        "It stays until it is deleted, also over starts of the broker; with a password in clear until the next one.",
        "The bridge is created.",
        is_dangerous=False,
        example=BRIDGE,
    ),
    "bridge-delete": Prompt(
        "Delete the bridge",
        "Delete",
        "It completes its batch, ends and is forgotten. Only a bridge that an operator created can be deleted here.",
        "The bridge is deleted.",
    ),
}
SENT: Final = "send"
BEGUN: Final = "begun"
CHANGED: Final = "bridge-change"
OTHERS: Final = {
    SENT: "Sent {count}.",
    BEGUN: "The task goes on; this page shows its progress.",
    CHANGED: "The parameters are set.",
}


def messages(count: int) -> str:
    """Return a number of messages in words."""
    return "1 message" if count == 1 else f"{count:,} messages"


def result_text(operation: str, count: int) -> str:
    """Return the text for the end of an operation; empty for an unknown one."""
    prompt = PROMPTS.get(operation)
    text = OTHERS.get(operation, "") if prompt is None else prompt.done
    return text.format(count=messages(count))
