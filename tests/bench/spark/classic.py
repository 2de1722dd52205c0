"""A queue of ActiveMQ Classic into Parquet, in turn with a plain consumer in Java that acknowledges as often."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.peers import activemq_classpath

SOURCE = Path(__file__).parents[1] / "loads/JmsDrain.java"
ACKNOWLEDGED_AT = 100_000  # messages, the source's maxRowsPerBatch


def compiled(folder: Path) -> Path:
    """Where the consumer's class is."""
    subprocess.run(["javac", "-cp", activemq_classpath(), "-d", str(folder), str(SOURCE)], check=True)
    return folder


def drain_seconds(classes: Path, url: str, queue: str, count: int) -> float:
    """Take ``count`` messages from the queue; the seconds from the connection's start to the last acknowledgement."""
    path = f"{classes}:{activemq_classpath()}"
    command = ["java", "-Xmx512m", "-cp", path, "JmsDrain", url, queue, str(count), str(ACKNOWLEDGED_AT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: the consumer in Java failed: {done.stderr.strip()[-1000:]}")
    return float(done.stdout.split()[-1])
