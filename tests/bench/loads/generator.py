"""Runs of the load generators against a broker: one call makes the load, checks what arrives, and is measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.brokers.process import Measured
from tests.bench.loads.workloads import Workload
from tests.support.peers import activemq_classpath, missing

SOURCES: Final = Path(__file__).resolve().parent
RUN_DEADLINE: Final = 900.0  # seconds for one call; a slow disk needs minutes to fill the queue of the drain
PROMISES: Final = ("lost", "doubled", "reordered", "strange")

Generators = dict[str, list[str]]


class FailedRun(SystemExit):
    """The generator ended with an error, or saw a broken promise; the text says which."""


@dataclass(frozen=True)
class Figures:
    """One run: messages per second, broker CPU µs per message, cores the generator used, latency, memory.

    The broker's CPU and memory are None for a broker whose process nobody can look at.
    """

    rate: float
    cpu_us: float | None
    generator_cores: float
    p50_us: float
    p99_us: float
    resident_mib: float | None


def compile_load(directory: Path) -> Path:
    """Compile the generator in C into ``directory``."""
    if shutil.which("cc") is None:
        raise SystemExit("bench: there is no C compiler for the load generator: apt-get install gcc libc6-dev")
    program = directory / "load"
    source = str(SOURCES / "load.c")
    subprocess.run(["cc", "-O2", "-pthread", "-D_GNU_SOURCE", "-o", str(program), source], check=True)
    return program


def compile_generators(directory: Path) -> Generators:
    """The commands that make load, by protocol: our own in C, and the Java client where it is."""
    program = str(compile_load(directory))
    commands = {"openwire": [program], "stomp": [program]}
    if missing("activemq-client") is None:
        classpath = activemq_classpath()
        subprocess.run(["javac", "-cp", classpath, "-d", str(directory), str(SOURCES / "JmsLoad.java")], check=True)
        commands["jms"] = ["java", "-Xmx512m", "-cp", f"{classpath}:{directory}", "JmsLoad"]
    return commands


def measure(
    load: Generators, broker: Measured, workload: Workload, number: int, patience: float = RUN_DEADLINE
) -> Figures:
    """One run of one workload; raises `FailedRun` when a message was lost, doubled, reordered or strange."""
    destination = f"{broker.prefix}.{number}.{workload.kind}"
    if workload.restart:
        _generate(load, broker, workload.fill(), destination, patience)
        broker.restart()
        workload = workload.drain()
    before = broker.cpu_seconds()
    result = _generate(load, broker, workload, destination, patience)
    after = broker.cpu_seconds()
    return Figures(
        rate=workload.count / result["seconds"],
        cpu_us=None if before is None or after is None else (after - before) * 1e6 / workload.count,
        generator_cores=result["generator_cpu_seconds"] / result["seconds"],
        p50_us=result["p50_us"],
        p99_us=result["p99_us"],
        resident_mib=broker.resident_mib(),
    )


def _generate(
    load: Generators, broker: Measured, workload: Workload, destination: str, patience: float
) -> dict[str, float]:
    """What one call of the generator reports."""
    about = f"{workload.name} on {broker.label}"
    try:
        done = subprocess.run(
            [
                *load[workload.protocol],
                *workload.arguments(broker.ports[workload.protocol], destination, broker.host),
            ],
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
            env={**os.environ, "LOAD_HOST": broker.host, **broker.login},
        )
    except subprocess.TimeoutExpired as error:
        raise FailedRun(f"{about} did not end within {patience:.0f} s") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise FailedRun(f"{about} failed: {said[-1] if said else f'status {done.returncode}'}")
    result: dict[str, float] = json.loads(done.stdout)
    if fault := broken_promises(result):
        raise FailedRun(f"{about} broke a promise: {fault}")
    return result


def broken_promises(result: dict[str, float]) -> str:
    """Return the counts of a report that are to be 0 and are not, or an empty text."""
    return ", ".join(f"{result[name]:.0f} {name}" for name in PROMISES if result.get(name))
