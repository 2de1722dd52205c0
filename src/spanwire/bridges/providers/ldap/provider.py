"""A provider with the connection factory in an LDAP directory.

The provider reads the directory at each connection, and connects by OpenWire.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.provider_description import ProviderDescription
from spanwire.bridges.ports import LocalTransaction, MessageSource, MessageTarget, XaSource, XaTarget
from spanwire.bridges.providers.ldap.lookup import find_destination, find_factory
from spanwire.bridges.providers.openwire.provider import DESCRIPTION as OPENWIRE_DESCRIPTION
from spanwire.bridges.providers.openwire.provider import OpenWireProvider
from spanwire.ldap.ldap_url import parse_ldap_url
from spanwire.model.errors import ConfigurationError, JmsError

ANY_BROKER: Final = ConnectionFactory("tcp://127.0.0.1:61616")  # in place of the factory, for the checks

End = TypeVar("End", Source, Target)


class LdapProvider:
    """Opens sources, targets and transactions at the broker named by a directory."""

    def __init__(self) -> None:
        self._openwire: Final = OpenWireProvider()

    def describe(self) -> ProviderDescription:
        """Return the promises of OpenWire, the protocol to the broker."""
        return replace(OPENWIRE_DESCRIPTION, name="ldap")

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a wrong address of the directory, or a wrong source."""
        _check(source.factory)
        self._openwire.check_source(replace(source, factory=ANY_BROKER))

    def check_target(self, target: Target) -> None:
        """Raise `ConfigurationError` for a wrong address of the directory, or a wrong target."""
        _check(target.factory)
        self._openwire.check_target(replace(target, factory=ANY_BROKER))

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Look up, connect and consume."""
        found = await _found(source)
        self._openwire.check_source(found)
        return await self._openwire.open_source(found, credit)

    async def open_target(self, target: Target) -> MessageTarget:
        """Look up, connect and produce."""
        return await self._openwire.open_target(await self._found_target(target))

    async def open_transaction(self, source: Source, target: Target, credit: int) -> LocalTransaction:
        """Look up, connect once, consume and produce."""
        found = await self._found_target(target)
        return await self._openwire.open_transaction(await _found(source), found, credit)

    async def open_xa_source(self, source: Source, credit: int) -> XaSource:
        """Look up, connect, and consume at the first receive."""
        return await self._openwire.open_xa_source(await _found(source), credit)

    async def open_xa_target(self, target: Target) -> XaTarget:
        """Look up, connect and produce."""
        return await self._openwire.open_xa_target(await self._found_target(target))

    async def _found_target(self, target: Target) -> Target:
        found = await _found(target)
        self._openwire.check_target(found)
        return found


def _check(factory: ConnectionFactory) -> None:
    parse_ldap_url(factory.url)
    if factory.directory is None:
        raise ConfigurationError("the provider ldap needs a JNDI environment; see the guide about JNDI")


async def _found(end: End) -> End:
    """Return a source or target with the directory's connection factory, and perhaps destination.

    The login of the definition comes before the factory's login.
    """
    former, directory = end.factory, end.factory.directory
    assert directory is not None, "checked before the start"
    factory = await find_factory(directory, parse_ldap_url(former.url))
    if factory.url.lower().startswith(("vm:", "peer:")):
        raise JmsError(f"the entry {former.url} is a broker inside of another process ({factory.url[:60]})")
    factory = replace(
        factory,
        user_name=former.user_name or factory.user_name,
        password=former.password or factory.password,
        trust_store=former.trust_store,
        trust_store_password=former.trust_store_password,
        key_store=former.key_store,
        key_store_password=former.key_store_password,
    )
    destination = end.destination
    if directory.finds_destinations:
        entry = parse_ldap_url(directory.url).entry(destination.name)
        destination = await find_destination(directory, entry) or destination
    return replace(end, factory=factory, destination=destination)
