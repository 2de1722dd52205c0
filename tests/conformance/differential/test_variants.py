"""The same on brokers whose configuration changes every queue, connection or name: mirrored queues, client ids that
move, another path separator, messages that name their users.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.conformance.differential.brokers import ClassicBroker, SpanwireBroker
from tests.conformance.differential.playing import Scenario, play, scenarios, unlike
from tests.conformance.differential.stage import SLOW
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_command
from tests.support.java import JavaProcess
from tests.support.peers import require

SCENARIOS: Final = scenarios("variants")
PLUGINS: Final = """\
    <plugins>
      <destinationPathSeparatorPlugin pathSeparator="/"/>
      <statisticsBrokerPlugin/>
    </plugins>
"""
POLICIES: Final = """\
    <destinationPolicy>
      <policyMap>
        <policyEntries>
          <policyEntry queue="&gt;" prioritizedMessages="true"/>
          <policyEntry topic="&gt;"/>
          <policyEntry tempTopic="true" alwaysRetroactive="true">
            <subscriptionRecoveryPolicy>
              <fixedCountSubscriptionRecoveryPolicy maximumSize="2"/>
            </subscriptionRecoveryPolicy>
          </policyEntry>
        </policyEntries>
      </policyMap>
    </destinationPolicy>
"""
ATTRIBUTES: Final = (
    'populateJMSXUserID="true" useMirroredQueues="true" allowTempAutoCreationOnSend="true" '
    'offlineDurableSubscriberTimeout="3000" offlineDurableSubscriberTaskSchedule="200"'
)
STEALING: Final = "allowLinkStealing=true"  # Classic 5.17 heeds it in the URI alone


@pytest.fixture(scope="module")
def on_classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClassicBroker]:
    """A running ActiveMQ Classic of this kind."""
    require("activemq-broker")
    directory = tmp_path_factory.mktemp("classic-variants")
    with BrokerProcess(
        classic_command,
        directory,
        name="variants",
        inside=POLICIES + PLUGINS,
        attributes=ATTRIBUTES,
        connectors=STEALING,
    ) as process:
        yield ClassicBroker(process)


@pytest.fixture(scope="module")
def on_spanwire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpanwireBroker]:
    """A running Spanwire with the same configuration; nothing of it is left out."""
    directory = tmp_path_factory.mktemp("spanwire-variants")
    command = spanwire_command("--data-directory", str(directory / "own"))
    with BrokerProcess(
        command, directory, name="variants", inside=POLICIES + PLUGINS, attributes=ATTRIBUTES, connectors=STEALING
    ) as process:
        yield SpanwireBroker(process, directory / "own")


@pytest.mark.parametrize(
    ("name", "scenario"),
    [
        pytest.param(name, scenario, id=name, marks=[pytest.mark.long] if name in SLOW else [])
        for name, scenario in SCENARIOS.items()
    ],
)
def test_a_java_client_sees_what_it_sees_on_classic(
    name: str,
    scenario: Scenario,
    remote: JavaProcess,
    on_classic: ClassicBroker,
    on_spanwire: SpanwireBroker,
    take: int,
) -> None:
    classics = play(remote, on_classic, name, scenario, take)
    ours = play(remote, on_spanwire, name, scenario, take)
    lines = unlike(ours, classics)
    assert not lines, "\n".join(["Classic (-) and Spanwire (+) differ:", *lines])
