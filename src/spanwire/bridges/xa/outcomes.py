"""The answers of brokers to a commit: the ends of branches, and the heuristic outcomes.

X/Open's codes stand at the end of the text of an `XaError` (javax.transaction.xa.XAException).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from spanwire.model.errors import JmsError, TransactionRolledBackError, XaError

XAER_NOTA: Final = -4
HEURISTICS: Final[dict[int, str]] = {
    5: "committed in part, rolled back in part",
    6: "rolled back",
    7: "committed",
    8: "perhaps rolled back",
}
CODE: Final = re.compile(r"xaErrorCode:(-?\d{1,3})\b")
UNKNOWN: Final = ("has not been started", "unknown xid", "no transaction", "cannot find")  # of brokers without a code


class Outcome(Enum):
    """The meaning of an answer to a commit."""

    GONE = "gone"  # the broker does not know the branch
    HEURISTIC = "heuristic"  # the broker knows that somebody has finished the branch
    ROLLED_BACK = "rolled back"
    OTHER = "other"  # the branch is still prepared, as far as known


def outcome_of(error: JmsError) -> Outcome:
    """Return the meaning of an error, the answer to a commit of a prepared branch."""
    if isinstance(error, TransactionRolledBackError):
        return Outcome.ROLLED_BACK
    if not isinstance(error, XaError):
        return Outcome.OTHER
    code = code_of(error)
    if code in HEURISTICS:
        return Outcome.HEURISTIC
    if code == XAER_NOTA or (code is None and any(text in str(error).lower() for text in UNKNOWN)):
        return Outcome.GONE
    return Outcome.OTHER


def code_of(error: JmsError) -> int | None:
    """Return the XA error code in the text of an error."""
    match = CODE.search(str(error))
    return None if match is None else int(match[1])


def heuristic_text(error: JmsError) -> str:
    """Return the outcome in the broker's report."""
    return HEURISTICS.get(code_of(error) or 0, "finished by somebody else")
