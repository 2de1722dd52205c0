"""Connection factories and destinations of a file of bridges that are looked up by JNDI.

    [connectionFactories.berlin]
    jndiName = "cn=orders"
    [connectionFactories.berlin.jndi]
    "java.naming.factory.initial" = "com.sun.jndi.ldap.LdapCtxFactory"
    "java.naming.provider.url" = "ldap://directory/o=company"

A bridge looks up a destination with ``sourceDestination = "jndi:NAME"``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from spanwire.bridges.jndi.environment import Context, check_name, read_environment
from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.model.directory import Directory
from spanwire.ldap.ldap_url import parse_ldap_url
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.routes.readers.nodes import Location, Mapping, mapping_of

JNDI: Final = "jndi"  # table with the environment
JNDI_NAME: Final = "jndiName"
PREFIX: Final = "jndi:"  # of a destination that is looked up
LDAP: Final = "ldap"  # the provider

T = TypeVar("T")


def read_context(words: Mapping) -> Context | None:
    """Return the context of a connection factory, or None for a factory with a URL.

    Raises:
        ConfigurationError: the environment is wrong; see `read_environment`.
    """
    node = words.node(JNDI)
    if node is None:
        if words.text(JNDI_NAME) is not None:
            raise words.entries[JNDI_NAME].location.error(f"{JNDI_NAME} needs a table {JNDI} with the environment")
        return None
    environment = mapping_of(node, JNDI)
    if words.text("url") is not None:
        raise words.entries["url"].location.error(f"url and {JNDI} exclude each other; remove one of them")
    texts = {name: environment.text(name) or "" for name in environment.entries}
    return located(environment.location, lambda: read_environment(texts))


def found_factory(context: Context, words: Mapping, name: str) -> ConnectionFactory:
    """Return the connection factory of ``jndiName``, to be found at each connection in a directory."""
    looked_up = words.require(JNDI_NAME, f"the connection factory {name}")
    location = words.entries[JNDI_NAME].location
    checked = located(location, lambda: check_name(looked_up))
    if isinstance(context, Directory):
        return ConnectionFactory(str(parse_ldap_url(context.url).entry(checked)), provider=LDAP, directory=context)
    return located(location, lambda: context.factory(checked))


def found_destination(
    text: str, location: Location, factory: ConnectionFactory, context: Context | None
) -> tuple[ConnectionFactory, Destination]:
    """Return factory and destination of a text that begins with ``jndi:``."""
    name = located(location, lambda: check_name(text.removeprefix(PREFIX)))
    if factory.directory is not None:
        directory = replace(factory.directory, finds_destinations=True)
        return replace(factory, directory=directory), Destination(QUEUE, name)
    if context is None or isinstance(context, Directory):
        raise location.error(f"{PREFIX} needs a connection factory with a table {JNDI}")
    found = context.destination(name)
    if found is None:
        raise location.error(f"the JNDI environment has neither queue.{name[:60]} nor topic.{name[:60]}")
    return factory, found


def located(location: Location, act: Callable[[], T]) -> T:
    """Return the result of a call; its error gets the location."""
    try:
        return act()
    except ConfigurationError as error:
        raise location.error(str(error)) from None
