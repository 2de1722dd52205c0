"""The error of a directory that fails, in one line."""

from __future__ import annotations

from spanwire.model.errors import JmsError


class DirectoryError(JmsError):
    """Raised if a directory is away, slow, or gives an answer that cannot be used; it says nothing about the user."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where} {reason}".strip())
