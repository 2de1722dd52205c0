"""Installs the plug-ins of a configuration into a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.ports import MessageFormat, StatisticsFormat
from spanwire.model.message import FORMAT_OPENWIRE_10
from spanwire.service.config.model import BrokerConfiguration
from spanwire.tracing.switch import is_switched_on
from spanwire.transports.connector import TransportConnector

if TYPE_CHECKING:  # loaded by name, because most brokers have no plug-ins and trace nothing
    from spanwire.broker.plugins.filtered_broker import FilteredBroker
    from spanwire.service.tracing import BrokerTraces

PlugIn = Callable[[Broker, PluginSettings, StatisticsFormat | None, UsageLimits, dict[str, str]], None]
StatisticsFormatClass = Callable[[str, MessageFormat], StatisticsFormat]


class NoTraces:
    """Stands for the traces of a broker without traces."""

    def plugins(self, plugins: PluginSettings) -> PluginSettings:
        """Return the plug-ins unchanged."""
        return plugins

    def start(self) -> None:
        """Start no traces."""

    async def stop(self) -> None:
        """Stop no traces."""

    def row(self) -> dict[str, int]:
        """Return no figures."""
        return {}


def broker_traces(configuration: BrokerConfiguration, environment: Mapping[str, str]) -> BrokerTraces | NoTraces:
    """Return the traces of a broker, if requested by the configuration or the environment.

    Raises:
        ConfigurationError: the extra is missing, or a variable of the environment is refused.
    """
    if configuration.tracing is None and not is_switched_on(environment):
        return NoTraces()
    traces_class = cast("type[BrokerTraces]", registry.load(registry.BROKER_TRACES))
    return traces_class(configuration.tracing, configuration.broker_name, environment)


def broker_class(plugins: PluginSettings) -> type[Broker]:
    """Return the broker class for the plug-ins; `Broker` without plug-ins."""
    return cast("type[FilteredBroker]", registry.load(registry.FILTERED_BROKER)) if plugins.any else Broker


def install_plugins(
    broker: Broker, plugins: PluginSettings, formats: MessageFormats, limits: UsageLimits, addresses: dict[str, str]
) -> None:
    """Install the plug-ins before ``broker`` recovers; ``addresses`` appear in statistics."""
    if not plugins.any:
        return
    statistics_format: StatisticsFormat | None = None
    if plugins.statistics:
        format_class = cast(StatisticsFormatClass, registry.load(registry.STATISTICS_FORMAT))
        statistics_format = format_class(broker.ids.next_id(), formats.format(FORMAT_OPENWIRE_10))
    plug_in = cast(PlugIn, registry.load(registry.PLUG_IN))
    plug_in(broker, plugins, statistics_format, limits, addresses)


def addresses(connectors: Sequence[TransportConnector], broker_name: str, directory: Path | None) -> dict[str, str]:
    """Return the first connector of each scheme, under the name in statistics."""
    addresses_by_scheme = {"vm": f"vm://{broker_name}", "dataDirectory": "" if directory is None else str(directory)}
    names = {"tcp": "openwire", "nio": "openwire", "nio+ssl": "ssl", "stomp+nio": "stomp", "stomp+nio+ssl": "stomp+ssl"}
    for connector in connectors:
        scheme = connector.settings.scheme
        addresses_by_scheme.setdefault(names.get(scheme, scheme), connector.uri)
    return addresses_by_scheme
