"""PKCS#12 stores (RFC 7292), read with the package `cryptography`.

Python's own library has no reader for such stores. The module is loaded only for a configuration with such a store.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.tls.stores import StoreContent


def read_store(content: bytes, password: Secret, passphrase: Secret) -> StoreContent:
    """Return the content of a store; its key is encrypted under ``passphrase``.

    Raises:
        ConfigurationError: the password is wrong, or the file is damaged
    """
    try:
        store = load_pkcs12(content, password.reveal().encode("utf-8"))
    except (ValueError, TypeError) as error:
        fault = "is wrong" if not password.is_empty() else "is missing"
        raise ConfigurationError(f"the password of the PKCS#12 store {fault}, or the file is damaged") from error
    key: bytes | None = None
    if store.key is not None:
        encryption = BestAvailableEncryption(passphrase.reveal().encode("ascii"))
        key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    chain = () if store.cert is None else (store.cert.certificate.public_bytes(Encoding.PEM).decode("ascii"),)
    others = tuple(
        certificate.certificate.public_bytes(Encoding.PEM).decode("ascii") for certificate in store.additional_certs
    )
    return StoreContent(key, chain, others)
