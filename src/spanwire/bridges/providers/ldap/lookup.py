"""Looks up entries of an LDAP directory with ldap3, in a thread."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

import ldap3
from ldap3.core.exceptions import LDAPException

from spanwire.bridges.jndi.references import destination_of, factory_of, read_addresses
from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.model.directory import Directory
from spanwire.bridges.model.ldap_url import LdapUrl, parse_ldap_url
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError, JmsError

CLASS: Final = "javaClassName"
ADDRESSES: Final = "javaReferenceAddress"
CODEBASE: Final = "javaCodebase"
SERIALIZED: Final = "javaSerializedData"
LOCATION: Final = "javaRemoteLocation"
ATTRIBUTES: Final = (CLASS, ADDRESSES, CODEBASE, SERIALIZED, LOCATION)
NO_SUCH_OBJECT: Final = 32
REFERRAL: Final = 10
REFUSED: Final[dict[str, str]] = {
    CODEBASE: "names Java classes on another machine (javaCodebase), and none is loaded; remove the attribute",
    LOCATION: "leads to an object over RMI (javaRemoteLocation), which is refused; store a reference",
    SERIALIZED: "is a serialized Java object (javaSerializedData), which is never read; store a reference",
}

Entry = dict[str, list[Any]]


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


def _read(directory: Directory, entry: LdapUrl) -> Entry | None:
    """Return the attributes of an entry, or None if it does not exist. Referrals are never followed."""
    url = parse_ldap_url(directory.url)
    tls = ldap3.Tls(validate=ssl.CERT_REQUIRED) if url.is_secure else None
    server = ldap3.Server(
        url.host,
        port=url.port,
        use_ssl=url.is_secure,
        tls=tls,
        get_info=ldap3.NONE,
        connect_timeout=directory.connect_timeout_ms / 1000,
    )
    password = None if directory.password is None else directory.password.reveal()
    connection = ldap3.Connection(
        server,
        user=directory.user_name,
        password=password,
        authentication=ldap3.ANONYMOUS if directory.user_name is None else ldap3.SIMPLE,
        read_only=True,
        auto_referrals=False,
        receive_timeout=-(-directory.read_timeout_ms // 1000),  # whole seconds, rounded up
    )
    where = f"the directory ldap://{url.host}:{url.port}"
    try:
        try:
            if not connection.bind():
                raise JmsError(
                    f"{where} refuses the login {directory.user_name or 'without a name'}: {_said(connection)}"
                )
            connection.search(entry.base, "(objectClass=*)", ldap3.BASE, attributes=list(ATTRIBUTES), size_limit=1)
            code, response, said = connection.result["result"], connection.response, _said(connection)
        finally:
            connection.unbind()
    except LDAPException as error:
        raise JmsError(f"{where} cannot be asked: {' '.join(str(error).split())[:300]}") from None
    if code == NO_SUCH_OBJECT:
        return None
    if code == REFERRAL or not response:
        raise JmsError(f"{where} has no answer about {entry.base}: {said}")
    return _checked(entry, response)


def _checked(entry: LdapUrl, response: list[dict[str, Any]]) -> Entry:
    for answer in response:
        if answer.get("type") == "searchResEntry":
            found = {name: _listed(value) for name, value in answer["raw_attributes"].items()}
            for name, reason in REFUSED.items():
                if found.get(name):
                    raise JmsError(f"the entry {entry} {reason}")
            return found
    raise JmsError(f"the entry {entry} is a referral to another directory, which is not followed")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _texts(found: Entry, name: str) -> list[str]:
    try:
        return [value.decode("utf-8") if isinstance(value, bytes) else str(value) for value in found.get(name, ())]
    except UnicodeDecodeError:
        raise ConfigurationError(f"has a {name} that is not UTF-8") from None


def _class(found: Entry) -> str:
    names = _texts(found, CLASS)
    if not names:
        raise ConfigurationError("is no Java object: it has no javaClassName")
    return names[0]


def _said(connection: ldap3.Connection) -> str:
    result = connection.result
    words = [str(result.get("description", "")), str(result.get("message", ""))]
    return " ".join(" ".join(word for word in words if word).split())[:200] or "no reason given"
