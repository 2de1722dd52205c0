"""The table of an operator's operations and reading commands, each with the role that it needs.

The control socket refuses a handle every command that is not listed here. The HTTP API and its description have one
route for each operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from spanwire.management.view_table import INTEGER, LIST, TEXT, VIEWS


class Role(IntEnum):
    """A role of an operator; each one includes the lower ones."""

    NONE = 0
    VIEW = 1
    OPERATE = 2
    ADMIN = 3


QUEUE: Final = "queue"
TOPIC: Final = "topic"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operation; the type is one of JSON Schema. ``least`` is the lowest number."""

    name: str
    type: str
    meaning: str
    required: bool = False
    least: int | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: its path below ``/api/v1``, the command of the control socket, role and arguments.

    ``subject`` is the kind of the one destination in the path, "" for operations without a destination.
    """

    path: str
    command: str
    role: Role
    meaning: str
    arguments: tuple[Argument, ...] = ()
    subject: str = ""


SELECTOR: Final = Argument("selector", TEXT, "a selector; without one all messages")
CONNECTORS: Final = (Argument("connectors", LIST, "names of network connectors", required=True),)
OPERATIONS: Final = (
    Operation("/queues/{name}/browse", "browse", Role.OPERATE, "show pending messages and leave them in the queue",
              (SELECTOR, Argument("limit", INTEGER, "most messages, 400 at most", least=1)), QUEUE),
    Operation("/queues/{name}/purge", "purge", Role.OPERATE, "remove pending messages", (SELECTOR,), QUEUE),
    Operation("/queues/{name}/retry", "retry", Role.OPERATE, "send dead letters back to their destinations",
              (SELECTOR, Argument("limit", INTEGER, "most messages", least=0)), QUEUE),
    Operation("/queues/{name}/pause", "pause", Role.OPERATE, "stop the dispatch", subject=QUEUE),
    Operation("/queues/{name}/resume", "resume", Role.OPERATE, "dispatch again", subject=QUEUE),
    Operation("/queues/{name}/delete", "delete", Role.ADMIN, "remove an empty queue that is not in use",
              subject=QUEUE),
    Operation("/topics/{name}/delete", "delete", Role.ADMIN, "remove a topic that is not in use", subject=TOPIC),
    Operation("/subscriptions/remove", "remove-subscription", Role.ADMIN,
              "remove a durable subscription without a subscriber, and its messages",
              (Argument("client_id", TEXT, "its client id", required=True),
               Argument("name", TEXT, "its name", required=True))),
    Operation("/connections/disconnect", "disconnect", Role.ADMIN, "close connections",
              (Argument("client", TEXT, "a client id, a connection id or a remote address", required=True),)),
    Operation("/links/start", "network-start", Role.ADMIN, "start network connectors", CONNECTORS),
    Operation("/links/stop", "network-stop", Role.ADMIN, "stop network connectors", CONNECTORS),
)  # fmt: skip
READING: Final = ("status", "summary", *(view.command for view in VIEWS))
# Commands of the control socket for the holder of a handle. A command that is not listed is refused.
COMMAND_ROLES: Final[dict[str, Role]] = {
    **dict.fromkeys(READING, Role.VIEW),
    **{operation.command: operation.role for operation in OPERATIONS},
}
