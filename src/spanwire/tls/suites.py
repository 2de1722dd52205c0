"""OpenSSL's names for Java's TLS versions and cipher suites (JSSE "Standard Algorithm Names").

See also RFC 5246 and RFC 8446. Versions below 1.2, and suites without forward secrecy or with a broken cipher, are
known by name for the sake of error texts. They are never offered.
"""

from __future__ import annotations

import ssl
from typing import Final

from spanwire.model.errors import ConfigurationError

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
BROKEN_VERSIONS: Final = frozenset({"SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1"})

# The suites of TLS 1.3 are on or off together, because Python's ssl module cannot choose among them.
NEW_SUITES: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_EXCHANGES: Final = {"ECDHE_ECDSA": "ECDHE-ECDSA", "ECDHE_RSA": "ECDHE-RSA", "DHE_RSA": "DHE-RSA"}
_CIPHERS: Final = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
}
OLD_SUITES: Final = {
    f"TLS_{exchange}_WITH_{cipher}": f"{openssl_exchange}-{openssl_cipher}"
    for exchange, openssl_exchange in _EXCHANGES.items()
    for cipher, openssl_cipher in _CIPHERS.items()
}
SUITES: Final = (*NEW_SUITES, *OLD_SUITES)
# Names of the JDK without support: static or anonymous key exchange, CBC, RC4, no encryption.
KNOWN_SUITES: Final = frozenset(
    f"{prefix}_{exchange}_WITH_{cipher}"
    for prefix in ("TLS", "SSL")
    for exchange in ("RSA", "DH_anon", "DHE_DSS", "DHE_RSA", "ECDH_RSA", "ECDH_ECDSA", "ECDHE_RSA", "ECDHE_ECDSA")
    for cipher in (
        "AES_128_CBC_SHA AES_256_CBC_SHA AES_128_CBC_SHA256 AES_256_CBC_SHA256 AES_256_CBC_SHA384 AES_128_GCM_SHA256 "
        "AES_256_GCM_SHA384 3DES_EDE_CBC_SHA DES_CBC_SHA RC4_128_SHA RC4_128_MD5 NULL_SHA NULL_SHA256 NULL_MD5"
    ).split()
) | {"TLS_EMPTY_RENEGOTIATION_INFO_SCSV"}
SAFE_CIPHERS: Final = ":".join(["@SECLEVEL=2", *OLD_SUITES.values()])


def apply(context: ssl.SSLContext, protocols: tuple[str, ...], cipher_suites: tuple[str, ...]) -> None:
    """Let ``context`` use only the given versions and suites. Raises `ConfigurationError` without a suite."""
    versions = [VERSIONS[name] for name in protocols if name in VERSIONS] or list(VERSIONS.values())
    old = [OLD_SUITES[name] for name in cipher_suites if name in OLD_SUITES]
    if cipher_suites:
        if not any(name in NEW_SUITES for name in cipher_suites):
            versions = [version for version in versions if version != ssl.TLSVersion.TLSv1_3]
        if not old:
            versions = [version for version in versions if version != ssl.TLSVersion.TLSv1_2]
    if not versions:
        raise ConfigurationError("no TLS version is left: the enabled protocols and cipher suites exclude each other")
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)
    context.set_ciphers(":".join(["@SECLEVEL=2", *old]) if old else SAFE_CIPHERS)
