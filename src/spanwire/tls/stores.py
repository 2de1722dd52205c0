"""Reads keys and certificates from the files of a configuration. Each error is one line with a remedy.

The content of a file tells its format: PEM, PKCS#12, or one of Java's own formats. Java's formats are refused, with a
command for the conversion. PKCS#12 needs the package `cryptography` of the extra ``security``.
"""

from __future__ import annotations

import re
import secrets
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from spanwire import registry
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.tls.settings import KeyStore, TrustStore

MAX_STORE_BYTES: Final = 4 * 1024 * 1024  # bytes of a store; the authorities of a whole system have 256 KiB
PEM_BEGIN: Final = b"-----BEGIN "
JAVA_STORES: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
DER_SEQUENCE: Final = b"\x30"
CERTIFICATE: Final = re.compile(rb"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----.*?-----END [^-]*-----", re.DOTALL)
PRIVATE_KEY: Final = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----.*?-----END [^-]*-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoreContent:
    """The content of a PKCS#12 store. The key is PEM under a passphrase of this process.

    ``chain`` begins with the key's own certificate.
    """

    key: bytes | None = field(repr=False)
    chain: tuple[str, ...]
    others: tuple[str, ...]


StoreReader = Callable[[bytes, Secret, Secret], StoreContent]


def load_key(context: ssl.SSLContext, store: KeyStore) -> str:
    """Load the key and the chain into ``context``. Raises `ConfigurationError`.

    Returns:
        The leaf certificate in PEM.
    """
    content = _read(store.path)
    if _is_pem(content):
        return _load_pem_key(context, store, content)
    if store.key_path is not None:
        raise ConfigurationError(
            f"{store.path}: keyStoreKey goes with a PEM certificate; a PKCS#12 store has its key inside"
        )
    passphrase = Secret(secrets.token_hex(32))
    stored = _read_pkcs12(store.path, content, store.password, passphrase)
    if stored.key is None or not stored.chain:
        raise ConfigurationError(f"{store.path}: holds no private key with its certificate; it may be a trust store")
    with tempfile.NamedTemporaryFile(prefix="spanwire-", suffix=".pem") as file:  # readable by its owner only
        file.write(stored.key + "".join([*stored.chain, *stored.others]).encode("ascii"))
        file.flush()
        _load_chain(context, store.path, Path(file.name), None, passphrase)
    return stored.chain[0]


def load_trust(context: ssl.SSLContext, store: TrustStore) -> None:
    """Let ``context`` trust the certificates of the store. Raises `ConfigurationError`."""
    content = _read(store.path)
    if _is_pem(content):
        certificates = [stored.decode("ascii", "replace") for stored in CERTIFICATE.findall(content)]
    else:
        stored = _read_pkcs12(store.path, content, store.password, Secret(secrets.token_hex(32)))
        certificates = [*stored.chain, *stored.others]
    if not certificates:
        raise ConfigurationError(f"{store.path}: holds no certificate to trust")
    try:
        context.load_verify_locations(cadata="\n".join(certificates))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(f"{store.path}: a certificate in it is damaged") from error


def _load_pem_key(context: ssl.SSLContext, store: KeyStore, content: bytes) -> str:
    certificates = CERTIFICATE.findall(content)
    if not certificates:
        raise ConfigurationError(f"{store.path}: holds no certificate")
    key_path = store.path if store.key_path is None else store.key_path
    keys = PRIVATE_KEY.findall(content if store.key_path is None else _read(store.key_path))
    if not keys:
        hint = "; name the file of the key in keyStoreKey" if store.key_path is None else ""
        raise ConfigurationError(f"{key_path}: holds no private key{hint}")
    password = store.password if store.key_password.is_empty() else store.key_password
    encrypted = b"ENCRYPTED" in keys[0]
    if encrypted and password.is_empty():
        raise ConfigurationError(f"{key_path}: the private key is encrypted; give its keyStoreKeyPassword")
    _load_chain(context, key_path, store.path, store.key_path, password, encrypted)
    return str(certificates[0].decode("ascii", "replace"))


def _load_chain(
    context: ssl.SSLContext,
    path: Path,
    chain: Path,
    key: Path | None,
    password: Secret,
    encrypted: bool = False,
) -> None:
    """Load a chain and its key; errors name the file ``path``."""
    try:
        context.load_cert_chain(chain, key, password=password.reveal)
    except ssl.SSLError as error:
        reason = error.reason or ""
        if reason == "KEY_VALUES_MISMATCH":
            fault = "the private key does not belong to the certificate"
        elif reason in ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"):
            fault = (
                "the key or signature is too weak by today's measure; make a new certificate with RSA 2048 or EC P-256"
            )
        elif encrypted:
            fault = "the password of the private key is wrong, or the file is damaged"
        else:
            fault = "the certificate or private key is damaged"
        raise ConfigurationError(f"{path}: {fault}") from error
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: the certificate or private key cannot be used") from error


def _read(path: Path) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_STORE_BYTES + 1)
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no such key or trust store") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a file name"
        raise ConfigurationError(f"{path}: the store cannot be read: {reason}") from error
    if len(content) > MAX_STORE_BYTES:
        raise ConfigurationError(f"{path}: is larger than {MAX_STORE_BYTES} bytes, which no key or trust store needs")
    return content


def _is_pem(content: bytes) -> bool:
    return PEM_BEGIN in content


def _read_pkcs12(path: Path, content: bytes, password: Secret, passphrase: Secret) -> StoreContent:
    kind = JAVA_STORES.get(content[:4])
    if kind is not None:
        command = f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
        raise ConfigurationError(f"{path}: is a {kind} store, which only Java reads; convert it with: {command}")
    if not content.startswith(DER_SEQUENCE):
        raise ConfigurationError(f"{path}: is neither PEM nor PKCS#12")
    try:
        read = cast(StoreReader, registry.load(registry.PKCS12))
    except ImportError as error:
        raise ConfigurationError(
            f"{path}: a PKCS#12 store needs the package cryptography; convert it to PEM with "
            f"openssl pkcs12 -in {path} -out {path}.pem or run: {install_command('security')}"
        ) from error
    try:
        return read(content, password, passphrase)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
