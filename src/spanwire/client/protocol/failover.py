"""Where to connect next, and when: ActiveMQ's failover transport without its socket.

One attempt is one way through the list of addresses. Between attempts the delay grows from the initial one to the
largest, and the wait after a lost connection is a random one around it, so that the clients of a broker that starts
anew do not come all at once. It goes on growing when a broker lets in and drops at once. After a lost connection the
address that was lost stands last.

Brokers may suggest other brokers (`Advice`). Where a suggestion leads is checked as if a stranger had made it: a socket
of the same kind, with the same TLS, as the caller's own addresses have.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from spanwire.client.addressing.address import MAX_ADDRESSES, BrokerAddress
from spanwire.client.addressing.reconnect_policy import ReconnectPolicy
from spanwire.discovery.address import read_address
from spanwire.model.environment import Environment
from spanwire.model.errors import JmsError

NO_LIMIT: Final = -1
STABLE_AFTER: Final = 5.0  # seconds after which a connection counts as one that lasts; ActiveMQ's minConnectTime
MAX_MOVES: Final = 10  # in a row that brokers may ask for; then a client stays where it is for `STABLE_AFTER`
MAX_ADVICE: Final = 16_384  # characters that a broker may suggest at once: `MAX_ADDRESSES` long ones
MAX_LOGGED_REASONS: Final = 8  # addresses of a list that one line in the log names with their reasons
NO_ADDRESS: Final = BrokerAddress("discovery", "a broker that was not found")

logger = logging.getLogger(__name__)


class Failover:
    """Chooses addresses. `begin`, then `next_address` until one works, telling `on_failed` of each that does not and
    `on_connected` of one that does. Without any addresses they are looked for, and told with `set_addresses`.
    """

    def __init__(self, addresses: tuple[BrokerAddress, ...], policy: ReconnectPolicy, environment: Environment) -> None:
        self.policy: Final[ReconnectPolicy] = policy
        self.address: BrokerAddress = addresses[0] if addresses else NO_ADDRESS
        self._is_discovery: Final[bool] = not addresses
        self.started_at = 0.0
        self.attempts = 0
        self.last_error: JmsError | None = None
        self._reasons: list[str] = []  # of the first way through the list
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
        """Whether a lost connection is made again."""
        return self.policy.max_attempts != 0

    def begin(self, is_startup: bool, now: float) -> None:
        """A connection is wanted: the first one, or another for one that was lost."""
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
        """The address works: the broker has let the client in."""
        if self.reconnects:
            logger.info("Successfully reconnected to %s", self.address.url)
        self._connected_at = now
        self._probe_ms = self.policy.initial_delay_ms
        self._probe_at = now + self._probe_ms / 1000

    def sends_deadline(self) -> float | None:
        """When sends that wait for an answer are given up unless there is a connection again; None for never."""
        return None if self.policy.timeout_ms < 0 else self.started_at + self.policy.timeout_ms / 1000

    def timeout_error(self) -> JmsError:
        """Why a send was given up."""
        return JmsError(f"there has been no connection for {self.policy.timeout_ms} ms, the timeout of failover")

    @property
    def needs_discovery(self) -> bool:
        """Whether `set_addresses` comes before the next address: nobody has listed any, and those that were found last
        are used up.
        """
        return self._is_discovery and not self._queue and not self._is_exhausted()

    def set_addresses(self, addresses: tuple[BrokerAddress, ...]) -> None:
        """These are there now."""
        self._addresses = addresses
        self._queue = self._order(self.address)

    def next_address(self) -> BrokerAddress | None:
        """The address to try, no sooner than `due_at`; None when all attempts are used up."""
        if not self._queue:
            if self._is_exhausted():
                return None
            self._queue = self._order(self.address)
        self.address = self._queue.pop(0)
        return self.address

    def _is_exhausted(self) -> bool:
        return self._limit != NO_LIMIT and self.attempts >= max(self._limit, 1)

    def due_at(self) -> float:
        """Monotonic seconds before which the next address is not to be tried."""
        return self._not_before

    def on_failed(self, error: JmsError, now: float) -> None:
        """The address did not work."""
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
            logger.warning("no broker answers, trying on: %s", reasons)
        elif policy.warn_after > 0 and self.attempts % policy.warn_after == 0:
            logger.warning("no connection after %d attempts: %s; trying on", self.attempts, error)
        self._not_before = now + self._wait()
        self._increase_delay()

    def _wait(self) -> float:
        """Seconds before the next attempt. Those who have lost a connection are many, and come one after the other."""
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
        """Why there is no connection, for the one who wanted it."""
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
        """When to look whether a broker is back that is preferred to the one of now, in monotonic seconds; None when
        there is none.
        """
        if self._connected_at is None or not self.policy.prefers or self._is_preferred(self.address):
            return None
        return self._probe_at if any(self._is_preferred(one) for one in self._order(None)) else None

    def next_probe(self, now: float) -> BrokerAddress:
        """Whose socket to try; only to be asked when `probe_at` is over."""
        preferred = [address for address in self._order(None) if self._is_preferred(address)]
        self._probed += 1
        policy = self.policy
        if policy.use_exponential_back_off:
            self._probe_ms = int(min(max(self._probe_ms, 1) * policy.back_off_multiplier, policy.max_delay_ms))
        self._probe_at = now + self._probe_ms / 1000
        return preferred[self._probed % len(preferred)]

    def prefer(self, address: BrokerAddress) -> JmsError:
        """It is back: the next connection goes there. Gives the reason for which this one ends."""
        self._next_target = address
        return JmsError(f"{address.url} is back, which is preferred")

    def on_advice(self, connected_brokers: str | None, reconnect_to: str | None, rebalance: bool) -> JmsError | None:
        """A broker tells of others. Gives the reason for which this connection ends, when it is to move."""
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
        """Take a new list; whether it is another one."""
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
        """An address with the options of the caller's own ones; None for a kind that the caller has not named."""
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
    """Whether one of the others is the same place."""
    return any(address_key(one) == address_key(address) for one in others)


def address_key(address: BrokerAddress) -> str:
    """What tells two addresses apart."""
    return f"{address.host}:{address.port}" if address.port > 0 else address.url


def is_same_address(address: BrokerAddress, uri: str) -> bool:
    """Whether an address is what ``priorityURIs`` names."""
    parsed = read_address(uri)
    if parsed is None:
        return address.url == uri
    return (address.host, address.port) == (parsed.host, parsed.port)
