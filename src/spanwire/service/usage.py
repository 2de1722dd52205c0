"""What the limits of a configuration are on this machine's disks."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.service.config.model import DiskLimit, UsageConfiguration

logger = logging.getLogger(__name__)


def usage_limits(usage: UsageConfiguration, place: Path | None) -> UsageLimits:
    """The limits of a broker whose store lies in ``place`` (None: it has none). Blocks for a look at the disk; tells in
    the log when a limit is more than the disk can give.
    """
    return UsageLimits(
        usage.memory_limit_bytes,
        _on_disk("storeUsage", usage.store, place),
        _on_disk("tempUsage", usage.temporary, place),
        usage.fail_if_no_space,
        usage.fail_after_ms,
    )


def _on_disk(name: str, limit: DiskLimit, place: Path | None) -> int:
    if place is None or limit == DiskLimit():
        return 0
    disk = shutil.disk_usage(place)
    if limit.percent > 0:
        return disk.total * limit.percent // 100
    if limit.limit_bytes > disk.total:
        logger.warning(
            "%s is %d bytes, but the file system of %s has %d; sends wait when it is full",
            name,
            limit.limit_bytes,
            place,
            disk.total,
        )
    return limit.limit_bytes
