"""Reads rights on destinations from a directory (ActiveMQ's cachedLDAPAuthorizationMap).

    cn=read,cn=ORDERS.$,ou=Queue,ou=Destination,…      member: cn=clerks,ou=Group,…
       right    destination, with $ for >    base

Rights on temporary destinations stand directly below their base.
"""

from __future__ import annotations

from typing import Final

from ldap3.core.exceptions import LDAPInvalidDnError
from ldap3.utils.dn import parse_dn

from spanwire.ldap.connection import DirectoryConnection, Entry, connect
from spanwire.ldap.directory_error import DirectoryError
from spanwire.ldap.logins import BASE, SUBTREE, is_below, log_in
from spanwire.ldap.right import QUEUES, TEMPORARY, TOPICS, Right, Rights
from spanwire.ldap.settings import RIGHTS_S, RightsSettings

MAX_RIGHTS_BYTES: Final = 8 * 1024 * 1024  # of all answers for one map
MAX_RIGHTS: Final = 10_000  # entries of one right below one base
MAX_MEMBERS: Final = 10_000  # different members that are looked up for one map
ANYTHING: Final = "(objectClass=*)"


def read_rights(settings: RightsSettings) -> Rights:
    """Return the rights of a directory.

    Raises `DirectoryError`, or `ConfigurationError` for the directory's trust store.
    """
    with connect(settings.access, RIGHTS_S, MAX_RIGHTS_BYTES) as directory:
        log_in(directory, settings.access)
        return _Reader(directory, settings).read()


class _Reader:
    def __init__(self, directory: DirectoryConnection, settings: RightsSettings) -> None:
        self._directory: Final = directory
        self._settings: Final = settings
        self._members: Final[dict[str, tuple[str | None, str | None]]] = {}  # group and user by the name of an entry
        self._unusable: Final[list[str]] = []

    def read(self) -> Rights:
        settings = self._settings
        rights: list[Right] = []
        for kind, base in (
            (QUEUES, settings.queue_base),
            (TOPICS, settings.topic_base),
            (TEMPORARY, settings.temporary_base),
        ):
            full = settings.access.name_below(base)
            length = self._length(full)
            for right, condition in (
                ("admin", settings.admin_filter),
                ("read", settings.read_filter),
                ("write", settings.write_filter),
            ):
                wanted = [settings.member_attribute]
                found = self._directory.search(full, SUBTREE, condition, wanted, MAX_RIGHTS)
                if found is None:
                    self._unusable.append(f"there is no entry {full}")
                    break
                rights += [one for entry in found if (one := self._right(kind, right, entry, full, length)) is not None]
        return Rights(tuple(rights), tuple(self._unusable))

    def _length(self, base: str) -> int:
        try:
            return len(parse_dn(base))
        except LDAPInvalidDnError:
            raise DirectoryError(f"the directory {self._settings.access}", f"has no base {base[:80]!r}") from None

    def _right(self, kind: str, right: str, entry: Entry, base: str, length: int) -> Right | None:
        """Return the right of an entry, or None for an entry outside of the rights' places."""
        try:
            parts = parse_dn(entry.name, escape=False)
        except LDAPInvalidDnError:
            parts = []
        depth = len(parts) - length
        if depth != (1 if kind == TEMPORARY else 2) or not is_below(entry.name, base):
            self._unusable.append(f"{entry.name[:200]} is not where a right on a {kind} is")
            return None
        name = "" if kind == TEMPORARY else unescaped(parts[1][1]).replace("$", ">")
        groups: set[str] = set()
        users: set[str] = set()
        for member in entry.values(self._settings.member_attribute):
            group, user = self._member(member)
            if (group is None) == (user is None):
                self._unusable.append(f"{entry.name[:200]}: the member {member[:200]} is neither a group nor a user")
            elif group is not None:
                groups.add(group)
            elif user is not None:
                users.add(user)
        return Right(kind, name, right, frozenset(groups), frozenset(users))

    def _member(self, member: str) -> tuple[str | None, str | None]:
        """Return the group or the user named by a member."""
        if self._settings.legacy_names:
            return member.replace("cn=", "").replace("CN=", ""), None
        known = self._members.get(member)
        if known is None:
            if len(self._members) >= MAX_MEMBERS:
                raise DirectoryError(f"the directory {self._settings.access}", f"has more than {MAX_MEMBERS} members")
            known = self._members[member] = self._looked_up(member)
        return known

    def _looked_up(self, member: str) -> tuple[str | None, str | None]:
        settings = self._settings
        wanted = ["objectClass", settings.group_name, settings.user_name]
        found = self._directory.search(member, BASE, ANYTHING, wanted, 1)
        if not found:
            return None, None
        entry = found[0]
        classes = {value.lower() for value in entry.values("objectClass")}
        groups = entry.values(settings.group_name) if settings.group_class.lower() in classes else []
        users = entry.values(settings.user_name) if settings.user_class.lower() in classes else []
        return (groups[0] if groups else None), (users[0] if users else None)


def unescaped(value: str) -> str:
    """Return the value of an attribute in a distinguished name without escapes (RFC 4514)."""
    octets = bytearray()
    index = 0
    while index < len(value):
        pair = value[index + 1 : index + 3]
        if value[index] != "\\":
            octets += value[index].encode("utf-8")
            index += 1
        elif len(pair) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in pair):
            octets.append(int(pair, 16))
            index += 3
        else:
            octets += value[index + 1 : index + 2].encode("utf-8")
            index += 2
    return octets.decode("utf-8", "replace")
