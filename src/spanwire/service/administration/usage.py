"""Usage limits of a configuration in bytes of the machine's disks."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.service.config.model import DiskLimit, UsageConfiguration

logger = logging.getLogger(__name__)


def usage_limits(usage: UsageConfiguration, directory: Path | None) -> UsageLimits:
    """Return the limits in bytes for a broker with a store in ``directory``.

    Without a ``directory`` the limits of store and temporary usage are 0. Blocks to examine the disk; logs a warning if
    a limit exceeds the disk.
    """
    return UsageLimits(
        usage.memory_limit_bytes,
        _on_disk("storeUsage", usage.store, directory),
        _on_disk("tempUsage", usage.temporary, directory),
        usage.fail_if_no_space,
        usage.fail_after_ms,
    )


def _on_disk(name: str, limit: DiskLimit, directory: Path | None) -> int:
    if directory is None or limit == DiskLimit():
        return 0
    disk = shutil.disk_usage(directory)
    if limit.percent > 0:
        return disk.total * limit.percent // 100
    if limit.limit_bytes > disk.total:
        logger.warning(
            "%s is %d bytes, but the file system of %s has %d; sends wait when it is full",
            name,
            limit.limit_bytes,
            directory,
            disk.total,
        )
    return limit.limit_bytes
