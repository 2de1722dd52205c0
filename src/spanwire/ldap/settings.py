"""Settings of questions to a directory (ActiveMQ, LDAPLoginModule and cachedLDAPAuthorizationMap)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.ldap.filters import FilterTemplate
from spanwire.ldap.ldap_url import LdapUrl
from spanwire.model.secret import Secret
from spanwire.tls.settings import ClientTlsSettings

CONNECT_S: Final = 3.0  # seconds for the socket to one address of a directory
LOGIN_S: Final = 8.0  # seconds for all that a login asks; less than the time in which a client has to log in
RIGHTS_S: Final = 30.0  # seconds to read an authorization map; nobody waits for it


@dataclass(frozen=True, slots=True)
class DirectoryAccess:
    """Addresses of a directory, tried in order, and the login for searches.

    A login without a name is anonymous. With ``start_tls`` a connection to ``ldap://`` is encrypted before the first
    login (RFC 4511, "StartTLS").
    """

    urls: tuple[LdapUrl, ...]
    user_name: str | None = None
    password: Secret | None = None
    start_tls: bool = False
    tls: ClientTlsSettings = field(default_factory=ClientTlsSettings)
    connect_s: float = CONNECT_S

    def name_below(self, base: str) -> str:
        """Return the full name of a base relative to the name in the URL, as in Java's clients."""
        root = self.urls[0].base
        return f"{base},{root}" if base and root else base or root

    def __str__(self) -> str:
        return " ".join(f"{url.scheme}://{url.address}" for url in self.urls)


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """A search in the subtree of ``base``, or directly below ``base``."""

    base: str
    template: FilterTemplate
    subtree: bool = False


@dataclass(frozen=True, slots=True)
class LoginSettings:
    """The options of an LDAPLoginModule.

    ``users`` finds the entry of a user by {0}, the name. ``roles`` finds the entries of roles by {0}, the name of the
    entry, and {1}, the name of the user; ``role_name`` is their attribute with the name of a group.
    ``expanded`` finds the roles that have the role {0} as a member. ``user_role_name`` is an attribute of the user's
    own entry with names of groups.
    """

    access: DirectoryAccess
    users: SearchSettings
    roles: SearchSettings | None = None
    role_name: str = ""
    user_role_name: str = ""
    expanded: FilterTemplate | None = None


@dataclass(frozen=True, slots=True)
class RightsSettings:
    """The attributes of a cachedLDAPAuthorizationMap; with ``refresh_ms`` 0 the map is read once."""

    access: DirectoryAccess
    queue_base: str
    topic_base: str
    temporary_base: str
    member_attribute: str = "member"
    admin_filter: str = "(cn=Admin)"
    read_filter: str = "(cn=Read)"
    write_filter: str = "(cn=Write)"
    legacy_names: bool = True
    group_class: str = "groupOfNames"
    user_class: str = "person"
    group_name: str = "cn"
    user_name: str = "uid"
    refresh_ms: int = 0
