"""Producer flow control as the Java client meets it: refusals at once and late, withheld answers, producer windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import assert_alike
from tests.support.broker_process import BrokerProcess, Command, spanwire_command
from tests.support.classic import classic_command
from tests.support.java import JavaProcess, Observation
from tests.support.peers import require

MANY = 400
TRIES = 3  # Classic's producer windows stall now and then on a busy machine; such a run says nothing of what it decides
CURSOR = "<pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy>"
POLICIES = (
    "    <destinationPolicy><policyMap><policyEntries>"
    f'<policyEntry queue="FULL.&gt;" memoryLimit="100 kb" blockedProducerWarningInterval="200">{CURSOR}</policyEntry>'
    f'<policyEntry queue="FREE.&gt;" memoryLimit="100 kb" producerFlowControl="false">{CURSOR}</policyEntry>'
    "</policyEntries></policyMap></destinationPolicy>\n"
)


def with_usage(command: Command, attributes: str) -> Command:
    """The command of a broker whose ``systemUsage`` has these attributes."""

    def changed(directory: Path) -> list[str]:
        path = directory / "activemq.xml"
        usage = f"    <systemUsage><systemUsage {attributes}/></systemUsage>\n    <transportConnectors>"
        path.write_text(path.read_text("utf-8").replace("    <transportConnectors>", usage), "utf-8")
        return command(directory)

    return changed


@pytest.fixture(scope="module")
def flow(classes: Path) -> Iterator[JavaProcess]:
    require("activemq-broker")
    with JavaProcess(classes, "ProducerFlow") as process:
        yield process


def on_both(
    flow: JavaProcess, scenario: str, attributes: str, directory: Path, tries: int = 1
) -> tuple[list[Observation], list[str]]:
    """What Spanwire does, which is what Classic does in one of its ``tries``, and what Spanwire logged."""
    command = with_usage(spanwire_command(), attributes)
    with BrokerProcess(command, directory / "ours", inside=POLICIES) as ours:
        mine = flow.ask(scenario, ours.openwire_uri())
    command = with_usage(classic_command, attributes)
    theirs: list[Observation] = []
    for number in range(tries):
        with BrokerProcess(command, directory / f"classic{number}", inside=POLICIES) as classic:
            theirs = flow.ask(scenario, classic.openwire_uri())
        if theirs == mine:
            break
    assert_alike(mine, theirs)
    return mine, ours.log


def test_sends_without_room_are_refused_in_classic_s_words(flow: JavaProcess, tmp_path: Path) -> None:
    mine, _ = on_both(flow, "refused", 'sendFailIfNoSpace="true"', tmp_path)
    assert [row["case"] for row in mine] == ["refused FULL.SYNC", "reported", "transacted"]
    assert all(str(row["outcome"]).startswith("javax.jms.ResourceAllocationException") for row in mine[:2])
    assert mine[2]["outcome"] == "javax.jms.JMSException", "the commit of a transaction that lost a send"
    assert all(mine[0][fact] for fact in ("neighbour", "drains", "again"))


def test_sends_that_waited_too_long_are_refused_in_classic_s_words(flow: JavaProcess, tmp_path: Path) -> None:
    (row,), _ = on_both(flow, "refused-late", 'sendFailIfNoSpaceAfterTimeout="300"', tmp_path)
    assert str(row["outcome"]).startswith("javax.jms.ResourceAllocationException")
    assert all(row[fact] for fact in ("neighbour", "drains", "again"))


@pytest.mark.long
def test_producers_with_and_without_a_window_wait_and_lose_nothing(flow: JavaProcess, tmp_path: Path) -> None:
    mine, log = on_both(flow, "waits", "", tmp_path, TRIES)
    waiting = [row for row in mine if str(row["case"]).startswith("waits")]
    assert [(row["stopped"], row["inOrder"], row["sent"], row["error"]) for row in waiting] == [
        (True, MANY, MANY, "none")
    ] * 2
    line = "producer flow control: sends to queue://FULL.WINDOW wait: memoryLimit of 102400 bytes is reached"
    assert any(line in text for text in log)
