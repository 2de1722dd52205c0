"""Events for the state machine of a bridge, and the actions that the machine requests.

One action of input or output is under way at a time: `Connect`, `Recover`, `Receive`, `Acknowledge`, `Send`, `Prepare`,
`Decide`, `Commit`, `DeadLetter`, `Disconnect` or `Wait`; of a route also `Hold`, `CallFunctions` or `Keep`. An
action ends with its event, or with `Failed`. `Interrupt` asks for an early end of a `Connect`, `Receive`, `Hold` or
`Wait`. The answer is the event of the action, or `Interrupted`.

A link with brokers that take messages while they store others answers `Acknowledge` with `HandedOver`, and completes
the batch behind the next actions. `Completed` comes between any two events then. A link completes one batch at a time:
the next `Send` ends after `Completed`. If the link cannot complete a batch, the next action but a `Disconnect` fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from spanwire.bridges.engine.route_calls import Answer, FunctionCall
from spanwire.bridges.engine.route_state import Changes, RouteState
from spanwire.bridges.model.message import BridgeMessage


@dataclass(frozen=True, slots=True)
class Start:
    """Commands a stopped or failed bridge to start, and a paused one to resume."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Commands to complete the batch, close the link and wait for `Start`."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Commands to complete the batch, close the link and end."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The link is open; ``state`` is the stored state of a route."""

    state: RouteState | None = None


@dataclass(frozen=True, slots=True)
class Recovered:
    """No branch of an earlier batch is in doubt any more.

    ``messages`` belong to branches that were committed now. ``problems`` are heuristic outcomes.
    """

    messages: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Received:
    """Messages have arrived; the list is empty if no message came in time.

    With ``is_last`` the source hands over no further message before an acknowledgement.
    """

    messages: list[BridgeMessage]
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The source has stored the acknowledgement of the batch."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The link completes the batch, and the next batch may be received."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The target has stored the batch of `HandedOver`, and the source the acknowledgement."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The target has stored the batch, or the transaction holds the batch.

    With ``is_stored`` False the link has asked for the storage, and has no answer yet.
    """

    is_stored: bool = True


@dataclass(frozen=True, slots=True)
class Returned:
    """The functions have returned; the answers are in the order of the calls."""

    answers: list[Answer]


@dataclass(frozen=True, slots=True)
class Refused:
    """The target can never take the message ``index`` of the batch, and has stored nothing of the batch.

    With ``is_prefix_stored`` the target has the messages before.
    """

    index: int
    reason: str
    is_prefix_stored: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """The changes of the route's state are stored."""


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """The source's broker has the message of the batch as a dead letter."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Both brokers can commit the batch, also after a restart."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision to commit the batch is stored."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The transaction of the batch is committed; ``problems`` are heuristic outcomes."""

    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The link is closed. ``reason`` says why the link could not complete the batch of `HandedOver`, if so."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Elapsed:
    """The pause before the next attempt is over."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A `Connect`, `Receive` or `Wait` has ended early, without effect."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An action has failed.

    With ``is_without_effect`` the action certainly had no effect. With ``is_permanent`` it would always fail.
    """

    reason: str
    is_without_effect: bool = False
    is_permanent: bool = False


Command = Start | Pause | Stop
Event = (
    Command
    | Connected
    | Recovered
    | Received
    | Acknowledged
    | HandedOver
    | Completed
    | Sent
    | Prepared
    | Decided
    | Refused
    | Returned
    | DeadLettered
    | Committed
    | Kept
    | Disconnected
    | Elapsed
    | Interrupted
    | Failed
)


@dataclass(frozen=True, slots=True)
class Connect:
    """Open the link: first the target, then the source."""


@dataclass(frozen=True, slots=True)
class Recover:
    """Commit or roll back the prepared branches of earlier batches, by the decisions in the log."""


@dataclass(frozen=True, slots=True)
class Receive:
    """Receive up to ``max_messages`` or ``max_bytes``; wait ``wait_s`` seconds for the first message."""

    max_messages: int
    max_bytes: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Acknowledge the batch."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send the batch, or the part of it for one target of a route."""

    messages: list[BridgeMessage]
    target: int = 0


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait so many seconds before the batch is sent."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CallFunctions:
    """Asks for the answers of the operator's functions."""

    calls: list[FunctionCall]


@dataclass(frozen=True, slots=True)
class Keep:
    """Store changes of the route's state."""

    changes: Changes


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Hand the only message of the batch to the source's broker as a dead letter."""

    cause: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """Prepare the branches of the batch at both brokers."""


@dataclass(frozen=True, slots=True)
class Decide:
    """Store the decision to commit the batch."""

    messages: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit the transaction of the batch, or both branches."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the link, complete or not."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait so many seconds before the next attempt."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Interrupt:
    """End the `Connect`, `Receive` or `Wait` under way."""


Action = (
    Connect
    | Recover
    | Receive
    | Acknowledge
    | Send
    | Prepare
    | Decide
    | Commit
    | DeadLetter
    | Hold
    | CallFunctions
    | Keep
    | Disconnect
    | Wait
    | Interrupt
)
