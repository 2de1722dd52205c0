"""Login of connections: authentication, delays after failures, and audit lines."""

from __future__ import annotations

from math import ceil
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.ports import Authenticator, Principal
from spanwire.broker.security.audit_log import AuditLog, host_of
from spanwire.broker.security.login_throttle import FailedLogins, network_of
from spanwire.model.errors import AuthenticationError
from spanwire.model.info import ConnectionInfo


class Logins:
    """Logs connections in. The `Authenticator` decides about credentials."""

    def __init__(self, authenticator: Authenticator, context: BrokerContext, audit: AuditLog) -> None:
        self.authenticator: Authenticator = authenticator
        self._context: Final[BrokerContext] = context
        self._audit: Final[AuditLog] = audit
        self._failed: Final[FailedLogins] = FailedLogins()

    def log_in(self, info: ConnectionInfo, authenticator: Authenticator | None = None) -> Principal:
        """Return the principal of a new connection. ``authenticator`` decides in place of the broker's own.

        Raises:
            AuthenticationError: the credentials are wrong, or too many were wrong before; then they are not examined.
        """
        now = self._context.monotonic
        host = host_of(info.remote_address)
        network = network_of(host)
        wait = self._failed.wait(network, info.user_name, now)
        if wait > 0:
            self._audit.refused(
                info.user_name, info.remote_address, info.protocol, f"log in for another {ceil(wait)} s"
            )
            raise AuthenticationError(f"Too many failed logins from {host}: try again in {ceil(wait)} s.")
        try:
            principal = (self.authenticator if authenticator is None else authenticator).authenticate(info)
        except AuthenticationError:
            self._failed.count_failure(network, info.user_name, now)
            self._audit.refused(info.user_name, info.remote_address, info.protocol, "log in")
            raise
        self._failed.clear_failures(network, info.user_name)
        return principal
