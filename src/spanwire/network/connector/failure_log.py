"""Few lines about a link that fails again and again: the first failure, each new reason, then one line now and then."""

from __future__ import annotations

from typing import Final

REPEAT_S: Final = 600.0  # between two lines about the same reason: an outage of a night is some fifty lines
MAX_REASONS: Final = 10  # told at once in one outage; a peer that makes up new ones cannot fill the log


class FailureLog:
    """Decides which failures of one link are worth a line. An outage ends with `reset`."""

    def __init__(self) -> None:
        self._reasons: Final[set[str]] = set()
        self._failures = 0
        self._began = 0.0
        self._logged_at = 0.0

    def reset(self) -> None:
        """The link was up."""
        self._reasons.clear()
        self._failures = 0

    def line_for(self, reason: str, now: float) -> str:
        """What to write about one more failure, ``now`` in monotonic seconds; nothing for most that are repeated."""
        self._failures += 1
        if self._failures == 1:
            self._began = now
        key = "".join([character for character in reason if not character.isdigit()])  # "try again in 16 s" is no news
        if key not in self._reasons and len(self._reasons) < MAX_REASONS:
            self._reasons.add(key)
            self._logged_at = now
            return reason
        if now - self._logged_at < REPEAT_S:
            return ""
        self._logged_at = now
        return f"{reason}; {self._failures} failures in {(now - self._began) / 60:.0f} min"
