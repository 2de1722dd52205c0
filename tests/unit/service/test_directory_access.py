"""Directories of a configuration: the extra that they need, the trust store, and a configuration that is read again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from spanwire import registry
from spanwire.broker.ports import READ, Principal
from spanwire.broker.security.authorization_map import AuthorizationMap
from spanwire.ldap.directory_error import DirectoryError
from spanwire.ldap.filters import filter_template
from spanwire.ldap.ldap_url import parse_ldap_urls
from spanwire.ldap.right import QUEUES, Right, Rights
from spanwire.ldap.settings import DirectoryAccess, LoginSettings, RightsSettings, SearchSettings
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import AuthorizationError, ConfigurationError
from spanwire.model.secret import Secret
from spanwire.service.config.model import (
    AuthenticationConfiguration,
    AuthorizationConfiguration,
    BrokerConfiguration,
    LockConfiguration,
    LoginModuleConfiguration,
    PersistenceConfiguration,
    default_configuration,
)
from spanwire.service.config.security.tls import Stores
from spanwire.service.directories import directory_access
from spanwire.service.readiness import start_obstacles
from spanwire.service.security import Security
from spanwire.service.service import BrokerService
from spanwire.tls.settings import TrustStore

ACCESS = DirectoryAccess(parse_ldap_urls("ldaps://h"), "cn=broker", Secret("x1"))
LOGIN = LoginSettings(ACCESS, SearchSettings("ou=User", filter_template("(uid={0})", 1)))


def configured(base: str = "ou=Queue") -> BrokerConfiguration:
    module = LoginModuleConfiguration("required", directory=LOGIN)
    rights = RightsSettings(ACCESS, base, "ou=Topic", "ou=Temp")
    return replace(
        default_configuration(),
        authentication=AuthenticationConfiguration((module,)),
        authorization=AuthorizationConfiguration(directory=rights),
        stores=Stores(trust_store=TrustStore(Path("authority.pem"))),
    )


def test_a_broker_without_the_extra_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "LDAP_LOGIN", "spanwire.no_such_module:check")
    with pytest.raises(ConfigurationError, match=r"LDAP needs the extra ldap; run: .* -m pip install .*ldap3"):
        Security(configured()).authenticator()


def test_the_missing_extra_is_an_obstacle_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = configured()
    rights_alone = replace(configuration, authentication=None)
    assert asyncio.run(start_obstacles(configuration, None, {}, allow_anonymous=True)) == []
    monkeypatch.setattr(registry, "LDAP_LOGIN", "spanwire.no_such_module:check")
    monkeypatch.setattr(registry, "LDAP_RIGHTS", "spanwire.no_such_module:read")
    for faulty in (configuration, rights_alone):
        (line,) = asyncio.run(start_obstacles(faulty, None, {}, allow_anonymous=True))
        assert line.startswith("LDAP needs the extra ldap; run: ")


def test_a_start_over_an_existing_store_that_fails_at_the_logins_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = BrokerConfiguration(persistence=PersistenceConfiguration(lock=LockConfiguration()))

    async def start(configuration: BrokerConfiguration) -> None:
        service = BrokerService(replace(configuration, connectors=()), tmp_path)
        await service.start()
        await service.stop()

    asyncio.run(start(sound))
    monkeypatch.setattr(registry, "LDAP_LOGIN", "spanwire.no_such_module:check")
    with pytest.raises(ConfigurationError, match="LDAP needs the extra ldap"):
        asyncio.run(start(replace(configured(), persistence=sound.persistence)))


def test_a_configuration_that_is_read_again_asks_its_own_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No build compiles the module."""
    bases: list[str] = []
    trusted: list[TrustStore | None] = []

    def read(settings: RightsSettings) -> Rights:
        bases.append(settings.queue_base)
        trusted.append(settings.access.tls.trust_store)
        return Rights((Right(QUEUES, settings.queue_base, "read", frozenset({"staff"}), frozenset()),), ())

    monkeypatch.setattr(directory_access, "_loaded", lambda name: read)
    maps: list[AuthorizationMap] = []

    async def scene() -> None:
        security = Security(configured("ou=A"))
        await security.begin(maps.append)
        assert await security.change_rights(configured("ou=B")) is None, "the directory has the rights"
        security.stop()

    asyncio.run(scene())
    assert (bases, len(maps)) == (["ou=A", "ou=B"], 2)
    assert trusted == [TrustStore(Path("authority.pem"))] * 2


def test_rights_of_a_replaced_configuration_end_if_the_new_directory_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """No build compiles the module."""

    def read(settings: RightsSettings) -> Rights:
        if settings.queue_base == "ou=B":
            raise DirectoryError("the directory", "cannot be asked: connection refused")
        return Rights((Right(QUEUES, "ORDERS", "read", frozenset({"staff"}), frozenset()),), ())

    monkeypatch.setattr(directory_access, "_loaded", lambda name: read)

    async def scene() -> AuthorizationMap | None:
        security = Security(configured("ou=A"))
        await security.begin(lambda rights: None)
        try:
            return await security.change_rights(configured("ou=B"))
        finally:
            security.stop()

    changed = asyncio.run(scene())
    assert changed is not None
    with pytest.raises(AuthorizationError):
        changed.check(Principal("anna", frozenset({"staff"})), READ, Destination(QUEUE, "ORDERS"))
