"""Settings of plug-ins, without the code of the plug-ins, because most brokers have no plug-ins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spanwire.broker.plugins.discarding_plugin import DiscardingSettings
    from spanwire.broker.plugins.event_log import EventLogSettings
    from spanwire.broker.plugins.redelivery_plugin import RedeliverySettings
    from spanwire.broker.plugins.timestamp_plugin import TimeStampSettings
    from spanwire.broker.plugins.tracing_plugin import TracingSettings


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
    tracing: TracingSettings | None = None

    @property
    def any(self) -> bool:
        """True if a plug-in is set."""
        return self != _NONE


_NONE: Final = PluginSettings()
