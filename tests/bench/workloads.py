"""What the benchmark runs: each workload is one call of the load generator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    """One way to load a broker; the fields are the generator's arguments.

    ``batch`` frames go into one write; ``synchronous`` waits for each answer; ``window`` bounds the messages in flight
    (0: no bound); ``rate`` in messages per second measures latency instead of throughput.
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

    def arguments(self, port: int, destination: str) -> list[str]:
        """The generator's command line after its own name."""
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
        ]


KIB = 1024

WORKLOADS = [
    Workload("openwire queue 1p1c 1 KiB", "openwire", "queue", 1, 1, KIB, 200_000),
    Workload("stomp queue 1p1c 1 KiB", "stomp", "queue", 1, 1, KIB, 200_000),
    Workload("openwire topic 1p10c 1 KiB", "openwire", "topic", 1, 10, KIB, 40_000, window=2_000),
    Workload(
        "openwire queue 16p4c 1 KiB persistent sync", "openwire", "queue", 16, 4, KIB, 24_000, 1, True, True, window=0
    ),
    Workload("stomp queue 1p1c 1 KiB at 2000/s", "stomp", "queue", 1, 1, KIB, 6_000, 1, window=0, rate=2_000),
]
