"""Logins by SASL (RFC 6120, section 6): the mechanisms of a connection, and their steps.

PLAIN            name and password in clear, inside TLS only, or from this machine (RFC 4616)
SCRAM-SHA-256    a proof of the password, where the broker holds passwords; so does SCRAM-SHA-1
ANONYMOUS        no name, at a broker without authentication (RFC 4505)
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from spanwire.broker.security.audit_log import host_of
from spanwire.broker.security.authorization import OpenAuthenticator
from spanwire.broker.security.held_passwords import held_passwords
from spanwire.broker.security.login import Logins
from spanwire.model.environment import Environment
from spanwire.model.errors import AuthenticationError, JmsError
from spanwire.model.info import ConnectionInfo
from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.xmpp.codec.errors import StanzaError
from spanwire.protocols.xmpp.scram import (
    HASHES,
    MALFORMED,
    MAX_STEP,
    NONCE_BYTES,
    SALT_BYTES,
    ScramExchange,
    prepared,
)

PROTOCOL: Final = "xmpp 1.0"
PLAIN: Final = "PLAIN"
ANONYMOUS: Final = "ANONYMOUS"
PLAIN_WITHOUT_TLS: Final = "plainWithoutTls"  # option of the connector
NEED_CERTIFICATE: Final = "needClientAuth"
MAX_FAILURES: Final = 3  # failed logins of one connection; the broker delays further ones of the address, too

LOOPBACK: Final = ("127.", "[::1]", "::1", "[::ffff:127.", "::ffff:127.")


class Credentials:
    """The end of an exchange: name and password, and further content of the success.

    Both are None for an anonymous client. ``is_proven`` is False after a wrong proof of SCRAM.
    """

    __slots__ = ("is_proven", "password", "signature", "user")

    def __init__(
        self, user: str | None, password: str | None, signature: bytes = b"", *, is_proven: bool = True
    ) -> None:
        self.user: Final[str | None] = user
        self.password: Final[str | None] = password
        self.signature: Final[bytes] = signature
        self.is_proven: Final[bool] = is_proven


class HeldLogin:
    """A login that waits for the answer of a directory."""

    __slots__ = ("credentials", "info")

    def __init__(self, info: ConnectionInfo, credentials: Credentials) -> None:
        self.info: Final[ConnectionInfo] = info
        self.credentials: Final[Credentials] = credentials


class SaslStep:
    """The answer to a step of a client: a further challenge, or the credentials."""

    __slots__ = ("challenge", "credentials")

    def __init__(self, challenge: bytes | None, credentials: Credentials | None) -> None:
        self.challenge: Final[bytes | None] = challenge
        self.credentials: Final[Credentials | None] = credentials


class SaslLogin:
    """The logins of one connection, one at a time."""

    def __init__(self, settings: ConnectionSettings, logins: Logins, environment: Environment) -> None:
        self.failures = 0
        self._logins: Final[Logins] = logins
        self._address: Final[str] = settings.remote_address
        authenticator = logins.authenticator
        self._passwords = held_passwords(authenticator, encrypted=settings.encrypted)
        self._environment: Final[Environment] = environment
        self._mechanism = ""
        self._exchange: ScramExchange | None = None
        mechanisms: list[str] = []
        self._requires_tls: Final[bool] = requires_tls(settings)
        if not self._requires_tls:
            if self._passwords is not None:
                mechanisms += HASHES
            if may_send_passwords(settings):
                mechanisms.append(PLAIN)
            if isinstance(authenticator, OpenAuthenticator):
                mechanisms.append(ANONYMOUS)
        self.mechanisms: Final[list[str]] = mechanisms

    def begin(self, mechanism: str, text: str) -> SaslStep:
        """Answer an ``auth`` element with its text.

        Raises:
            StanzaError: the mechanism is not offered, or the step is malformed.
        """
        self._mechanism = ""
        self._exchange = None
        if self._requires_tls or (mechanism == PLAIN and PLAIN not in self.mechanisms):
            raise StanzaError("auth", "encryption-required", "passwords are sent inside TLS only; begin TLS first")
        if mechanism not in self.mechanisms:
            raise StanzaError("auth", "invalid-mechanism", f"the mechanism {mechanism[:40]!r} is not offered")
        self._mechanism = mechanism
        passwords = self._passwords
        if mechanism in HASHES and passwords is not None:
            random = self._environment.random_bytes(SALT_BYTES + NONCE_BYTES)
            self._exchange = ScramExchange(mechanism, passwords, random)
        if not text and mechanism != ANONYMOUS:
            return SaslStep(b"", None)
        return self._next(decoded(text))

    def respond(self, text: str, now: float) -> SaslStep:
        """Answer a ``response`` element with its text at ``now``, in monotonic seconds.

        Raises:
            AuthenticationError: too many logins have failed before; the proof of the client is not computed then.
            StanzaError: no login has begun, or the step is malformed.
        """
        exchange = self._exchange
        if exchange is not None and exchange.user:
            try:
                self._logins.check_delay(exchange.user, self._address, PROTOCOL, now)
            except AuthenticationError:
                self._exchange = None
                raise
        return self._next(decoded(text))

    def _next(self, step: bytes) -> SaslStep:
        mechanism = self._mechanism
        if mechanism == PLAIN:
            self._mechanism = ""
            return SaslStep(None, plain_credentials(step))
        if mechanism == ANONYMOUS:
            self._mechanism = ""
            return SaslStep(None, Credentials(None, None))
        exchange = self._exchange
        if exchange is None:
            raise StanzaError("auth", MALFORMED, "no login has begun")
        if not exchange.user:
            return SaslStep(exchange.challenge(step), None)
        self._exchange = None
        signature = exchange.verify(step)
        if signature is None:
            return SaslStep(None, Credentials(exchange.user, None, is_proven=False))
        return SaslStep(None, Credentials(exchange.user, exchange.password, signature))


def connection_info(credentials: Credentials, connection_id: str, settings: ConnectionSettings) -> ConnectionInfo:
    """Return the announcement of a client for the broker; the connection id is the client id, too."""
    return ConnectionInfo(
        connection_id,
        connection_id,
        credentials.user,
        credentials.password,
        settings.remote_address,
        PROTOCOL,
        certificate_subject=settings.certificate_subject,
        encrypted=settings.encrypted,
        max_consumers=settings.max_consumers,
        max_producers=settings.max_producers,
        connector=settings.connector_name,
    )


def refusal(error: JmsError) -> StanzaError:
    """Return the refusal of a login as a condition of SASL."""
    if isinstance(error, StanzaError):
        return error
    if isinstance(error, AuthenticationError):
        return StanzaError("auth", "not-authorized", str(error))
    return StanzaError("wait", "temporary-auth-failure", str(error))


def requires_tls(settings: ConnectionSettings) -> bool:
    """Return True if the client must begin TLS before its login.

    Where TLS is on offer, a login in clear is for this machine only, and never where a certificate is needed.
    """
    needs_certificate = settings.options.get(NEED_CERTIFICATE, "false").lower() == "true"
    return settings.offers_tls and (needs_certificate or not may_send_passwords(settings))


def may_send_passwords(settings: ConnectionSettings) -> bool:
    """Return True if a password in clear is safe on the connection, or allowed by the connector anyway."""
    if settings.encrypted or settings.options.get(PLAIN_WITHOUT_TLS, "false").lower() == "true":
        return True
    return host_of(settings.remote_address).startswith(LOOPBACK)


def plain_credentials(step: bytes) -> Credentials:
    """Return the credentials of PLAIN's only step.

    Raises:
        StanzaError: the step is malformed, or asks for the rights of another user.
    """
    try:
        parts = step.decode().split("\0")
    except UnicodeDecodeError:
        raise StanzaError("auth", MALFORMED, "the user or password is not UTF-8") from None
    if len(parts) != 3 or not parts[1]:
        raise StanzaError("auth", MALFORMED, "PLAIN needs a user and a password")
    acting_for, user, password = parts
    if acting_for and acting_for != user and acting_for.partition("@")[0] != user:
        raise StanzaError("auth", "invalid-authzid", "nobody may act for another user")
    return Credentials(prepared(user), password)


def decoded(text: str) -> bytes:
    """Return a step of a client from Base64.

    Raises:
        StanzaError: the text is no Base64, or too long.
    """
    if len(text) > MAX_STEP:
        raise StanzaError("auth", MALFORMED, f"a step of a login is longer than {MAX_STEP} bytes")
    if text == "=":
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise StanzaError("auth", "incorrect-encoding", "a step of a login is not in Base64") from None
