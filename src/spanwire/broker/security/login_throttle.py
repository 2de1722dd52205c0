"""Delays after failed logins, against guessing of passwords.

Two counts exist: for a name at an address the delay doubles with each failure; for the whole address a limit stops
guesses with many names. A client with a wrong password thus delays itself and no neighbours.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address
from typing import Final

FREE_FAILURES: Final = 5  # failures of a name at an address without delay: typing errors
MAX_DELAY: Final = 60.0  # longest delay in seconds between two attempts of one name
FORGET_AFTER: Final = 600.0  # seconds until the failures of a name are forgotten
ADDRESS_FAILURES: Final = 100  # failures of one address at once, whatever the names
ADDRESS_RECOVERY: Final = 5.0  # seconds until an address may fail once more
MAX_ENTRIES: Final = 10_000  # entries of each table; the oldest one is dropped
MAX_NAME: Final = 256  # characters of a name that count


class _Failures:
    """The failures of a name at an address, or of an address."""

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0.0
        self.last = 0.0


class FailedLogins:
    """Counts failures. Time is passed in, in monotonic seconds."""

    def __init__(self) -> None:
        self._names: Final[dict[str, _Failures]] = {}
        self._addresses: Final[dict[str, _Failures]] = {}

    def wait(self, address: str, name: str | None, now: float) -> float:
        """Return the seconds until the next attempt is allowed, 0 for now."""
        failures = self._names.get(_key(address, name))
        wait = 0.0 if failures is None else _delay(failures, now)
        whole = self._addresses.get(address)
        if whole is not None:
            over = _left(whole, now) + 1.0 - ADDRESS_FAILURES
            if over > 0:
                wait = max(wait, over * ADDRESS_RECOVERY)
        return wait

    def count_failure(self, address: str, name: str | None, now: float) -> None:
        """Count a failed attempt."""
        entry = _moved_last(self._names, _key(address, name))
        if now - entry.last > FORGET_AFTER:
            entry.count = 0.0
        entry.count += 1.0
        entry.last = now
        whole = _moved_last(self._addresses, address)
        whole.count = _left(whole, now) + 1.0
        whole.last = now

    def clear_failures(self, address: str, name: str | None) -> None:
        """Forget the failures of a name that logged in. Other failures at the address still count."""
        self._names.pop(_key(address, name), None)

    def __len__(self) -> int:
        return len(self._names) + len(self._addresses)


def network_of(host: str) -> str:
    """Return the part of an address that one machine can hardly change.

    The part is an IPv4 address, or the first half of an IPv6 address.
    """
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.removeprefix("[").removesuffix("]").partition("%")[0])
    except AddressValueError:
        return host
    mapped = address.ipv4_mapped
    return str(IPv6Address(int(address) >> 64 << 64)) if mapped is None else str(mapped)


def _key(address: str, name: str | None) -> str:
    return address if name is None else f"{address} {name[:MAX_NAME]}"


def _delay(entry: _Failures, now: float) -> float:
    over = entry.count - FREE_FAILURES
    if over < 0 or now - entry.last > FORGET_AFTER:
        return 0.0
    delay = min(MAX_DELAY, float(1 << int(min(over, 10.0))))
    return max(0.0, entry.last + delay - now)


def _left(whole: _Failures, now: float) -> float:
    """Return the number of an address's failures still in force."""
    return max(0.0, whole.count - (now - whole.last) / ADDRESS_RECOVERY)


def _moved_last(table: dict[str, _Failures], key: str) -> _Failures:
    """Return the entry for ``key`` as the youngest of ``table``, created if necessary."""
    entry = table.pop(key, None)
    if entry is None:
        if len(table) >= MAX_ENTRIES:
            del table[next(iter(table))]
        entry = _Failures()
    table[key] = entry
    return entry
