"""A connection to a directory for one question, with ldap3.

All calls block until the deadline of the question. ldap3 reads until an answer is complete. So the socket is a
`BoundedSocket` with a deadline and a limit of bytes for all calls together: a directory can neither keep a thread for
longer nor fill the memory.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import ldap3
from ldap3.core.exceptions import LDAPException
from pyasn1.error import PyAsn1Error

from spanwire.ldap.directory_error import DirectoryError
from spanwire.ldap.ldap_url import LdapUrl
from spanwire.ldap.settings import DirectoryAccess
from spanwire.model.text import printable
from spanwire.tls.context import client_context

READ_BYTES: Final = 64 * 1024  # of one read; a large answer needs few copies
MAX_REASON: Final = 200  # characters of a directory's own words in an error
SUCCESS: Final = 0
SIZE_LIMIT_EXCEEDED: Final = 4
NO_SUCH_OBJECT: Final = 32
REFUSED_LOGINS: Final = frozenset(
    {32, 34, 48, 49, 50, 53}
)  # of names, passwords and rights (RFC 4511, "Result Message")
MIN_TIMEOUT_S: Final = 0.001  # 0 would mean a socket that does not block
# Errors of ldap3, of the socket, and of ldap3 for bytes that are no LDAP: it reads them without checks.
BROKEN: Final = (
    LDAPException,
    OSError,
    ArithmeticError,
    AttributeError,
    LookupError,
    PyAsn1Error,
    RecursionError,
    TypeError,
    ValueError,
)


class Budget:
    """The remaining time and bytes of a question; ``reason`` is the reason of the end."""

    def __init__(self, seconds: float, octets: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.reason = ""
        self._seconds: Final = seconds
        self._octets: Final = octets
        self._left: int = octets
        self._clock: Final = clock
        self._end: Final = clock() + seconds

    def seconds(self) -> float:
        """Return the remaining seconds. Raises `TimeoutError`."""
        left = self._end - self._clock()
        if left <= 0:
            self.reason = f"has not answered within {self._seconds:g} s"
            raise TimeoutError(self.reason)
        return max(MIN_TIMEOUT_S, left)

    def take(self, octets: int) -> None:
        """Count received bytes. Raises `OSError`."""
        self._left -= octets
        if self._left < 0:
            self.reason = f"sends more than {self._octets} bytes"
            raise OSError(self.reason)


class BoundedSocket:
    """The part of a socket for ldap3; all calls together have one budget."""

    def __init__(self, raw: socket.socket, budget: Budget) -> None:
        self.raw: Final = raw
        self._budget: Final = budget

    def recv(self, _: int) -> bytes:
        """Return received bytes."""
        self.raw.settimeout(self._budget.seconds())
        try:
            data = self.raw.recv(READ_BYTES)
        except TimeoutError:
            self._budget.seconds()
            raise
        self._budget.take(len(data))
        return data

    def sendall(self, data: bytes) -> None:
        """Send all bytes."""
        self.raw.settimeout(self._budget.seconds())
        self.raw.sendall(data)

    def shutdown(self, how: int) -> None:
        """End the connection."""
        self.raw.shutdown(how)

    def close(self) -> None:
        """Release the socket."""
        self.raw.close()


class _BoundedTls(ldap3.Tls):  # type: ignore[misc]
    """TLS with the project's rules for clients, in place of ldap3's."""

    def __init__(self, context: ssl.SSLContext, host: str, budget: Budget) -> None:
        super().__init__(validate=ssl.CERT_REQUIRED)
        self._context: Final = context
        self._host: Final = host
        self._budget: Final = budget

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        """Shake hands, and verify certificate and host name."""
        plain = connection.socket
        raw = plain.raw if isinstance(plain, BoundedSocket) else plain
        raw.settimeout(self._budget.seconds())
        wrapped = self._context.wrap_socket(raw, server_hostname=self._host, do_handshake_on_connect=False)
        connection.socket = BoundedSocket(wrapped, self._budget)
        try:
            wrapped.do_handshake()
        except ssl.SSLCertVerificationError as error:
            self._budget.reason = f"has a certificate that is refused: {error.verify_message}"
            raise
        except TimeoutError:
            self._budget.seconds()
            raise
        except ssl.SSLError as error:
            self._budget.reason = f"fails in TLS: {(error.reason or 'unknown error').lower().replace('_', ' ')}"
            raise


class Entry:
    """An entry of a directory: the distinguished name and the values of the requested attributes."""

    __slots__ = ("_attributes", "name")

    def __init__(self, name: str, attributes: dict[str, list[bytes]]) -> None:
        self.name: Final = name
        self._attributes: Final = {attribute.lower(): values for attribute, values in attributes.items()}

    def raw_values(self, attribute: str) -> list[bytes]:
        """Return the values of an attribute, an empty list for a missing attribute."""
        return self._attributes.get(attribute.lower(), [])

    def values(self, attribute: str) -> list[str]:
        """Return the values as text, without values in another encoding than UTF-8, which name no user."""
        texts: list[str] = []
        for value in self.raw_values(attribute):
            try:
                texts.append(value.decode("utf-8"))
            except UnicodeDecodeError:
                continue
        return texts


class DirectoryConnection:
    """An open connection for use in ``with``; all methods raise `DirectoryError` if the directory fails."""

    def __init__(self, connection: Any, budget: Budget, where: str) -> None:
        self._connection: Final = connection
        self._budget: Final = budget
        self._where: Final = where

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.strategy.close()

    def bind(self, name: str, password: bytes) -> bool:
        """Log in, in place of an earlier login. Return False if the directory refuses.

        Raises:
            DirectoryError: the password is empty, or the answer is none to a login
        """
        if not name or not password:
            raise DirectoryError(self._where, "is never asked with an empty name or password")
        connection = self._connection
        connection.user, connection.password, connection.authentication = name, password, ldap3.SIMPLE
        return self._bound()

    def bind_anonymously(self) -> bool:
        """Log in anonymously. Return False if the directory refuses."""
        connection = self._connection
        connection.user, connection.password, connection.authentication = None, None, ldap3.ANONYMOUS
        return self._bound()

    def _bound(self) -> bool:
        connection = self._connection
        self._ask(lambda: connection.bind(read_server_info=False))
        result = connection.result
        code = result["result"]
        if result["type"] != "bindResponse":
            raise DirectoryError(self._where, "answers a login with something else")
        if code == SUCCESS:
            return True
        if code in REFUSED_LOGINS:
            return False
        raise DirectoryError(self._where, f"has no answer to a login: {self.words()}")

    def search(
        self, base: str, scope: str, condition: str, attributes: list[str], at_most: int, *, cuts: bool = False
    ) -> list[Entry] | None:
        """Return the entries found by a filter, None without the base.

        With ``cuts`` more entries than ``at_most`` are cut off; without ``cuts`` the excess is an error. Referrals to
        other directories are left out.
        """
        connection = self._connection
        self._ask(
            lambda: connection.search(
                base, condition, scope, attributes=attributes or [ldap3.NO_ATTRIBUTES], size_limit=at_most
            )
        )
        code = connection.result["result"]
        entries = [
            Entry(str(answer["dn"]), _octets(answer["raw_attributes"]))
            for answer in connection.response or ()
            if answer.get("type") == "searchResEntry"
        ]
        if code == NO_SUCH_OBJECT:
            return None
        if code == SIZE_LIMIT_EXCEEDED or len(entries) > at_most:
            if cuts:
                return entries[: at_most + 1]
            raise DirectoryError(self._where, f"has more entries than it gives, or than {at_most}, below {base}")
        if code != SUCCESS:
            raise DirectoryError(self._where, f"has no answer about {base}: {self.words()}")
        return entries

    def words(self) -> str:
        """Return the words of the last result, for an error."""
        result = self._connection.result
        words = [str(result.get("description", "")), str(result.get("message", ""))]
        return printable(" ".join(" ".join(word for word in words if word).split())[:MAX_REASON]) or "no reason given"

    def _ask(self, request: Callable[[], object]) -> None:
        """Send a request and read the answer."""
        try:
            request()
        except BROKEN as error:
            raise failure(self._where, self._budget, error) from None


def failure(where: str, budget: Budget, error: Exception) -> DirectoryError:
    """Return the one line about an error of ldap3."""
    if budget.reason:
        return DirectoryError(where, budget.reason)
    if isinstance(error, (LDAPException, OSError)):
        return DirectoryError(where, f"cannot be asked: {printable(' '.join(str(error).split())[:MAX_REASON])}")
    return DirectoryError(where, f"sends what is no LDAP ({type(error).__name__})")


def connect(access: DirectoryAccess, seconds: float, octets: int) -> DirectoryConnection:
    """Return a connection to the first answering address.

    ``seconds`` and ``octets`` are limits for the whole question.

    Raises:
        DirectoryError: no address answers, or TLS fails
        ConfigurationError: the trust store cannot be read
    """
    budget = Budget(seconds, octets)
    encrypted = access.start_tls or any(url.is_secure for url in access.urls)
    context = client_context(access.tls) if encrypted else None
    errors: list[DirectoryError] = []
    for url in access.urls:
        try:
            return _connected(url, access, context, budget)
        except DirectoryError as error:
            errors.append(error)
            budget.reason = ""
    raise errors[0] if len(errors) == 1 else DirectoryError("", "; ".join(str(error) for error in errors))


def _connected(
    url: LdapUrl, access: DirectoryAccess, context: ssl.SSLContext | None, budget: Budget
) -> DirectoryConnection:
    where = f"the directory {url.scheme}://{url.address}"
    tls = None if context is None else _BoundedTls(context, url.host, budget)
    try:
        server = ldap3.Server(
            url.host,
            port=url.port,
            use_ssl=url.is_secure,
            tls=tls,
            get_info=ldap3.NONE,
            connect_timeout=min(access.connect_s, budget.seconds()),
        )
        connection = ldap3.Connection(
            server, read_only=True, auto_referrals=False, auto_range=False, check_names=False, auto_encode=False
        )
        connection.open(read_server_info=False)
        if not isinstance(connection.socket, BoundedSocket):
            connection.socket = BoundedSocket(connection.socket, budget)
    except BROKEN as error:
        raise failure(where, budget, error) from None
    try:
        if access.start_tls and not url.is_secure and not connection.start_tls(read_server_info=False):
            budget.reason = budget.reason or "does not begin TLS"
            raise OSError(budget.reason)
    except BROKEN as error:
        connection.strategy.close()
        raise failure(where, budget, error) from None
    return DirectoryConnection(connection, budget, where)


def _octets(attributes: dict[str, Any]) -> dict[str, list[bytes]]:
    """Return attributes as given by ldap3, without other objects than values."""
    return {name: [value for value in values if isinstance(value, bytes)] for name, values in attributes.items()}
