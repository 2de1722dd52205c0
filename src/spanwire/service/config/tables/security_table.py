"""The words of the plug-ins for authentication and authorization; all words guard access."""

from __future__ import annotations

from typing import Final

from spanwire.service.config.tables import security_attributes as attributes
from spanwire.service.config.tables.handling import JAVA, YES, Words, all_of, honoured, later, only

SIMPLE_AUTHENTICATION: Final = Words(
    settings={**honoured(attributes.ANONYMOUS)},
    children={"users": YES, **all_of(later("tables of users", "write <users>"), "userGroups userPasswords")},
    guards=True,
    tables=(attributes.ANONYMOUS,),
)
USERS: Final = Words(settings={}, children=all_of(YES, "authenticationUser"), guards=True)
USER: Final = Words(
    settings={"password": YES, **honoured(attributes.USER)},
    children={},
    guards=True,
    tables=(attributes.USER,),
)
JAAS_AUTHENTICATION: Final = Words(
    settings={
        **honoured(attributes.REALM),
        "discoverLoginConfig": only("true", "an explicit login.config", "use -D java.security.auth.login.config"),
    },
    children={},
    guards=True,
    tables=(attributes.REALM,),
)
DUAL_AUTHENTICATION: Final = Words(
    settings={**JAAS_AUTHENTICATION.settings, **honoured(attributes.ENCRYPTED_REALM)},
    children={},
    guards=True,
    tables=(attributes.REALM, attributes.ENCRYPTED_REALM),
)
AUTHORIZATION: Final = Words(settings={}, children=all_of(YES, "map"), guards=True)
AUTHORIZATION_HOLDER: Final = Words(
    settings={},
    children={
        "authorizationMap": YES,
        "cachedLDAPAuthorizationMap": YES,
        "lDAPAuthorizationMap": later(
            "a question to the directory for each message", "write a <cachedLDAPAuthorizationMap>"
        ),
        "simpleAuthorizationMap": later("rights in tables of Java objects", "use an authorizationMap"),
        "bean": later("custom maps; Spanwire runs no Java classes", "use an authorizationMap"),
    },
    guards=True,
)
GROUP_CLASS: Final = only("org.apache.activemq.jaas.groupprincipal", "other classes of groups")
OBJECT_RIGHTS: Final = later("rights in tables of Java objects", "write read, write and admin")
AUTHORIZATION_MAP: Final = Words(
    settings={"groupClass": GROUP_CLASS},
    children={
        **all_of(YES, "authorizationEntries tempDestinationAuthorizationEntry defaultEntry"),
        "entries": later("rights by another name", "write <authorizationEntries>"),
    },
    guards=True,
)
DIRECTORY_MAP: Final = Words(
    settings={
        "connectionPassword": YES,
        "groupClass": GROUP_CLASS,
        **honoured(attributes.DIRECTORY_MAP),
    },
    children={},
    guards=True,
    tables=(attributes.DIRECTORY_MAP,),
)
AUTHORIZATION_ENTRIES: Final = Words(settings={}, children=all_of(YES, "authorizationEntry"), guards=True)
AUTHORIZATION_ENTRY: Final = Words(
    settings={
        **all_of(YES, "queue topic"),
        **honoured(attributes.ACCESS),
        **all_of(
            only("false", "rights on single temporary destinations", "use tempDestinationAuthorizationEntry"),
            "tempQueue tempTopic",
        ),
        "groupClass": GROUP_CLASS,
    },
    children={
        "destination": later("rights by another name", "write queue= or topic= of <authorizationEntry>"),
        **all_of(OBJECT_RIGHTS, "adminACLs readACLs writeACLs"),
    },
    guards=True,
    tables=(attributes.ACCESS,),
)
SINGLE_TEMPORARY: Final = later(
    "rights on single temporary destinations", "the entry is for all temporary destinations; remove it"
)
TEMPORARY_ENTRY: Final = Words(
    settings={
        **honoured(attributes.ACCESS),
        "groupClass": JAVA,
        **all_of(SINGLE_TEMPORARY, "destination queue tempQueue tempTopic topic"),
        **all_of(OBJECT_RIGHTS, "adminACLs readACLs writeACLs"),
    },
    children=all_of(YES, "tempDestinationAuthorizationEntry"),
    guards=True,
    tables=(attributes.ACCESS,),
)
DEFAULT_ENTRY: Final = Words(
    settings={},
    children={
        "authorizationEntry": YES,
        "tempDestinationAuthorizationEntry": later("other default rights", "write an <authorizationEntry>"),
    },
    guards=True,
)
