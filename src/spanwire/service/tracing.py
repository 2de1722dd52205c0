"""The traces of a broker: notes of the core, and a thread to send the notes.

Loaded only by a broker with traces; `spanwire.service.plugins` decides.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spanwire.broker.plugins.tracing_plugin import TracingSettings
from spanwire.model.errors import ConfigurationError
from spanwire.model.observation.span_records import SpanRecords
from spanwire.service.config.model import TracingConfiguration
from spanwire.tracing.switch import is_switched_off, span_export

if TYPE_CHECKING:
    from spanwire.broker.plugins.plugin_settings import PluginSettings
    from spanwire.tracing.export import SpanExport

SCOPE: Final = "spanwire.broker"

logger = logging.getLogger(__name__)


class BrokerTraces:
    """The traces of one broker, switched on by the configuration or by the environment.

    ``configuration`` is None if only the environment asks.

    Raises:
        ConfigurationError: the configuration asks, and the extra is missing or a variable is refused.
    """

    def __init__(
        self,
        configuration: TracingConfiguration | None,
        broker_name: str,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._settings: Final = TracingSettings(
            SpanRecords(), 0.0 if configuration is None else configuration.sampling_rate
        )
        self._export: SpanExport | None = None
        if is_switched_off(environment):
            return
        endpoint = None if configuration is None else configuration.endpoint
        try:
            self._export = span_export(self._settings.records, SCOPE, broker_name, endpoint)
        except ConfigurationError as error:
            if configuration is not None:
                raise
            logger.warning("the environment names a collector, and nothing is traced: %s", error)

    def plugins(self, plugins: PluginSettings) -> PluginSettings:
        """Return the plug-ins of the broker, with the plug-in for notes."""
        return plugins if self._export is None else replace(plugins, tracing=self._settings)

    def start(self) -> None:
        """Begin to send."""
        if self._export is not None:
            self._export.start()

    async def stop(self) -> None:
        """Send the last spans, for a limited time; may be called twice."""
        if self._export is not None:
            await asyncio.to_thread(self._export.stop)

    def row(self) -> dict[str, int]:
        """Return the figures of the status; empty without traces."""
        export = self._export
        if export is None:
            return {}
        return {"sent": export.sent, "dropped": export.dropped, "waiting": len(export.records)}
