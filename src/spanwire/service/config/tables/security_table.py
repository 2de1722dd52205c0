"""The words of the plug-ins for authentication and authorization; all words guard access."""

from __future__ import annotations

from typing import Final

from spanwire.service.config.tables import security_attributes as attributes
from spanwire.service.config.tables.handling import JAVA, YES, Words, all_of, honoured, later, only

SIMPLE_AUTHENTICATION: Final = Words(
    settings={**honoured(attributes.ANONYMOUS), "id": JAVA},
    children={"users": YES, **all_of(later("tables of users", "write <users>"), "userGroups userPasswords")},
    guards=True,
    tables=(attributes.ANONYMOUS,),
)
USERS: Final = Words(settings={}, children=all_of(YES, "authenticationUser"), guards=True)
USER: Final = Words(
    settings={"password": YES, **honoured(attributes.USER), "id": JAVA},
    children={},
    guards=True,
    tables=(attributes.USER,),
)
JAAS_AUTHENTICATION: Final = Words(
    settings={
        **honoured(attributes.REALM),
        "discoverLoginConfig": only("true", "an explicit login.config", "use -D java.security.auth.login.config"),
        "id": JAVA,
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
AUTHORIZATION: Final = Words(settings={"id": JAVA}, children=all_of(YES, "map"), guards=True)
AUTHORIZATION_HOLDER: Final = Words(
    settings={},
    children={
        "authorizationMap": YES,
        **all_of(later("LDAP", "use an authorizationMap"), "cachedLDAPAuthorizationMap lDAPAuthorizationMap"),
        "simpleAuthorizationMap": later("rights in tables of Java objects", "use an authorizationMap"),
        "bean": later("custom maps; Spanwire runs no Java classes", "use an authorizationMap"),
    },
    guards=True,
)
GROUP_CLASS: Final = only("org.apache.activemq.jaas.groupprincipal", "other classes of groups")
AUTHORIZATION_MAP: Final = Words(
    settings={"id": JAVA, "groupClass": GROUP_CLASS},
    children=all_of(YES, "authorizationEntries tempDestinationAuthorizationEntry defaultEntry"),
    guards=True,
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
        "id": JAVA,
    },
    children=all_of(later("rights by another name", "write queue= or topic= of <authorizationEntry>"), "destination"),
    guards=True,
    tables=(attributes.ACCESS,),
)
TEMPORARY_ENTRY: Final = Words(
    settings={**honoured(attributes.ACCESS), **all_of(JAVA, "id groupClass")},
    children=all_of(YES, "tempDestinationAuthorizationEntry"),
    guards=True,
    tables=(attributes.ACCESS,),
)
DEFAULT_ENTRY: Final = Words(settings={}, children=all_of(YES, "authorizationEntry"), guards=True)
