"""``spanwire audit`` in a network with ActiveMQ Classic: exact up to it, and the line that says that it ends there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.interop.test_network_map import CONNECTOR, crosses
from tests.service.started import spanwire
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.peers import require

PATIENCE_S: Final = 30.0
COUNT: Final = 20
ENDS: Final = "the knowledge ends here: "
CLASSIC: Final = f"broker legacy: {ENDS}it keeps no ledger, as brokers other than Spanwire"


def audited(broker: BrokerProcess, until: Callable[[list[str]], bool]) -> list[str]:
    """The lines of the audit of a broker, once they are as ``until`` wants them; it always adds up."""
    end = time.monotonic() + PATIENCE_S
    while True:
        done = spanwire("audit", "--network", "--data-directory", str(broker.directory / "data"))
        assert done.returncode == 0, done.stdout + done.stderr
        lines = done.stdout.splitlines()
        if until(lines) or time.monotonic() > end:
            return lines
        time.sleep(0.5)


def ends(lines: list[str]) -> list[str]:
    return [line for line in lines if ENDS in line]


def test_the_audit_counts_what_went_to_classic_and_says_that_it_ends_there(tmp_path: Path) -> None:
    require("activemq-broker")
    with classic_broker(tmp_path / "legacy", name="legacy") as legacy:
        inside = CONNECTOR.format(name="toLegacy", port=legacy.openwire_port)
        with BrokerProcess(spanwire_command(), tmp_path / "near", name="near", inside=inside) as near:
            with crosses(legacy, near, "ORDERS", COUNT):
                equation = f"queue://ORDERS (stored): sent {COUNT} = forwarded {COUNT}"
                lines = audited(near, lambda lines: equation in lines and ends(lines) == [CLASSIC])
    assert equation in lines
    assert ends(lines) == [CLASSIC]
    assert not any(line.startswith("from ") for line in lines)


@pytest.mark.long
def test_of_a_row_with_classic_in_its_middle_each_end_is_exact_and_sees_no_further(tmp_path: Path) -> None:
    require("activemq-broker")
    with BrokerProcess(spanwire_command(), tmp_path / "far", name="far") as far:
        onwards = CONNECTOR.format(name="toFar", port=far.openwire_port)
        with classic_broker(tmp_path / "legacy", name="legacy", inside=onwards) as legacy:
            inside = CONNECTOR.format(name="toLegacy", port=legacy.openwire_port)
            with BrokerProcess(spanwire_command(), tmp_path / "near", name="near", inside=inside) as near:
                with crosses(far, near, "ORDERS", COUNT):
                    sent = f"queue://ORDERS (stored): sent {COUNT} = forwarded {COUNT}"
                    lines = audited(near, lambda lines: sent in lines and ends(lines) == [CLASSIC])
                    came = f"queue://ORDERS (stored): arrived over links {COUNT} = acknowledged {COUNT}"
                    beyond = audited(far, lambda lines: came in lines and bool(ends(lines)))
    assert sent in lines
    assert ends(lines) == [CLASSIC]
    assert not any("far" in line for line in lines)
    assert came in beyond
    assert ends(beyond) == [f"broker legacy: {ENDS}no broker has asked it; if it is Spanwire, audit it there"]
