"""Interprets the ``systemUsage``: limits of memory and disk, and the behaviour at the limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from spanwire.documents.element import Element
from spanwire.model.units import MIB
from spanwire.service.config.model import DiskLimit, UsageConfiguration
from spanwire.service.config.readers.java_options import heap_bytes
from spanwire.service.config.security.security import Inner
from spanwire.service.config.tables import attribute_table as words
from spanwire.service.config.tables import usage_attributes as attributes
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import Settings

MIN_MEMORY_BYTES: Final = 1 * MIB  # room for a frame before the login, a page of a queue and a few messages
MIN_DISK_BYTES: Final = 8 * MIB  # room for eight segments of the smallest size


@dataclass(frozen=True, slots=True)
class UsageInterpreter:
    """Interprets the ``systemUsage`` elements of a broker."""

    findings: Findings
    inner: Inner
    environment: Mapping[str, str]

    def usage(self, broker: Element) -> UsageConfiguration:
        """Return the limits of the whole broker."""
        configuration = UsageConfiguration()
        for usage in self.inner(broker, "systemUsage", words.SYSTEM_USAGE):
            configuration = replace(configuration, **attributes.USAGE.values(Settings(usage, self.findings)))
            for memory in self.inner(usage, "memoryUsage", words.MEMORY_USAGE):
                configuration = replace(
                    configuration, memory_limit_bytes=self._memory(memory, configuration.memory_limit_bytes)
                )
            for store in self.inner(usage, "storeUsage", words.STORE_USAGE):
                configuration = replace(configuration, store=self._disk(store))
            for temporary in self.inner(usage, "tempUsage", words.TEMP_USAGE):
                configuration = replace(configuration, temporary=self._disk(temporary))
        return configuration

    def _memory(self, memory: Element, limit: int) -> int:
        settings = Settings(memory, self.findings)
        percent = attributes.HeapShare(**attributes.HEAP.values(settings)).percent
        if percent > 0:
            heap, origin = heap_bytes(self.environment)
            limit = heap * percent // 100
            self.findings.warn(
                memory.attributes["percentOfJvmHeap"].line,
                f"percentOfJvmHeap is taken as {percent} % of {origin}; write limit instead",
            )
        limit = attributes.MEMORY.values(settings).get("memory_limit_bytes", limit)
        if limit <= 0:
            self.findings.error(memory.line, "the limit of <memoryUsage> must be above 0")
        elif limit < MIN_MEMORY_BYTES:
            self.findings.error(memory.line, "the limit of <memoryUsage> must be at least 1 mb")
        return limit

    def _disk(self, usage: Element) -> DiskLimit:
        """Return a limit in bytes or as a share of the file system (or of ``total``)."""
        settings = Settings(usage, self.findings)
        written = DiskLimit(**attributes.DISK.values(settings))
        limit, percent = written.limit_bytes, written.percent
        total = attributes.DiskTotal(**attributes.DISK_TOTAL.values(settings)).total_bytes
        if total > 0 and percent == 0:
            self.findings.error(
                usage.line, f"total of <{usage.name}> has an effect with percentLimit only; write percentLimit"
            )
        if percent > 0 and limit > 0:
            self.findings.error(usage.line, f"<{usage.name}> has limit and percentLimit; keep one")
        if percent > 0 and total > 0:
            limit, percent = total * percent // 100, 0
        if 0 < limit < MIN_DISK_BYTES:
            self.findings.error(usage.line, f"the limit of <{usage.name}> must be at least {MIN_DISK_BYTES // MIB} mb")
        return DiskLimit(limit, percent)
