"""Interprets the authentication and authorization plug-ins of a configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from spanwire.broker.security.authentication import SUFFICIENT
from spanwire.broker.security.authorization_map import AccessList, AuthorizationEntry
from spanwire.documents.element import Element
from spanwire.documents.spelling import suggestion
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import (
    AuthenticationConfiguration,
    AuthorizationConfiguration,
    LoginModuleConfiguration,
    UserConfiguration,
)
from spanwire.service.config.security import ldap
from spanwire.service.config.security.login_config import LoginModuleEntry, read_login_config
from spanwire.service.config.security.user_files import CertifiedFiles, UserFiles
from spanwire.service.config.tables import security_attributes as attributes
from spanwire.service.config.tables import security_table as words
from spanwire.service.config.tables.handling import Words
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import MAX_WORD, Findings, read_text_file
from spanwire.service.config.values.values import Settings, as_flag

JAAS: Final = "org.apache.activemq.jaas."
PROPERTIES_MODULE: Final = JAAS + "PropertiesLoginModule"
GUEST_MODULE: Final = JAAS + "GuestLoginModule"
ABSTRACT_MODULE: Final = JAAS + "CertificateLoginModule"
LDAP_MODULE: Final = JAAS + "LDAPLoginModule"
ENCRYPTABLE_LDAP_MODULE: Final = JAAS + "EncryptableLDAPLoginModule"
PASSWORD_MODULES: Final = (PROPERTIES_MODULE, LDAP_MODULE, ENCRYPTABLE_LDAP_MODULE)
USER_FILE: Final = JAAS + "properties.user"
GROUP_FILE: Final = JAAS + "properties.group"
PROPERTIES_OPTIONS: Final = frozenset({USER_FILE, GROUP_FILE, "baseDir", "debug", "decrypt", "reload"})
CERTIFICATE_MODULE: Final = JAAS + "TextFileCertificateLoginModule"
CERTIFIED_FILE: Final = JAAS + "textfiledn.user"
CERTIFIED_GROUP_FILE: Final = JAAS + "textfiledn.group"
CERTIFICATE_OPTIONS: Final = frozenset({CERTIFIED_FILE, CERTIFIED_GROUP_FILE, "baseDir", "debug", "reload"})
GUEST_USER: Final = JAAS + "guest.user"
GUEST_GROUP: Final = JAAS + "guest.group"
GUEST_OPTIONS: Final = frozenset({GUEST_USER, GUEST_GROUP, "credentialsInvalidate", "debug"})
HEARD_BY_JAVA: Final = Destination(TOPIC, "ActiveMQ.Advisory.TempQueue")
CERTIFICATE_PLUGIN: Final = "jaasCertificateAuthenticationPlugin"
DUAL_PLUGIN: Final = "jaasDualAuthenticationPlugin"
JAAS_PLUGINS: Final = ("jaasAuthenticationPlugin", CERTIFICATE_PLUGIN, DUAL_PLUGIN)
# A realm for certificates ignores passwords, so a module for passwords would be a trap there.
PASSWORDS_ELSEWHERE: Final = "passwords are the matter of a <jaasAuthenticationPlugin>; use that for this module"
DIRECTORY_MAP: Final = "cachedLDAPAuthorizationMap"
AUTHENTICATIONS: Final = ("simpleAuthenticationPlugin", *JAAS_PLUGINS)


class Inner(Protocol):
    """Returns the inner elements with a name, checked against the table of words."""

    def __call__(self, element: Element, name: str, known: Words) -> list[Element]: ...


@dataclass(frozen=True, slots=True)
class SecurityInterpreter:
    """Interprets the ``plugins`` element; ``login_config`` is the file with the JAAS names."""

    findings: Findings
    inner: Inner
    login_config: Path
    replace: Callable[[str], str]
    decryption: Decryption

    def authentication(self, plugins: list[Element]) -> AuthenticationConfiguration | None:
        """Return the authentication, or None without an authentication plug-in."""
        configurations: list[AuthenticationConfiguration] = []
        for group in plugins:
            for plugin in self.inner(group, "simpleAuthenticationPlugin", words.SIMPLE_AUTHENTICATION):
                configurations.append(self._simple(plugin))
            for name in JAAS_PLUGINS:
                known = words.DUAL_AUTHENTICATION if name == DUAL_PLUGIN else words.JAAS_AUTHENTICATION
                configurations += [self._jaas(plugin) for plugin in self.inner(group, name, known)]
        if len(configurations) > 1:
            self.findings.error(plugins[0].line, f"more than one of {' and '.join(AUTHENTICATIONS)}; keep one")
        return configurations[0] if configurations else None

    def authorization(self, plugins: list[Element]) -> AuthorizationConfiguration | None:
        """Return the authorization, or None without an authorization plug-in."""
        configurations: list[AuthorizationConfiguration] = []
        for group in plugins:
            authenticated = any(group.child(name) is not None for name in AUTHENTICATIONS)
            for plugin in self.inner(group, "authorizationPlugin", words.AUTHORIZATION):
                if not authenticated:
                    advice = "add a <simpleAuthenticationPlugin> or a <jaasAuthenticationPlugin>"
                    self.findings.error(plugin.line, f"<authorizationPlugin> knows no users without a login: {advice}")
                holders = self.inner(plugin, "map", words.AUTHORIZATION_HOLDER)
                maps = [
                    one for held in holders for one in self.inner(held, "authorizationMap", words.AUTHORIZATION_MAP)
                ]
                directories = [one for held in holders for one in self.inner(held, DIRECTORY_MAP, words.DIRECTORY_MAP)]
                if len(maps) + len(directories) != 1:
                    self.findings.error(plugin.line, "<authorizationPlugin> must hold one <map><authorizationMap>")
                configurations.extend(self._map(element) for element in maps)
                for element in directories:
                    directory = ldap.rights_settings(element, self.findings, self.decryption)
                    configurations.append(AuthorizationConfiguration(directory=directory))
        if len(configurations) > 1:
            self.findings.error(plugins[0].line, "more than one authorizationMap; keep one")
        return configurations[0] if configurations else None

    def _simple(self, plugin: Element) -> AuthenticationConfiguration:
        settings = Settings(plugin, self.findings)
        modules: list[LoginModuleConfiguration] = []
        guest = attributes.AnonymousAccess(**attributes.ANONYMOUS.values(settings))
        if guest.allowed:
            groups = frozenset({guest.group})
            modules.append(LoginModuleConfiguration(SUFFICIENT, guest.user, groups, without_credentials=True))
        elements = [
            element
            for holder in self.inner(plugin, "users", words.USERS)
            for element in self.inner(holder, "authenticationUser", words.USER)
        ]
        users = [user for user in map(self._user, elements) if user is not None]
        for name, count in Counter(user.name for user in users).items():
            if count > 1:
                self.findings.error(plugin.line, f"<simpleAuthenticationPlugin> names user {name[:MAX_WORD]!r} twice")
        if not elements and not modules:
            self.findings.error(plugin.line, "<simpleAuthenticationPlugin> lets nobody in: it has no users")
        modules.append(LoginModuleConfiguration(SUFFICIENT, users=tuple(users)))
        return AuthenticationConfiguration(tuple(modules))

    def _user(self, element: Element) -> UserConfiguration | None:
        settings = Settings(element, self.findings)
        values = attributes.USER.values(settings)
        name = values.get("name")
        if not name:
            self.findings.error(element.line, "<authenticationUser> has no username")
            return None
        try:
            password = settings.secret("password", self.decryption)
        except ConfigurationError as error:
            self.findings.error(element.line, f"password of <authenticationUser> {name[:MAX_WORD]!r}: {error}")
            return None
        if password.is_empty():
            self.findings.error(element.line, f"<authenticationUser> {name[:MAX_WORD]!r} has no password")
            return None
        return UserConfiguration(password=password, **values)

    def _jaas(self, plugin: Element) -> AuthenticationConfiguration:
        settings = Settings(plugin, self.findings)
        only_certificates = plugin.name == CERTIFICATE_PLUGIN
        realms = attributes.LoginRealms(
            **attributes.REALM.values(settings), **attributes.ENCRYPTED_REALM.values(settings)
        )
        modules = self._realm(plugin, realms.name, only_certificates)
        if plugin.name != DUAL_PLUGIN:
            return AuthenticationConfiguration(modules)
        return AuthenticationConfiguration(modules, self._realm(plugin, realms.encrypted, only_certificates=True))

    def _realm(self, plugin: Element, realm: str, only_certificates: bool) -> tuple[LoginModuleConfiguration, ...]:
        """Return the login modules of a name in the login configuration."""
        try:
            source = str(self.login_config)
            realms = read_login_config(read_text_file(self.login_config).decode("utf-8"), source)
        except UnicodeDecodeError:
            self.findings.error(plugin.line, f"{self.login_config} is not in UTF-8")
            return ()
        except ConfigurationError as error:
            advice = "write a login.config beside the configuration or give -D java.security.auth.login.config=PATH"
            self.findings.error(plugin.line, f"<{plugin.name}>: {error}; {advice}")
            return ()
        entries = realms.get(realm)
        if not entries:
            hint = suggestion(realm, realms)
            self.findings.error(plugin.line, f"{source} has no login modules for {realm[:MAX_WORD]!r}{hint}")
            return ()
        modules: list[LoginModuleConfiguration] = []
        for entry in entries:
            try:
                if only_certificates and entry.class_name in PASSWORD_MODULES:
                    raise ConfigurationError(PASSWORDS_ELSEWHERE)
                modules.append(self._module(entry, plugin.line))
            except ConfigurationError as error:
                self.findings.error(plugin.line, f"{source}:{entry.line}: {error}")
        return tuple(modules)

    def _module(self, entry: LoginModuleEntry, line: int) -> LoginModuleConfiguration:
        if entry.class_name == CERTIFICATE_MODULE:
            return self._certificate_module(entry)
        if entry.class_name == PROPERTIES_MODULE:
            return self._properties_module(entry)
        if entry.class_name == GUEST_MODULE:
            _check_options(entry, GUEST_OPTIONS)
            return LoginModuleConfiguration(
                entry.flag,
                self.replace(entry.options.get(GUEST_USER, "guest")),
                frozenset({self.replace(entry.options.get(GUEST_GROUP, "guests"))}),
                without_credentials=_flag(entry, "credentialsInvalidate"),
            )
        if entry.class_name in (LDAP_MODULE, ENCRYPTABLE_LDAP_MODULE):
            is_encryptable = entry.class_name == ENCRYPTABLE_LDAP_MODULE
            _check_options(entry, ldap.OPTIONS.union(ldap.ENCRYPTION_OPTIONS) if is_encryptable else ldap.OPTIONS)
            options = ldap.Options(entry, self.replace, self.decryption)
            where = f"{self.login_config}:{entry.line}"
            directory = ldap.login_settings(options, lambda text: self.findings.warn(line, f"{where}: {text}"))
            return LoginModuleConfiguration(entry.flag, directory=directory)
        if entry.class_name == ABSTRACT_MODULE:
            raise ConfigurationError(
                f"the login module {ABSTRACT_MODULE} is not built; use TextFileCertificateLoginModule"
            )
        shown = entry.class_name[:MAX_WORD]
        raise ConfigurationError(f"the login module {shown} is not built: Spanwire runs no Java classes")

    def _properties_module(self, entry: LoginModuleEntry) -> LoginModuleConfiguration:
        _check_options(entry, PROPERTIES_OPTIONS)
        base = self._base(entry)
        files = UserFiles(
            base / self.replace(entry.options.get(USER_FILE, "user")),
            base / self.replace(entry.options.get(GROUP_FILE, "group")),
            _flag(entry, "reload"),
            self.decryption,
        )
        return LoginModuleConfiguration(entry.flag, users=files.read(), files=files)

    def _certificate_module(self, entry: LoginModuleEntry) -> LoginModuleConfiguration:
        _check_options(entry, CERTIFICATE_OPTIONS)
        base = self._base(entry)
        files = CertifiedFiles(
            base / self.replace(entry.options.get(CERTIFIED_FILE, "user")),
            base / self.replace(entry.options.get(CERTIFIED_GROUP_FILE, "group")),
            _flag(entry, "reload"),
        )
        return LoginModuleConfiguration(entry.flag, certified=files.read(), certified_files=files)

    def _base(self, entry: LoginModuleEntry) -> Path:
        """Return the directory of a module's files: beside the login.config by default."""
        return self.login_config.parent / self.replace(entry.options.get("baseDir", ""))

    def _map(self, element: Element) -> AuthorizationConfiguration:
        entries: list[AuthorizationEntry] = []
        for holder in self.inner(element, "authorizationEntries", words.AUTHORIZATION_ENTRIES):
            for entry in self.inner(holder, "authorizationEntry", words.AUTHORIZATION_ENTRY):
                authorization_entry = self._entry(entry)
                if authorization_entry is not None:
                    entries.append(authorization_entry)
        temporary: AccessList | None = None
        for entry in self.inner(element, "tempDestinationAuthorizationEntry", words.TEMPORARY_ENTRY):
            temporary = self._access(entry)
        default: AccessList | None = None
        for holder in self.inner(element, "defaultEntry", words.DEFAULT_ENTRY):
            for entry in self.inner(holder, "authorizationEntry", words.AUTHORIZATION_ENTRY):
                default = self._access(entry)
        if default is None and not any(entry.destination.matches(HEARD_BY_JAVA) for entry in entries):
            self.findings.warn(
                element.line,
                f"no entry of <authorizationMap> covers {HEARD_BY_JAVA}, to which every Java client listens: add "
                'topic="ActiveMQ.Advisory.>" with read, write and admin',
            )
        return AuthorizationConfiguration(tuple(entries), temporary, default)

    def _entry(self, element: Element) -> AuthorizationEntry | None:
        settings = Settings(element, self.findings)
        named = [name for name in ("queue", "topic") if name in element.attributes]
        if len(named) != 1:
            self.findings.error(element.line, "<authorizationEntry> must name either a queue or a topic")
            return None
        destination = settings.destination(named[0], QUEUE if named[0] == "queue" else TOPIC, pattern=True)
        if destination is None:
            return None
        if ">" in destination.elements[:-1]:
            self.findings.error(element.line, f"{named[0]} of <authorizationEntry>: > may stand at the end only")
            return None
        return AuthorizationEntry(destination, self._access(element))

    def _access(self, element: Element) -> AccessList:
        return AccessList(**attributes.ACCESS.values(Settings(element, self.findings)))


def _check_options(entry: LoginModuleEntry, known: frozenset[str]) -> None:
    for name in entry.options:
        if name not in known:
            hint = suggestion(name, known)
            raise ConfigurationError(f"unknown option {name[:MAX_WORD]!r} of {entry.class_name}{hint}")


def _flag(entry: LoginModuleEntry, name: str) -> bool:
    value = as_flag(entry.options.get(name, "false"))
    if value is None:
        raise ConfigurationError(f"{name} of {entry.class_name} must be true or false")
    return value
