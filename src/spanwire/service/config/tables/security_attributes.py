"""Attributes of the plug-ins for authentication and authorization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.broker.security.authorization_map import AccessList
from spanwire.service.config.model import UserConfiguration
from spanwire.service.config.tables.attributes import FLAG, TEXT, Attribute, AttributeTable, Kind


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
