"""Values encrypted with a password (``ENC(…)``), in the formats of ActiveMQ's ``encrypt`` command.

    PBEWithMD5AndDES                base64 of salt (8) | DES-CBC            key and vector: PKCS #5 v1.5, 1,000 rounds
    PBEWITHHMACSHA256ANDAES_256     base64 of salt (16) | vector (16) | AES-CBC    key: PBKDF2, 1,000 rounds

The first format is weak today. Spanwire reads the first format because of old files, and writes it only on request.
Needs the package `cryptography` of the extra ``security``; only a configuration with such a value loads the module.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret

PREFIX: Final = "ENC("
PASSWORD_VARIABLE: Final = "ACTIVEMQ_ENCRYPTION_PASSWORD"
DES: Final = "PBEWITHMD5ANDDES"
DEFAULT_ALGORITHM: Final = "PBEWITHHMACSHA256ANDAES_256"
ROUNDS: Final = 1000  # Jasypt's default; the values do not contain it
MAX_VALUE: Final = 64 * 1024  # characters of one encrypted value; bounds the work of decoding
DES_BLOCK: Final = 8
AES_BLOCK: Final = 16
BROKEN: Final = "the encrypted value cannot be decrypted: wrong password, wrong algorithm, or damaged"


@dataclass(frozen=True, slots=True)
class _Aes:
    digest: str
    key_bytes: int


_AES: Final = {
    f"PBEWITHHMACSHA{bits}ANDAES_{key}": _Aes(f"sha{bits}", key // 8)
    for bits in (1, 224, 256, 384, 512)
    for key in (128, 256)
}


class Encryption:
    """Encrypts and decrypts with one password.

    ``algorithm`` None decrypts values of both default algorithms.
    """

    def __init__(self, password: Secret, algorithm: str | None = None) -> None:
        if password.is_empty():
            raise ConfigurationError(f"ENC(…) needs a password; set the environment variable {PASSWORD_VARIABLE}")
        if algorithm is not None and algorithm.upper() != DES and algorithm.upper() not in _AES:
            known = ", ".join(["PBEWithMD5AndDES", *_AES])
            raise ConfigurationError(f"the encryption algorithm {algorithm[:60]!r} is none of {known}")
        self._password: Final = unicodedata.normalize("NFC", password.reveal()).encode("utf-8")
        self._algorithm: Final = None if algorithm is None else algorithm.upper()

    def encrypt(self, text: str) -> str:
        """Return ``ENC(…)`` for ``text``."""
        plain = text.encode("utf-8")
        algorithm = self._algorithm or DEFAULT_ALGORITHM
        if algorithm == DES:
            salt = os.urandom(DES_BLOCK)
            octets = salt + self._des(salt, _padded(plain, DES_BLOCK), encrypting=True)
        else:
            salt, vector = os.urandom(AES_BLOCK), os.urandom(AES_BLOCK)
            octets = (
                salt + vector + self._aes(_AES[algorithm], salt, vector, _padded(plain, AES_BLOCK), encrypting=True)
            )
        return f"{PREFIX}{base64.b64encode(octets).decode('ascii')})"

    def decrypt(self, value: str) -> str:
        """Return the text of ``ENC(…)`` or of its inner base64.

        Raises:
            ConfigurationError: the value cannot be decrypted; the error never shows the text.
        """
        inner = value.strip()
        if is_encrypted(inner):
            inner = inner[len(PREFIX) : -1]
        try:
            raw = base64.b64decode(inner[:MAX_VALUE], validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigurationError("the encrypted value is no base64") from error
        for algorithm in (DEFAULT_ALGORITHM, DES) if self._algorithm is None else (self._algorithm,):
            plain = self._decrypted(algorithm, raw)
            if plain is not None:
                return plain
        raise ConfigurationError(BROKEN)

    def _decrypted(self, algorithm: str, raw: bytes) -> str | None:
        if algorithm == DES:
            block, head = DES_BLOCK, DES_BLOCK
        else:
            block, head = AES_BLOCK, 2 * AES_BLOCK
        if len(raw) < head + block or len(raw) % block:
            return None
        if algorithm == DES:
            plain = self._des(raw[:head], raw[head:], encrypting=False)
        else:
            plain = self._aes(_AES[algorithm], raw[:block], raw[block:head], raw[head:], encrypting=False)
        count = plain[-1]
        if not 1 <= count <= block or plain[-count:] != bytes([count]) * count:
            return None
        try:
            return plain[:-count].decode("utf-8")
        except UnicodeDecodeError:
            return None

    def _des(self, salt: bytes, data: bytes, *, encrypting: bool) -> bytes:
        derived = self._password + salt
        for _ in range(ROUNDS):
            derived = hashlib.md5(derived, usedforsecurity=False).digest()
        cipher = Cipher(TripleDES(derived[:DES_BLOCK] * 3), CBC(derived[DES_BLOCK:]))  # equal keys make it DES
        context = cipher.encryptor() if encrypting else cipher.decryptor()
        return context.update(data) + context.finalize()

    def _aes(self, kind: _Aes, salt: bytes, vector: bytes, data: bytes, *, encrypting: bool) -> bytes:
        key = hashlib.pbkdf2_hmac(kind.digest, self._password, salt, ROUNDS, kind.key_bytes)
        cipher = Cipher(AES(key), CBC(vector))
        context = cipher.encryptor() if encrypting else cipher.decryptor()
        return context.update(data) + context.finalize()


def encryption(environment: Mapping[str, str], settings: Mapping[str, str]) -> Encryption:
    """Return the encryption for the optional ``password``, ``passwordEnvName`` and ``algorithm``."""
    variable = settings.get("passwordEnvName") or PASSWORD_VARIABLE
    password = settings.get("password") or environment.get(variable, "")
    return Encryption(Secret(password), settings.get("algorithm"))


def is_encrypted(value: str) -> bool:
    """Return True for a value in ``ENC(…)``."""
    return value.startswith(PREFIX) and value.endswith(")")


def _padded(data: bytes, block: int) -> bytes:
    count = block - len(data) % block
    return data + bytes([count]) * count
