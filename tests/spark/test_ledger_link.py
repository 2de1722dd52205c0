"""The ledger at real brokers, without Spark: branches and decision through restarts, and the lock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError, InvalidClientIdError, JmsError
from spanwire.pipeline.link.connections import connect_for_redelivery
from spanwire.pipeline.options import WriteOptions, write_options
from spanwire.pipeline.sink.batch_sink import Batch
from spanwire.pipeline.sink.exactly_once import batch_sink, commit_parts, is_spanwire, stage_part
from spanwire.pipeline.sink.xa_ledger_link import BlockingBranchSession, BlockingLedger
from spanwire.pipeline.sink.xa_ledger_sink import Entry, LedgerSink
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker
from tests.support.distributions import ARTEMIS, ArtemisProcess, find_destination
from tests.support.peers import require
from tests.support.queues import take_all

BROKERS = ["spanwire", "classic", *(["artemis"] if os.environ.get("SPANWIRE_ALL_BROKERS") == "1" else [])]


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of its own for each test: it is killed."""
    if request.param == "artemis":
        home = find_destination(ARTEMIS)
        assert isinstance(home, Path), home
        started: BrokerProcess = ArtemisProcess(home, tmp_path)
    elif request.param == "classic":
        require("activemq-broker")
        started = classic_broker(tmp_path)
    else:
        started = BrokerProcess(spanwire_command(), tmp_path)
    with started:
        yield started


def options_of(broker: BrokerProcess, **given: str) -> WriteOptions:
    common = {"url": broker.openwire_uri(), "destination": "TARGET", "qualityOfServiceMode": "ONCE_AND_ONLY_ONCE"}
    return write_options({**common, "exactlyOnceBy": "ledger", **given})


def rows(*bodies: str) -> list[Outgoing]:
    return [Outgoing(body, None, Destination(QUEUE, "TARGET")) for body in bodies]


class KilledError(Exception):
    """The process of the commit is gone."""


class Interrupted(BlockingLedger):
    """A commit that ends between the decision and the first delivery."""

    def save(self, entry: Entry) -> None:
        super().save(entry)
        if entry.batch >= 0:
            raise KilledError


def test_what_was_decided_is_delivered_once_through_kills_of_the_commit_and_of_the_broker(
    broker: BrokerProcess,
) -> None:
    options = options_of(broker)
    first = Batch("q", "run", 0)
    parts = [stage_part(options, first, 0, 0, rows("a", "b")), stage_part(options, first, 1, 1, rows("c"))]
    stage_part(options, first, 1, 2, rows("of an attempt that does not count"))
    interrupted = LedgerSink(
        "queue://TARGET", 0, lambda: BlockingBranchSession(options), lambda query: Interrupted(options, query), str
    )
    with pytest.raises(KilledError):
        interrupted.commit(first, parts)
    broker.kill()
    broker.start()
    assert commit_parts(options, Batch("q", "again", 0), [stage_part(options, first, 0, 9, rows("a", "x"))]) is False
    second = Batch("q", "again", 1)
    assert commit_parts(options, second, [stage_part(options, second, 0, 0, rows("d"))]) is True
    broker.kill()
    broker.start()
    assert commit_parts(options, second, [stage_part(options, second, 0, 0, rows("d"))]) is False
    assert [message.body for message in take_all(broker.openwire_uri(), "TARGET")] == ["a", "b", "c", "d"]
    third = Batch("q", "run", 2)
    with pytest.raises(ConfigurationError, match="started again elsewhere"):
        commit_parts(options, third, [stage_part(options, third, 0, 0, rows("late"))])
    ledger = BlockingLedger(options, "q")
    assert [name.split(":")[2] for name in ledger.prepared_branches()] == ["2"]
    ledger.close()


def test_one_commits_at_a_time_and_the_next_one_sees_what_it_left(broker: BrokerProcess) -> None:
    options = options_of(broker)
    batch = Batch("q", "run", 0)
    assert commit_parts(options, batch, [stage_part(options, batch, 0, 0, rows("a"))])
    holder = BlockingLedger(options, "q")
    taken = holder.take(True)
    assert taken is not None and taken.batch == 0
    ticks = iter([0.0, 1.0, 100.0])
    with pytest.raises(JmsError, match="another process commits for the query q"):
        BlockingLedger(options, "q", lambda: next(ticks))
    with pytest.raises(InvalidClientIdError):
        connect_for_redelivery(options.login, "spanwire-ledger:q")
    BlockingLedger(options, "other").close()
    holder.close()  # without an answer to what it took, as a killed process
    for _ in range(8):  # more often than a message may come back by default; Artemis's own limit is ten
        again = BlockingLedger(options, "q")
        assert again.take(True) == taken
        again.close()


def test_a_batch_whose_messages_have_no_destination_is_committed(broker: BrokerProcess) -> None:
    options = options_of(broker)
    nowhere = [Outgoing("a", None, Destination(QUEUE, "NOWHERE.*"))]
    first = Batch("q", "run", 0)
    parts = [stage_part(options, first, 0, 0, nowhere), stage_part(options, first, 1, 1, rows("b"))]
    assert commit_parts(options, first, parts) is True
    assert commit_parts(options, first, parts) is False
    assert [message.body for message in take_all(broker.openwire_uri(), "TARGET")] == ["b"]


def test_auto_finds_out_which_broker_it_is(broker: BrokerProcess, request: pytest.FixtureRequest) -> None:
    options = options_of(broker, exactlyOnceBy="auto")
    connection = connect_for_redelivery(options.login, None)
    is_ours = "spanwire" in request.node.name.partition("[")[2]
    assert is_spanwire(connection) is is_ours
    connection.close()
    sink = batch_sink(options)
    assert isinstance(sink, LedgerSink) is not is_ours
    sink.close()
