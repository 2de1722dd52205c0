"""What the benchmark runs: each workload is one call of the load generator."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Workload:
    """One way to load a broker; the fields are the generator's arguments.

    ``batch`` frames go into one write; ``synchronous`` waits for each answer; ``window`` bounds the messages in flight
    (0: no bound); ``rate`` in messages per second measures latency instead of throughput; ``quick`` ones run under
    ``QUICK=1``. The protocol ``jms`` stands for the Java client with its defaults. ``restart``: the producers fill the
    queue first, then the broker is stopped and started again, and what is measured is the consumers' drain of it.
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

    def fill(self) -> Workload:
        """The half before the restart."""
        return replace(self, consumers=0, restart=False)

    def drain(self) -> Workload:
        """The half after it."""
        return replace(self, producers=0, restart=False)

    def arguments(self, port: int, destination: str) -> list[str]:
        """The generator's command line after its own name."""
        if self.protocol == "jms":
            url = f"tcp://127.0.0.1:{port}"
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
        ]


KIB = 1024
MIB = 1024 * KIB

WORKLOADS = [
    Workload("openwire queue 1p1c 100 B", "openwire", "queue", 1, 1, 100, 200_000),
    Workload("openwire queue 1p1c 1 KiB", "openwire", "queue", 1, 1, KIB, 200_000, quick=True),
    Workload("openwire queue 4p4c 1 KiB", "openwire", "queue", 4, 4, KIB, 200_000),
    Workload("openwire queue 1p1c 1 KiB, one call per message", "openwire", "queue", 1, 1, KIB, 100_000, 1, quick=True),
    Workload("openwire queue 4p4c 1 KiB, one call per message", "openwire", "queue", 4, 4, KIB, 100_000, 1),
    Workload("openwire queue 1p1c 1 KiB sync", "openwire", "queue", 1, 1, KIB, 30_000, 1, synchronous=True),
    Workload("openwire queue 1p1c 64 KiB", "openwire", "queue", 1, 1, 64 * KIB, 20_000, 1, window=1_000),
    Workload("openwire queue 1p1c 1 MiB", "openwire", "queue", 1, 1, MIB, 2_000, 1, window=100, quick=True),
    Workload("openwire topic 1p10c 100 B", "openwire", "topic", 1, 10, 100, 40_000, window=2_000),
    Workload("openwire topic 1p10c 1 KiB", "openwire", "topic", 1, 10, KIB, 40_000, window=2_000, quick=True),
    Workload("stomp queue 1p1c 100 B", "stomp", "queue", 1, 1, 100, 200_000),
    Workload("stomp queue 1p1c 1 KiB", "stomp", "queue", 1, 1, KIB, 200_000, quick=True),
    Workload("stomp queue 4p4c 1 KiB", "stomp", "queue", 4, 4, KIB, 200_000),
    Workload("stomp topic 1p10c 1 KiB", "stomp", "topic", 1, 10, KIB, 40_000, window=2_000),
    Workload("openwire queue 1p1c 1 KiB persistent sync", "openwire", "queue", 1, 1, KIB, 4_000, 1, True, True),
    Workload(
        "openwire queue 16p4c 1 KiB persistent sync", "openwire", "queue", 16, 4, KIB, 24_000, 1, True, True, quick=True
    ),
    Workload(
        "openwire queue 16p 1 KiB persistent sync, no consumer", "openwire", "queue", 16, 0, KIB, 16_000, 1, True, True
    ),
    Workload("openwire queue 4p4c 1 KiB persistent", "openwire", "queue", 4, 4, KIB, 100_000, persistent=True),
    Workload(
        "openwire queue drain of 1 million 1 KiB after a restart",
        *("openwire", "queue", 16, 1, KIB, 1_000_000, 1),
        persistent=True,
        synchronous=True,
        restart=True,
    ),
    Workload("stomp queue 16p4c 1 KiB persistent sync", "stomp", "queue", 16, 4, KIB, 16_000, 1, True, True),
    Workload("openwire queue 1p1c 1 KiB at 2000/s", "openwire", "queue", 1, 1, KIB, 6_000, 1, rate=2_000),
    Workload("stomp queue 1p1c 1 KiB at 2000/s", "stomp", "queue", 1, 1, KIB, 6_000, 1, rate=2_000, quick=True),
    Workload("java queue 1p1c 1 KiB", "jms", "queue", 1, 1, KIB, 100_000, quick=True),
    Workload("java queue 1p1c 1 KiB persistent", "jms", "queue", 1, 1, KIB, 4_000, persistent=True),
]
