"""TLS settings of a configuration, before a file is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.model.secret import Secret

NO_CLIENT_CERTIFICATE: Final = 0
WANT_CLIENT_CERTIFICATE: Final = 1  # optional, but verified
NEED_CLIENT_CERTIFICATE: Final = 2
NO_PASSWORD: Final = Secret("")


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key with the certificate chain: a PEM file, two PEM files, or a PKCS#12 store.

    ``key_path`` is the PEM file of a separate key. ``key_password`` opens the key; its default is ``password``.
    """

    path: Path
    password: Secret = NO_PASSWORD
    key_path: Path | None = None
    key_password: Secret = NO_PASSWORD


@dataclass(frozen=True, slots=True)
class TrustStore:
    """Trusted certificates: a PEM file or a PKCS#12 store."""

    path: Path
    password: Secret = NO_PASSWORD


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The TLS settings of a connector; ``protocols`` and ``cipher_suites`` have Java's names.

    Empty tuples mean the safe defaults. With ``verify_address`` a client's certificate must name the client's address.
    """

    key_store: KeyStore
    trust_store: TrustStore | None = None
    client_certificate: int = NO_CLIENT_CERTIFICATE
    protocols: tuple[str, ...] = ()
    cipher_suites: tuple[str, ...] = ()
    verify_address: bool = False


@dataclass(frozen=True, slots=True)
class ClientTlsSettings:
    """The TLS settings of a client. Without a trust store the system's authorities are trusted.

    With ``verify_host_name`` the certificate must name the host; the chain is always verified.
    """

    trust_store: TrustStore | None = None
    key_store: KeyStore | None = None
    verify_host_name: bool = True
    protocols: tuple[str, ...] = ()
    cipher_suites: tuple[str, ...] = ()
