"""Authenticator and authorizer of a broker without a security plug-in: every client may do everything."""

from __future__ import annotations

from typing import Final

from spanwire.broker.ports import Authenticator, Authorizer, Principal
from spanwire.model.destination import Destination
from spanwire.model.info import ConnectionInfo

ANONYMOUS: Final = "anonymous"


class OpenAuthenticator(Authenticator):
    """Accepts every connection under its own name.

    A configuration without authentication binds loopback addresses only.
    """

    def authenticate(self, info: ConnectionInfo) -> Principal:
        """Return a principal with the client's user name, or the anonymous principal."""
        return Principal(info.user_name if info.user_name else ANONYMOUS)


class OpenAuthorizer(Authorizer):
    """Allows every action."""

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        """Allow the action."""

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        """Allow the action."""
