"""Access control: asks the `Authorizer`, and words refusals as ActiveMQ does.

Refusals are written to the audit log.

Every place of effect calls this module with a physical destination, after composites, wildcards and options are
expanded. Implicit creation and removal are checked as well.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.ports import ADMIN, READ, WRITE, Authorizer, Principal
from spanwire.broker.security.audit_log import AuditLog, printable
from spanwire.broker.security.authorization import OpenAuthorizer
from spanwire.model.destination import ADVISORY_PREFIX, QUEUE, TOPIC, Destination, parse_destination
from spanwire.model.errors import AuthorizationError, InvalidDestinationError

BRIDGE_TOPIC: Final = Destination(TOPIC, ADVISORY_PREFIX + "NetworkBridge")


class AccessControl:
    """Checks the rights of connections. The `Authorizer` knows the rights."""

    def __init__(self, authorizer: Authorizer, audit: AuditLog) -> None:
        self.authorizer: Authorizer = authorizer
        self._audit: Final[AuditLog] = audit

    def check_read(self, state: ConnectionState, destination: Destination) -> None:
        """Check that the connection may consume from or browse ``destination``.

        A pattern passes if any name under the pattern may be read; `may_read` decides about each match.

        Raises:
            AuthorizationError: the right is missing.
        """
        try:
            self.authorizer.check(state.principal, READ, destination)
        except AuthorizationError:
            self.refuse(state, f"read from: {destination}")

    def check_write(self, state: ConnectionState, destination: Destination) -> None:
        """Check that the connection may send to ``destination``. Clients may never send to advisory topics.

        Raises:
            AuthorizationError: the right is missing.
        """
        if destination.is_advisory:
            self.refuse(state, f"write to: {destination}", " (only the broker does)")
        authorizer = self.authorizer
        if isinstance(authorizer, OpenAuthorizer):  # each message asks
            return
        try:
            authorizer.check(state.principal, WRITE, destination)
        except AuthorizationError:
            self.refuse(state, f"write to: {destination}")

    def check_bridge(self, state: ConnectionState) -> None:
        """Check that the connection may act for another broker, with the admin right on `BRIDGE_TOPIC`.

        Raises:
            AuthorizationError: the right is missing.
        """
        try:
            self.authorizer.check(state.principal, ADMIN, BRIDGE_TOPIC)
        except AuthorizationError:
            self.refuse(state, "act as a network bridge", f" (it needs the right admin on {BRIDGE_TOPIC})")

    def check_own(self, state: ConnectionState, connection_id: str) -> None:
        """Check that an id inside a command belongs to this connection (CVE-2026-74761).

        Raises:
            AuthorizationError: the id belongs to another connection.
        """
        if connection_id != state.connection_id:
            self.refuse(state, f"act for connection {printable(connection_id)}")

    def may_administer(self, state: ConnectionState, destination: Destination) -> bool:
        """Return True if the connection may see and change the work of others at ``destination``.

        No audit line.
        """
        try:
            self.authorizer.check(state.principal, ADMIN, destination)
        except AuthorizationError:
            return False
        return True

    def check_create(self, state: ConnectionState, destination: Destination) -> None:
        """Check that the connection may create ``destination``.

        Raises:
            AuthorizationError: the right is missing.
        """
        try:
            self.authorizer.check(state.principal, ADMIN, destination)
        except AuthorizationError:
            self.refuse(state, f"create: {destination}")

    def check_remove(self, state: ConnectionState, destination: Destination) -> None:
        """Check that the connection may remove ``destination``.

        Raises:
            AuthorizationError: the right is missing.
        """
        try:
            self.authorizer.check(state.principal, ADMIN, destination)
        except AuthorizationError:
            self.refuse(state, f"remove: {destination}")

    def may_write(self, state: ConnectionState, destination: Destination) -> bool:
        """Return True if a queue behind a virtual topic gets the connection's messages.

        A refusal is written to the audit log.
        """
        try:
            self.authorizer.check(state.principal, WRITE, destination)
        except AuthorizationError:
            self._note(state, f"write to: {destination}")
            return False
        return True

    def may_send(self, principal: Principal, destination: Destination) -> bool:
        """Return True if ``principal`` may send to ``destination``, a match of a pattern.

        Writes no audit line.
        """
        try:
            self.authorizer.check(principal, WRITE, destination)
        except AuthorizationError:
            return False
        return True

    def may_read(self, principal: Principal, destination: Destination) -> bool:
        """Return True if a wildcard subscription of ``principal`` gets the messages of ``destination``.

        Writes no audit line.
        """
        try:
            self.authorizer.check(principal, READ, destination)
        except AuthorizationError:
            return False
        return True

    def may_all(self, principal: Principal, action: str, destination: Destination) -> bool:
        """Return True if ``principal`` may do ``action`` to all names under ``destination``.

        ``destination`` is a name or a pattern.

        The caller decides about refusal and audit line.
        """
        try:
            self.authorizer.check_all(principal, action, destination)
        except AuthorizationError:
            return False
        return True

    def may_make(self, principal: Principal, destination: Destination) -> bool:
        """Return True if ``destination`` may be created for a wildcard subscription of ``principal``.

        Writes no audit line.
        """
        try:
            self.authorizer.check(principal, ADMIN, destination)
        except AuthorizationError:
            return False
        return True

    def refuse(self, state: ConnectionState, what: str, reason: str = "") -> None:
        """Write a refusal of ``what`` to the audit log and raise.

        Raises:
            AuthorizationError: always.
        """
        self._note(state, what)
        raise AuthorizationError(f"User {state.principal.name} is not authorized to {what}{reason}")

    def _note(self, state: ConnectionState, what: str) -> None:
        info = state.info
        self._audit.refused(state.principal.name, info.remote_address, info.protocol, what.replace(": ", " ", 1))


class ReadableNames:
    """The names of destinations readable for a user."""

    def __init__(self, access: AccessControl, principal: Principal) -> None:
        self._access: Final[AccessControl] = access
        self._principal: Final[Principal] = principal

    def may_read(self, name: str) -> bool:
        """Return True if the user may read the destination; a name without prefix is a queue."""
        try:
            destination = parse_destination(name, QUEUE)
        except InvalidDestinationError:
            return False
        return self._access.may_read(self._principal, destination)
