"""Puts the plug-ins of a configuration together. A broker without plug-ins does not load this module."""

from __future__ import annotations

from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.plugins.broker_filter import BrokerFilter
from spanwire.broker.plugins.discarding_plugin import Discarding, DiscardingSettings
from spanwire.broker.plugins.event_log import EventLog, EventLogSettings, LoggedDeaths
from spanwire.broker.plugins.filtered_broker import FilteredBroker
from spanwire.broker.plugins.logging_plugin import LoggingFilter
from spanwire.broker.plugins.path_separator_plugin import PathSeparatorFilter
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.plugins.redelivery_plugin import BrokerRedelivery, RedeliverySettings
from spanwire.broker.plugins.statistics_entries import BrokerEntries, DestinationEntries
from spanwire.broker.plugins.statistics_plugin import StatisticsFilter, StatisticsRequests
from spanwire.broker.plugins.timestamp_plugin import Stamping, StampingFilter
from spanwire.broker.plugins.tracing_plugin import TracingFilter
from spanwire.broker.ports import StatisticsFormat


def plug_in(
    broker: FilteredBroker,
    plugins: PluginSettings,
    statistics_format: StatisticsFormat | None,
    limits: UsageLimits,
    addresses: dict[str, str],
) -> None:
    """Install ``plugins`` into a new broker.

    Filters of requests are installed outermost first, and rules for dead letters.

    Args:
        statistics_format: encodes statistics; required by the statistics plug-in.
        addresses: texts for `spanwire.broker.plugins.statistics_entries.ADDRESSES`.
    """
    filters: list[BrokerFilter] = []
    if plugins.event_log is not None:  # outermost: the log has the requests as clients made them
        filters.append(_event_log(broker, plugins.event_log))
    if plugins.path_separator:
        filters.append(PathSeparatorFilter(plugins.path_separator, broker.formats))
    if plugins.statistics and statistics_format is not None:
        filters.append(_statistics(broker, statistics_format, limits, addresses))
    if plugins.times is not None or plugins.persistent is not None or plugins.names_user:
        filters.append(StampingFilter(Stamping(plugins.times, plugins.persistent, broker.formats, plugins.names_user)))
    if plugins.tracing is not None:  # innermost: it notes messages as the broker stores them
        parts = broker.assembly
        filters.append(
            TracingFilter(
                plugins.tracing, parts.context, parts.unsynced, broker.formats, broker.environment, broker.name
            )
        )
    broker.install(filters)
    for settings in reversed(plugins.dead_letters):
        _add_rule(broker, settings)


def _event_log(broker: FilteredBroker, settings: EventLogSettings) -> LoggingFilter:
    log = EventLog(settings)
    broker.assembly.context.observer = log
    if log.internal:
        broker.assembly.dead_letters.rules.append(LoggedDeaths(log))
    return LoggingFilter(log, broker.name)


def _statistics(
    broker: FilteredBroker, statistics_format: StatisticsFormat, limits: UsageLimits, addresses: dict[str, str]
) -> StatisticsFilter:
    parts = broker.assembly
    entries = DestinationEntries(broker.name, broker.broker_id)
    requests = StatisticsRequests(
        statistics_format,
        parts.context,
        parts.map,
        parts.connections,
        parts.router,
        broker.formats,
        parts.access,
        parts.usage,
        BrokerEntries(entries, parts.context, parts.usage, limits, addresses),
        entries,
    )
    return StatisticsFilter(requests)


def _add_rule(broker: FilteredBroker, settings: DiscardingSettings | RedeliverySettings) -> None:
    parts = broker.assembly
    if isinstance(settings, DiscardingSettings):
        parts.dead_letters.rules.append(Discarding(settings))
    elif parts.scheduler is not None:  # the configuration asks for one
        parts.dead_letters.rules.append(
            BrokerRedelivery(settings, parts.context, parts.scheduler, broker.formats, broker.environment)
        )
