"""Environments of JNDI: the properties for the lookup of names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spanwire.bridges.jndi.local_names import ActiveMqNames, ArtemisNames, LocalNames
from spanwire.bridges.model.directory import DEFAULT_CONNECT_MS, DEFAULT_READ_MS, Directory
from spanwire.client.addressing.redaction import redacted
from spanwire.ldap.ldap_url import LdapUrl, parse_ldap_url
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret

INITIAL: Final = "java.naming.factory.initial"
URL: Final = "java.naming.provider.url"
PRINCIPAL: Final = "java.naming.security.principal"
CREDENTIALS: Final = "java.naming.security.credentials"
AUTHENTICATION: Final = "java.naming.security.authentication"
PROTOCOL: Final = "java.naming.security.protocol"
ACTIVEMQ: Final = frozenset(f"org.apache.activemq.jndi.ActiveMQ{kind}InitialContextFactory" for kind in ("", "Ssl"))
ARTEMIS: Final = "org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory"
LDAP: Final = frozenset({"com.sun.jndi.ldap.LdapCtxFactory", "com.sun.jndi.LdapCtxFactory"})
KNOWN: Final = (
    "org.apache.activemq.jndi.ActiveMQInitialContextFactory, its Artemis form and com.sun.jndi.ldap.LdapCtxFactory"
)
# Directories whose objects are Java classes from another machine, by scheme and by the class of their context.
REMOTE_SCHEMES: Final = frozenset({"rmi", "iiop", "iiopname", "corba", "corbaname", "corbaloc", "jnp", "remote", "t3"})
REMOTE_CONTEXTS: Final[dict[str, str]] = {
    "com.sun.jndi.rmi.registry.RegistryContextFactory": "rmi",
    "com.sun.jndi.cosnaming.CNCtxFactory": "iiop",
    "org.jnp.interfaces.NamingContextFactory": "rmi",
    "org.jboss.naming.NamingContextFactory": "rmi",
    "org.jboss.naming.remote.client.InitialContextFactory": "remote",
    "weblogic.jndi.WLInitialContextFactory": "t3",
}
# Properties that let an environment choose classes to load.
LOADERS: Final = (
    "java.naming.factory.object",
    "java.naming.factory.state",
    "java.naming.factory.control",
    "java.rmi.server.codebase",
)
TRUSTED: Final = (
    "com.sun.jndi.ldap.object.trustURLCodebase",
    "com.sun.jndi.ldap.object.trustSerialData",
    "com.sun.jndi.rmi.object.trustURLCodebase",
    "com.sun.jndi.cosnaming.object.trustURLCodebase",
)
# Names of the time limits, those of JBoss first.
CONNECT_TIMEOUTS: Final = ("jnp.timeout", "com.sun.jndi.ldap.connect.timeout")
READ_TIMEOUTS: Final = ("jnp.sotimeout", "com.sun.jndi.ldap.read.timeout")
MAX_TIMEOUT_MS: Final = 600_000  # milliseconds; ten minutes, beyond which a mistake in the unit is likely

Context = LocalNames | Directory


def read_environment(properties: Mapping[str, str]) -> Context:
    """Return the context of an environment.

    Raises:
        ConfigurationError: the environment is incomplete, unknown, or asks for classes from elsewhere.
    """
    refuse_loading(properties)
    initial = properties.get(INITIAL, "").strip()
    if initial in ACTIVEMQ:
        return ActiveMqNames(properties)
    if initial == ARTEMIS:
        return ArtemisNames(properties)
    if initial in LDAP:
        return _directory(properties)
    if not initial:
        raise ConfigurationError(f"the JNDI environment has no {INITIAL}; known are {KNOWN}")
    raise ConfigurationError(f"{INITIAL} {initial[:120]} is unknown; known are {KNOWN}")


def check_name(name: str) -> str:
    """Return a name to look up.

    Raises:
        ConfigurationError: the name is empty, or a URL, with which JNDI would leave the directory.
    """
    stripped = name.strip()
    scheme = stripped.partition(":")[0].lower()
    if scheme in REMOTE_SCHEMES:
        raise ConfigurationError(_remote(f"the name {redacted(stripped)[:120]}", scheme))
    if not stripped or ":" in stripped.partition("/")[0].partition("=")[0]:
        raise ConfigurationError(f"{stripped[:120]!r} is no name in a directory; write the name without a scheme")
    return stripped


def refuse_loading(properties: Mapping[str, str]) -> None:
    """Refuse an environment with classes from elsewhere. Raises `ConfigurationError`."""
    for name in LOADERS:
        if properties.get(name, "").strip():
            raise ConfigurationError(f"{name} lets a directory choose Java classes, and none is loaded; remove it")
    for name in TRUSTED:
        if properties.get(name, "").strip().lower() == "true":
            raise ConfigurationError(f"{name} lets a directory supply Java classes, and none is loaded; remove it")
    initial = properties.get(INITIAL, "").strip()
    if initial in REMOTE_CONTEXTS:
        raise ConfigurationError(_remote(f"{INITIAL} {initial}", REMOTE_CONTEXTS[initial]))
    for url in properties.get(URL, "").split():
        scheme = url.partition(":")[0].lower()
        if scheme in REMOTE_SCHEMES:
            raise ConfigurationError(_remote(f"{URL} {redacted(url)[:120]}", scheme))


def _remote(what: str, scheme: str) -> str:
    return (
        f"{what} is refused: {scheme}: brings Java objects and classes from another machine; name the broker's address "
        "in a bean of ActiveMQConnectionFactory, or look it up in LDAP"
    )


def _directory(properties: Mapping[str, str]) -> Directory:
    text = properties.get(URL, "").strip()
    if not text:
        raise ConfigurationError(f"the JNDI environment has no {URL}; write ldap://host/o=company")
    url = parse_ldap_url(text)
    if properties.get(PROTOCOL, "").strip().lower() == "ssl":
        url = LdapUrl(url.host, url.port, True, url.base)
    user, password = properties.get(PRINCIPAL), properties.get(CREDENTIALS)
    authentication = properties.get(AUTHENTICATION, "none" if user is None else "simple").strip().lower()
    if authentication not in ("none", "simple"):
        raise ConfigurationError(f"{AUTHENTICATION} {authentication[:60]!r} is not supported; write simple or none")
    if authentication == "none":
        user = password = None
    if user is not None and not password:
        raise ConfigurationError(f"{PRINCIPAL} has no {CREDENTIALS}; a login without a password would be anonymous")
    return Directory(
        str(url),
        user,
        None if password is None else Secret(password),
        _timeout(properties, CONNECT_TIMEOUTS, DEFAULT_CONNECT_MS),
        _timeout(properties, READ_TIMEOUTS, DEFAULT_READ_MS),
    )


def _timeout(properties: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    for name in names:
        text = properties.get(name)
        if text is not None:
            if not text.strip().isascii() or not text.strip().isdigit() or not 0 < int(text) <= MAX_TIMEOUT_MS:
                raise ConfigurationError(
                    f"{name} is {text[:60]!r}; it must be a number of milliseconds from 1 to {MAX_TIMEOUT_MS}"
                )
            return int(text)
    return default
