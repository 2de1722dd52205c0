"""Interprets the options of an LDAPLoginModule and the attributes of a cachedLDAPAuthorizationMap."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

from spanwire.documents.element import Element
from spanwire.ldap.filters import filter_template
from spanwire.ldap.ldap_url import LdapUrl, parse_ldap_urls
from spanwire.ldap.settings import DirectoryAccess, LoginSettings, RightsSettings, SearchSettings
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.service.config.security.login_config import LoginModuleEntry
from spanwire.service.config.tables import security_attributes as attributes
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import MAX_WORD, Findings
from spanwire.service.config.values.values import Settings, as_flag

FACTORY: Final = "com.sun.jndi.ldap.LdapCtxFactory"
OPTIONS: Final = frozenset(
    "initialContextFactory connectionURL connectionUsername connectionPassword connectionProtocol authentication "
    "userBase userSearchMatching userSearchSubtree roleBase roleName roleSearchMatching roleSearchSubtree userRoleName "
    "expandRoles expandRolesMatching debug".split()
)
ENCRYPTION_OPTIONS: Final[dict[str, str]] = {  # of EncryptableLDAPLoginModule, with the words of Jasypt's beans
    "encryptionPassword": "password",
    "passwordEnvName": "passwordEnvName",
    "encryptionAlgorithm": "algorithm",
}
PLAIN_PROTOCOLS: Final = frozenset({"", "s", "plain"})  # ActiveMQ's examples write s, which Java ignores
TLS: Final = "ssl"
START_TLS: Final = "starttls"
REFRESH_S: Final = 30  # seconds between two reads of a map whose changes ActiveMQ waits for with a persistent search
LEAST_REFRESH_MS: Final = 1_000  # milliseconds; each read asks the directory about each right

Warn = Callable[[str], None]


class Options:
    """The options of a login module, with placeholders and encrypted values replaced."""

    def __init__(self, entry: LoginModuleEntry, replace: Callable[[str], str], decryption: Decryption) -> None:
        self.entry: Final = entry
        self._replace: Final = replace
        own = {
            ENCRYPTION_OPTIONS[name]: replace(text)
            for name, text in entry.options.items()
            if name in ENCRYPTION_OPTIONS
        }
        self._decryption: Final = decryption.separate(own) if own else decryption

    def text(self, name: str) -> str:
        """Return an option, empty without one. Raises `ConfigurationError` for an encrypted value."""
        return self._decryption.plain(self._replace(self.entry.options.get(name, ""))).strip()

    def secret(self, name: str) -> Secret:
        """Return a password as it is written."""
        return Secret(self._decryption.plain(self._replace(self.entry.options.get(name, ""))))

    def needed(self, name: str) -> str:
        """Return an option. Raises `ConfigurationError` without one."""
        text = self.text(name)
        if not text:
            raise ConfigurationError(f"{self.entry.class_name} has no {name}")
        return text

    def flag(self, name: str) -> bool:
        """Return an option that is true or false, as Java reads it: false without one."""
        value = as_flag(self.text(name) or "false")
        if value is None:
            raise ConfigurationError(f"{name} of {self.entry.class_name} must be true or false")
        return value


def login_settings(options: Options, warn: Warn) -> LoginSettings:
    """Return the settings of a login module, whose options are known words.

    Raises:
        ConfigurationError: an option is missing or wrong.
    """
    factory = options.text("initialContextFactory")
    if factory not in ("", FACTORY):
        warn(f"initialContextFactory {factory[:MAX_WORD]} has no effect: the directory is asked by LDAP, without Java")
    password = options.secret("connectionPassword")
    name = options.needed("connectionUsername")
    if password.is_empty():
        raise ConfigurationError(f"{options.entry.class_name} has no connectionPassword, and never asks anonymously")
    access = directory_access(
        options.needed("connectionURL"),
        name,
        password,
        options.text("connectionProtocol"),
        options.text("authentication"),
        warn,
    )
    users = SearchSettings(
        options.needed("userBase"),
        filter_template(options.needed("userSearchMatching"), 1),
        options.flag("userSearchSubtree"),
    )
    role_name = options.text("roleName")
    if not role_name:
        return LoginSettings(access, users, user_role_name=options.text("userRoleName"))
    expanded = options.flag("expandRoles")
    return LoginSettings(
        access,
        users,
        SearchSettings(
            options.needed("roleBase"),
            filter_template(options.needed("roleSearchMatching"), 2),
            options.flag("roleSearchSubtree"),
        ),
        role_name,
        options.text("userRoleName"),
        filter_template(options.needed("expandRolesMatching"), 1) if expanded else None,
    )


def directory_access(
    urls: str, name: str, password: Secret, protocol: str, authentication: str, warn: Warn
) -> DirectoryAccess:
    """Return the addresses and the login of a directory.

    Raises:
        ConfigurationError: an address, the protocol or the kind of login is not supported, or only some addresses
            are encrypted.
    """
    addresses = parse_ldap_urls(urls)
    if authentication.lower() not in ("", "simple"):
        raise ConfigurationError(
            f"authentication {authentication[:MAX_WORD]!r} of a directory is not supported; write simple, with TLS"
        )
    kind = protocol.lower()
    if kind == TLS:
        addresses = tuple(LdapUrl(url.host, url.port, True, url.base) for url in addresses)
    elif kind not in (*PLAIN_PROTOCOLS, START_TLS):
        raise ConfigurationError(
            f"connectionProtocol {protocol[:MAX_WORD]!r} is none; write ldaps:// in the URL, or ssl or starttls"
        )
    if kind != START_TLS and any(not url.is_secure and not _is_loopback(url.host) for url in addresses):
        if any(url.is_secure for url in addresses):
            raise ConfigurationError(
                "the URLs of a directory mix ldaps: and ldap:, so that passwords would cross the network unencrypted "
                "while the first one is away: write ldaps:// in each, or connectionProtocol starttls"
            )
        warn("passwords go to the directory unencrypted: write ldaps:// or connectionProtocol starttls")
    return DirectoryAccess(addresses, name, password, kind == START_TLS)


def rights_settings(element: Element, findings: Findings, decryption: Decryption) -> RightsSettings | None:
    """Return the settings of an authorization map, or None with an error."""
    settings = Settings(element, findings)
    found = attributes.DirectoryMap(**attributes.DIRECTORY_MAP.values(settings))
    try:
        password = settings.secret("connectionPassword", decryption)
        if password.is_empty():
            raise ConfigurationError("has no connectionPassword, and never asks anonymously")
        access = directory_access(
            found.url,
            found.user_name,
            password,
            found.protocol,
            found.authentication,
            lambda text: findings.warn(element.line, f"<{element.name}>: {text}"),
        )
        admin, read, write = (filter_template(text, 0).text for text in (found.admin, found.read, found.write))
    except ConfigurationError as error:
        findings.error(element.line, f"<{element.name}>: {error}")
        return None
    refresh_ms = REFRESH_S * 1000 if found.refresh_ms < 0 else max(found.refresh_ms, LEAST_REFRESH_MS)
    return RightsSettings(
        access,
        found.queues,
        found.topics,
        found.temporary,
        found.members,
        admin,
        read,
        write,
        found.legacy,
        found.group_class,
        found.user_class,
        found.group_attribute,
        found.user_attribute,
        0 if found.refresh_disabled else refresh_ms,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
