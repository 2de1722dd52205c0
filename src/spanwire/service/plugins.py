"""Installs the plug-ins of a configuration into a broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.plugins.logging_plugin import LoggedBroker
from spanwire.broker.plugins.path_separator_plugin import SeparatedBroker
from spanwire.broker.plugins.plugged_broker import PluggedBroker, PluginSettings
from spanwire.broker.ports import MessageFormat, StatisticsFormat
from spanwire.model.message import FORMAT_OPENWIRE_10
from spanwire.transports.connector import TransportConnector

StatisticsFormatClass = Callable[[str, MessageFormat], StatisticsFormat]


def broker_class(plugins: PluginSettings) -> type[Broker]:
    """Return the broker class that the plug-ins need; `Broker` without plug-ins."""
    if plugins.event_log is not None:
        return LoggedBroker
    if plugins.path_separator:
        return SeparatedBroker
    return PluggedBroker if plugins.any else Broker


def plug_in(
    broker: Broker, plugins: PluginSettings, formats: MessageFormats, limits: UsageLimits, addresses: dict[str, str]
) -> None:
    """Install the plug-ins before ``broker`` recovers; ``addresses`` appear in statistics."""
    if not isinstance(broker, PluggedBroker):
        return
    statistics_format: StatisticsFormat | None = None
    if plugins.statistics:
        format_class = cast(StatisticsFormatClass, registry.load(registry.STATISTICS_FORMAT))
        statistics_format = format_class(broker.ids.next_id(), formats.format(FORMAT_OPENWIRE_10))
    broker.plug_in(plugins, statistics_format, limits, addresses)
    if plugins.event_log is not None and isinstance(broker, LoggedBroker):
        broker.log_events(plugins.event_log)


def addresses(connectors: Sequence[TransportConnector], broker_name: str, directory: Path | None) -> dict[str, str]:
    """Return the first connector of each scheme, under its name in statistics."""
    addresses_by_scheme = {"vm": f"vm://{broker_name}", "dataDirectory": "" if directory is None else str(directory)}
    names = {"tcp": "openwire", "nio": "openwire", "nio+ssl": "ssl", "stomp+nio": "stomp", "stomp+nio+ssl": "stomp+ssl"}
    for connector in connectors:
        scheme = connector.settings.scheme
        addresses_by_scheme.setdefault(names.get(scheme, scheme), connector.uri)
    return addresses_by_scheme
