"""An undo of a replay, and a replay that follows its receivers, at a whole broker."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from spanwire.client import blocking
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive import replay_receivers, replay_undo
from spanwire.pipeline.archive.commands import exact_options
from spanwire.pipeline.archive.replay import Replay
from spanwire.pipeline.archive.replay_note import ReplayNote, read_note, write_targets
from spanwire.pipeline.archive.replay_receivers import AHEAD, QueueReceivers
from spanwire.pipeline.archive.replay_undo import UndoResult, undo_replay
from spanwire.pipeline.link.control_client import Control
from spanwire.pipeline.sink.exactly_once import batch_sink
from spanwire.protocols.primitive_map import encode_map
from spanwire.testing.broker import Broker
from tests.unit.pipeline.test_replay import Clock

A = Destination(QUEUE, "A")
STATISTICS = """<beans xmlns="http://www.springframework.org/schema/beans"><broker
  xmlns="http://activemq.apache.org/schema/core"><plugins><statisticsBrokerPlugin/></plugins><transportConnectors>
  <transportConnector name="openwire" uri="tcp://127.0.0.1:0"/></transportConnectors></broker></beans>"""


class Texts:
    """Messages with the duplicate ids of a replay."""

    def end_of(self, number: int) -> int:
        return number + 3

    def rows(self, first: int, until: int, ids: str) -> Iterator[Outgoing]:
        for number in range(first, until):
            yield Outgoing(f"{number}", encode_map({"_AMQ_DUPL_ID": (9, f"{ids}/{number}")}), A)


def replayed(broker: Broker, state: Path, total: int, rate: int | None = None) -> ReplayNote:
    """Replay messages to the queue A."""
    note = ReplayNote(state / "replay.json", {}, "0123456789ab", total)
    write_targets(state, ["queue://A"])
    note.save()
    sink = batch_sink(exact_options({"url": broker.url}))
    Replay(note, Texts(), sink, rate).run(Clock().now, lambda seconds: rate is not None, lambda progress: None)
    sink.close()
    return note


def undone(broker: Broker, state: Path) -> UndoResult:
    options = exact_options({"url": broker.url})
    sink = batch_sink(options)
    try:
        return undo_replay(options, sink, state)
    finally:
        sink.close()


def test_an_undo_takes_back_what_nobody_has_and_counts_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_undo, "WAIT_S", 0.3)
    with Broker(directory=tmp_path / "data") as broker, blocking.connect(broker.url) as connection:
        with connection.session() as session:
            session.create_producer("queue://A").send("of somebody else")
        replayed(broker, tmp_path, 10)
        assert Control(connection).sinks() == []
        with connection.session(acknowledge="client") as session:
            consumer = session.create_consumer("queue://A", selector="_AMQ_DUPL_ID LIKE '%/0'", prefetch=1)
            message = consumer.receive(timeout=30)
            assert message is not None and message.body == "0"
            message.acknowledge()
            consumer.close()
            holder = session.create_consumer("queue://A", selector="_AMQ_DUPL_ID LIKE '%/1'", prefetch=1)
            assert holder.receive(timeout=30) is not None
            first = undone(broker, tmp_path)
            holder.close()
        assert first == UndoResult(8, 1, 1)
        broker.queue("A").wait_for(pending=2)
        assert undone(broker, tmp_path) == UndoResult(1, 1, 0)
        assert [message.body for message in broker.queue("A").messages()] == ["of somebody else"]


def test_an_undo_drops_what_a_killed_replay_had_staged(tmp_path: Path) -> None:
    with Broker(directory=tmp_path / "data") as broker, blocking.connect(broker.url) as connection:
        note = replayed(broker, tmp_path, 9, rate=12)
        assert note.sent == 3
        (view,) = Control(connection).sinks()
        Control(connection).stage(view.query, view.epoch, 1, 0, 0, Texts().rows(3, 6, "0123456789ab/1/x"))
        assert undone(broker, tmp_path) == UndoResult(3, 0, 0)
        assert Control(connection).sinks() == []


def test_an_undo_is_noted_before_the_broker_forgets_the_replay(tmp_path: Path) -> None:
    with Broker(directory=tmp_path / "data") as broker:
        replayed(broker, tmp_path, 3)
        note = read_note(tmp_path / "replay.json")
        assert note is not None
        note.is_forgotten = False
        note.save()

        class Crashing:
            def forget(self, query: str) -> None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            undo_replay(exact_options({"url": broker.url}), Crashing(), tmp_path)  # type: ignore[arg-type]
        note = read_note(tmp_path / "replay.json")
        assert note is not None
        assert (note.is_undone, note.is_forgotten) == (True, False)
        assert undone(broker, tmp_path) == UndoResult(3, 0, 0)


def test_a_note_waits_until_the_directory_knows_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(stat.S_ISDIR(os.fstat(file).st_mode)))
    ReplayNote(tmp_path / "replay.json", {}, "0123456789ab", 1).save()
    assert synced == [False, True]


def test_what_went_to_a_topic_and_what_is_no_replay_is_not_undone(tmp_path: Path) -> None:
    with Broker() as broker:
        with pytest.raises(ConfigurationError, match=f"there is no replay in {tmp_path}"):
            undone(broker, tmp_path)
        ReplayNote(tmp_path / "replay.json", {}, "0123456789ab", 1).save()
        write_targets(tmp_path, ["topic://A"])
        with pytest.raises(ConfigurationError, match="sent messages to topic://A: its subscribers have them"):
            undone(broker, tmp_path)


def test_a_receiver_has_enough_when_a_queue_with_consumers_has_a_thousand_pending() -> None:
    with Broker(STATISTICS) as broker, blocking.connect(broker.url) as connection:
        receivers = QueueReceivers(exact_options({"url": broker.url}).login)
        rows = [Outgoing("", None, A)]
        assert receivers.waits_for(rows) == ""  # there is no such queue
        with connection.session() as session:
            producer = session.create_producer(None)
            producer.send_all([Outgoing("", None, A)] * (AHEAD + 1))
            assert receivers.waits_for(rows) == ""
            consumer = session.create_consumer(A, prefetch=1)
            assert consumer.receive(timeout=30) is not None
            producer.send("", destination=A, wait=True)
            assert receivers.waits_for(rows) == "consumers of queue://A"
        receivers.close()


def test_a_broker_that_does_not_answer_is_named_with_the_plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_receivers, "ANSWER_S", 0.05)
    with Broker() as broker:
        receivers = QueueReceivers(exact_options({"url": broker.url}).login)
        with pytest.raises(ConfigurationError, match="pending at queue://A; add <statisticsBrokerPlugin/>"):
            receivers.waits_for([Outgoing("", None, A)])
        receivers.close()
