"""Whether a connection may do what it asks for: asks the `Authorizer`, words the refusal, leaves a line in the audit.

Every place of effect calls this, with a physical destination: after composites, wildcards and options are expanded,
implicit creation and removal included. The words are those of ActiveMQ.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.ports import ADMIN, READ, WRITE, Authorizer, Principal
from spanwire.broker.security.audit_log import Audit
from spanwire.model.destination import ADVISORY_PREFIX, TOPIC, Destination
from spanwire.model.errors import AuthorizationError

BRIDGE_TOPIC: Final = Destination(TOPIC, ADVISORY_PREFIX + "NetworkBridge")


class Rights:
    """The rights of connections. Who has which right is left to the `Authorizer`."""

    def __init__(self, authorizer: Authorizer, audit: Audit) -> None:
        self.authorizer: Authorizer = authorizer
        self._audit: Final[Audit] = audit

    def check_read(self, state: ConnectionState, destination: Destination) -> None:
        """Raises `AuthorizationError` unless the connection may consume from or browse ``destination``.

        A pattern passes when something under it may be read; each match is asked for with `may_read` then.
        """
        try:
            self.authorizer.check(state.principal, READ, destination)
        except AuthorizationError:
            self.refuse(state, f"read from: {destination}")

    def check_write(self, state: ConnectionState, destination: Destination) -> None:
        """Raises `AuthorizationError` unless the connection may send to ``destination``; to advisory topics nobody
        may.
        """
        if destination.is_advisory:
            self.refuse(state, f"write to: {destination}", " (only the broker does)")
        try:
            self.authorizer.check(state.principal, WRITE, destination)
        except AuthorizationError:
            self.refuse(state, f"write to: {destination}")

    def check_bridge(self, state: ConnectionState) -> None:
        """Raises `AuthorizationError` unless the connection may act for another broker: who may administer the topic
        on which bridges are announced.
        """
        try:
            self.authorizer.check(state.principal, ADMIN, BRIDGE_TOPIC)
        except AuthorizationError:
            self.refuse(state, "act as a network bridge", f" (it needs the right admin on {BRIDGE_TOPIC})")

    def may_administer(self, state: ConnectionState, destination: Destination) -> bool:
        """Whether the connection may see and do there what is not its own. Not worth an audit line: it may do less."""
        try:
            self.authorizer.check(state.principal, ADMIN, destination)
        except AuthorizationError:
            return False
        return True

    def check_create(self, state: ConnectionState, destination: Destination) -> None:
        """Raises `AuthorizationError` unless the connection may make ``destination``."""
        try:
            self.authorizer.check(state.principal, ADMIN, destination)
        except AuthorizationError:
            self.refuse(state, f"create: {destination}")

    def check_remove(self, state: ConnectionState, destination: Destination) -> None:
        """Raises `AuthorizationError` unless the connection may remove ``destination``."""
        try:
            self.authorizer.check(state.principal, ADMIN, destination)
        except AuthorizationError:
            self.refuse(state, f"remove: {destination}")

    def may_write(self, state: ConnectionState, destination: Destination) -> bool:
        """Whether a queue that listens to a virtual topic gets what the connection sends there; a line in the audit
        says when not.
        """
        try:
            self.authorizer.check(state.principal, WRITE, destination)
        except AuthorizationError:
            self._note(state, f"write to: {destination}")
            return False
        return True

    def may_send(self, principal: Principal, destination: Destination) -> bool:
        """Whether ``principal`` may send to ``destination``, one of many that match what was asked for. Not worth an
        audit line.
        """
        try:
            self.authorizer.check(principal, WRITE, destination)
        except AuthorizationError:
            return False
        return True

    def may_read(self, principal: Principal, destination: Destination) -> bool:
        """Whether a wildcard subscription of ``principal`` gets what ``destination`` holds. Not worth an audit line:
        the subscription asked for what it may have of a pattern.
        """
        try:
            self.authorizer.check(principal, READ, destination)
        except AuthorizationError:
            return False
        return True

    def may_all(self, principal: Principal, action: str, destination: Destination) -> bool:
        """Return True if ``principal`` may do ``action`` to all that falls under ``destination``, which may be a
        pattern. What a refusal means, and its audit line, are left to the caller.
        """
        try:
            self.authorizer.check_all(principal, action, destination)
        except AuthorizationError:
            return False
        return True

    def may_make(self, principal: Principal, destination: Destination) -> bool:
        """Whether a wildcard subscription of ``principal`` may have ``destination`` made for it. Not worth an audit
        line either.
        """
        try:
            self.authorizer.check(principal, ADMIN, destination)
        except AuthorizationError:
            return False
        return True

    def refuse(self, state: ConnectionState, what: str, reason: str = "") -> None:
        """Always raises `AuthorizationError`, with a line in the audit: the connection may not do ``what``."""
        self._note(state, what)
        raise AuthorizationError(f"User {state.principal.name} is not authorized to {what}{reason}")

    def _note(self, state: ConnectionState, what: str) -> None:
        info = state.info
        self._audit.refused(state.principal.name, info.remote_address, info.protocol, what.replace(": ", " ", 1))
