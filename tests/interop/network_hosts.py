"""What happens in `test_network_hosts.py`, inside a network namespace: ``python -m … SCENARIO DIRECTORY``.

Two hosts, each a network namespace of its own, and between them a cable that this process is: it takes every frame from
one end and puts it into the other, or does not, or does so late, or answers a segment with a reset.

    host A (10.77.0.1) eth0 --- nearA [ Cable ] nearB --- eth0 host B (10.77.0.2)

Nothing outlives this process: a namespace ends with the last process in it.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from spanwire.management.control_client import ControlClient
from tests.interop.network_rows import PATIENCE_S, Consumer, Place, send
from tests.support.broker_process import BrokerProcess, spanwire_command

ETH_P_ALL: Final = 0x0003
PACKET_OUTGOING: Final = 4
IPV4: Final = b"\x08\x00"
TCP: Final = 6
SYN, RST, ACK = 0x02, 0x04, 0x10
FRAME_BYTES: Final = 65_536
SIOCETHTOOL: Final = 0x8946
OFFLOADS: Final = (0x17, 0x19, 0x1F, 0x24)  # set tx checksums, scatter-gather, TSO, GSO: frames are to be whole
STEPS: Final = 20  # messages in one batch of a sender
SILENCE_MS: Final = 2_000
FIRST_LOOK_MS: Final = 500  # instead of ten seconds, in which no silence counts on a new connection
CONNECTOR: Final = """\
    <networkConnectors>
      <networkConnector name="cable" duplex="true"
        uri="static:(tcp://10.77.0.2:{port}?wireFormat.maxInactivityDuration={silence})?initialReconnectDelay=200&amp;maxReconnectDelay=1000"/>
    </networkConnectors>
"""


def told(message: str) -> None:
    """What is going on, for when it fails."""
    sys.stdout.write(f"{time.monotonic():.1f} {message}\n")
    sys.stdout.flush()


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)


class Host:
    """A network namespace with one interface, whose other end is ``near`` here."""

    def __init__(self, name: str, address: str) -> None:
        self.near: Final = f"near{name}"
        self._keeper: Final = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE)
        self.pid: Final = self._keeper.pid
        self._await_namespace()
        run("ip", "link", "add", self.near, "type", "veth", "peer", "name", f"far{name}")
        for interface in (self.near, f"far{name}"):
            whole_frames(interface)
        run("ip", "link", "set", f"far{name}", "netns", str(self.pid))
        run("ip", "link", "set", self.near, "up")
        for words in (
            f"link set far{name} name eth0",
            f"addr add {address}/24 dev eth0",
            "link set eth0 up",
            "link set lo up",
        ):
            run(*self.inside("ip", *words.split()))
        self._pool: Final = ThreadPoolExecutor(1, initializer=self._enter)

    def _await_namespace(self) -> None:
        own = os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + PATIENCE_S
        while os.readlink(f"/proc/{self.pid}/ns/net") == own:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def inside(self, *command: str) -> list[str]:
        """The same command, over there."""
        return ["nsenter", "-t", str(self.pid), "-n", *command]

    def _enter(self) -> None:
        """This thread makes its sockets over there."""
        with open(f"/proc/{self.pid}/ns/net") as namespace:
            assert ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) == 0, os.strerror(ctypes.get_errno())

    def calls(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What ``function`` gives when it is called over there."""
        return self._pool.submit(function, *arguments).result()

    def close(self) -> None:
        self._pool.shutdown()
        self._keeper.kill()
        self._keeper.wait()


def whole_frames(interface: str) -> None:
    """Nothing is left to hardware that is not there: what comes out of the interface can be put into another one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP", interface.encode(), ctypes.addressof(value))
            fcntl.ioctl(any_socket, SIOCETHTOOL, request)


class Cable(threading.Thread):
    """Carries frames between two interfaces. The rules may change at any time."""

    def __init__(self, near: str, far: str) -> None:
        super().__init__(daemon=True)
        self._ends: Final = [self._opened(interface) for interface in (near, far)]
        self._late: Final[list[tuple[float, int, int, bytes]]] = []
        self._number = 0
        self._ended = False
        self.passes: Final = [True, True]  # from the first end, from the second
        self.delay_s = 0.0
        self.resets = 0  # so many segments are to be answered with a reset
        self.start()

    @staticmethod
    def _opened(interface: str) -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        made.bind((interface, 0))
        return made

    def run(self) -> None:
        while not self._ended:
            wait = 0.1 if not self._late else max(0.0, min(0.1, self._late[0][0] - time.monotonic()))
            ready, _, _ = select.select(self._ends, [], [], wait)
            for end in ready:
                frame, address = end.recvfrom(FRAME_BYTES)
                if address[2] != PACKET_OUTGOING:
                    self._take(self._ends.index(end), frame)
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, to, frame = heapq.heappop(self._late)
                self._put(to, frame)

    def _take(self, come_from: int, frame: bytes) -> None:
        to = 1 - come_from
        if not self.passes[come_from]:
            return
        if self.resets > 0:
            answers = resets_for(frame)
            if answers is not None:
                self.resets -= 1
                self._put(to, answers[0])
                self._put(come_from, answers[1])
                return
        if self.delay_s == 0.0 and not self._late:
            self._put(to, frame)
            return
        self._number += 1
        heapq.heappush(self._late, (time.monotonic() + self.delay_s, self._number, to, frame))

    def _put(self, to: int, frame: bytes) -> None:
        try:
            self._ends[to].send(frame)
        except OSError:  # its queue is full: a cable may lose
            return

    def close(self) -> None:
        self._ended = True
        self.join()
        for end in self._ends:
            end.close()


def resets_for(frame: bytes) -> tuple[bytes, bytes] | None:
    """For a TCP segment of a connection that is up: a reset for who it goes to, and one for who has sent it."""
    if frame[12:14] != IPV4 or frame[14 + 9] != TCP:
        return None
    header = 14 + (frame[14] & 15) * 4
    flags = frame[header + 13]
    if flags & (SYN | RST) or not flags & ACK:
        return None
    source, target = frame[26:30], frame[30:34]
    ports, sequence, acknowledged = (
        frame[header : header + 4],
        frame[header + 4 : header + 8],
        frame[header + 8 : header + 12],
    )
    on = segment(frame[:12], source, target, ports, sequence)
    back = segment(frame[6:12] + frame[:6], target, source, ports[2:] + ports[:2], acknowledged)
    return on, back


def segment(ethernet: bytes, source: bytes, target: bytes, ports: bytes, sequence: bytes) -> bytes:
    """A reset without anything else."""
    tcp = ports + sequence + bytes(4) + bytes([0x50, RST]) + bytes(6)
    pseudo = source + target + struct.pack("!BBH", 0, TCP, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, TCP, 0) + source + target
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return ethernet + IPV4 + ip + tcp


def checksum(data: bytes) -> int:
    """Of the Internet protocols (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


class Sender(threading.Thread):
    """Sends persistent messages in batches until it is told to stop, each granted before the next."""

    def __init__(self, host: Host, place: Place, destination: str) -> None:
        super().__init__(daemon=True)
        self.granted: Final[list[str]] = []
        self._ended: Final = threading.Event()
        self._host: Final = host
        self._place: Final = place
        self._destination: Final = destination
        self.start()

    def run(self) -> None:
        while not self._ended.wait(0.05):
            texts = [f"m{len(self.granted) + step}" for step in range(STEPS)]
            self._host.calls(send, self._place, self._destination, texts)
            self.granted.extend(texts)

    def stop(self) -> None:
        self._ended.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()


class Cabled:
    """Broker A with a duplex connector to broker B, each on a host of its own."""

    def __init__(self, directory: Path) -> None:
        self.host_a: Final = Host("A", "10.77.0.1")
        self.host_b: Final = Host("B", "10.77.0.2")
        self.cable: Final = Cable(self.host_a.near, self.host_b.near)
        self.b: Final = self._broker(directory, "B", self.host_b)
        self.b.start()
        inside = CONNECTOR.format(port=self.b.openwire_port, silence=SILENCE_MS)
        self.a: Final = self._broker(directory, "A", self.host_a, inside)
        self.a.start()

    @staticmethod
    def _broker(directory: Path, name: str, host: Host, inside: str = "") -> BrokerProcess:
        command = spanwire_command("--allow-anonymous")
        return BrokerProcess(
            lambda place: host.inside(*command(place)),
            directory / name,
            name=f"broker{name}",
            inside=inside,
            openwire_host="0.0.0.0",
            connectors=f"wireFormat.maxInactivityDurationInitalDelay={FIRST_LOOK_MS}",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            told("\n".join([*map(str, self.views()), *self.a.log, "", *self.b.log]))
        for broker in (self.a, self.b):
            broker.kill()
        self.cable.close()
        for host in (self.host_a, self.host_b):
            host.close()

    @property
    def ends(self) -> list[tuple[Host, Place]]:
        """Both hosts and where their brokers listen."""
        return [
            (self.host_a, Place(self.a.stomp_port, self.a.openwire_port)),
            (self.host_b, Place(self.b.stomp_port, self.b.openwire_port)),
        ]

    def views(self) -> list[dict[str, object]]:
        """The link as each end sees it."""
        found: list[dict[str, object]] = []
        for broker in (self.a, self.b):
            status = ControlClient(broker.directory / "data").ask("status")
            assert isinstance(status, dict)
            rows = status["network_connectors"]
            assert len(rows) <= 1, rows
            found += rows
        return found

    def awaits(self, what: Callable[[list[dict[str, object]]], bool]) -> list[dict[str, object]]:
        """Until both ends show it."""
        deadline = time.monotonic() + PATIENCE_S
        while len(views := self.views()) < 2 or not what(views):
            assert time.monotonic() < deadline, views
            time.sleep(0.05)
        return views


def both_are(*states: str) -> Callable[[list[dict[str, object]]], bool]:
    return lambda views: all(view["state"] in states for view in views)


@contextmanager
def traffic(cabled: Cabled, name: str) -> Iterator[list[Consumer]]:
    """Messages both ways while something happens; in the end each is there once."""
    ends = cabled.ends
    consumers = [host.calls(Consumer, place, f"/queue/{name}.{side}") for side, (host, place) in enumerate(ends)]
    senders = [Sender(host, place, f"/queue/{name}.{1 - side}") for side, (host, place) in enumerate(ends)]
    for consumer in consumers:
        consumer.waits_for(2 * STEPS)
    yield consumers
    for sender in senders:
        sender.stop()
    for side, consumer in enumerate(consumers):
        granted = senders[1 - side].granted
        consumer.waits_for(len(granted))
        ended = f"end of {name}"
        cabled.ends[1 - side][0].calls(send, ends[1 - side][1], f"/queue/{name}.{side}", [ended])
        consumer.waits_for_text(ended)
        assert sorted(consumer.texts) == sorted([*granted, ended]), f"{len(consumer.texts)} of {len(granted) + 1}"
        consumer.__exit__()


def everything(directory: Path) -> None:
    """One pair of brokers and all that can happen to a cable, one after the other."""
    with Cabled(directory) as cabled:
        cabled.awaits(both_are("running"))
        cuts = {"FORTH": (False, True), "BACK": (True, False), "BOTH": (False, False)}
        for name, passes in cuts.items():
            told(name)
            before = [int(str(view["reconnects"])) for view in cabled.views()]
            with traffic(cabled, name):
                cabled.cable.passes[:] = passes
                views = cabled.awaits(both_are("waiting", "connecting", "starting"))
                assert all(view["reason"] for view in views), views
                cabled.cable.passes[:] = (True, True)
                views = cabled.awaits(both_are("running"))
                after = [int(str(view["reconnects"])) for view in views]
                assert all(now > then for now, then in zip(after, before, strict=True)), (before, after)
                assert [view["reason"] for view in views] == ["", ""]
        told("SLOW")
        with traffic(cabled, "SLOW") as consumers:
            cabled.cable.delay_s = 0.2
            for consumer in consumers:
                consumer.waits_for(len(consumer.texts) + 5 * STEPS)
            cabled.cable.delay_s = 0.0
        before = [int(str(view["reconnects"])) for view in cabled.views()]
        told("RESET")
        with traffic(cabled, "RESET"):
            cabled.cable.resets = 1
            cabled.awaits(lambda views: all(int(str(v["reconnects"])) > n for v, n in zip(views, before, strict=True)))
            cabled.awaits(both_are("running"))


if __name__ == "__main__":
    {"everything": everything}[sys.argv[1]](Path(sys.argv[2]))
