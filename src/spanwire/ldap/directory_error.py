"""The error of a failing directory, in one line."""

from __future__ import annotations

from spanwire.model.errors import JmsError


class DirectoryError(JmsError):
    """Raised if a directory is away or slow, or gives an unusable answer.

    The error is no statement about the user.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where} {reason}".strip())
