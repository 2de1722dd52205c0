"""Connects login modules and the authorization map of a configuration with directories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

from spanwire import registry
from spanwire.broker.security.authorization_map import AuthorizationMap
from spanwire.extras import install_command
from spanwire.ldap.right import Rights
from spanwire.ldap.settings import DirectoryAccess, LoginSettings, RightsSettings
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.directories.questions import DirectoryQuestions
from spanwire.service.directories.refreshed_rights import RefreshedRights
from spanwire.tls.settings import ClientTlsSettings

CheckLogin = Callable[[LoginSettings, str, str], frozenset[str] | None]
ReadRights = Callable[[RightsSettings], Rights]


def login_questions(
    settings: LoginSettings, configuration: BrokerConfiguration, wake: Callable[[], None]
) -> DirectoryQuestions:
    """Return the directory of a login module. Raises `ConfigurationError` without the extra `ldap`."""
    check = cast(CheckLogin, _loaded(registry.LDAP_LOGIN))
    trusting = replace(settings, access=_trusting(settings.access, configuration))
    return DirectoryQuestions(f"the directory {settings.access}", partial(check, trusting), wake)


def refreshed_rights(
    settings: RightsSettings, configuration: BrokerConfiguration, use: Callable[[AuthorizationMap], None]
) -> RefreshedRights:
    """Return the reader of an authorization map. Raises `ConfigurationError` without the extra `ldap`."""
    read = cast(ReadRights, _loaded(registry.LDAP_RIGHTS))
    trusting = replace(settings, access=_trusting(settings.access, configuration))
    return RefreshedRights(partial(read, trusting), use, settings.refresh_ms / 1000)


def check_extra(*, logins: bool, rights: bool) -> None:
    """Raise `ConfigurationError` without the extra `ldap`, for logins, rights or both."""
    for is_needed, name in ((logins, registry.LDAP_LOGIN), (rights, registry.LDAP_RIGHTS)):
        if is_needed:
            _loaded(name)


def _trusting(access: DirectoryAccess, configuration: BrokerConfiguration) -> DirectoryAccess:
    """Return the access with the trust store of the broker's ``sslContext``, or of the system."""
    stores = configuration.stores
    return replace(access, tls=ClientTlsSettings(trust_store=None if stores is None else stores.trust_store))


def _loaded(name: str) -> object:
    try:
        return registry.load(name)
    except ModuleNotFoundError:
        raise ConfigurationError(f"LDAP needs the extra ldap; run: {install_command('ldap')}") from None
