"""Drains of a broker as tasks: refused, watched, kept over a start of the broker, cancelled and resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from spanwire.broker.metadata import DRAINS
from spanwire.management.tables.operation_table import OPERATIONS
from spanwire.management.tables.work_tables import TASKS
from spanwire.model.errors import ConfigurationError, StoreError
from spanwire.service.administration import disk_wait
from spanwire.service.administration import drains as module
from spanwire.service.administration.drains import MAX_RUNNING, Drains
from tests.support.dialogue.broker_dialogue import Stage

OTHER = "tcp://other:61616"


class Connectors:
    """Network connectors without a network."""

    def __init__(self) -> None:
        self.added: dict[str, Mapping[str, object]] = {}
        self.refusal = ""
        self.drained: list[object] = []
        self.sent = 0

    async def add_connector(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        if self.refusal:
            raise ConfigurationError(self.refusal)
        self.added[str(arguments["name"])] = arguments
        return []

    async def drain_links(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        self.drained.append(arguments["connectors"])
        return []

    async def remove_connectors(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        names = arguments["connectors"]
        assert isinstance(names, list)
        if names[0] not in self.added:
            raise ConfigurationError(f"unknown network connector {names[0]}")
        del self.added[names[0]]
        return []

    def views(self) -> list[dict[str, object]]:
        return [{"name": name, "enqueued": self.sent, "reason": "connection refused"} for name in self.added]


class Office:
    """The drains of a stage's broker, which has some messages."""

    def __init__(self, count: int = 4, stage: Stage | None = None) -> None:
        self.stage = Stage() if stage is None else stage
        peer = self.stage.peer("p")
        for number in range(count):
            peer.sends("queue://A", f"{number}")
        self.stage.settle()
        self.connectors = Connectors()
        self.drains = Drains(self.connectors, self.stage.broker, lambda: None)

    def restarted(self) -> Office:
        self.stage.settle()
        return Office(0, self.stage.restarts())

    def row(self, number: int = 1) -> dict[str, object]:
        return next(row for row in self.drains.views() if row["id"] == f"D{number}")

    def consumes(self) -> None:
        """Somebody takes all messages, as the link would."""
        peer = self.stage.peer("c")
        listener = peer.consumes("queue://A")
        self.stage.settle()
        for text in listener.takes():
            listener.acknowledges(text)
        self.stage.settle()


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.0)
    monkeypatch.setattr(disk_wait, "SYNC_S", 0.0)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_drain_is_done_when_the_queues_are_empty_and_its_link_goes() -> None:
    async def scene() -> None:
        office = Office()
        assert await office.drains.start({"uri": OTHER, "settings": {"userName": "u"}}) == {"task": "D1"}
        assert all(one.always_task for one in OPERATIONS if one.command == "drain")  # so its description says
        assert office.connectors.added["DRAIN-1"] == {
            "uri": f"static:({OTHER})", "name": "DRAIN-1",
            "settings": {
                "userName": "u", "staticallyIncludedDestinations": ["queue://>"], "staticBridge": "true",
            },
        }  # fmt: skip
        await turns()
        row = office.row()
        assert row.keys() == {attribute.name for attribute in TASKS.attributes}
        assert (row["state"], row["left"], row["waits_for"], row["target"]) == (
            "running", 4, "connection refused", OTHER,
        )  # fmt: skip
        office.consumes()
        office.connectors.sent = 4
        await turns()
        row = office.row()
        assert (row["state"], row["processed"], row["left"], office.connectors.added) == ("done", 4, 0, {})

    asyncio.run(scene())


def test_a_drain_leaves_as_many_messages_as_it_shall_keep() -> None:
    async def scene() -> None:
        office = Office()
        await office.drains.start({"uri": OTHER, "queues": ["A"], "keep": 4})
        await turns()
        assert (office.row()["state"], office.row()["left"]) == ("done", 4)
        assert office.connectors.drained == [["DRAIN-1"]]  # what is on its way would stay in the queue as well

    asyncio.run(scene())


def test_a_drain_that_keeps_some_counts_what_was_on_its_way_at_its_end() -> None:
    async def scene() -> None:
        office = Office()
        drain_links = office.connectors.drain_links

        async def answers(arguments: Mapping[str, object]) -> list[dict[str, object]]:
            office.consumes()
            office.connectors.sent = 4
            return await drain_links(arguments)

        office.connectors.drain_links = answers  # type: ignore[method-assign]
        await office.drains.start({"uri": OTHER, "queues": ["A"], "keep": 4})
        await turns()
        assert (office.row()["state"], office.row()["processed"], office.row()["left"]) == ("done", 4, 0)

    asyncio.run(scene())


def test_a_drain_goes_on_after_a_crash_and_one_that_was_cancelled_does_not() -> None:
    async def before() -> Office:
        office = Office()
        for _ in range(2):
            await office.drains.start({"uri": OTHER, "queues": ["A", "B.>"]})
        await office.drains.cancel({"id": "D2"})
        await turns()
        return office

    async def after(office: Office) -> None:
        await office.drains.go_on()
        assert [row["state"] for row in office.drains.views()] == ["running", "cancelled"]
        assert list(office.connectors.added) == ["DRAIN-1"]
        assert await office.drains.resume({"id": "D2"}) == {"task": "D2"}
        assert sorted(office.connectors.added) == ["DRAIN-1", "DRAIN-2"]
        assert await office.drains.start({"uri": OTHER}) == {"task": "D3"}
        office.drains.stop()
        await turns()
        assert [row["state"] for row in office.drains.views()] == ["running"] * 3

    asyncio.run(after(asyncio.run(before()).restarted()))


@pytest.mark.parametrize(
    ("uri", "settings"),
    [
        (OTHER, {"userName": "u", "password": "canary"}),
        ("tcp://u:canary@other:61616", {}),
        ("ssl://other:61617?keyStorePassword=canary", {}),
    ],
)
def test_a_password_is_not_kept_and_its_drain_fails_at_the_start(uri: str, settings: dict[str, str]) -> None:
    async def before() -> Office:
        office = Office()
        await office.drains.start({"uri": uri, "settings": settings})
        assert "canary" not in str(office.row())
        return office

    async def after(office: Office) -> None:
        await office.drains.go_on()
        assert office.row()["error"] == "its password is not kept over a start of the broker: begin the drain again"
        with pytest.raises(ConfigurationError, match="the password of the task D1 is not kept"):
            await office.drains.resume({"id": "D1"})

    office = asyncio.run(before())
    office.stage.settle()
    assert b"canary" not in b"".join(office.stage.store.metadata[DRAINS].values())
    asyncio.run(after(office.restarted()))


def test_a_drain_that_cannot_look_at_its_queues_fails_and_leaves_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_: object) -> int:
        raise RuntimeError("broken")

    async def scene() -> None:
        office = Office()
        await office.drains.start({"uri": OTHER})
        monkeypatch.setattr(office.drains, "_pending", broken)
        office.stage.waits(1.0)
        await turns()
        assert (office.row()["state"], office.connectors.added) == ("failed", {})
        assert office.row()["error"] == "the broker's log says why"

    asyncio.run(scene())


def test_a_drain_whose_messages_do_not_go_fails_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STALL_S", 0.0)

    async def scene() -> None:
        office = Office()
        await office.drains.start({"uri": OTHER})
        await turns(2)
        office.stage.waits(1.0)
        await turns()
        assert office.row()["error"] == (
            "for 0 s no message has gone; left are queue://A (4); the link says: connection refused"
        )
        assert (office.row()["state"], office.connectors.added) == ("failed", {})

    asyncio.run(scene())


def test_a_drain_whose_link_somebody_removed_is_not_called_done() -> None:
    async def scene() -> None:
        office = Office()
        await office.drains.start({"uri": OTHER})
        office.connectors.added.clear()
        office.consumes()
        await turns()
        assert office.row()["error"] == "somebody has removed its link DRAIN-1"

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "uri is the address"),
        ({"uri": OTHER, "keep": -1}, "keep is a number"),
        ({"uri": OTHER, "keep": True}, "keep is a number"),
        ({"uri": OTHER, "settings": {"userName": 1}}, "settings is an object of texts"),
        ({"uri": OTHER, "queues": []}, "queues is a list"),
        ({"uri": OTHER, "queues": ["topic://A"]}, "topic://A is not the name of one queue"),
        ({"uri": OTHER, "queues": ["temp-queue://A"]}, "temp-queue://A is not the name of one queue"),
        ({"uri": OTHER, "queues": ["A,B"]}, "A,B is not the name of one queue"),
    ],
)
def test_what_is_no_order_is_refused(arguments: dict[str, object], words: str) -> None:
    office = Office()
    with pytest.raises(ConfigurationError, match=words):
        asyncio.run(office.drains.start(arguments))
    assert list(office.drains.views()) == []


def test_a_refused_link_leaves_no_drain() -> None:
    office = Office()
    office.connectors.refusal = "no such attribute"
    with pytest.raises(ConfigurationError, match="no such attribute"):
        asyncio.run(office.drains.start({"uri": OTHER}))
    assert list(office.drains.views()) == []


def test_a_bounded_number_of_drains_runs() -> None:
    async def scene() -> None:
        office = Office()
        for _ in range(MAX_RUNNING):
            await office.drains.start({"uri": OTHER})
        with pytest.raises(ConfigurationError, match="10 drains are running"):
            await office.drains.start({"uri": OTHER})

    asyncio.run(scene())


def test_a_drain_has_no_undo_and_says_what_to_do_instead() -> None:
    async def scene() -> None:
        office = Office()
        await office.drains.start({"uri": OTHER})
        with pytest.raises(ConfigurationError, match="drain that one to bring them back"):
            await office.drains.undo({"id": "D1"})
        with pytest.raises(ConfigurationError, match="there is no task D7"):
            await office.drains.cancel({"id": "D7"})

    asyncio.run(scene())


def test_a_record_that_cannot_be_read_is_an_error_of_the_store() -> None:
    office = Office()
    office.stage.broker.assembly.drains.put(1, b"{}")
    with pytest.raises(StoreError, match="record of a drain"):
        asyncio.run(office.drains.go_on())
