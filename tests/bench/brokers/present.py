"""The brokers that `make bench` can start on this machine, and what brings those that it cannot."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.brokers.activemq import classic, spanwire
from tests.bench.brokers.artemis import artemis, find_artemis, is_unpacked
from tests.bench.brokers.process import BrokerProcess
from tests.bench.brokers.rabbitmq import RabbitMQ, find_rabbitmq
from tests.support.peers import missing

NAMES: Final = ("compiled", "pure", "classic", "artemis", "rabbitmq")


@dataclass(frozen=True)
class Present:
    """A broker that can be started in a directory."""

    label: str
    start: Callable[[Path], BrokerProcess]


def parse_names(text: str) -> tuple[str, ...]:
    """Return the labels of a list with commas.

    Raises:
        argparse.ArgumentTypeError: a label names no broker.
    """
    names = tuple(name for name in text.split(",") if name)
    for name in names:
        if name not in NAMES:
            raise argparse.ArgumentTypeError(f"no broker is named {name}; there are {', '.join(NAMES)}")
    return names


def find_brokers(names: Sequence[str], compiled: Path, pure: Path) -> tuple[list[Present], list[str]]:
    """Return the brokers that are here, and for each other one a sentence that says how to get it.

    ``names`` are those that are asked for; without any all are, but none is fetched from the network then.
    """
    found: list[Present] = []
    absent: list[str] = []

    def add(label: str, start: Callable[[Path], BrokerProcess], reason: str | None) -> None:
        if label in (names or NAMES):
            if reason is None:
                found.append(Present(label, start))
            else:
                absent.append(f"{reason}.")

    # The first label goes first in each round.
    add("classic", classic, _without_classic())
    home = find_artemis() if "artemis" in names or (not names and is_unpacked()) else _ARTEMIS
    if isinstance(home, Path):
        directory = home
        add("artemis", lambda work: artemis(directory, work), None)
    else:
        add("artemis", _unstartable, f"ActiveMQ Artemis is left out: {home}")
    script = find_rabbitmq()
    add(
        "rabbitmq",
        _unstartable if script is None else lambda work: RabbitMQ(script, work),
        "RabbitMQ is left out: it is not installed (apt-get install rabbitmq-server)" if script is None else None,
    )
    for label, python, target in (("compiled", compiled, "make compiled"), ("pure", pure, "make venv")):
        reason = None if python.exists() else f"The {label} build is left out: there is no {python} ({target})"
        add(label, _starter(label, python), reason)
    return found, absent


_ARTEMIS: Final = (
    'it is not here (BENCH_ARGS="--brokers compiled,pure,classic,artemis" fetches it from Maven Central, '
    "SPANWIRE_ARTEMIS_HOME names an unpacked one)"
)


def _without_classic() -> str | None:
    return (
        None if missing("activemq-broker") is None else "ActiveMQ Classic is left out: it is not installed (make peers)"
    )


def _starter(label: str, python: Path) -> Callable[[Path], BrokerProcess]:
    return lambda work: spanwire(label, python, work)


def _unstartable(_: Path) -> BrokerProcess:
    raise AssertionError("a broker that is not here was started")
