"""URLs of LDAP directories (RFC 4516): ``ldap://host:389/o=company,c=us``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from spanwire.model.errors import ConfigurationError

PORTS: Final = {"ldap": 389, "ldaps": 636}


@dataclass(frozen=True, slots=True)
class LdapUrl:
    """Host, port, TLS, and the distinguished name below which names are looked up."""

    host: str
    port: int
    is_secure: bool
    base: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'ldaps' if self.is_secure else 'ldap'}://{host}:{self.port}/{quote(self.base, safe='=,+ ')}"

    def entry(self, name: str) -> LdapUrl:
        """Return the URL of the entry of a name below the base."""
        return LdapUrl(self.host, self.port, self.is_secure, f"{name},{self.base}" if self.base else name)


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
