"""Reports the state of a broker to the service manager, in systemd's protocol of sd_notify(3).

    NOTIFY_SOCKET=/run/systemd/notify     or @abstract: where datagrams with lines of NAME=VALUE go
    WATCHDOG_USEC=60000000                the broker is killed after so many microseconds without WATCHDOG=1

The event loop sends the signs of life, so a loop that hangs is restarted. Without ``NOTIFY_SOCKET`` nothing is sent.
Sources: the manual pages sd_notify(3), sd_watchdog_enabled(3) and systemd.service(5).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator, MutableMapping
from typing import Final

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE: Final = "WATCHDOG_USEC"
WATCHDOG_PID_VARIABLE: Final = "WATCHDOG_PID"
VARIABLES: Final = (SOCKET_VARIABLE, WATCHDOG_VARIABLE, WATCHDOG_PID_VARIABLE)
STATES: Final = ("READY", "RELOADING", "STOPPING", "MONOTONIC_USEC")  # a further state replaces an unsent one
STATUS_S: Final = 10.0  # seconds between two looks at the status line
RECOVERY_S: Final = 3600  # seconds to open a store without a sign of life; TimeoutStartSec of the unit is the same
MAX_STATUS: Final = 1024  # characters of a status line; datagrams of systemd end at 4096 bytes
US_PER_S: Final = 1_000_000
NS_PER_US: Final = 1000

logger = logging.getLogger(__name__)


class ServiceManager:
    """The service manager behind a socket. No error of the socket is raised: the first error is logged."""

    def __init__(self, variables: dict[str, str], pid: int) -> None:
        """``variables`` are the environment's; a watchdog of another process than ``pid`` is ignored."""
        self._variables: Final = variables
        self._address: Final = _address(variables.get(SOCKET_VARIABLE, ""))
        self._watchdog_us: Final = _watchdog(variables, pid) if self._address else 0
        self._unsent: dict[str, str] = {}
        self._status = ""
        self._has_failed = False
        self._timer: asyncio.TimerHandle | None = None
        self._socket: socket.socket | None = None

    @property
    def interval_s(self) -> float:
        """Return the seconds between two signs of life: half of the watchdog's time."""
        return min(STATUS_S, self._watchdog_us / 2 / US_PER_S) if self._watchdog_us else STATUS_S

    def beat(self, status: Callable[[], str]) -> None:
        """Send signs of life and the line of ``status`` from the running loop until `close`."""
        if not self._address:
            return
        signs = {"WATCHDOG": "1"} if self._watchdog_us else {}
        self._tell(signs | self._new_status(status()))
        self._timer = asyncio.get_running_loop().call_later(self.interval_s, self.beat, status)

    def ready(self) -> None:
        """Tell that the broker serves, or waits as a standby."""
        self._tell({"READY": "1"} | self._watchdog(self._watchdog_us))

    def standby(self, status: str) -> None:
        """Report a wait for a lock, with the text ``status``.

        A standby is ready, else the start would time out. A standby opens the store in one step of the loop at the
        takeover, so the watchdog allows `RECOVERY_S` from now on.
        """
        self._tell({"READY": "1"} | self._watchdog(RECOVERY_S * US_PER_S) | self._new_status(status))

    def restarting(self) -> None:
        """Report a stop and new start of the broker by the process; the watchdog allows `RECOVERY_S`."""
        self._tell(_reloading() | self._watchdog(RECOVERY_S * US_PER_S))

    def stopping(self) -> None:
        """Tell that the broker stops."""
        self._tell({"STOPPING": "1"})

    @contextlib.contextmanager
    def reloading(self) -> Iterator[None]:
        """Report a reload of the configuration, and afterwards, also after an error, a serving broker."""
        self._tell(_reloading())
        try:
            yield
        finally:
            self._tell({"READY": "1"})

    def close(self) -> None:
        """Send no more reports. May be called twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def return_variables(self, environment: MutableMapping[str, str]) -> None:
        """Put the variables back for the next program under the same process id."""
        environment.update(self._variables)

    def _watchdog(self, microseconds: int) -> dict[str, str]:
        """Return the line to set the watchdog's time; empty without a watchdog."""
        return {WATCHDOG_VARIABLE: str(microseconds)} if self._watchdog_us else {}

    def _new_status(self, status: str) -> dict[str, str]:
        """Return the status line if it has changed."""
        line = " ".join(status.split())[:MAX_STATUS]
        if line == self._status:
            return {}
        self._status = line
        return {"STATUS": line}

    def _tell(self, lines: dict[str, str]) -> None:
        """Send lines in one datagram, together with lines from earlier failed attempts."""
        if not self._address:
            return
        if any(name in lines for name in STATES):
            self._unsent = {name: value for name, value in self._unsent.items() if name not in STATES}
        lines = self._unsent | lines
        if not lines:
            return
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            text = "\n".join(f"{name}={value}" for name, value in lines.items())
            self._socket.sendto(text.encode("utf-8", "replace"), self._address)
        except OSError as error:
            self._unsent = lines
            if not self._has_failed:
                self._has_failed = True
                logger.warning(
                    "%s=%s: %s; the service manager is not told the state of this broker until that ends",
                    SOCKET_VARIABLE,
                    self._variables[SOCKET_VARIABLE],
                    error.strerror or error,
                )
        else:
            self._unsent = {}
            self._has_failed = False


def take_service_manager(environment: MutableMapping[str, str], pid: int) -> ServiceManager:
    """Return the service manager of the process, and remove the manager's variables from ``environment``.

    Children of the broker would otherwise report the children's states as the broker's.
    """
    taken = {name: environment.pop(name) for name in VARIABLES if name in environment}
    return ServiceManager(taken, pid)


def _address(text: str) -> str:
    """Return the address of a socket for the system: a name with @ at the beginning is abstract."""
    if text.startswith("@"):
        return "\0" + text[1:]
    if text and not text.startswith("/"):
        logger.warning(
            "%s=%s is neither a path nor an abstract name with @; the service manager is not told anything",
            SOCKET_VARIABLE,
            text[:100],
        )
        return ""
    return text


def _watchdog(variables: dict[str, str], pid: int) -> int:
    """Return the microseconds of the watchdog, 0 without a watchdog for the process."""
    text = variables.get(WATCHDOG_VARIABLE, "")
    if not text or variables.get(WATCHDOG_PID_VARIABLE, str(pid)) != str(pid):
        return 0
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 19 and int(text) > 0):
        logger.warning("%s=%s is no number of microseconds; there is no watchdog", WATCHDOG_VARIABLE, text[:100])
        return 0
    return int(text)


def _reloading() -> dict[str, str]:
    """Return the lines of a reload; systemd wants the time of the begin."""
    return {"RELOADING": "1", "MONOTONIC_USEC": str(time.clock_gettime_ns(time.CLOCK_MONOTONIC) // NS_PER_US)}
