"""What the benchmark runs: each workload is one call of the load generator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True)
class Workload:
    """One way to load a broker; the fields are the generator's arguments.

    ``batch`` frames go into one write; ``synchronous`` waits for each answer; ``window`` bounds the messages in flight
    (0: no bound); ``rate`` in messages per second measures latency instead of throughput; ``quick`` ones run under
    ``QUICK=1``. The protocol ``jms`` stands for the Java client with its defaults. ``restart``: the producers fill the
    queue first, then the broker is stopped and started again, and what is measured is the consumers' drain of it.
    ``individual``: STOMP consumers acknowledge each message by itself. ``numbered``: STOMP producers give each message
    a header of its own. ``section`` is the chapter of the report.
    """

    name: str
    protocol: str
    kind: str
    producers: int
    consumers: int
    size: int
    count: int
    batch: int = 16
    persistent: bool = False
    synchronous: bool = False
    window: int = 10_000
    rate: int = 0
    quick: bool = False
    restart: bool = False
    individual: bool = False
    numbered: bool = False
    section: str = ""

    def fill(self) -> Workload:
        """The half before the restart."""
        return replace(self, consumers=0, restart=False)

    def drain(self) -> Workload:
        """The half after it."""
        return replace(self, producers=0, restart=False)

    def arguments(self, port: int, destination: str, host: str = "127.0.0.1") -> list[str]:
        """The generator's command line after its own name; the generator in C has the host in its environment."""
        if self.protocol == "jms":
            url = f"tcp://{host}:{port}"
            return [url, destination, str(self.size), str(self.count), "1" if self.persistent else "0"]
        return [
            self.protocol,
            str(port),
            self.kind,
            destination,
            str(self.producers),
            str(self.consumers),
            str(self.size),
            str(self.count),
            str(self.batch),
            "1" if self.persistent else "0",
            "1" if self.synchronous else "0",
            str(self.window),
            str(self.rate),
            "individual" if self.individual else "auto",
            "numbered" if self.numbered else "same",
        ]


KIB = 1024
MIB = 1024 * KIB

MEMORY_OPENWIRE: Final = "OpenWire, in memory"
MEMORY_STOMP: Final = "STOMP, in memory"
ON_DISK: Final = "Persistent"
LATENCY: Final = "Latency at 2,000 messages per second"
JAVA: Final = "ActiveMQ's Java client"
RESTART: Final = "After a restart"


def _group(section: str, *workloads: Workload) -> list[Workload]:
    return [replace(workload, section=section) for workload in workloads]


# A:B in a name: producers and consumers. Bodies have 1 KiB unless the name says otherwise.
WORKLOADS = [
    *_group(
        MEMORY_OPENWIRE,
        Workload("OpenWire queue 1:1", "openwire", "queue", 1, 1, KIB, 200_000, quick=True),
        Workload("OpenWire queue 4:4", "openwire", "queue", 4, 4, KIB, 200_000),
        Workload("OpenWire queue 1:1, 100 bytes", "openwire", "queue", 1, 1, 100, 200_000),
        Workload("OpenWire queue 1:1, 64 KiB", "openwire", "queue", 1, 1, 64 * KIB, 20_000, 1, window=1_000),
        Workload("OpenWire queue 1:1, 1 MiB", "openwire", "queue", 1, 1, MIB, 2_000, 1, window=100, quick=True),
        Workload("OpenWire queue 1:1, one per write", "openwire", "queue", 1, 1, KIB, 100_000, 1, quick=True),
        Workload("OpenWire queue 4:4, one per write", "openwire", "queue", 4, 4, KIB, 100_000, 1),
        Workload("OpenWire queue 1:1, synchronous", "openwire", "queue", 1, 1, KIB, 30_000, 1, synchronous=True),
        Workload("OpenWire topic 1:10", "openwire", "topic", 1, 10, KIB, 40_000, window=2_000, quick=True),
        Workload("OpenWire topic 1:10, 100 bytes", "openwire", "topic", 1, 10, 100, 40_000, window=2_000),
    ),
    *_group(
        MEMORY_STOMP,
        Workload("STOMP queue 1:1", "stomp", "queue", 1, 1, KIB, 200_000, quick=True),
        Workload("STOMP queue 4:4", "stomp", "queue", 4, 4, KIB, 200_000),
        Workload("STOMP queue 1:1, 100 bytes", "stomp", "queue", 1, 1, 100, 200_000),
        Workload(
            "STOMP queue 4:4, client-individual", "stomp", "queue", 4, 4, KIB, 100_000, quick=True, individual=True
        ),
        Workload("STOMP topic 1:10", "stomp", "topic", 1, 10, KIB, 40_000, window=2_000),
    ),
    *_group(
        ON_DISK,
        Workload("OpenWire 1:1, persistent, synchronous", "openwire", "queue", 1, 1, KIB, 4_000, 1, True, True),
        Workload(
            "OpenWire 16:4, persistent, synchronous", "openwire", "queue", 16, 4, KIB, 24_000, 1, True, True, quick=True
        ),
        Workload("OpenWire 16:0, persistent, synchronous", "openwire", "queue", 16, 0, KIB, 16_000, 1, True, True),
        Workload("OpenWire 4:4, persistent, asynchronous", "openwire", "queue", 4, 4, KIB, 100_000, persistent=True),
        Workload("STOMP 16:4, persistent, synchronous", "stomp", "queue", 16, 4, KIB, 16_000, 1, True, True),
    ),
    *_group(
        LATENCY,
        Workload("OpenWire queue 1:1 at 2,000/s", "openwire", "queue", 1, 1, KIB, 6_000, 1, rate=2_000, quick=True),
        Workload("STOMP queue 1:1 at 2,000/s", "stomp", "queue", 1, 1, KIB, 6_000, 1, rate=2_000, quick=True),
    ),
    *_group(
        JAVA,
        Workload("Java queue 1:1", "jms", "queue", 1, 1, KIB, 100_000, quick=True),
        Workload("Java queue 1:1, persistent", "jms", "queue", 1, 1, KIB, 4_000, persistent=True),
    ),
    # The last: whatever ran after it would meet cold just-in-time compilers.
    *_group(
        RESTART,
        Workload(
            "OpenWire 0:1, 200,000 stored",
            *("openwire", "queue", 16, 1, KIB, 200_000, 1),
            persistent=True,
            synchronous=True,
            restart=True,
        ),
    ),
]
