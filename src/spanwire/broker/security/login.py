"""Login of connections: authentication, delays after failures, and audit lines."""

from __future__ import annotations

from math import ceil
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.ports import Authenticator, ClientConnection, LoginObserver, Principal
from spanwire.broker.security.audit_log import AuditLog, host_of
from spanwire.broker.security.authentication import waiting_attempt
from spanwire.broker.security.login_throttle import FailedLogins, network_of
from spanwire.broker.security.waiting_logins import ConnectionLogin, WaitingLogins
from spanwire.model.errors import AuthenticationError
from spanwire.model.info import ConnectionInfo


class Logins:
    """Logs connections in.

    The `Authenticator` decides about credentials, at once or after a directory has answered.
    """

    def __init__(self, authenticator: Authenticator, context: BrokerContext, audit: AuditLog) -> None:
        self.authenticator: Authenticator = authenticator
        self._context: Final[BrokerContext] = context
        self._audit: Final[AuditLog] = audit
        self._failed: Final[FailedLogins] = FailedLogins()
        self._waiting: Final[WaitingLogins] = WaitingLogins()
        self._decided: Final[list[ClientConnection]] = []

    def must_wait(self, asker: object, info: ConnectionInfo, observer: LoginObserver) -> bool:
        """Return True if a directory has to answer before `log_in`; ``observer`` learns of the answer.

        The first call for ``asker`` asks the directory, unless `log_in` would refuse without the answer.
        """
        waiting = self._waiting.find(asker)
        if waiting is not None:
            return not waiting.is_decided
        network = network_of(host_of(info.remote_address))
        if self._waiting.is_full() or self._failed.wait(network, info.user_name, self._context.monotonic) > 0:
            return False
        attempt = waiting_attempt(self.authenticator, info)
        return attempt is not None and not self._waiting.begin(asker, attempt, observer).is_decided

    def connection_must_wait(self, connection: ClientConnection, info: ConnectionInfo) -> bool:
        """Return True if a connection's login must wait, as `must_wait`; the connection is flushed afterwards."""
        return self.must_wait(connection, info, ConnectionLogin(connection, self._decided))

    def take_decided(self) -> list[ClientConnection]:
        """Remove and return the connections whose logins wait no longer."""
        decided = self._decided.copy()
        self._decided.clear()
        return decided

    def has_to_ask(self, info: ConnectionInfo) -> bool:
        """Return True if a login with the credentials of ``info`` needs the answer of a directory."""
        return waiting_attempt(self.authenticator, info) is not None

    def is_waiting(self, asker: object) -> bool:
        """Return True if a directory has not answered about the login of ``asker``."""
        waiting = self._waiting.find(asker)
        return waiting is not None and not waiting.is_decided

    def forget(self, asker: object) -> None:
        """Drop the login of ``asker``, which has ended."""
        self._waiting.take(asker)

    def check_delay(self, user: str | None, remote_address: str, protocol: str, now: float) -> None:
        """Refuse an attempt too soon after failures, before any work for the login.

        Args:
            user: name of the login.
            remote_address: address of the client.
            protocol: name of the protocol for the audit log.
            now: monotonic seconds.

        Raises:
            AuthenticationError: too many credentials were wrong before.
        """
        host = host_of(remote_address)
        wait = self._failed.wait(network_of(host), user, now)
        if wait > 0:
            self._audit.refused(user, remote_address, protocol, f"log in for another {ceil(wait)} s")
            raise AuthenticationError(f"Too many failed logins from {host}: try again in {ceil(wait)} s.")

    def log_in(self, info: ConnectionInfo, asker: object, authenticator: Authenticator | None = None) -> Principal:
        """Return the principal of a new connection. ``authenticator`` decides in place of the broker's own.

        ``asker`` is the asker of `must_wait`; a login still waiting is refused.

        Raises:
            AuthenticationError: the credentials are wrong, or too many were wrong before; then the credentials are not
                examined.
            ResourceAllocationError: a directory does not answer, or too many logins wait for directories.
        """
        attempt = self._waiting.take(asker)
        now = self._context.monotonic
        self.check_delay(info.user_name, info.remote_address, info.protocol, now)
        network = network_of(host_of(info.remote_address))
        try:
            if attempt is not None:
                principal = attempt.principal()
            else:
                principal = (self.authenticator if authenticator is None else authenticator).authenticate(info)
        except AuthenticationError:
            if info.user_name or info.password:  # the first request of a browser has neither, and guesses nothing
                self._failed.count_failure(network, info.user_name, now)
            self._audit.refused(info.user_name, info.remote_address, info.protocol, "log in")
            raise
        self._failed.clear_failures(network, info.user_name)
        return principal
