"""One Java client, one Classic and one Spanwire for all scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.differential.brokers import ClassicBroker, SpanwireBroker, played_classic, played_spanwire
from tests.support.java import JavaProcess, compile_java_once
from tests.support.peers import require

SOURCES = Path(__file__).parent / "java"


@pytest.fixture(scope="session")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaProcess]:
    """ActiveMQ's JMS client under remote control."""
    require("activemq-client")
    classes = compile_java_once(SOURCES, "remote-classes", tmp_path_factory.getbasetemp())
    with JavaProcess(classes, "Remote") as process:
        yield process


@pytest.fixture(scope="session")
def played_on_classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClassicBroker]:
    """A running ActiveMQ Classic."""
    require("activemq-broker")
    with played_classic(tmp_path_factory.mktemp("classic")) as process:
        yield ClassicBroker(process)


@pytest.fixture(scope="session")
def played_on_spanwire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpanwireBroker]:
    """A running Spanwire."""
    directory = tmp_path_factory.mktemp("spanwire")
    with played_spanwire(directory) as process:
        yield SpanwireBroker(process, directory / "own")


@pytest.fixture
def take(request: pytest.FixtureRequest) -> int:
    """Which attempt of the test this is: 1, or more where it failed and is tried again."""
    return int(getattr(request.node, "execution_count", 1))
