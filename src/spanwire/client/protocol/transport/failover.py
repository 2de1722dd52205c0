"""Choice of the next address and of the delay before an attempt: ActiveMQ's failover, without sockets.

One attempt tries each address of the list once. The delay between attempts grows from the initial to the maximum delay.
After a lost connection the delay is random, so that the clients of a restarted broker do not reconnect at once; the
delay keeps growing while connections are short, and the lost address is tried last.

A broker may suggest other brokers (ConnectionControl). A suggestion is not trusted: the client uses the options of the
caller's own addresses, and a socket of the same kind, with the same TLS.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from spanwire.client.addressing.address import MAX_ADDRESSES, BrokerAddress
from spanwire.client.addressing.reconnect_policy import ReconnectPolicy
from spanwire.discovery.addresses.address import read_address
from spanwire.model.environment import Environment
from spanwire.model.errors import JmsError

NO_LIMIT: Final = -1
STABLE_AFTER: Final = 5.0  # seconds; a shorter connection does not reset the delay; ActiveMQ's minConnectTime
MAX_MOVES: Final = 10  # moves in a row; then brokers cannot move the client before `STABLE_AFTER`
MAX_ADVICE: Final = 16_384  # characters of one suggestion; room for `MAX_ADDRESSES` long addresses
MAX_LOGGED_REASONS: Final = 8  # addresses in one line of the log
NO_ADDRESS: Final = BrokerAddress("discovery", "a broker that was not found")

logger = logging.getLogger(__name__)


class Failover:
    """Chooses addresses: `begin`, then `next_address` with `on_failed` or `on_connected` for each address.

    Without configured addresses the shell discovers brokers and calls `set_addresses`.
    """

    def __init__(self, addresses: tuple[BrokerAddress, ...], policy: ReconnectPolicy, environment: Environment) -> None:
        self.policy: Final[ReconnectPolicy] = policy
        self.address: BrokerAddress = addresses[0] if addresses else NO_ADDRESS
        self._is_discovery: Final[bool] = not addresses
        self.started_at = 0.0
        self.attempts = 0
        self.last_error: JmsError | None = None
        self._reasons: list[str] = []  # errors of the first attempt
        self._addresses: tuple[BrokerAddress, ...] = addresses
        self._suggested: tuple[BrokerAddress, ...] = ()
        self._next_target: BrokerAddress | None = None
        self._environment: Final[Environment] = environment
        self._queue: list[BrokerAddress] = []
        self._is_startup = True
        self._limit = 0
        self._delay_ms = 0
        self._not_before = 0.0
        self._connected_at: float | None = None
        self._moves = 0
        self._probe_ms = 0
        self._probe_at = 0.0
        self._probed = 0

    @property
    def reconnects(self) -> bool:
        """True if a lost connection is opened again."""
        return self.policy.max_attempts != 0

    def begin(self, is_startup: bool, now: float) -> None:
        """Start to connect: for the first time, or after a lost connection."""
        if is_startup and self.policy.tells:
            for address in self._addresses:
                logger.info("Adding new broker connection URL: %s", address.url)
        was_short = self._connected_at is not None and now - self._connected_at < STABLE_AFTER
        self._connected_at = None
        self.started_at = now
        self.attempts = 0
        self.last_error = None
        self._reasons = []
        self._is_startup = is_startup
        self._limit = self.policy.startup_max_attempts if is_startup else self.policy.max_attempts
        if not was_short:
            self._moves = 0
            self._delay_ms = self.policy.initial_delay_ms
        self._not_before = now if is_startup else now + self._wait()
        if was_short:
            self._increase_delay()
        if self._is_discovery:
            self._addresses = ()
        self._queue = self._order(None if is_startup else self.address)
        target, self._next_target = self._next_target, None
        if target is not None:
            self._queue = [target, *[address for address in self._queue if address != target]]

    def on_connected(self, now: float) -> None:
        """Note that the broker has accepted the login."""
        if self.reconnects:
            logger.info("Successfully reconnected to %s", self.address.url)
        self._connected_at = now
        self._probe_ms = self.policy.initial_delay_ms
        self._probe_at = now + self._probe_ms / 1000

    def sends_deadline(self) -> float | None:
        """Return the end of the wait of pending sends in monotonic seconds, or None."""
        return None if self.policy.timeout_ms < 0 else self.started_at + self.policy.timeout_ms / 1000

    def timeout_error(self) -> JmsError:
        """Return the error of a send after the timeout."""
        return JmsError(f"no connection for {self.policy.timeout_ms} ms, the timeout of the failover URL")

    @property
    def needs_discovery(self) -> bool:
        """True if `set_addresses` must precede the next address."""
        return self._is_discovery and not self._queue and not self._is_exhausted()

    def set_addresses(self, addresses: tuple[BrokerAddress, ...]) -> None:
        """Set the addresses of discovered brokers."""
        self._addresses = addresses
        self._queue = self._order(self.address)

    def next_address(self) -> BrokerAddress | None:
        """Return the address to try, not before `due_at`, or None if all attempts are used up."""
        if not self._queue:
            if self._is_exhausted():
                return None
            self._queue = self._order(self.address)
        self.address = self._queue.pop(0)
        return self.address

    def _is_exhausted(self) -> bool:
        return self._limit != NO_LIMIT and self.attempts >= max(self._limit, 1)

    def due_at(self) -> float:
        """Return the earliest time for the next attempt, in monotonic seconds."""
        return self._not_before

    def on_failed(self, error: JmsError, now: float) -> None:
        """Note that the address did not work."""
        self.last_error = error
        if not self.attempts and len(self._reasons) <= MAX_LOGGED_REASONS:
            reason, url = str(error), self.address.url
            self._reasons.append(reason if url in reason else f"{url}: {reason}")
        if self._queue:
            return
        self.attempts += 1
        policy = self.policy
        if policy.warn_after > 0 and self.attempts == 1 and not self._is_exhausted():
            reasons = "; ".join(self._reasons[:MAX_LOGGED_REASONS]) + (
                "; …" if len(self._reasons) > MAX_LOGGED_REASONS else ""
            )
            logger.warning("no broker answers, retrying: %s", reasons)
        elif policy.warn_after > 0 and self.attempts % policy.warn_after == 0:
            logger.warning("no connection after %d attempts: %s; retrying", self.attempts, error)
        self._not_before = now + self._wait()
        self._increase_delay()

    def _wait(self) -> float:
        """Return the seconds before the next attempt, random after a lost connection."""
        seconds = self._delay_ms / 1000
        if self._is_startup:
            return seconds
        dice = int.from_bytes(self._environment.random_bytes(4), "big") / 2**32
        return seconds * (0.5 + dice)

    def _increase_delay(self) -> None:
        policy = self.policy
        if policy.use_exponential_back_off:
            self._delay_ms = int(min(max(self._delay_ms, 1) * policy.back_off_multiplier, policy.max_delay_ms))

    def exhausted_error(self) -> JmsError:
        """Return the error for the caller after the last attempt."""
        error = self.last_error if self.last_error is not None else JmsError("no broker could be reached")
        if not self._addresses or (self.attempts <= 1 and len(self._addresses) == 1):
            return error
        tried = ", ".join([address.url for address in self._addresses])
        return JmsError(f"no connection to any of {tried} after {self.attempts} attempts; the last: {error}")

    def _order(self, last: BrokerAddress | None) -> list[BrokerAddress]:
        order = list(self._suggested)
        for address in self._addresses:
            if not is_among(address, order):
                order.append(address)
        if self.policy.randomize:
            for index in range(len(order) - 1, 0, -1):
                other = int.from_bytes(self._environment.random_bytes(4), "big") % (index + 1)
                order[index], order[other] = order[other], order[index]
        if self.policy.prefers:
            order = [one for one in order if self._is_preferred(one)] + [
                one for one in order if not self._is_preferred(one)
            ]
        if last is not None and last in order:
            order.remove(last)
            order.append(last)
        return order

    def _is_preferred(self, address: BrokerAddress) -> bool:
        if self.policy.priority:
            return any(is_same_address(address, uri) for uri in self.policy.priority)
        return bool(self._addresses) and address == self._addresses[0]

    def probe_at(self) -> float | None:
        """Return the time to try a preferred broker, in monotonic seconds.

        None if the connection has a preferred broker.
        """
        if self._connected_at is None or not self.policy.prefers or self._is_preferred(self.address):
            return None
        return self._probe_at if any(self._is_preferred(one) for one in self._order(None)) else None

    def next_probe(self, now: float) -> BrokerAddress:
        """Return the preferred address to try, at or after `probe_at`."""
        preferred = [address for address in self._order(None) if self._is_preferred(address)]
        self._probed += 1
        policy = self.policy
        if policy.use_exponential_back_off:
            self._probe_ms = int(min(max(self._probe_ms, 1) * policy.back_off_multiplier, policy.max_delay_ms))
        self._probe_at = now + self._probe_ms / 1000
        return preferred[self._probed % len(preferred)]

    def prefer(self, address: BrokerAddress) -> JmsError:
        """Choose a preferred address for the next connection.

        Returns the error for the end of the present connection.
        """
        self._next_target = address
        return JmsError(f"{address.url} is preferred, and accepts connections again")

    def on_advice(self, connected_brokers: str | None, reconnect_to: str | None, rebalance: bool) -> JmsError | None:
        """Handle a broker's list of other brokers.

        Returns:
            The error for the end of the connection if the client moves to another broker, else None.
        """
        if not self.reconnects or self._moves >= MAX_MOVES:
            return None
        target = "" if reconnect_to is None else reconnect_to.strip()
        if target:
            suggestion = self._suggestion(target)
            if suggestion is not None and not is_among(suggestion, [self.address]):
                return self._move(suggestion, f"the broker asks to connect to {suggestion.url}")
        if connected_brokers is None or not self.policy.takes_updates or not connected_brokers.strip():
            return None
        if len(connected_brokers) > MAX_ADVICE or not self._update(connected_brokers):
            return None
        if not rebalance or not self.policy.takes_rebalance:
            return None
        first = self._order(None)[0]
        if is_among(first, [self.address]):
            return None
        return self._move(first, f"the broker asks its clients to spread; this one goes to {first.url}")

    def _move(self, address: BrokerAddress, reason: str) -> JmsError:
        self._next_target = address
        self._moves += 1
        return JmsError(reason)

    def _update(self, listed: str) -> bool:
        """Replace the suggested addresses. Returns True if the list has changed."""
        suggestions: list[BrokerAddress] = []
        for uri in listed.split(",")[:MAX_ADDRESSES]:
            address = self._suggestion(uri.strip())
            if address is not None and not is_among(address, suggestions):
                suggestions.append(address)
        if not suggestions or {one.url for one in suggestions} == {one.url for one in self._suggested}:
            return False
        for address in suggestions:
            if not is_among(address, self._suggested):
                logger.info("Adding new broker connection URL: %s", address.url)
        self._suggested = tuple(suggestions)
        return True

    def _suggestion(self, uri: str) -> BrokerAddress | None:
        """Return a suggested address with the options of the caller's own addresses.

        None for an address with another kind of socket.
        """
        parsed = read_address(uri)
        if parsed is None:
            return None
        for own in (self.address, *self._addresses):
            if not own.is_in_process and own.port > 0 and own.is_secure == parsed.is_encrypted:
                wire_format = replace(own.settings.wire_format, host=parsed.host)
                settings = replace(own.settings, wire_format=wire_format)
                url = f"{own.scheme}:{parsed.uri.partition(':')[2]}"
                return replace(own, url=url, host=parsed.host, port=parsed.port, settings=settings)
        return None


def is_among(address: BrokerAddress, others: list[BrokerAddress] | tuple[BrokerAddress, ...]) -> bool:
    """Return True if ``others`` contain the same host and port."""
    return any(address_key(one) == address_key(address) for one in others)


def address_key(address: BrokerAddress) -> str:
    """Return host and port, or the URL of an address without a port."""
    return f"{address.host}:{address.port}" if address.port > 0 else address.url


def is_same_address(address: BrokerAddress, uri: str) -> bool:
    """Return True if ``uri``, of ``priorityURIs``, names the address."""
    parsed = read_address(uri)
    if parsed is None:
        return address.url == uri
    return (address.host, address.port) == (parsed.host, parsed.port)
