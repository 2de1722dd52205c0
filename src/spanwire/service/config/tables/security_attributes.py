"""Attributes of the plug-ins for authentication and authorization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.broker.security.authorization_map import AccessList
from spanwire.service.config.model import UserConfiguration
from spanwire.service.config.tables.attributes import FLAG, MAX_INT, TEXT, Attribute, AttributeTable, Kind, number


@dataclass(frozen=True, slots=True)
class AnonymousAccess:
    """The user and group of clients without a password, if such clients are admitted."""

    allowed: bool = False
    user: str = "anonymous"
    group: str = "anonymous"


@dataclass(frozen=True, slots=True)
class LoginRealms:
    """The names of login modules in the login configuration; ``encrypted`` applies inside TLS."""

    name: str = "activemq-domain"
    encrypted: str = "activemq-ssl-domain"


@dataclass(frozen=True, slots=True)
class DirectoryMap:
    """The attributes of a map in a directory, with ActiveMQ's defaults."""

    url: str = "ldap://localhost:1024"
    user_name: str = "uid=admin,ou=system"
    protocol: str = "s"
    authentication: str = "simple"
    queues: str = "ou=Queue,ou=Destination,ou=ActiveMQ,ou=system"
    topics: str = "ou=Topic,ou=Destination,ou=ActiveMQ,ou=system"
    temporary: str = "ou=Temp,ou=Destination,ou=ActiveMQ,ou=system"
    members: str = "member"
    admin: str = "(cn=Admin)"
    read: str = "(cn=Read)"
    write: str = "(cn=Write)"
    legacy: bool = True
    group_class: str = "groupOfNames"
    user_class: str = "person"
    group_attribute: str = "cn"
    user_attribute: str = "uid"
    refresh_ms: int = -1
    refresh_disabled: bool = False


def group_names(text: str) -> frozenset[str]:
    """Return the names of a comma-separated list."""
    return frozenset(group.strip() for group in text.split(",") if group.strip())


GROUPS: Final = Kind(
    "groups, separated by commas", lambda settings, name, default: group_names(settings.element.value(name) or "")
)
USER_NAME: Final = Kind("text", lambda settings, name, default: settings.element.value(name))

ANONYMOUS: Final = AttributeTable(
    AnonymousAccess,
    Attribute("anonymousAccessAllowed", FLAG, "allowed"),
    Attribute("anonymousUser", TEXT, "user"),
    Attribute("anonymousGroup", TEXT, "group"),
)
USER: Final = AttributeTable(
    UserConfiguration,
    Attribute("username", USER_NAME, "name", "required"),
    Attribute("groups", GROUPS, "groups", "none"),
)
REALM: Final = AttributeTable(LoginRealms, Attribute("configuration", TEXT, "name"))
ENCRYPTED_REALM: Final = AttributeTable(LoginRealms, Attribute("sslConfiguration", TEXT, "encrypted"))
ACCESS: Final = AttributeTable(
    AccessList,
    Attribute("read", GROUPS, "read", "nobody"),
    Attribute("write", GROUPS, "write", "nobody"),
    Attribute("admin", GROUPS, "admin", "nobody"),
)
DIRECTORY_MAP: Final = AttributeTable(
    DirectoryMap,
    Attribute("connectionURL", TEXT, "url"),
    Attribute("connectionUsername", TEXT, "user_name"),
    Attribute("connectionProtocol", TEXT, "protocol"),
    Attribute("authentication", TEXT, "authentication"),
    Attribute("queueSearchBase", TEXT, "queues"),
    Attribute("topicSearchBase", TEXT, "topics"),
    Attribute("tempSearchBase", TEXT, "temporary"),
    Attribute("permissionGroupMemberAttribute", TEXT, "members"),
    Attribute("adminPermissionGroupSearchFilter", TEXT, "admin"),
    Attribute("readPermissionGroupSearchFilter", TEXT, "read"),
    Attribute("writePermissionGroupSearchFilter", TEXT, "write"),
    Attribute("legacyGroupMapping", FLAG, "legacy"),
    Attribute("groupObjectClass", TEXT, "group_class"),
    Attribute("userObjectClass", TEXT, "user_class"),
    Attribute("groupNameAttribute", TEXT, "group_attribute"),
    Attribute("userNameAttribute", TEXT, "user_attribute"),
    Attribute("refreshInterval", number("milliseconds", -1, MAX_INT), "refresh_ms"),
    Attribute("refreshDisabled", FLAG, "refresh_disabled"),
)
