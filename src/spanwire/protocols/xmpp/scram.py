"""The server's side of a login by SCRAM (RFC 5802, RFC 7677): the password is never sent.

    client → n,,n=USER,r=NONCE                     client → c=biws,r=NONCE…,p=PROOF
    server → r=NONCE…,s=SALT,i=ITERATIONS          server → v=SIGNATURE

Salt and keys are made for each login, whether the user exists or not, so neither answers nor times tell user names. An
exchange needs the password in clear, and is not offered by a broker without passwords.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import stringprep
import unicodedata
from typing import Final

from spanwire.broker.security.held_passwords import HeldPasswords
from spanwire.protocols.xmpp.codec.errors import StanzaError

HASHES: Final[dict[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-1": "sha1"}  # strongest first
ITERATIONS: Final = 4_096  # the least that RFC 7677 allows; takes some milliseconds of the loop for a login
SALT_BYTES: Final = 16
NONCE_BYTES: Final = 18  # random bytes of our part of the nonce
MAX_STEP: Final = 4 * 1024  # bytes of one step of a client; two names and a nonce need less

NO_CHANNEL_BINDING: Final = ("n", "y")  # as no mechanism with channel binding is offered
MALFORMED: Final = "malformed-request"


class ScramExchange:
    """One login. `challenge` answers the first step of the client, `verify` the second one."""

    def __init__(self, mechanism: str, passwords: HeldPasswords, random: bytes) -> None:
        """``random`` are `SALT_BYTES` and `NONCE_BYTES` unpredictable bytes."""
        self.user = ""
        self.password = ""  # once it is proven
        self._hash: Final[str] = HASHES[mechanism]
        self._passwords: Final[HeldPasswords] = passwords
        self._salt: Final[bytes] = random[:SALT_BYTES]
        self._own_nonce: Final[str] = base64.b64encode(random[SALT_BYTES:]).decode()
        self._nonce = ""
        self._binding = ""
        self._first = ""
        self._challenge = ""

    def challenge(self, step: bytes) -> bytes:
        """Return the answer to the first step.

        Raises:
            StanzaError: the step is malformed, or asks for channel binding or the rights of another user.
        """
        text = _text(step)
        flag, _, rest = text.partition(",")
        authorization, _, bare = rest.partition(",")
        if flag not in NO_CHANNEL_BINDING:
            raise _malformed("channel binding is not offered")
        fields = bare.split(",")
        if len(fields) < 2 or not fields[0].startswith("n=") or not fields[1].startswith("r=") or len(fields[1]) == 2:
            raise _malformed("the first step of SCRAM needs a user and a nonce")
        self.user = prepared(_name(fields[0][2:]))
        if not self.user:
            raise _malformed("the first step of SCRAM needs a user")
        if authorization and _name(authorization.removeprefix("a=")) != self.user:
            raise StanzaError("auth", "invalid-authzid", "nobody may act for another user")
        self._binding = base64.b64encode(f"{flag},{authorization},".encode()).decode()
        self._nonce = fields[1][2:] + self._own_nonce
        self._first = bare
        salt = base64.b64encode(self._salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={ITERATIONS}"
        return self._challenge.encode()

    def verify(self, step: bytes) -> bytes | None:
        """Return the server's signature for a right proof, None for a wrong proof or an unknown user.

        Raises:
            StanzaError: the step is malformed, or belongs to another exchange.
        """
        text = _text(step)
        without_proof, found, encoded = text.rpartition(",p=")
        fields = without_proof.split(",")
        if not found or len(fields) < 2 or fields[0] != f"c={self._binding}" or fields[1] != f"r={self._nonce}":
            raise _malformed("the second step of SCRAM does not belong to the first one")
        proof = _decoded(encoded)
        password = self._passwords.password_of(self.user)
        secret = "" if password is None else prepared(password.reveal())
        salted = hashlib.pbkdf2_hmac(self._hash, secret.encode("utf-8", "surrogatepass"), self._salt, ITERATIONS)
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        signed = f"{self._first},{self._challenge},{without_proof}".encode()
        signature = self._hmac(stored_key, signed)
        expected = bytes([left ^ right for left, right in zip(client_key, signature, strict=True)])
        if not hmac.compare_digest(expected, proof) or password is None:
            return None
        self.password = password.reveal()
        return b"v=" + base64.b64encode(self._hmac(self._hmac(salted, b"Server Key"), signed))

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def prepared(text: str) -> str:
    """Return a user name or password in the form for comparisons (SASLprep, RFC 4013)."""
    if text.isascii():
        return text
    mapped = [" " if stringprep.in_table_c12(character) else character for character in text]
    kept = [character for character in mapped if not stringprep.in_table_b1(character)]
    return unicodedata.normalize("NFKC", "".join(kept))


def _text(step: bytes) -> str:
    try:
        return step.decode()
    except UnicodeDecodeError:
        raise _malformed("a step of SCRAM is not UTF-8") from None


def _name(text: str) -> str:
    """Return a user name without escapes."""
    if "=" in text.replace("=2C", "").replace("=3D", ""):
        raise _malformed("the user name has a wrong escape")
    return text.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _malformed("the proof is not in Base64") from None


def _malformed(text: str) -> StanzaError:
    return StanzaError("auth", MALFORMED, text)
