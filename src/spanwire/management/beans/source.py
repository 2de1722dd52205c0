"""The source of beans: a running broker, with views and operations."""

from __future__ import annotations

from typing import Protocol

from spanwire.management.tables.operation_table import Role


class BeanSource(Protocol):
    """Asks one broker for one user. The HTTP API has a source for each request, a command for its run."""

    @property
    def role(self) -> Role:
        """The role of the user."""
        ...

    async def view(self, command: str) -> object:
        """Return a recent answer to a reading command. Raises `ControlError`."""
        ...

    def forget_older(self, command: str) -> bool:
        """Drop the recent answer to a reading command if it is older than the request. Return True if so."""
        ...

    async def ask(self, command: str, **arguments: object) -> object:
        """Return the present answer to a command with arguments. Raises `ControlError`."""
        ...

    async def status(self) -> dict[str, object]:
        """Return a recent status of the broker without totals over destinations. Raises `ControlError`."""
        ...
