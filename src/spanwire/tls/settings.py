"""What a configuration says about TLS, before a file is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.model.secret import Secret

NO_CLIENT_CERTIFICATE: Final = 0
WANT_CLIENT_CERTIFICATE: Final = 1  # one that is shown must hold
NEED_CLIENT_CERTIFICATE: Final = 2
NO_PASSWORD: Final = Secret("")


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key with its certificate chain: a PEM file, two of them, or a PKCS#12 store.

    ``key_path`` is the PEM file of the key when that is not in ``path``. ``key_password`` opens the key; without it
    ``password`` does.
    """

    path: Path
    password: Secret = NO_PASSWORD
    key_path: Path | None = None
    key_password: Secret = NO_PASSWORD


@dataclass(frozen=True, slots=True)
class TrustStore:
    """Certificates that are believed: a PEM file or a PKCS#12 store."""

    path: Path
    password: Secret = NO_PASSWORD


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """A connector's TLS. ``protocols`` and ``cipher_suites`` have Java's names; empty means what is safe today.

    ``verify_address`` says whether a client's certificate must be made out to the address from which it comes.
    """

    key_store: KeyStore
    trust_store: TrustStore | None = None
    client_certificate: int = NO_CLIENT_CERTIFICATE
    protocols: tuple[str, ...] = ()
    cipher_suites: tuple[str, ...] = ()
    verify_address: bool = False


@dataclass(frozen=True, slots=True)
class ClientTlsSettings:
    """A client's TLS. Without a trust store the system's authorities are believed.

    ``verify_host_name`` says whether the certificate must be made out to the host; the chain is verified either way.
    """

    trust_store: TrustStore | None = None
    key_store: KeyStore | None = None
    verify_host_name: bool = True
    protocols: tuple[str, ...] = ()
    cipher_suites: tuple[str, ...] = ()
