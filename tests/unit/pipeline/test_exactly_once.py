from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.client import blocking
from spanwire.client.branch_recovery import FORMAT_ID
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.ids import XaTransactionId
from spanwire.pipeline.options import write_options
from spanwire.pipeline.sink.batch_sink import Batch
from spanwire.pipeline.sink.exactly_once import batch_of_stream, commit_parts, stage_part
from spanwire.pipeline.sink.xa_ledger_link import branch_name_of, is_spanwire_branch, xid_of
from spanwire.pipeline.sink.xa_ledger_sink import MAX_PARTS, branch_name
from spanwire.testing.broker import Broker

ONCE = {"qualityOfServiceMode": "ONCE_AND_ONLY_ONCE"}
BATCH = Batch("q", "run", 7)


def test_spark_names_the_batch() -> None:
    assert batch_of_stream("q", "run", "7") == BATCH


@pytest.mark.parametrize(
    "told", [(None, "r", "0"), ("q", None, "0"), ("q", "r", None), ("q", "r", "x"), ("", "r", "0")]
)
def test_a_batch_that_spark_does_not_name_is_not_sent(told: tuple[str | None, str | None, str | None]) -> None:
    with pytest.raises(ConfigurationError, match="exactly-once delivery is impossible"):
        batch_of_stream(*told)


@given(st.text(max_size=200), st.integers(0, 2**63 - 1), st.integers(0, MAX_PARTS))
def test_a_branch_is_known_again_by_its_id(query: str, number: int, partition: int) -> None:
    name = branch_name(Batch(query, "run", number), partition, "0123456789ab")
    xid = xid_of(name)
    assert (is_spanwire_branch(xid), branch_name_of(xid)) == (True, name)
    assert len(xid.global_id) <= 64 and len(xid.branch_qualifier) <= 64


@pytest.mark.parametrize(
    "xid",
    [
        XaTransactionId(1, b"spanwire:x", b"0"),
        XaTransactionId(FORMAT_ID, b"other", b"0"),
        XaTransactionId(FORMAT_ID, b"spanwire\xff", b"0"),
    ],
)
def test_branches_of_others_are_not_ours(xid: XaTransactionId) -> None:
    assert not is_spanwire_branch(xid)


HOUR_MS = 3_600_000
SENT = [  # the options, and what a message has that says nothing itself: persistent, priority, time to live
    ({}, (True, 4, 0)),
    ({"persistent": "false"}, (False, 4, 0)),
    ({"priority": "9"}, (True, 9, 0)),
    ({"timeToLiveMs": str(HOUR_MS)}, (True, 4, HOUR_MS)),
    ({"persistent": "false", "priority": "0", "timeToLiveMs": str(2 * HOUR_MS)}, (False, 0, 2 * HOUR_MS)),
]


@pytest.mark.large
@pytest.mark.parametrize("way", ["control", "ledger"])
def test_messages_are_sent_as_the_options_say_unless_a_row_says_otherwise(way: str, tmp_path: Path) -> None:
    own = (True, 7, 5 * HOUR_MS)
    with Broker(directory=tmp_path) as broker, blocking.connect(broker.url) as connection:
        for number, (given_here, expected) in enumerate(SENT):
            queue = Destination(QUEUE, f"OUT-{number}")
            common = {"url": broker.url, "destination": str(queue), "exactlyOnceBy": way}
            options = write_options({**ONCE, **common, **given_here})
            batch = Batch(f"q{number}", "run", 0)
            rows = [
                Outgoing("silent", None, queue),
                Outgoing("telling", None, queue, persistent=own[0], priority=own[1], time_to_live_ms=own[2]),
            ]
            assert commit_parts(options, batch, [stage_part(options, batch, 0, 0, rows)])
            with connection.session() as session:
                headers = [message.headers for message in session.create_browser(queue)]
            found = sorted(
                (found.priority, found.persistent, max(0, found.expiration - found.timestamp)) for found in headers
            )
            assert found == sorted((priority, kept, lives) for kept, priority, lives in (expected, own)), given_here


@pytest.mark.large
@pytest.mark.parametrize("way", ["control", "ledger"])
@pytest.mark.parametrize(
    ("first", "then"), [("OUT", "OTHER"), ("OUT", None), (None, "OUT")], ids=["another", "none any more", "now one"]
)
def test_a_query_that_writes_elsewhere_than_before_ends_in_one_line(
    way: str, first: str | None, then: str | None, tmp_path: Path
) -> None:
    def try_batch(number: int, run: str, destination: str | None) -> bool:
        named = {} if destination is None else {"destination": destination}
        options = write_options({**ONCE, "url": broker.url, "exactlyOnceBy": way, **named})
        batch = Batch("q", run, number)
        rows = [Outgoing(f"{number} of {run}", None, Destination(QUEUE, destination or "ROWS"))]
        return commit_parts(options, batch, [stage_part(options, batch, 0, 0, rows)])

    with Broker(directory=tmp_path) as broker:
        assert try_batch(0, "r1", first)
        broker.restart()
        with pytest.raises(ConfigurationError) as refused:
            try_batch(1, "r2", then)
        line = str(refused.value)
        assert line.startswith("spanwire: ") and "\n" not in line
        for destination in (first, then):
            assert ("the queues of its rows" if destination is None else f"queue://{destination}") in line
        assert "give it a checkpoint of its own" in line
        assert broker.queue(then or "ROWS").pending == 0
        assert try_batch(1, "r3", first)
        assert broker.queue(first or "ROWS").pending == 2
