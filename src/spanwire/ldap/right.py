"""Rights on destinations in the form of a directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

QUEUES: Final = "queue"
TOPICS: Final = "topic"
TEMPORARY: Final = "temporary"


@dataclass(frozen=True, slots=True)
class Right:
    """One right on the destinations of a name or pattern, for groups and for users."""

    kind: str
    name: str
    right: str
    groups: frozenset[str]
    users: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rights:
    """All rights of a directory, and one line for each unusable entry.

    An unusable entry gives no right.
    """

    rights: tuple[Right, ...]
    unusable: tuple[str, ...]
