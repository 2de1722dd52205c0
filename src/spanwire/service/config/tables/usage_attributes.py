"""Attributes of ``systemUsage`` and of the limits inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.service.config.model import DiskLimit, UsageConfiguration
from spanwire.service.config.tables.attributes import FLAG, MAX_INT, SIZE, Attribute, AttributeTable, number


@dataclass(frozen=True, slots=True)
class HeapShare:
    """The limit of memory in percent of a Java broker's heap; 0 means no such limit."""

    percent: int = 0


@dataclass(frozen=True, slots=True)
class DiskTotal:
    """The total for a limit in percent, in bytes; 0 means the size of the file system."""

    total_bytes: int = 0


USAGE: Final = AttributeTable(
    UsageConfiguration,
    Attribute("sendFailIfNoSpace", FLAG, "fail_if_no_space"),
    Attribute("sendFailIfNoSpaceAfterTimeout", number("milliseconds", 0, MAX_INT), "fail_after_ms", "no end"),
)
MEMORY: Final = AttributeTable(UsageConfiguration, Attribute("limit", SIZE, "memory_limit_bytes"))
HEAP: Final = AttributeTable(
    HeapShare, Attribute("percentOfJvmHeap", number("percent", 1, 100), "percent", "the limit applies")
)
DISK: Final = AttributeTable(
    DiskLimit,
    Attribute("limit", SIZE, "limit_bytes", "the whole disk"),
    Attribute("percentLimit", number("percent", 0, 100), "percent", "the limit applies"),
)
DISK_TOTAL: Final = AttributeTable(DiskTotal, Attribute("total", SIZE, "total_bytes", "the file system"))
