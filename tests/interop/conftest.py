"""The brokers and the Java program that the tests of this folder share; each is started when it is first asked for."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import distributions
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.distributions import ARTEMIS, CLASSIC, ArtemisProcess, Distribution
from tests.support.java import JavaProcess, Observation, compile_java_once
from tests.support.peers import require

CONNECTION_ID = re.compile(r"ID:[\w.-]+-\d+-\d{13}-\d+:\d+")
MILLIS = re.compile(r"\b\d{13}\b")
SOURCES = Path(__file__).parent / "java"


@pytest.fixture(scope="session")
def spanwire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running Spanwire with the defaults of an `activemq.xml`."""
    with BrokerProcess(spanwire_command(), tmp_path_factory.mktemp("spanwire")) as broker:
        yield broker


@pytest.fixture(scope="session")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running ActiveMQ Classic with the same `activemq.xml`."""
    require("activemq-broker")
    with classic_broker(tmp_path_factory.mktemp("classic")) as broker:
        yield broker


@pytest.fixture(scope="session")
def newest_classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The newest ActiveMQ Classic that Maven Central has for us."""
    with distributions.newest_classic(_home(CLASSIC), tmp_path_factory.mktemp("newest-classic")) as broker:
        yield broker


@pytest.fixture(scope="session")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """ActiveMQ Artemis, which speaks OpenWire, too."""
    with ArtemisProcess(_home(ARTEMIS), tmp_path_factory.mktemp("artemis")) as broker:
        yield broker


def _home(distribution: Distribution) -> Path:
    found = distributions.find_destination(distribution)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled Java programs of this folder."""
    require("activemq-client")
    return compile_java_once(SOURCES, "interop-classes", tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def java(classes: Path) -> Iterator[JavaProcess]:
    """The Java client's scenarios, ready to be asked."""
    with JavaProcess(classes, "Interop") as process:
        yield process


def _plain(row: Observation) -> str:
    text = json.dumps(row, ensure_ascii=False, default=repr)
    return MILLIS.sub("<millis>", CONNECTION_ID.sub("<connection>", text))


def assert_alike(ours: list[Observation], classics: list[Observation]) -> None:
    """Fails with the rows in which they differ, ours with a plus. Identities and points in time count as equal."""
    lines = difflib.ndiff([_plain(row) for row in classics], [_plain(row) for row in ours])
    unlike = [line for line in lines if not line.startswith(("  ", "? "))]
    if unlike:
        pytest.fail("\n".join(["Classic (-) and Spanwire (+) differ:", *unlike]), pytrace=False)


OnBoth = Callable[..., tuple[list[Observation], list[Observation]]]


@pytest.fixture
def on_both(java: JavaProcess, classic: BrokerProcess, spanwire: BrokerProcess) -> OnBoth:
    """Asks a scenario on Spanwire and on Classic and gives both answers, Spanwire's first."""

    def ask(scenario: str, *arguments: str) -> tuple[list[Observation], list[Observation]]:
        expected = java.ask(scenario, classic.openwire_uri(), *arguments)
        return java.ask(scenario, spanwire.openwire_uri(), *arguments), expected

    return ask


@pytest.fixture(scope="session")
def artemis_home() -> Path:
    require("jpype")
    found = distributions.find_destination(ARTEMIS)
    if isinstance(found, str):
        pytest.skip(found)
    return found
