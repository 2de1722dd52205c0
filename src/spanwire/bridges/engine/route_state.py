"""Messages and keys that a route remembers beyond a batch, and the changes for the disk.

The state is changed in memory first. It counts only when the changes are stored; after a failure the route takes up the
stored state again.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.model.units import MIB

MAX_GATHERED: Final = 100_000  # messages in all groups of a route; then the oldest group is completed early
MAX_GATHERED_BYTES: Final = 64 * MIB  # bytes of these messages
MAX_RECENT: Final = 2_000  # ids of stored messages; a batch that is delivered again has at most as many


@dataclass(frozen=True, slots=True)
class Gathered:
    """A message has joined the group of a key."""

    step: int
    key: str
    first_ms: int
    message: BridgeMessage


@dataclass(frozen=True, slots=True)
class Completed:
    """The group of a key is complete, and forgotten."""

    step: int
    key: str


@dataclass(frozen=True, slots=True)
class KeySeen:
    """A key is known from now on."""

    step: int
    key: str


@dataclass(frozen=True, slots=True)
class KeyForgotten:
    """A key is not known any more."""

    step: int
    key: str


Undo = Callable[[], None]
Change = Gathered | Completed | KeySeen | KeyForgotten


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one batch, stored together; ``recent`` are the ids of the batch's messages."""

    changes: list[Change]
    recent: list[str]


@dataclass(slots=True)
class Group:
    """The messages of a key so far."""

    first_ms: int
    messages: list[BridgeMessage] = field(default_factory=list)


class RouteState:
    """Groups by step and key, known keys, and the ids of messages of the last batches."""

    def __init__(self) -> None:
        self.groups: Final[dict[tuple[int, str], Group]] = {}
        self.keys: Final[defaultdict[int, OrderedDict[str, None]]] = defaultdict(OrderedDict)  # the oldest first
        self.recent: Final[dict[str, None]] = {}
        self._messages = 0
        self._bytes = 0

    def apply(self, change: Change) -> Undo:
        """Change the state. Returns the function for undoing the change, in reverse order of the changes."""
        at = (change.step, change.key)
        if isinstance(change, Gathered):
            group = self.groups.setdefault(at, Group(change.first_ms))
            group.messages.append(change.message)
            self._count([change.message], 1)
            return lambda: self._scatter(at)
        if isinstance(change, Completed):
            whole = self.groups.pop(at)
            self._count(whole.messages, -1)
            return lambda: self._restore(at, whole)
        if isinstance(change, KeySeen):
            self.keys[change.step][change.key] = None
            return lambda: self._forget(change.step, change.key)
        self._forget(change.step, change.key)
        return lambda: self._know_again(change.step, change.key)

    def _scatter(self, at: tuple[int, str]) -> None:
        messages = self.groups[at].messages
        self._count([messages.pop()], -1)
        if not messages:
            del self.groups[at]

    def _restore(self, at: tuple[int, str], group: Group) -> None:
        self.groups[at] = group
        self._count(group.messages, 1)

    def _forget(self, step: int, key: str) -> None:
        self.keys[step].pop(key, None)

    def _know_again(self, step: int, key: str) -> None:
        self.keys[step][key] = None
        self.keys[step].move_to_end(key, last=False)  # it was forgotten because it was the oldest

    def _count(self, messages: list[BridgeMessage], sign: int) -> None:
        self._messages += sign * len(messages)
        self._bytes += sign * sum(message.size for message in messages)

    def remember(self, ids: list[str]) -> None:
        """Remember the ids of the messages of a batch, and forget the oldest ones."""
        for message_id in ids:
            self.recent[message_id] = None
        while len(self.recent) > MAX_RECENT:
            del self.recent[next(iter(self.recent))]

    @property
    def is_full(self) -> bool:
        """Return True if a group must be completed before another message is gathered."""
        return self._messages >= MAX_GATHERED or self._bytes >= MAX_GATHERED_BYTES

    def knows(self, step: int, key: str) -> bool:
        """Return True for a known key."""
        return key in self.keys[step]

    def oldest_key(self, step: int, limit: int) -> str | None:
        """Return the key of a step to forget, because ``limit`` keys are known; None below the limit."""
        keys = self.keys[step]
        return next(iter(keys)) if len(keys) >= limit else None
