"""An authorizer that remembers every question and refuses what the test names."""

from __future__ import annotations

from spanwire.broker.ports import ADMIN, READ, Principal
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import AuthorizationError

_VERBS = {READ: "read from", ADMIN: "create"}


class RecordingAuthorizer:
    """Duck-typed to `spanwire.broker.ports.Authorizer`. A rule is (user, action, qualified name or pattern); ``*`` as
    the user or action stands for any.
    """

    def __init__(self, *refused: tuple[str, str, str]) -> None:
        self.refused = set(refused)
        self.asked: list[tuple[str, str, str]] = []

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        name = destination.qualified_name
        self.asked.append((principal.name, action, name))
        for user in (principal.name, "*"):
            for asked in (action, "*"):
                if (user, asked, name) in self.refused:
                    verb = _VERBS.get(action, "write to")
                    raise AuthorizationError(f"User {principal.name} is not authorized to {verb}: {name}")

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        """A pattern is allowed as a whole unless a rule refuses it, or a name or pattern under it."""
        self.check(principal, action, destination)
        for user, asked, name in self.refused:
            concerns = user in ("*", principal.name) and asked in ("*", action)
            if concerns and destination.is_pattern and destination.matches(parse_destination(name)):
                raise AuthorizationError(f"User {principal.name} is not authorized for all of {destination}")

    def take(self) -> list[tuple[str, str, str]]:
        """The questions since the last call."""
        asked = self.asked
        self.asked = []
        return asked
