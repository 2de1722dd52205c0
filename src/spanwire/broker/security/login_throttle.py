"""How long somebody has to wait after failed logins, so that passwords cannot be tried one after another.

Two counts: one for a name at an address, whose wait doubles with each failure, and one for the whole address, which
stops guessing with ever new names. A client with a wrong password so delays itself, not its neighbours.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address
from typing import Final

FREE_FAILURES: Final = 5  # of one name at one address: typing errors
MAX_DELAY: Final = 60.0  # seconds between two attempts of one name, at the most
FORGET_AFTER: Final = 600.0  # seconds without a failure until a name starts afresh
ADDRESS_FAILURES: Final = 100  # of one address at once, whatever the names
ADDRESS_RECOVERY: Final = 5.0  # seconds until an address has one more of these
MAX_ENTRIES: Final = 10_000  # of each table; the one that failed longest ago makes room
MAX_NAME: Final = 256  # characters of a name that are told apart


class _Failures:
    """What is remembered of one name at one address, or of one address."""

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0.0
        self.last = 0.0


class FailedLogins:
    """Counts failures; time is passed in, in monotonic seconds."""

    def __init__(self) -> None:
        self._names: Final[dict[str, _Failures]] = {}
        self._addresses: Final[dict[str, _Failures]] = {}

    def wait(self, address: str, name: str | None, now: float) -> float:
        """Seconds until the next attempt counts; 0 when it may be made now."""
        found = self._names.get(_key(address, name))
        wait = 0.0 if found is None else _delay(found, now)
        whole = self._addresses.get(address)
        if whole is not None:
            over = _left(whole, now) + 1.0 - ADDRESS_FAILURES
            if over > 0:
                wait = max(wait, over * ADDRESS_RECOVERY)
        return wait

    def failed(self, address: str, name: str | None, now: float) -> None:
        """An attempt failed."""
        entry = _moved_last(self._names, _key(address, name))
        if now - entry.last > FORGET_AFTER:
            entry.count = 0.0
        entry.count += 1.0
        entry.last = now
        whole = _moved_last(self._addresses, address)
        whole.count = _left(whole, now) + 1.0
        whole.last = now

    def succeeded(self, address: str, name: str | None) -> None:
        """A login: this name has not failed. What others failed at the address still counts."""
        self._names.pop(_key(address, name), None)

    def __len__(self) -> int:
        return len(self._names) + len(self._addresses)


def network_of(host: str) -> str:
    """What one machine cannot easily change: an IPv4 address, or the first half of an IPv6 address."""
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
    """The failures of an address that are not forgiven yet."""
    return max(0.0, whole.count - (now - whole.last) / ADDRESS_RECOVERY)


def _moved_last(table: dict[str, _Failures], key: str) -> _Failures:
    """The entry of ``key``, made if need be, as the youngest of the table."""
    entry = table.pop(key, None)
    if entry is None:
        if len(table) >= MAX_ENTRIES:
            del table[next(iter(table))]
        entry = _Failures()
    table[key] = entry
    return entry
