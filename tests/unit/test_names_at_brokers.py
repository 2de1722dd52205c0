"""Names that outlive a process at brokers and on the disk: a later version must know what an earlier one has begun."""

from __future__ import annotations

from pathlib import Path

from spanwire.bridges.model.steps import DUPLICATE_ID, add_duplicate_id
from spanwire.bridges.running.route_store import RouteStore
from spanwire.bridges.xa.branches import BranchNames, Side, log_of
from spanwire.client.branch_recovery import FORMAT_ID
from spanwire.model.ids import XaTransactionId
from spanwire.model.message_view import STRING_VALUE
from spanwire.pipeline.archive.replay_note import ReplayNote
from spanwire.pipeline.sink.batch_sink import Batch
from spanwire.pipeline.sink.xa_ledger_link import LEDGER_QUEUE
from spanwire.pipeline.sink.xa_ledger_sink import batch_of, branch_name
from tests.support.bridge_dialogue import text_message

OF_BRIDGE = "bridge:5f0c11223344:3a136155c5bd0a84:r1:1"
OF_QUERY = "spanwire:8e35c2cd3bf6641b:7:0123456789ab:3"


def test_branches_of_a_bridge_are_known_again() -> None:
    names = BranchNames("5f0c11223344", "Lager-Süd", "r1")
    branch = XaTransactionId(0x53505752, OF_BRIDGE.encode(), b"target:Lager-S?d")
    assert names.branch(names.next_transaction(), Side.TARGET) == branch
    later = BranchNames("5f0c11223344", "Lager-Süd", "r2")
    assert later.is_own(branch, Side.TARGET)
    assert (FORMAT_ID, log_of(branch)) == (0x53505752, "5f0c11223344")


def test_branches_and_the_ledger_of_a_query_are_known_again() -> None:
    assert branch_name(Batch("q", "run", 7), 3, "0123456789ab") == OF_QUERY
    assert batch_of(OF_QUERY, "q") == 7
    assert f"{LEDGER_QUEUE}q" == "queue://SPANWIRE.LEDGER.q"


def test_a_replay_goes_on_with_its_sink(tmp_path: Path) -> None:
    assert ReplayNote(tmp_path, {}, "0123456789ab", 1).sink == "replay-0123456789ab"


def test_the_file_of_a_route_is_found_again(tmp_path: Path) -> None:
    assert RouteStore(tmp_path, "orders.in", {}).path.name == "orders.in.routestate"
    digest = "6048349c3c94e35f4fd72787168cb6417e6b1542392289e163e0c3a1e2f4b850"
    assert RouteStore(tmp_path, "Lager/Süd", {}).path.name == f"{digest}.routestate"


def test_a_message_of_a_bridge_has_the_duplicate_id_of_its_first_delivery() -> None:
    message = text_message(1)
    add_duplicate_id(message, "orders")
    assert message.property_values()[DUPLICATE_ID] == (STRING_VALUE, "orders/ID:1")
