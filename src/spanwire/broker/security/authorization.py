"""Who may connect and what a principal may do, when no security plugin says otherwise: everybody, everything."""

from __future__ import annotations

from typing import Final

from spanwire.broker.ports import Authenticator, Authorizer, Principal
from spanwire.model.destination import Destination
from spanwire.model.info import ConnectionInfo

ANONYMOUS: Final = "anonymous"


class OpenAuthenticator(Authenticator):
    """Takes every connection for whom it says it is. A configuration without authentication binds loopback only."""

    def authenticate(self, info: ConnectionInfo) -> Principal:
        """The principal of the name the client gave, or the anonymous one."""
        return Principal(info.user_name if info.user_name else ANONYMOUS)


class OpenAuthorizer(Authorizer):
    """Allows everything."""

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        """Never refuses."""

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        """Never refuses."""
