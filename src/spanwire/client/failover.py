"""Where to connect next, and when: ActiveMQ's failover transport without its socket.

One attempt is one way through the list of addresses. Between attempts the delay grows from the initial one to the
largest; after a lost connection the address that was lost stands last.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.client.address import BrokerAddress
from spanwire.client.options import ReconnectPolicy
from spanwire.model.environment import Environment
from spanwire.model.errors import JmsError

NO_LIMIT: Final = -1
NOWHERE: Final = BrokerAddress("discovery", "a broker that was not found")

logger = logging.getLogger(__name__)


class Failover:
    """Chooses addresses. `begin`, then `next_address` until one works, telling `failed` of each that does not. Without
    any addresses they are looked for, and told with `found`.
    """

    def __init__(self, addresses: tuple[BrokerAddress, ...], policy: ReconnectPolicy, environment: Environment) -> None:
        self.policy: Final[ReconnectPolicy] = policy
        self.address: BrokerAddress = addresses[0] if addresses else NOWHERE
        self._looks: Final[bool] = not addresses
        self.started_at = 0.0
        self.attempts = 0
        self.last_error: JmsError | None = None
        self._addresses: tuple[BrokerAddress, ...] = addresses
        self._environment: Final[Environment] = environment
        self._queue: list[BrokerAddress] = []
        self._limit = 0
        self._delay_ms = 0
        self._not_before = 0.0

    @property
    def reconnects(self) -> bool:
        """Whether a lost connection is made again."""
        return self.policy.max_attempts != 0

    def begin(self, is_startup: bool, now: float) -> None:
        """A connection is wanted: the first one, or another for one that was lost."""
        self.started_at = now
        self.attempts = 0
        self.last_error = None
        self._limit = self.policy.startup_max_attempts if is_startup else self.policy.max_attempts
        self._delay_ms = self.policy.initial_delay_ms
        self._not_before = now if is_startup else now + self._delay_ms / 1000
        if self._looks:
            self._addresses = ()
        self._queue = self._order(None if is_startup else self.address)

    @property
    def is_looking(self) -> bool:
        """Whether addresses are `found` before there is a next one: nobody has listed any, and those that were found
        last are used up.
        """
        return self._looks and not self._queue and not self._is_exhausted()

    def found(self, addresses: tuple[BrokerAddress, ...]) -> None:
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

    def failed(self, error: JmsError, now: float) -> None:
        """The address did not work."""
        self.last_error = error
        if self._queue:
            return
        self.attempts += 1
        policy = self.policy
        if policy.warn_after > 0 and self.attempts % policy.warn_after == 0:
            logger.warning("no connection after %d attempts: %s; trying on", self.attempts, error)
        self._not_before = now + self._delay_ms / 1000
        if policy.use_exponential_back_off:
            self._delay_ms = int(min(max(self._delay_ms, 1) * policy.back_off_multiplier, policy.max_delay_ms))

    def gave_up(self) -> JmsError:
        """Why there is no connection, for the one who wanted it."""
        error = self.last_error if self.last_error is not None else JmsError("no broker could be reached")
        if not self._addresses or (self.attempts <= 1 and len(self._addresses) == 1):
            return error
        tried = ", ".join([address.url for address in self._addresses])
        return JmsError(f"no connection to any of {tried} after {self.attempts} attempts; the last: {error}")

    def _order(self, last: BrokerAddress | None) -> list[BrokerAddress]:
        order = list(self._addresses)
        if self.policy.randomize:
            for index in range(len(order) - 1, 0, -1):
                other = int.from_bytes(self._environment.random_bytes(4), "big") % (index + 1)
                order[index], order[other] = order[other], order[index]
        if last is not None and last in order:
            order.remove(last)
            order.append(last)
        return order
