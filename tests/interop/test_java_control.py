"""The control destination as a Java program uses it: cursors, staged batches, epochs and rights."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.canary import CANARY
from tests.support.java import JavaProcess

PLUGINS = f"""
    <plugins>
      <simpleAuthenticationPlugin><users>
        <authenticationUser username="mover" password="{CANARY}" groups="movers"/>
        <authenticationUser username="guest" password="{CANARY}" groups="guests"/>
      </users></simpleAuthenticationPlugin>
      <authorizationPlugin><map><authorizationMap>
        <authorizationEntries>
          <authorizationEntry queue="ORDERS.>" read="movers,guests" write="movers,guests" admin="movers"/>
          <authorizationEntry queue="ActiveMQ.Spanwire.Control" read="movers,guests" write="movers,guests"/>
          <authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="*" write="*" admin="*"/>
        </authorizationEntries>
      </authorizationMap></map></authorizationPlugin>
    </plugins>
""".replace("ORDERS.>", "ORDERS.&gt;")


def secured(directory: Path) -> list[str]:
    """The command of a broker whose configuration gets the plugins first."""
    path = directory / "activemq.xml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("    <transportConnectors>", PLUGINS + "    <transportConnectors>"), encoding="utf-8")
    return spanwire_command()(directory)


def test_a_java_program_moves_messages_exactly_once_and_needs_the_right_to(
    classes: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with (
        BrokerProcess(secured, tmp_path_factory.mktemp("control")) as broker,
        JavaProcess(classes, "ControlDestination") as process,
    ):
        rows = process.ask("control", broker.openwire_uri(), CANARY)
    late = "fenced: cursor nightly is at epoch 2, for run r2 has it now: epoch 1 has ended"
    needed = "(cursors need that)"
    assert rows == [
        {"held": "0 3"},
        {"range": [f"{number} m{number} {number} queue://ORDERS" for number in range(3)]},
        {"range": [f"{number} m{number} {number} queue://ORDERS" for number in (1, 2)]},
        {"held": "2 5"},
        {"range": [f"{number} m{number} {number} queue://ORDERS" for number in (2, 3, 4)]},
        {"late": f"error {late}"},
        {"late": late},
        {"held": "5 5"},
        {"left": 0},
        {"begun": "1 -1"},
        {"late": "fenced: sink query is at epoch 2, for run r2 has it now: epoch 1 has ended"},
        {"visible": 0},
        {"committed": "2 false"},
        {"committed": "0 true"},
        {"visible": 2},
        {"refused": f"error unauthorized: User guest is not authorized to administer: queue://ORDERS {needed}"},
        {"refused": f"error unauthorized: User guest is not authorized to administer: queue://ORDERS {needed}"},
        {
            "refused": "error unauthorized: User guest is not authorized to use sink: query (it needs the right admin "
            "on queue://ActiveMQ.Spanwire.Control)"
        },
        {"listed": "[]"},
        {"refused": f"User guest is not authorized to administer: queue://ORDERS {needed}"},
        {"refused": "User guest is not authorized to administer: queue://ORDERS.OUT (staging needs that)"},
    ]
