"""Log lines of a failing link: the first failure, each new reason, then one line from time to time."""

from __future__ import annotations

from typing import Final

REPEAT_S: Final = 600.0  # seconds between two lines about one reason; an outage of a night has about fifty lines
MAX_REASONS: Final = 10  # reasons logged at once in one outage; a peer with ever new reasons cannot fill the log


class FailureLog:
    """Decides about log lines for the failures of one link. `reset` ends an outage."""

    def __init__(self) -> None:
        self._reasons: Final[set[str]] = set()
        self._failures = 0
        self._began = 0.0
        self._logged_at = 0.0

    def reset(self) -> None:
        """End the outage, because the link was up."""
        self._reasons.clear()
        self._failures = 0

    def line_for(self, reason: str, now: float) -> str:
        """Return the log line for one more failure at ``now`` in monotonic seconds; "" for most repetitions."""
        self._failures += 1
        if self._failures == 1:
            self._began = now
        key = "".join([character for character in reason if not character.isdigit()])  # numbers vary
        if key not in self._reasons and len(self._reasons) < MAX_REASONS:
            self._reasons.add(key)
            self._logged_at = now
            return reason
        if now - self._logged_at < REPEAT_S:
            return ""
        self._logged_at = now
        return f"{reason}; {self._failures} failures in {(now - self._began) / 60:.0f} min"
