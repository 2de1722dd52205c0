"""A queue of ActiveMQ Classic into Parquet, in turn with a plain consumer in Java."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.peers import activemq_classpath

SOURCE = Path(__file__).parents[1] / "loads/JmsDrain.java"
# Messages; half of a broker's `maxPageSize`. While a consumer in Java held more without an acknowledgement, and nothing
# else happened at its queue, Debian's Classic stopped sending to it, after 200 to 2,400 messages.
ACKNOWLEDGED_AT = 100
END_S = 600.0


def compiled(folder: Path) -> Path:
    """Where the consumer's class is."""
    subprocess.run(["javac", "-cp", activemq_classpath(), "-d", str(folder), str(SOURCE)], check=True)
    return folder


def drain_seconds(classes: Path, url: str, queue: str, count: int) -> float:
    """Take ``count`` messages from the queue; the seconds from the connection's start to the last acknowledgement."""
    path = f"{classes}:{activemq_classpath()}"
    command = ["java", "-Xmx512m", "-cp", path, "JmsDrain", url, queue, str(count), str(ACKNOWLEDGED_AT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=END_S)
    if done.returncode != 0:
        raise SystemExit(f"bench: the consumer in Java failed: {done.stderr.strip()[-1000:]}")
    return float(done.stdout.split()[-1])
