"""The order of a move: verb, queues, target, and limits, as JSON in the store."""

from __future__ import annotations

import json
from typing import Final

from spanwire.broker.admin.transfers import SAME_LIFETIME
from spanwire.model.destination import Destination
from spanwire.model.errors import StoreError

MOVE: Final = "move"
COPY: Final = "copy"
RETRY: Final = "retry"
UNDO: Final = "undo"
NO_LIMIT: Final = 1 << 62


class MoveOrder:
    """The order of an operator.

    ``limit`` is the most messages of each of the ``sources``. ``rate`` is messages a second, 0 without a limit.
    ``follows`` keeps the move as slow as the consumers of the target. ``undoes`` is the number of the move to undo.
    ``marks`` has for each source the highest sequence at the beginning: later messages are not moved.
    """

    def __init__(
        self,
        verb: str,
        sources: list[Destination],
        target: Destination | None = None,
        selector: str | None = None,
        limit: int = NO_LIMIT,
        rate: int = 0,
        lifetime_ms: int = SAME_LIFETIME,
        follows: bool = False,
        user: str = "",
        undoes: int = 0,
    ) -> None:
        self.verb: Final[str] = verb
        self.sources: Final[list[Destination]] = sources
        self.target: Final[Destination | None] = target
        self.selector: Final[str | None] = selector
        self.limit: Final[int] = limit
        self.rate: Final[int] = rate
        self.lifetime_ms: Final[int] = lifetime_ms
        self.follows: Final[bool] = follows
        self.user: Final[str] = user
        self.undoes: Final[int] = undoes
        self.marks: list[int] = []

    def encoded(self) -> bytes:
        """Return the order as JSON."""
        fields: dict[str, object] = {
            "verb": self.verb,
            "sources": [named(source) for source in self.sources],
            "target": None if self.target is None else named(self.target),
            "selector": self.selector,
            "limit": self.limit,
            "rate": self.rate,
            "lifetime_ms": self.lifetime_ms,
            "follows": self.follows,
            "user": self.user,
            "undoes": self.undoes,
            "marks": self.marks,
        }
        return json.dumps(fields, separators=(",", ":")).encode("ascii")


def decoded_order(value: bytes) -> MoveOrder:
    """Return the order of a record.

    Raises:
        StoreError: the record is unreadable.
    """
    try:
        fields = json.loads(value)
        target = fields["target"]
        order = MoveOrder(
            str(fields["verb"]),
            [from_name(source) for source in fields["sources"]],
            None if target is None else from_name(target),
            None if fields["selector"] is None else str(fields["selector"]),
            int(fields["limit"]),
            int(fields["rate"]),
            int(fields["lifetime_ms"]),
            bool(fields["follows"]),
            str(fields["user"]),
            int(fields["undoes"]),
        )
        order.marks = [int(mark) for mark in fields["marks"]]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise unreadable_move(error) from error
    return order


def unreadable_move(error: Exception) -> StoreError:
    """Return the error about a record of a move."""
    return StoreError(f"the store has the record of a move that this version cannot read: {error}")


def named(destination: Destination) -> list[object]:
    """Return a destination as kind and name."""
    return [destination.kind, destination.name]


def from_name(pair: list[object]) -> Destination:
    """Return the destination of `named`.

    Raises:
        ValueError, TypeError, IndexError: ``pair`` is of another form.
    """
    kind, name = pair[0], pair[1]
    if not isinstance(kind, int) or not isinstance(name, str):
        raise TypeError("a destination is no kind and name")
    return Destination(kind, name)
