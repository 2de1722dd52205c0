"""An authorizer that remembers every question and refuses what the test names."""

from __future__ import annotations

from spanwire.broker.ports import ADMIN, READ, Principal
from spanwire.model.destination import Destination
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

    def take(self) -> list[tuple[str, str, str]]:
        """The questions since the last call."""
        asked = self.asked
        self.asked = []
        return asked
