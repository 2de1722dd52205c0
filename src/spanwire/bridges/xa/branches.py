"""Ids of the branches of bridges.

    format id   0x53505752 ("SPWR"), for all branches that Spanwire begins at any broker
    global id   bridge:LOG:BRIDGE:RUN:NUMBER    the transaction; LOG names the decision log, BRIDGE is a hash
    qualifier   source:NAME or target:NAME      the side, and the name of the bridge for a person

Branches of other logs are never touched: another process decides about these branches.
"""

from __future__ import annotations

from enum import Enum
from hashlib import sha256
from typing import Final

from spanwire.client.branch_recovery import FORMAT_ID
from spanwire.model.ids import XaTransactionId

PREFIX: Final = "bridge"
HASH_DIGITS: Final = 16  # hexadecimal digits of a bridge's hash; a part of an id has at most 64 octets
NAME_CHARACTERS: Final = 50  # of the name of a bridge in a qualifier


class Side(Enum):
    """A branch of a transaction: the source's or the target's."""

    SOURCE = "source"
    TARGET = "target"


class BranchNames:
    """Names the transactions of one bridge. ``run`` differs for each start of the process."""

    def __init__(self, log_id: str, bridge: str, run: str) -> None:
        digits = sha256(bridge.encode()).hexdigest()[:HASH_DIGITS]
        self._prefix: Final[str] = f"{PREFIX}:{log_id}:{digits}:"
        self._run: Final[str] = run
        self._name: Final[bytes] = bridge.encode("ascii", "replace")[:NAME_CHARACTERS]
        self._count = 0

    def next_transaction(self) -> str:
        """Return the name of a new transaction."""
        self._count += 1
        return f"{self._prefix}{self._run}:{self._count:x}"

    def branch(self, transaction: str, side: Side) -> XaTransactionId:
        """Return the id of a branch."""
        return XaTransactionId(FORMAT_ID, transaction.encode(), side.value.encode() + b":" + self._name)

    def is_own(self, branch: XaTransactionId, side: Side) -> bool:
        """Return True if the bridge began the branch, now or before a restart."""
        return (
            branch.format_id == FORMAT_ID
            and branch.global_id.startswith(self._prefix.encode())
            and branch.branch_qualifier.startswith(side.value.encode() + b":")
        )


def transaction_of(branch: XaTransactionId) -> str:
    """Return the name of the transaction of a branch."""
    return branch.global_id.decode("latin-1")


def log_of(branch: XaTransactionId) -> str | None:
    """Return the id of the decision log of a branch, or None for a branch of another program."""
    fields = transaction_of(branch).split(":")
    return fields[1] if branch.format_id == FORMAT_ID and len(fields) == 5 and fields[0] == PREFIX else None
