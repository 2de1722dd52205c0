"""What demand costs in networks of up to 500 brokers in one process, and advisory frames against destinations.

    python -m tests.bench.networks.scale [--sizes 50,100,200,500] [--each 200] [--quick] [--require]

Each row has a process of its own, in which real brokers exchange real bytes without sockets. Consumers come broker by
broker, ``--each`` at every one, half of them of one of fifty queues, the others of one of fifty topics, behind
conduits; the demand settles after each broker. ``--require`` ends with an error when 500 brokers take more than a
minute of CPU or 2 GiB, or advisories grow with destinations that nobody asks for.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import resource
import statistics
import subprocess
import sys
import time

from spanwire._build import version_text
from tests.support.demand_network import (
    DemandNetwork,
    hub_and_spokes,
    queues_and_topics,
    regular_graph,
)

HUB = "hub and spokes, TTL 2"
GRAPH = "4-regular graph, consumerTTL 3"
SHAPES = {HUB: hub_and_spokes, GRAPH: regular_graph}
DESTINATIONS = 100
MAX_CPU_SECONDS = 60.0
MAX_RESIDENT_MIB = 2048
LARGEST = 500  # brokers, to which the limits apply
MAX_EXPONENT = 0.1
FRAME_BROKERS = (4, 16, 64)
FRAME_DESTINATIONS = (10, 100, 1_000, 10_000)
INTEREST = 10  # destinations that have a consumer, two at each broker
PRODUCERS = 500  # of one client
ROW_DEADLINE = 1_800.0


def settle_row(shape: str, size: int, each: int) -> dict[str, float]:
    """CPU and memory of one network: connecting, and until all demand is everywhere."""
    gc.set_threshold(200_000, 50, 100)  # as the broker's own
    began = time.process_time()
    network = SHAPES[shape](size)
    connected = time.process_time()
    before = network.advisories
    destinations = queues_and_topics(DESTINATIONS)
    for place, site in enumerate(network.sites):
        client = site.client()
        own = (destinations[2 * place % DESTINATIONS], destinations[(2 * place + 1) % DESTINATIONS])
        for number in range(each):
            client.consumes(own[number % 2])
        network.settles()
    settled = time.process_time()
    return {
        "links": len(network.links),
        "connect": connected - began,
        "settle": settled - connected,
        "advisories": network.advisories - before,
        "demand": network.demand,
        "bytes": sum(link.bytes_carried for link in network.links),
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def frames_row(shape: str, size: int, total: int) -> dict[str, float]:
    """Advisories of each broker where ``total`` destinations have a producer at some broker and `INTEREST` of them
    consumers.
    """
    network: DemandNetwork = SHAPES[shape](size)
    destinations = queues_and_topics(total)
    for place, site in enumerate(network.sites):
        for start in range(place, total, size * PRODUCERS):
            producer = site.client()
            for destination in destinations[start : start + size * PRODUCERS : size]:
                producer.produces_for(destination)
        client = site.client()
        for number in (2 * place, 2 * place + 1):
            client.consumes(destinations[number % INTEREST])
    network.settles()
    return {"advisories": network.advisories / size}


def exponent(points: list[tuple[float, float]]) -> float:
    """The slope of the line through the logarithms of ``points``."""
    across = [math.log(one) for one, _ in points]
    up = [math.log(one) for _, one in points]
    return statistics.linear_regression(across, up).slope


def measured(arguments: list[str]) -> dict[str, float]:
    """One row, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.networks.scale", "--row", *arguments],
        capture_output=True,
        text=True,
        timeout=ROW_DEADLINE,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: {' '.join(arguments)} failed: {done.stderr.strip()[-500:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def report_settling(shape: str, sizes: list[int], each: int) -> list[str]:
    """One line for each size, and how the cost grows; gives what is over its limit."""
    over: list[str] = []
    points: list[tuple[float, float]] = []
    print(f"{shape}: {each} consumers at each broker, conduit on")
    for size in sizes:
        row = measured(["settle", shape, str(size), str(each)])
        cpu = row["connect"] + row["settle"]
        points.append((size, row["settle"]))
        print(
            f"  {size:4} brokers, {row['links']:5,.0f} links, {size * each:8,} consumers: connected in"
            f" {row['connect']:5.1f} s CPU, settled in {row['settle']:6.1f} s CPU ({row['mib']:5,.0f} MiB);"
            f" {row['advisories']:9,.0f} advisories, {row['bytes'] / 1e6:6,.0f} MB,"
            f" {row['demand']:8,.0f} subscriptions of bridges; {row['settle'] * 1e6 / row['advisories']:5.1f} µs"
            " an advisory",
            flush=True,
        )
        if size >= LARGEST and (cpu > MAX_CPU_SECONDS or row["mib"] > MAX_RESIDENT_MIB):
            over.append(f"{shape}: {size} brokers took {cpu:.1f} s and {row['mib']:.0f} MiB")
    if len(points) > 1:
        print(f"  CPU grows with brokers to the power of {exponent(points):.2f}", flush=True)
    return over


def report_frames(shape: str, brokers: tuple[int, ...], destinations: tuple[int, ...]) -> list[str]:
    """Advisories of each broker for each number of brokers and destinations; gives what is over its limit."""
    over: list[str] = []
    print(f"{shape}: advisories of each broker, {INTEREST} destinations have consumers, two of them at each broker")
    for size in brokers:
        points = [(total, measured(["frames", shape, str(size), str(total)])["advisories"]) for total in destinations]
        slope = exponent([(float(total), count) for total, count in points])
        shown = ", ".join(f"{count:,.1f} of {total:,}" for total, count in points)
        print(f"  {size:3} brokers: {shown} destinations: exponent {slope:.3f}", flush=True)
        if slope > MAX_EXPONENT:
            over.append(f"{shape}: {size} brokers send more for more destinations, exponent {slope:.2f}")
    return over


def main() -> None:
    """All rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="50,100,200,500")
    parser.add_argument("--each", type=int, default=200, help="consumers at each broker")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    parser.add_argument("--require", action="store_true", help="end with an error when a limit is not kept")
    parser.add_argument("--row", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        kind, shape, size, number = options.row
        row = settle_row if kind == "settle" else frames_row
        print(json.dumps(row(shape, int(size), int(number))))
        return
    sizes = [10, 20] if options.quick else [int(size) for size in options.sizes.split(",")]
    each = 20 if options.quick else options.each
    brokers = FRAME_BROKERS[:2] if options.quick else FRAME_BROKERS
    destinations = FRAME_DESTINATIONS[:2] if options.quick else FRAME_DESTINATIONS
    print(version_text())
    over: list[str] = []
    for shape in SHAPES:
        over += report_settling(shape, sizes, each)
        over += report_frames(shape, brokers, destinations)
    for line in over:
        print(f"over its limit: {line}")
    if over and options.require:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
