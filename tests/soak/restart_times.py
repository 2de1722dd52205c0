"""How long a start takes with many pending messages after kill -9, cold and warm, and what memory it needs.

    python -m tests.soak.restart_times --count 1000000 --bytes 1000 [--directory DIRECTORY] [--keep]

Prints one line of JSON for each start. The store is filled without syncs, which changes nothing of its files. Dropping
the page cache needs root; others get warm starts only. Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from spanwire.broker.broker import Broker
from spanwire.model.destination import QUEUE, Destination
from spanwire.service.machine.environment import RealEnvironment
from spanwire.service.message_formats import message_formats
from spanwire.stores.directory import DataDirectory
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.driver.journal_store import JOURNAL_DIRECTORY, JournalStore
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.opening import open_journal
from tests.support.plain_format import plain_message

A: Final = Destination(QUEUE, "A")
SEGMENT_BYTES: Final = 32 * 1024 * 1024
CALLS_PER_BATCH: Final = 3000
KILLED: Final = 9
DROP_CACHES: Final = Path("/proc/sys/vm/drop_caches")


def fill(directory: Path, count: int, size: int) -> None:
    """A queue with ``count`` messages of ``size`` bytes; the process ends in the middle of things."""
    locked = DataDirectory(directory)
    disk = FileDisk(locked.subdirectory(JOURNAL_DIRECTORY))
    journal = open_journal(disk, os.urandom(16), SEGMENT_BYTES, sync=False).journal
    message = plain_message(A, 1, b"x" * size)
    for number in range(count):
        journal.append(A, message)
        if number % CALLS_PER_BATCH == 0 or number == count - 1:
            while (batch := journal.next_batch()) is not None:
                write_batch(disk, batch, sync=False)
                journal.on_completed(batch)
    os._exit(KILLED)


def start(directory: Path) -> None:
    """One start up to where connections would be taken; prints the figures and ends without a stop."""
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    store = JournalStore.open(directory, message_formats(), print, print, print, print)
    opened = time.monotonic()
    environment = RealEnvironment()
    broker = Broker("b", "ID:b", environment, store.store, message_formats())
    broker.recover(store.recovered, store.clean, environment.now())
    store.recovered = []
    ready = time.monotonic()
    figures = {
        "store_s": round(opened - began, 2),
        "broker_s": round(ready - opened, 2),
        "memory_mib": (resident_kib() - base) // 1024,
        "peak_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) // 1024,
        "pending": broker.statistics().pending,
        "version": version_text(),
    }
    print(json.dumps(figures), flush=True)
    os._exit(KILLED)


def resident_kib() -> int:
    """Resident memory of this process."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def run(arguments: argparse.Namespace, directory: Path) -> int:
    """Fill, then start cold and warm."""
    me = [sys.executable, "-m", "tests.soak.restart_times"]
    sizes = ["--count", str(arguments.count), "--bytes", str(arguments.bytes), "--directory", str(directory)]
    filled = subprocess.run([*me, "--fill", *sizes], check=False).returncode
    if filled != KILLED:
        return 1
    for cold in (True, False):
        if cold:
            os.sync()
            try:
                DROP_CACHES.write_text("3\n", "ascii")
            except OSError:
                print("warm only: the page cache cannot be dropped", flush=True)
        if subprocess.run([*me, "--start", *sizes], check=False).returncode != KILLED:
            return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=1000)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--fill", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--start", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fill:
        fill(arguments.directory, arguments.count, arguments.bytes)
    if arguments.start:
        start(arguments.directory)
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="restart-times-"))
    try:
        return run(arguments, directory)
    finally:
        if not arguments.keep:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
