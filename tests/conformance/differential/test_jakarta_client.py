"""The client of ActiveMQ 6, which speaks Jakarta Messaging 3, sees on Spanwire what that of ActiveMQ 5.17 sees.

The program is the same, with the other names of packages. Delivery delays, shared subscriptions and asynchronous sends
of JMS 2 are not tried: this client refuses them before anything is sent (``UnsupportedOperationException``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.conformance.differential.brokers import SpanwireBroker, played_spanwire
from tests.conformance.differential.conftest import SOURCES
from tests.conformance.differential.playing import MODULES, Scenario, play, scenarios, unlike
from tests.support.java import JVM_OPTIONS, JavaProcess, compile_java
from tests.support.peers import jakarta_classpath, require

pytestmark = pytest.mark.long

OLD: Final = "javax.jms"
NEW: Final = "jakarta.jms"
# ActiveMQ 6's client reports each rollback to the broker, ActiveMQ 5.17's all but the first.
REPORTS_EACH_ROLLBACK: Final = {
    "acknowledgement.rollbacks_in_one_session_are_counted_by_the_client": ('"deliveries": 3', '"deliveries": 4'),
    "acknowledgement.a_dead_client_s_rollbacks_are_counted": ('"deliveries": 3', '"deliveries": 4'),
}


@pytest.fixture(scope="module")
def jakarta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaProcess]:
    """ActiveMQ 6's JMS client under remote control."""
    require("activemq-jakarta")
    directory = tmp_path_factory.mktemp("jakarta")
    sources = directory / "sources"
    sources.mkdir()
    for file in SOURCES.glob("*.java"):
        text = file.read_text("utf-8")
        assert OLD in text
        (sources / file.name).write_text(text.replace(OLD, NEW), "utf-8")
    classes = compile_java(sources, directory / "classes", jakarta_classpath)
    with JavaProcess(classes, "Remote", ("java", *JVM_OPTIONS, "-cp", jakarta_classpath(classes))) as process:
        yield process


@pytest.fixture(scope="module")
def played_on_spanwire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpanwireBroker]:
    """A running Spanwire on which no other test has played the scenarios."""
    directory = tmp_path_factory.mktemp("spanwire-javax")
    with played_spanwire(directory) as process:
        yield SpanwireBroker(process, directory / "own")


@pytest.fixture(scope="module")
def played_on_another(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpanwireBroker]:
    """A running Spanwire without messages of the other client."""
    directory = tmp_path_factory.mktemp("spanwire-jakarta")
    with played_spanwire(directory) as process:
        yield SpanwireBroker(process, directory / "own")


@pytest.mark.parametrize(
    ("name", "scenario"), [pytest.param(name, scenario, id=name) for name, scenario in scenarios(*MODULES).items()]
)
def test_the_client_of_activemq_6_sees_what_that_of_5_sees(
    name: str,
    scenario: Scenario,
    remote: JavaProcess,
    jakarta: JavaProcess,
    played_on_spanwire: SpanwireBroker,
    played_on_another: SpanwireBroker,
    take: int,
) -> None:
    before = play(remote, played_on_spanwire, name, scenario, take)
    now = play(jakarta, played_on_another, name, scenario, take)
    if name in REPORTS_EACH_ROLLBACK:
        reported, each_reported = REPORTS_EACH_ROLLBACK[name]
        assert reported in before[-1], before[-1]
        before[-1] = before[-1].replace(reported, each_reported)
    lines = unlike([line.replace(NEW, OLD) for line in now], before)
    assert not lines, "\n".join(["ActiveMQ 5's client (-) and ActiveMQ 6's (+) differ:", *lines])
