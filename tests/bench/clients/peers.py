"""The Python client beside stomp.py and stompman, and its round trips beside the Java client's.

    python -m tests.bench.clients.peers [--messages 200000] [--peer-messages 50000] [--sync 5000] [--repeats 3]
                                       [--require]

One Spanwire, of the same build. Each client sends non-persistent messages of 1 KiB to a queue of its own, the last one
with a receipt, and then receives them in ``auto``; each in a process of its own, in turn, so that what the machine does
meanwhile meets all of them. The clock of a send runs from the first one, when everything is connected and warm, to the
receipt of the last: then the broker has taken them all; that of a receive from the subscription to the last message.
Printed are the medians of rate and of the client's CPU, how many times as fast ours are, and what the broker's CPU was
for each message that it took, which is an end for every client. With ``--require`` the run
fails below 100,000/s each way, 5 times stomp.py and 3 times stompman. A client that is not installed is left out, which
is said.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from spanwire._build import version_text
from spanwire.client import aio, blocking
from tests.bench.clients.load import BODY, WARM_UP, Numbers, Stopwatch, faults_of, receive, send, timed
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.java import compile_java
from tests.support.peers import activemq_classpath, missing

PATIENCE: Final = 120.0  # seconds for messages that are on their way
RUN_DEADLINE: Final = 600.0  # seconds of one run
OURS: Final = ("aio", "blocking")
OTHERS: Final = {"stomp.py": "stomp", "stompman": "stompman"}  # and the module that it is
REQUIRED_RATE: Final = 100_000
REQUIRED_TIMES: Final = {"stomp.py": 5.0, "stompman": 3.0}
SOURCES: Final = Path(__file__).parent


@dataclass(frozen=True)
class Place:
    """Where a broker listens."""

    openwire: int
    stomp: int
    pid: int

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.openwire}"


def stomp_py_send(place: Place, queue: str, count: int, watch: Stopwatch) -> None:
    import stomp  # noqa: PLC0415 - a peer that need not be installed

    done = threading.Event()

    class Receipts(stomp.ConnectionListener):  # type: ignore[misc]
        def on_receipt(self, frame: object) -> None:
            done.set()

    connection = stomp.Connection12([("127.0.0.1", place.stomp)])
    connection.set_listener("", Receipts())
    connection.connect(wait=True)
    watch.start()
    for _ in range(count - 1):
        connection.send(f"/queue/{queue}", BODY)
    connection.send(f"/queue/{queue}", BODY, receipt="last")
    if not done.wait(PATIENCE):
        raise SystemExit("client_peers: stomp.py got no receipt")
    watch.stop()
    connection.disconnect()


def stomp_py_receive(place: Place, queue: str, count: int, watch: Stopwatch) -> int:
    import stomp  # noqa: PLC0415

    done = threading.Event()
    received = 0

    class Messages(stomp.ConnectionListener):  # type: ignore[misc]
        def on_message(self, frame: object) -> None:
            nonlocal received
            received += 1
            if received == count:
                done.set()

    connection = stomp.Connection12([("127.0.0.1", place.stomp)], auto_decode=False)
    connection.set_listener("", Messages())
    connection.connect(wait=True)
    watch.start()
    connection.subscribe(f"/queue/{queue}", id="1", ack="auto")
    done.wait(PATIENCE)
    watch.stop()
    connection.disconnect()
    return received


async def stompman_send(place: Place, queue: str, count: int, watch: Stopwatch) -> None:
    import stompman  # noqa: PLC0415

    async with stompman.Client([stompman.ConnectionParameters("127.0.0.1", place.stomp, "", "")]) as client:
        watch.start()
        for _ in range(count - 1):
            await client.send(BODY, f"/queue/{queue}")
        await client.send(BODY, f"/queue/{queue}", receipt_timeout=PATIENCE)
        watch.stop()


async def stompman_receive(place: Place, queue: str, count: int, watch: Stopwatch) -> int:
    import stompman  # noqa: PLC0415

    received = 0
    done = asyncio.Event()

    async def take(frame: object) -> None:
        nonlocal received
        received += 1
        if received == count:
            done.set()

    async with stompman.Client([stompman.ConnectionParameters("127.0.0.1", place.stomp, "", "")]) as client:
        watch.start()
        subscription = await client.subscribe(
            f"/queue/{queue}", take, ack="auto", on_suppressed_exception=lambda *_: None
        )
        try:
            await asyncio.wait_for(done.wait(), PATIENCE)
        except TimeoutError:
            pass
        watch.stop()
        await subscription.unsubscribe()
    return received


def run_client(name: str, place: Place, queue: str, count: int) -> Numbers:
    """Everything out, then everything in, in this process; before that a little of both, which is not counted."""
    disordered = 0

    def ours(queue: str, count: int, watch: Stopwatch) -> int:
        nonlocal disordered
        tally = receive(name, place.url, f"queue://{queue}", count, "auto", watch)
        disordered = tally.disordered
        return tally.count

    works: dict[str, tuple[Callable[[str, int, Stopwatch], object], Callable[[str, int, Stopwatch], int]]] = {
        "stomp.py": (partial(stomp_py_send, place), partial(stomp_py_receive, place)),
        "stompman": (
            lambda *said: asyncio.run(stompman_send(place, *said)),
            lambda *said: asyncio.run(stompman_receive(place, *said)),
        ),
    }
    out, into = works.get(name, (lambda to, n, watch: send(name, place.url, f"queue://{to}", n, watch), ours))
    out(f"{queue}.WARM", WARM_UP, Stopwatch())
    into(f"{queue}.WARM", WARM_UP, Stopwatch())
    received = 0

    def take(watch: Stopwatch) -> None:
        nonlocal received
        received = into(queue, count, watch)

    before = cpu_of(place.pid)
    found: Numbers = {"send": timed(lambda watch: out(queue, count, watch), count)}
    found["broker_us"] = round(1e6 * (cpu_of(place.pid) - before) / count, 2)
    found["receive"] = timed(take, count)
    return {**found, "received": received, "disordered": disordered}


def cpu_of(pid: int) -> float:
    """Seconds of CPU of another process; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def round_trips(shell: str, place: Place, count: int, persistent: bool) -> Numbers:
    """Sends that wait for their answers, one after the other; those that nobody receives are purged with the broker."""
    queue = f"queue://SYNC.{shell}.{persistent}"
    if shell == "aio":
        return timed(lambda watch: asyncio.run(sync_aio(place.url, queue, count, persistent, watch)), count)
    return timed(lambda watch: sync_blocking(place.url, queue, count, persistent, watch), count)


async def sync_aio(url: str, queue: str, count: int, persistent: bool, watch: Stopwatch) -> None:
    async with aio.connect(url) as connection, connection.session() as session:
        producer = await session.create_producer(queue, persistent=persistent)
        for _ in range(count // 4):  # as the Java client's, whose compiler has seen it then
            await producer.send(BODY, wait=True)
        watch.start()
        for _ in range(count):
            await producer.send(BODY, wait=True)
        watch.stop()


def sync_blocking(url: str, queue: str, count: int, persistent: bool, watch: Stopwatch) -> None:
    with blocking.connect(url) as connection, connection.session() as session:
        producer = session.create_producer(queue, persistent=persistent)
        for _ in range(count // 4):
            producer.send(BODY, wait=True)
        watch.start()
        for _ in range(count):
            producer.send(BODY, wait=True)
        watch.stop()


def java_round_trips(classes: Path, place: Place, count: int, persistent: bool) -> Numbers:
    """The same from the Java client of ActiveMQ Classic."""
    done = subprocess.run(
        [
            "java", "-cp", activemq_classpath(classes), "JmsSync", place.url, f"SYNC.java.{persistent}",
            str(len(BODY)), str(count), "1" if persistent else "0",
        ],
        capture_output=True, text=True, timeout=RUN_DEADLINE, check=True,
    )  # fmt: skip
    found: Numbers = json.loads(done.stdout)
    return found


def in_child(place: Place, *arguments: str) -> Numbers:
    """One run in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "tests.bench.clients.peers",
        "--place",
        f"{place.openwire}:{place.stomp}:{place.pid}",
    ]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=RUN_DEADLINE, check=False)
    if done.returncode:
        raise SystemExit(f"client_peers: {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    found: Numbers = json.loads(done.stdout)
    return found


def compare(place: Place, options: argparse.Namespace) -> Numbers:
    """All clients in turn, as often as asked for; the medians."""
    names = [*OURS, *(name for name, module in OTHERS.items() if importlib.util.find_spec(module))]
    runs: dict[str, list[Any]] = {name: [] for name in names}
    for number in range(options.repeats):
        for name in names:
            count = options.messages if name in OURS else options.peer_messages
            queue = f"BENCH.{name}.{number}"
            runs[name].append(in_child(place, "--client", name, "--queue", queue, "--messages", str(count)))
    result: dict[str, Any] = {"build": version_text(), "left_out": sorted(set(OTHERS) - set(names))}
    for name in names:
        count = options.messages if name in OURS else options.peer_messages
        faults = [fault for run in runs[name] for fault in faults_of(run, count)]
        if faults:
            raise SystemExit(f"client_peers: {name}: {', '.join(faults)}")
        result[name] = {way: round(statistics.median(run[way]["per_second"] for run in runs[name])) for way in WAYS} | {
            f"{way} cpu us": round(statistics.median(run[way]["cpu_us"] for run in runs[name]), 2) for way in WAYS
        }
        result[name]["broker us of a send"] = round(statistics.median(run["broker_us"] for run in runs[name]), 2)
    result["cpu_times"] = {
        f"{ours} send / {other}": round(rate(result, other, "send cpu us") / rate(result, ours, "send cpu us"), 1)
        for other in names[len(OURS) :]
        for ours in OURS
    }
    result["times"] = {
        f"{ours} {way} / {other}": round(rate(result, ours, way) / rate(result, other, way), 1)
        for other in names[len(OURS) :]
        for ours in OURS
        for way in WAYS
    }
    return result


WAYS: Final = ("send", "receive")


def rate(result: Numbers, name: str, way: str) -> float:
    found = result[name]
    assert isinstance(found, dict)
    return float(found[way])


def compare_round_trips(place: Place, options: argparse.Namespace, directory: Path) -> Numbers:
    """Round trips of both shells and the Java client, in turn."""
    reason = missing("activemq-client")
    classes: Path | None = None
    if reason is None:
        sources = directory / "sources"
        sources.mkdir()
        (sources / "JmsSync.java").write_bytes((SOURCES / "JmsSync.java").read_bytes())
        classes = compile_java(sources, directory / "classes")
    found: dict[str, list[float]] = {}
    for _ in range(options.repeats):
        for persistent in (False, True):
            kind = "persistent" if persistent else "non-persistent"
            for shell in OURS:
                numbers: Any = in_child(place, "--sync-client", shell, "--sync", str(options.sync), f"--{kind}")
                found.setdefault(f"{shell} {kind}", []).append(numbers["per_second"])
            if classes is not None:
                java: Any = java_round_trips(classes, place, options.sync, persistent)
                found.setdefault(f"java {kind}", []).append(java["per_second"])
    return {"round_trips_per_second": {name: round(statistics.median(rates)) for name, rates in found.items()}}


def shortfalls(result: Numbers) -> list[str]:
    """What is less than promised."""
    found: list[str] = []
    for name in OURS:
        found += [
            f"{name} {way}: {rate(result, name, way):.0f}/s" for way in WAYS if rate(result, name, way) < REQUIRED_RATE
        ]
    times = result["times"]
    assert isinstance(times, dict)
    for label, value in times.items():
        required = REQUIRED_TIMES[label.rpartition(" / ")[2]]
        if value < required:
            found.append(f"{label}: {value} times, not {required:g}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="The Python client beside others.")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--peer-messages", type=int, default=50_000)
    parser.add_argument("--sync", type=int, default=5_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--require", action="store_true")
    parser.add_argument("--place", help=argparse.SUPPRESS)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--sync-client", help=argparse.SUPPRESS)
    parser.add_argument("--queue", help=argparse.SUPPRESS)
    parser.add_argument("--persistent", action=argparse.BooleanOptionalAction, default=False, help=argparse.SUPPRESS)
    parser.add_argument("--non-persistent", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.place:
        place = Place(*map(int, options.place.split(":")))
        if options.client:
            numbers = run_client(options.client, place, options.queue, options.messages)
        else:
            numbers = round_trips(options.sync_client, place, options.sync, options.persistent)
        sys.stdout.write(json.dumps(numbers))
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        with BrokerProcess(spanwire_command(), Path(folder, "broker")) as broker:
            place = Place(broker.openwire_port, broker.stomp_port, broker.pid)
            result = {**compare(place, options), **compare_round_trips(place, options, Path(folder))}
    result["seconds"] = round(time.monotonic() - started)
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    less = shortfalls(result)
    if less:
        sys.stderr.write(f"client_peers: less than promised: {'; '.join(less)}\n")
    return 1 if less and options.require else 0


if __name__ == "__main__":
    sys.exit(main())
