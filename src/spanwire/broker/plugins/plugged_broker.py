"""A broker with plug-ins. A broker without plug-ins is a plain `Broker` and pays nothing for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.plugins.discarding_plugin import Discarding, DiscardingSettings
from spanwire.broker.plugins.event_log import EventLogSettings
from spanwire.broker.plugins.redelivery_plugin import BrokerRedelivery, RedeliverySettings
from spanwire.broker.plugins.statistics_entries import BrokerEntries, DestinationEntries
from spanwire.broker.plugins.statistics_plugin import StatisticsRequests
from spanwire.broker.plugins.timestamp_plugin import Stamping, TimeStampSettings
from spanwire.broker.ports import StatisticsFormat
from spanwire.broker.security.authorization import ANONYMOUS
from spanwire.model.environment import Time
from spanwire.model.ids import AnyTransactionId
from spanwire.model.message import Message


@dataclass(frozen=True)
class PluginSettings:
    """The plug-ins of a broker.

    Of ``dead_letters`` the last rule decides first: the last plug-in of an ``activemq.xml`` is the outermost. Clients
    may write ``path_separator`` in place of a dot. With ``names_user`` each message gets its sender's user name as
    JMSXUserID.
    """

    dead_letters: tuple[DiscardingSettings | RedeliverySettings, ...] = ()
    statistics: bool = False
    times: TimeStampSettings | None = None
    persistent: bool | None = None
    names_user: bool = False
    event_log: EventLogSettings | None = None
    path_separator: str = ""

    @property
    def any(self) -> bool:
        """True if a plug-in is set."""
        return self != _NONE


_NONE: Final = PluginSettings()


class PluggedBroker(Broker):
    """A broker whose plug-ins see incoming messages and dead letters. `plug_in` is called before everything else."""

    _statistics: StatisticsRequests | None
    _stamping: Stamping | None

    def plug_in(
        self,
        plugins: PluginSettings,
        statistics_format: StatisticsFormat | None,
        limits: UsageLimits,
        addresses: dict[str, str],
    ) -> None:
        """Install plug-ins.

        Args:
            statistics_format: encodes statistics; required by the statistics plug-in.
            addresses: texts for `spanwire.broker.plugins.statistics_entries.ADDRESSES`.
        """
        self._statistics = None
        self._stamping = None
        for settings in reversed(plugins.dead_letters):
            self._add_rule(settings)
        if plugins.times is not None or plugins.persistent is not None or plugins.names_user:
            self._stamping = Stamping(plugins.times, plugins.persistent, self.formats, plugins.names_user)
        if plugins.statistics and statistics_format is not None:
            entries = DestinationEntries(self.name, self.broker_id)
            self._statistics = StatisticsRequests(
                statistics_format,
                self._context,
                self._map,
                self._connections,
                self._sending,
                self.formats,
                self._rights,
                self._usage,
                BrokerEntries(entries, self._context, self._usage, limits, addresses),
                entries,
            )

    def _add_rule(self, settings: DiscardingSettings | RedeliverySettings) -> None:
        if isinstance(settings, DiscardingSettings):
            self._dead_letters.rules.append(Discarding(settings))
        elif self._scheduler is not None:  # the configuration asks for one
            self._dead_letters.rules.append(
                BrokerRedelivery(settings, self._context, self._scheduler, self.formats, self.environment)
            )

    def send(
        self, state: ConnectionState, message: Message, transaction_id: AnyTransactionId | None, token: int, now: Time
    ) -> bool:
        """Accept a message as `Broker.send` does, after the plug-ins. Requests for statistics are answered."""
        self._turn(now)
        statistics = self._statistics
        if statistics is not None and statistics.intercept(state, message) is None:
            return True
        stamping = self._stamping
        if stamping is not None:
            message = stamping.stamped(message, now.wall_ms, _user_of(state))
        return super().send(state, message, transaction_id, token, now)


def _user_of(state: ConnectionState) -> str:
    """Return the user name of a connection, empty for an anonymous one."""
    principal = state.principal
    nameless = not state.info.user_name and principal.name == ANONYMOUS and not principal.groups
    return "" if nameless else principal.name
