"""Looks up entries of an LDAP directory, in a thread."""

from __future__ import annotations

import asyncio
from typing import Final

from spanwire.bridges.jndi.references import destination_of, factory_of, read_addresses
from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.model.directory import Directory
from spanwire.ldap.connection import connect
from spanwire.ldap.directory_error import DirectoryError
from spanwire.ldap.ldap_url import LdapUrl, parse_ldap_url
from spanwire.ldap.logins import BASE, log_in
from spanwire.ldap.rights import ANYTHING
from spanwire.ldap.settings import DirectoryAccess
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError, JmsError

CLASS: Final = "javaClassName"
ADDRESSES: Final = "javaReferenceAddress"
CODEBASE: Final = "javaCodebase"
SERIALIZED: Final = "javaSerializedData"
LOCATION: Final = "javaRemoteLocation"
ATTRIBUTES: Final = (CLASS, ADDRESSES, CODEBASE, SERIALIZED, LOCATION)
REFUSED: Final[dict[str, str]] = {
    CODEBASE: "names Java classes on another machine (javaCodebase), and none is loaded; remove the attribute",
    LOCATION: "leads to an object over RMI (javaRemoteLocation), which is refused; store a reference",
    SERIALIZED: "is a serialized Java object (javaSerializedData), which is never read; store a reference",
}

MAX_ENTRY_BYTES: Final = 1024 * 1024  # of all answers about one entry, which has some hundred bytes

Attributes = dict[str, list[bytes]]


async def find_factory(directory: Directory, entry: LdapUrl) -> ConnectionFactory:
    """Return the connection factory of an entry.

    Raises:
        JmsError: the directory cannot be reached or refuses, or the entry is missing or no connection factory.
    """
    found = await asyncio.to_thread(_read, directory, entry)
    if found is None:
        raise JmsError(f"the directory has no entry {entry}")
    try:
        return factory_of(_class(found), read_addresses(_texts(found, ADDRESSES)))
    except ConfigurationError as error:
        raise JmsError(f"the entry {entry} {error}") from None


async def find_destination(directory: Directory, entry: LdapUrl) -> Destination | None:
    """Return the destination of an entry, or None without an entry; see `find_factory` for errors."""
    found = await asyncio.to_thread(_read, directory, entry)
    if found is None:
        return None
    try:
        return destination_of(_class(found), read_addresses(_texts(found, ADDRESSES)))
    except ConfigurationError as error:
        raise JmsError(f"the entry {entry} {error}") from None


def _read(directory: Directory, entry: LdapUrl) -> Attributes | None:
    """Return the attributes of an entry, or None for a missing entry. Referrals are never followed."""
    connect_s, read_s = directory.connect_timeout_ms / 1000, directory.read_timeout_ms / 1000
    access = DirectoryAccess(
        (parse_ldap_url(directory.url),), directory.user_name, directory.password, connect_s=connect_s
    )
    try:
        with connect(access, connect_s + read_s, MAX_ENTRY_BYTES) as connection:
            log_in(connection, access)
            found = connection.search(entry.base, BASE, ANYTHING, list(ATTRIBUTES), 1)
    except DirectoryError as error:
        raise JmsError(str(error)) from None  # compiled code takes no error of an interpreted class
    if found is None:
        return None
    if not found:
        raise JmsError(f"the entry {entry} is a referral to another directory, which is not followed")
    attributes = {name: found[0].raw_values(name) for name in ATTRIBUTES}
    for name, reason in REFUSED.items():
        if attributes[name]:
            raise JmsError(f"the entry {entry} {reason}")
    return attributes


def _texts(found: Attributes, name: str) -> list[str]:
    try:
        return [value.decode("utf-8") for value in found[name]]
    except UnicodeDecodeError:
        raise ConfigurationError(f"has a {name} that is not UTF-8") from None


def _class(found: Attributes) -> str:
    names = _texts(found, CLASS)
    if not names:
        raise ConfigurationError("is no Java object: it has no javaClassName")
    return names[0]
