"""Access lists by destination (ActiveMQ's ``authorizationMap``).

An action without an entry is refused.

The entries of all matching patterns are united, so a further entry only adds rights. ``*`` in an access list stands for
every logged-in user. Advisory topics need entries like any other topic: Java clients listen to
``ActiveMQ.Advisory.TempQueue`` and ``ActiveMQ.Advisory.TempTopic``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.broker.ports import READ, WRITE, Authorizer, Principal
from spanwire.model.destination import TEMP_QUEUE, Destination
from spanwire.model.errors import AuthorizationError

EVERYBODY: Final = "*"
USER: Final = "\0user\0"  # before the name of a user in an access list; no group has such a name
MAX_REMEMBERED: Final = 10_000  # decisions of one set of groups; one costs about 100 bytes
MAX_GROUP_SETS: Final = 1_000  # sets of groups with remembered decisions

_VERBS: Final[dict[str, str]] = {READ: "read from", WRITE: "write to"}


@dataclass(frozen=True)
class AccessList:
    """The groups that have each right; ``admin`` is the right to create and to remove."""

    read: frozenset[str] = frozenset()
    write: frozenset[str] = frozenset()
    admin: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AuthorizationEntry:
    """The access list of a queue or topic, or of all names under a pattern."""

    destination: Destination
    access: AccessList


class AuthorizationMap(Authorizer):
    """Decides by access lists. The `Authenticator` knows the groups of each user.

    Temporary destinations have a separate list; without one every user may use them, since a connection consumes only
    from its own. ``default`` adds to the entries of every other destination. With ``names_users`` an access list may
    have names of users beside groups, see `user_entry`.
    """

    def __init__(
        self,
        entries: list[AuthorizationEntry],
        temporary: AccessList | None = None,
        default: AccessList | None = None,
        *,
        names_users: bool = False,
    ) -> None:
        self._names_users: Final[bool] = names_users
        self._holders: Final[dict[Principal, frozenset[str]]] = {}
        self._temporary: Final[AccessList | None] = temporary
        self._default: Final[list[AccessList]] = [] if default is None else [default]
        self._entries: Final[list[AuthorizationEntry]] = entries
        self._names: Final[dict[str, list[AccessList]]] = {}
        self._patterns: Final[list[_Node]] = [_Node(), _Node()]  # by kind
        self._decisions: Final[dict[frozenset[str], _Decisions]] = {}
        self._writer: Principal | None = None  # the last that was allowed to write, and where: messages come in runs
        self._written: Destination | None = None
        for entry in entries:
            if entry.destination.is_pattern:
                self._add_pattern(entry)
            else:
                self._names.setdefault(entry.destination.qualified_name, []).append(entry.access)

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        """Check that a group of ``principal`` has the right.

        A pattern passes if an entry with the right overlaps with the pattern.

        Raises:
            AuthorizationError: the right is missing.
        """
        if destination is self._written and principal is self._writer and action == WRITE:
            return
        groups = self._groups(principal)
        decisions = self._decisions.get(groups)
        if decisions is None:
            decisions = self._new_decisions(groups)
        known = decisions.of(action)
        allowed = known.get(destination.qualified_name)
        if allowed is None:
            allowed = self._decide(groups, action, destination)
            if destination.kind < TEMP_QUEUE:  # names of temporary ones never come again
                if len(known) >= MAX_REMEMBERED:
                    known.clear()
                known[destination.qualified_name] = allowed
        if not allowed:
            verb = _VERBS.get(action, "create")
            raise AuthorizationError(f"User {principal.name} is not authorized to {verb}: {destination}")
        if action == WRITE:
            self._writer = principal
            self._written = destination

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        """Check that a group of ``principal`` has the right on all names under ``destination``.

        For a pattern a single entry must cover all names; several entries together do not count.

        Raises:
            AuthorizationError: the right is missing.
        """
        if not destination.is_pattern:
            self.check(principal, action, destination)
            return
        lists = self._default.copy()
        for entry in self._entries:
            if entry.destination.kind == destination.kind and covers(entry.destination, destination):
                lists.append(entry.access)
        if not _allows(lists, self._groups(principal), action):
            raise AuthorizationError(f"User {principal.name} is not authorized for all of {destination}")

    def _groups(self, principal: Principal) -> frozenset[str]:
        """Return the names under which ``principal`` may be in an access list."""
        if not self._names_users:
            return principal.groups
        names = self._holders.get(principal)
        if names is None:
            names = principal.groups | {user_entry(principal.name)}
            if len(self._holders) >= MAX_GROUP_SETS:
                self._holders.clear()
            self._holders[principal] = names
        return names

    def _new_decisions(self, groups: frozenset[str]) -> _Decisions:
        if len(self._decisions) >= MAX_GROUP_SETS:
            self._decisions.clear()
        decisions = _Decisions()
        self._decisions[groups] = decisions
        return decisions

    def _decide(self, groups: frozenset[str], action: str, destination: Destination) -> bool:
        if _allows(self._lists(destination), groups, action):
            return True
        return destination.is_temporary and self._temporary is None

    def _lists(self, destination: Destination) -> list[AccessList]:
        """Return the access lists for ``destination``."""
        if destination.is_temporary:
            return [] if self._temporary is None else [self._temporary]
        if destination.is_pattern:
            return self._overlapping(destination) + self._default
        lists = self._names.get(destination.qualified_name, []) + self._default
        nodes = [self._patterns[destination.kind]]
        for element in destination.elements:
            below: list[_Node] = []
            for node in nodes:
                lists.extend(node.rest)
                child = node.children.get(element)
                if child is not None:
                    below.append(child)
                if node.any_element is not None:
                    below.append(node.any_element)
            nodes = below
            if not nodes:
                break
        for node in nodes:
            lists.extend(node.rest)
            lists.extend(node.here)
        return lists

    def _overlapping(self, pattern: Destination) -> list[AccessList]:
        lists: list[AccessList] = []
        for entry in self._entries:
            if entry.destination.kind == pattern.kind and overlap(pattern, entry.destination):
                lists.append(entry.access)
        return lists

    def _add_pattern(self, entry: AuthorizationEntry) -> None:
        node = self._patterns[entry.destination.kind]
        elements = entry.destination.elements
        if elements[-1] != ">":
            for element in elements:
                node = node.next(element)
            node.here.append(entry.access)
            return
        for element in elements[:-1]:
            node = node.next(element)
        node.rest.append(entry.access)


class _Decisions:
    """Decisions for one set of groups, by qualified name."""

    def __init__(self) -> None:
        self.read: Final[dict[str, bool]] = {}
        self.write: Final[dict[str, bool]] = {}
        self.admin: Final[dict[str, bool]] = {}

    def of(self, action: str) -> dict[str, bool]:
        """Return the decisions about ``action``."""
        if action == WRITE:
            return self.write
        return self.read if action == READ else self.admin


class _Node:
    """Patterns with a common beginning: those ending ``here``, and those ending with ``>`` (``rest``)."""

    def __init__(self) -> None:
        self.children: Final[dict[str, _Node]] = {}
        self.any_element: _Node | None = None
        self.here: Final[list[AccessList]] = []
        self.rest: Final[list[AccessList]] = []

    def next(self, element: str) -> _Node:
        """Return the node for patterns that continue with ``element``."""
        if element == "*":
            if self.any_element is None:
                self.any_element = _Node()
            return self.any_element
        child = self.children.get(element)
        if child is None:
            child = _Node()
            self.children[element] = child
        return child


def user_entry(name: str) -> str:
    """Return the name in an access list for one user, in place of a group."""
    return f"{USER}{name}"


def _allows(lists: list[AccessList], groups: frozenset[str], action: str) -> bool:
    """Return True if one of ``lists`` gives the right to a group of ``groups``."""
    for access in lists:
        listed = access.read if action == READ else access.write if action == WRITE else access.admin
        if EVERYBODY in listed or not groups.isdisjoint(listed):
            return True
    return False


def covers(outer: Destination, pattern: Destination) -> bool:
    """Return True if every name under ``pattern`` is under ``outer``, a name or a pattern, too."""
    if not outer.is_pattern:
        return False
    left = outer.elements
    right = pattern.elements
    if len(left) == 2 and left[0] == "*" and left[1] == ">":
        return True  # each name has an element, so *.> stands for as many names as >
    for index, element in enumerate(left):
        if element == ">" and index == len(left) - 1:
            return True
        if index >= len(right) or (right[index] == ">" and index == len(right) - 1):
            return False
        if element != "*" and element != right[index]:
            return False
    return len(left) == len(right)


def overlap(pattern: Destination, other: Destination) -> bool:
    """Return True if some name matches both ``pattern`` and ``other``, a name or a pattern."""
    if not other.is_pattern:
        return pattern.matches(other)
    left = pattern.elements
    right = other.elements
    for index in range(max(len(left), len(right))):
        if (index == len(left) - 1 and left[index] == ">") or (index == len(right) - 1 and right[index] == ">"):
            return True  # also when the other one has ended: > matches no further element, too
        if index >= len(left) or index >= len(right):
            return False
        if left[index] != "*" and right[index] != "*" and left[index] != right[index]:
            return False
    return True
