"""Users and rights as the Java client meets them: what Classic says with the same plugins, in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import assert_alike
from tests.support.broker_process import BrokerProcess, Command, spanwire_command
from tests.support.canary import CANARY
from tests.support.classic import classic_command
from tests.support.java import JavaProcess
from tests.support.peers import require

PLUGINS = f"""
    <plugins>
      <simpleAuthenticationPlugin><users>
        <authenticationUser username="root" password="{CANARY}" groups="roots"/>
        <authenticationUser username="user" password="{CANARY}" groups="users"/>
      </users></simpleAuthenticationPlugin>
      <authorizationPlugin><map><authorizationMap>
        <authorizationEntries>
          <authorizationEntry queue="&gt;" read="roots" write="roots" admin="roots"/>
          <authorizationEntry topic="&gt;" read="roots" write="roots" admin="roots"/>
          <authorizationEntry queue="RO.&gt;" read="users" admin="users"/>
          <authorizationEntry queue="WO.&gt;" write="users" admin="users"/>
          <authorizationEntry topic="WO.&gt;" write="users" admin="users"/>
          <authorizationEntry queue="NA.&gt;" read="users" write="users"/>
          <authorizationEntry queue="RW.&gt;" read="users" write="users" admin="users"/>
          <authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="*" write="*" admin="*"/>
        </authorizationEntries>
        <tempDestinationAuthorizationEntry>
          <tempDestinationAuthorizationEntry read="roots" write="roots" admin="roots"/>
        </tempDestinationAuthorizationEntry>
      </authorizationMap></map></authorizationPlugin>
    </plugins>
"""
# Classic asks for the admin right only while the destination does not exist, so anybody may remove one that does.
DEVIATIONS = {
    "destroy": "javax.jms.JMSSecurityException: User user is not authorized to remove: queue://NA.old"
    " <- java.lang.SecurityException: User user is not authorized to remove: queue://NA.old"
}


def secured(command: Command) -> Command:
    """The command of a broker whose configuration gets the plugins first."""

    def with_plugins(directory: Path) -> list[str]:
        path = directory / "activemq.xml"
        text = path.read_text(encoding="utf-8")
        path.write_text(
            text.replace("    <transportConnectors>", PLUGINS + "    <transportConnectors>"), encoding="utf-8"
        )
        return command(directory)

    return with_plugins


@pytest.fixture(scope="module")
def rights(classes: Path) -> Iterator[JavaProcess]:
    with JavaProcess(classes, "Rights") as process:
        yield process


def test_logins_and_rights_are_refused_as_by_classic(
    rights: JavaProcess, tmp_path_factory: pytest.TempPathFactory
) -> None:
    require("activemq-broker")
    with BrokerProcess(secured(spanwire_command()), tmp_path_factory.mktemp("ours")) as ours:
        mine = rights.ask("rights", ours.openwire_uri(), CANARY)
        assert not any(CANARY in line for line in ours.log)
    with BrokerProcess(secured(classic_command), tmp_path_factory.mktemp("classic")) as classic:
        theirs = rights.ask("rights", classic.openwire_uri(), CANARY)
    assert len(mine) > 15
    assert {row["case"]: row["outcome"] for row in mine if row.get("case") in DEVIATIONS} == DEVIATIONS
    assert_alike(*[[row for row in rows if row.get("case") not in DEVIATIONS] for rows in (mine, theirs)])
    assert all(row["survives"] for row in mine if "case" in row)
