"""URLs of LDAP directories (RFC 4516): ``ldap://host:389/o=company,c=us``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from spanwire.model.errors import ConfigurationError

PORTS: Final = {"ldap": 389, "ldaps": 636}


@dataclass(frozen=True, slots=True)
class LdapUrl:
    """Host, port, TLS, and the distinguished name above all searched names."""

    host: str
    port: int
    is_secure: bool
    base: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.address}/{quote(self.base, safe='=,+ ')}"

    @property
    def scheme(self) -> str:
        """The scheme, ``ldap`` or ``ldaps``."""
        return "ldaps" if self.is_secure else "ldap"

    @property
    def address(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def entry(self, name: str) -> LdapUrl:
        """Return the URL of the entry of a name below the base."""
        return LdapUrl(self.host, self.port, self.is_secure, f"{name},{self.base}" if self.base else name)


MAX_URLS: Final = 8  # addresses of one directory; each may take its time to connect


def parse_ldap_urls(text: str) -> tuple[LdapUrl, ...]:
    """Return the addresses of one directory, separated by spaces; all have the same base.

    Raises:
        ConfigurationError: an address is no URL of a directory.
    """
    urls = tuple(parse_ldap_url(url) for url in text.split()[: MAX_URLS + 1])
    if not urls:
        raise ConfigurationError("the URL of the directory is missing; write ldaps://host/")
    if len(urls) > MAX_URLS or len({url.base for url in urls}) > 1:
        raise ConfigurationError(f"a directory has up to {MAX_URLS} URLs, with the same distinguished name in each")
    return urls


def parse_ldap_url(text: str) -> LdapUrl:
    """Return the parts of a URL.

    Raises:
        ConfigurationError: the text is no URL of a directory, or several URLs.
    """
    if len(text.split()) != 1:
        raise ConfigurationError("a directory has one URL here; write ldap://host/o=company")
    scheme, _, rest = text.partition("://")
    default = PORTS.get(scheme.lower())
    if default is None or not rest:
        raise ConfigurationError(f"{text[:120]!r} is no URL of a directory; write ldap://host/o=company")
    authority, _, path = rest.partition("/")
    if "@" in authority:
        raise ConfigurationError("the URL of a directory has no login; write java.naming.security.principal")
    host, colon, port_text = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, port_text = authority, str(default)
    if not port_text.isascii() or not port_text.isdigit() or not 0 < int(port_text) < 65536:
        raise ConfigurationError(f"{port_text[:60]!r} is no port of a directory")
    if "?" in path:
        raise ConfigurationError("the URL of a directory ends with a distinguished name; remove ? and what follows")
    return LdapUrl(host.strip("[]") or "localhost", int(port_text), scheme.lower() == "ldaps", unquote(path))
