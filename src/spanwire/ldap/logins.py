"""Checks a user's password in a directory, and finds the user's groups (ActiveMQ, LDAPLoginModule).

The broker's own login searches for the entry of the user and for the roles. The last step is a login as the user, with
the password: only the answer to the last login accepts the user.
"""

from __future__ import annotations

from typing import Final

from spanwire.ldap.connection import DirectoryConnection, connect
from spanwire.ldap.directory_error import DirectoryError
from spanwire.ldap.settings import LOGIN_S, DirectoryAccess, LoginSettings, SearchSettings

MAX_LOGIN_BYTES: Final = 1024 * 1024  # of all answers about one user; an entry has some hundred bytes
MAX_ROLES: Final = 1_000  # roles of one user
MAX_EXPANSIONS: Final = 100  # searches for roles that have a role as a member; also ends circles of roles
BASE: Final = "BASE"
LEVEL: Final = "LEVEL"
SUBTREE: Final = "SUBTREE"


def check_login(settings: LoginSettings, name: str, password: str) -> frozenset[str] | None:
    """Return the groups of a user; None if the directory has no such user, or refuses the password.

    An empty password is refused here: a directory may accept an empty password for every name, as an anonymous login.

    Raises:
        DirectoryError: the directory fails
        ConfigurationError: the trust store cannot be read
    """
    if not name or not password or "\0" in password:  # a directory written in C may end a password there
        return None
    access = settings.access
    with connect(access, LOGIN_S, MAX_LOGIN_BYTES) as directory:
        log_in(directory, access)
        user = _find_user(directory, settings, name)
        if user is None:
            return None
        entry_name, groups = user
        groups += _roles(directory, settings, entry_name, name)
        if len(groups) > MAX_ROLES:
            raise DirectoryError(f"the directory {access}", f"has more than {MAX_ROLES} roles of one user")
        if not directory.bind(entry_name, password.encode("utf-8", "surrogatepass")):
            return None
    return frozenset(groups)


def log_in(directory: DirectoryConnection, access: DirectoryAccess) -> None:
    """Log in for searches. Raises `DirectoryError` if the directory refuses."""
    if access.user_name is None:
        is_bound = directory.bind_anonymously()
    else:
        password = "" if access.password is None else access.password.reveal()
        is_bound = directory.bind(access.user_name, password.encode("utf-8", "surrogatepass"))
    if not is_bound:
        who = access.user_name or "without a name"
        raise DirectoryError(f"the directory {access}", f"refuses the login {who}: {directory.words()}")


def _find_user(directory: DirectoryConnection, settings: LoginSettings, name: str) -> tuple[str, list[str]] | None:
    """Return the entry of a user with the groups named by the entry; None without an entry."""
    users, attribute = settings.users, settings.user_role_name
    base = settings.access.name_below(users.base)
    found = directory.search(
        base, _scope(users), users.template.filled(name), [attribute] if attribute else [], 1, cuts=True
    )
    if found is None:
        raise DirectoryError(f"the directory {settings.access}", f"has no entry {base}, the userBase")
    if not found:
        return None
    if len(found) > 1:
        raise DirectoryError(f"the directory {settings.access}", f"has several entries for one user below {base}")
    entry = found[0]
    if not is_below(entry.name, base):
        raise DirectoryError(f"the directory {settings.access}", f"gives an entry for a user that is not below {base}")
    return entry.name, entry.values(attribute) if attribute else []


def _roles(directory: DirectoryConnection, settings: LoginSettings, entry_name: str, name: str) -> list[str]:
    """Return the names of the roles with the user as a member, and of the roles above.

    A role above has one of the user's roles as a member.
    """
    roles, attribute = settings.roles, settings.role_name
    if roles is None or not attribute:
        return []
    base, scope = settings.access.name_below(roles.base), _scope(roles)
    found = directory.search(base, scope, roles.template.filled(entry_name, name), [attribute], MAX_ROLES)
    if found is None:
        raise DirectoryError(f"the directory {settings.access}", f"has no entry {base}, the roleBase")
    groups = [value for entry in found for value in entry.values(attribute)]
    if settings.expanded is None:
        return groups
    seen = {entry.name for entry in found}
    waiting = [entry.name for entry in found]
    searches = 0
    while waiting:
        searches += 1
        if searches > MAX_EXPANSIONS:
            raise DirectoryError(f"the directory {settings.access}", f"has more than {MAX_EXPANSIONS} roles in roles")
        condition = settings.expanded.filled(waiting.pop(0))
        for entry in directory.search(base, scope, condition, [attribute], MAX_ROLES) or []:
            if entry.name not in seen:
                seen.add(entry.name)
                waiting.append(entry.name)
                groups += entry.values(attribute)
    return groups


def is_below(name: str, base: str) -> bool:
    """Return True if a distinguished name is below another name, by the text without spaces and case."""
    left, right = _bare(name), _bare(base)
    return not right or left.endswith(f",{right}")


def _bare(name: str) -> str:
    return "".join(name.split()).lower()


def _scope(search: SearchSettings) -> str:
    return SUBTREE if search.subtree else LEVEL
