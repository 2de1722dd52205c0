"""The screen of ``spanwire top``, without a terminal: keys go in, and what the widgets show comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static, TabbedContent

from spanwire import registry
from spanwire.cli.main import main
from spanwire.cli.top.app import DestinationScreen, TopApp, WhyScreen
from spanwire.cli.top.figures import SHEETS, Table, cell, headline, rows_of
from spanwire.management.control_client import ControlError

Row = dict[str, object]
FIRST = SHEETS[0]


def queue(name: str, pending: int, **others: object) -> Row:
    return {
        "destination": f"queue://{name}", "pending": pending, "in_flight": 0, "enqueued": pending, "dequeued": 0,
        "consumers": 0, "producers": 0, "memory_bytes": 2048 * pending, "expired": 0, "paused": False, **others,
    }  # fmt: skip


class FakeClient:
    """Answers as a broker does; ``asked`` has the questions."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, object]]] = []
        self.answers: dict[str, object] = {
            "summary": {
                "name": "orders", "uptime_s": 3725.0, "usage": {"memory_percent": 12, "disk_full": False},
                "statistics": {"connections": 2, "parked_sends": 0},
                "network_connectors": [{"name": "nc", "uri": "tcp://b:1", "remote": "b", "state": "running"}],
            },
            "destinations": [
                queue("SMALL", 1), queue("LARGE", 500), queue("M\x1b[31m", 20),
                {**queue("x", 3), "destination": "topic://PRICES"},
                {**queue("x", 3), "destination": "topic://ActiveMQ.Advisory.Queue"},
            ],
            "connections": [{"connection_id": "ID:c", "client_id": "billing", "consumers": 2, "blocked": True}],
            "destination": {"destination": "queue://LARGE", "pending": 500, "policy": "queue://>", "expired": 0},
            "consumers": [
                {"destination": "queue://LARGE", "consumer_id": "ID:c:1:1", "client_id": "billing", "in_flight": 7,
                 "prefetch_size": 10, "selector": None},
            ],
            "browse": {"messages": [{"message_id": "ID:m:1", "timestamp_ms": 1, "priority": 4, "body": "hello"}]},
            "why": {
                "explanations": [
                    {"subject": "message ID:m:1", "sentence": "no consumer", "cause": "no-consumer",
                     "evidence": [{"broker": "orders", "object": "queue", "text": "0 consumers"}],
                     "advice": ["start a consumer"]},
                ],
            },
            "network": {"brokers": [{"name": "orders", "links": [{}, {}]}]},
        }  # fmt: skip

    def ask(self, command: str, **arguments: object) -> object:
        self.asked.append((command, arguments))
        answer = self.answers.get(command, [])
        if isinstance(answer, ControlError):
            raise answer
        return answer


Scenario = Callable[[TopApp, "Pilot[None]"], Awaitable[None]]


def on_screen(scenario: Scenario, client: FakeClient | None = None) -> FakeClient:
    """Run a scenario on a screen of 120 by 40 that looks only when it is asked to."""
    asked = client or FakeClient()

    async def run() -> None:
        app = TopApp(asked, 3600.0)
        async with app.run_test(size=(120, 40)) as pilot:
            await settled(app, pilot)
            await scenario(app, pilot)

    asyncio.run(run())
    return asked


async def settled(app: TopApp, pilot: Pilot[None]) -> None:
    """Let all messages and answers be handled."""
    await pilot.pause()
    await app.workers.wait_for_complete()
    await pilot.pause()


def names(app: TopApp) -> list[str]:
    grid: DataTable[Any] = app.query_one(f"#{app.table.sheet.key}-table", DataTable)
    return [str(grid.get_row_at(row)[0]) for row in range(grid.row_count)]


def text(app: TopApp, widget: str) -> str:
    return str(app.screen.query_one(widget, Static).content)


def test_the_longest_queue_comes_first_and_a_heading_says_so() -> None:
    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        assert names(app) == ["queue://LARGE", "queue://M\\u001b[31m", "queue://SMALL"]
        assert text(app, "#headline") == "orders: memory 12 %, store 0 %, temp 0 %, connections 2, up 1 h 2 min"
        assert text(app, "#notice") == "3 queues"
        grid: DataTable[Any] = app.query_one("#queues-table", DataTable)
        assert [str(column.label) for column in grid.ordered_columns][:3] == ["name", "pending ▼", "in flight"]

    on_screen(scenario)


def test_keys_sort_by_other_columns_and_in_the_other_direction() -> None:
    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("r")
        assert names(app)[0] == "queue://SMALL"
        await pilot.press("less_than_sign")
        assert (app.table.order.column, names(app)[0]) == ("destination", "queue://LARGE")
        await pilot.press("greater_than_sign")
        assert (app.table.order.column, app.table.order.is_descending) == ("pending", True)

    on_screen(scenario)


def test_a_filter_keeps_rows_with_a_part_and_escape_shows_all() -> None:
    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", "l", "a", "r", "enter")
        assert names(app) == ["queue://LARGE"] and text(app, "#notice") == "1 queues with 'lar'"
        assert not app.query_one("#filter", Input).display
        await pilot.press("slash", "escape")
        assert len(names(app)) == 3

    on_screen(scenario)


def test_the_cursor_stays_with_its_row_when_the_order_changes() -> None:
    client = FakeClient()

    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "down")
        chosen = app.chosen()
        client.answers["destinations"] = [queue("SMALL", 900), queue("LARGE", 500)]
        await app.look()
        assert chosen == app.chosen() == "queue://SMALL" and names(app)[0] == "queue://SMALL"

    on_screen(scenario, client)


def test_a_queue_opens_with_its_consumers_and_messages_and_a_message_with_its_reason() -> None:
    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        await settled(app, pilot)
        assert isinstance(app.screen, DestinationScreen)
        await pilot.press("r", "p", "slash")
        assert app.table.order.is_descending and not app.query_one("#filter", Input).has_focus
        assert "pending 500" in text(app, "#facts") and "expired" not in text(app, "#facts")
        assert text(app, "#consumers").startswith("consumer ID:c:1:1 of billing: 7 of 10 in flight")
        grid: DataTable[Any] = app.screen.query_one("#messages", DataTable)
        assert [str(one) for one in grid.get_row_at(0)][::5] == ["ID:m:1", "hello"]
        await pilot.press("enter")
        await settled(app, pilot)
        assert isinstance(app.screen, WhyScreen)
        assert text(app, "#explanation").splitlines() == [
            "message ID:m:1: no consumer  [no-consumer]", "  -  orders, queue: 0 consumers", "  do: start a consumer",
        ]  # fmt: skip
        await pilot.press("escape", "escape")
        assert len(app.screen_stack) == 1

    client = on_screen(scenario)
    assert ("why", {"name": "ID:m:1", "kind": "message", "queue": "LARGE"}) in client.asked


def test_each_tab_shows_what_its_command_answers_and_w_asks_why_an_object_does_not_move() -> None:
    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        found = {}
        for sheet in SHEETS:
            app.query_one("#tabs", TabbedContent).active = sheet.key
            await settled(app, pilot)
            await app.look()
            assert app.table.sheet is sheet
            found[sheet.key] = len(names(app))
            if sheet.key in ("queues", "connections", "links"):
                await pilot.press("w")
                await settled(app, pilot)
                assert isinstance(app.screen, WhyScreen)
                await pilot.press("escape")
        assert found == {"queues": 3, "topics": 1, "connections": 1, "subscriptions": 0, "links": 1, "network": 1}

    questions = [arguments for command, arguments in on_screen(scenario).asked if command == "why"]
    assert questions == [
        {"name": "LARGE", "kind": "queue"}, {"name": "ID:c", "kind": "connection"}, {"name": "nc", "kind": "link"},
    ]  # fmt: skip


def test_a_broker_that_stops_is_said_and_the_screen_goes_on() -> None:
    client = FakeClient()

    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        summary, client.answers["summary"] = client.answers["summary"], ControlError("no broker runs in /x")
        await app.look()
        assert text(app, "#notice") == "the broker does not answer: no broker runs in /x" and len(names(app)) == 3
        client.answers["summary"] = summary
        await app.look()
        assert text(app, "#notice") == "3 queues"

    on_screen(scenario, client)


def test_a_pause_asks_nothing() -> None:
    client = FakeClient()

    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("p")
        count = len(client.asked)
        await app.look()
        assert len(client.asked) == count and text(app, "#notice") == "paused, 3 queues"

    on_screen(scenario, client)


def test_a_rate_is_the_growth_in_a_second_and_none_after_a_reset() -> None:
    table = Table(FIRST)
    table.take([queue("A", 0, enqueued=100)], 10.0)
    assert table.row("queue://A") == {**queue("A", 0, enqueued=100), "enqueued/s": None, "dequeued/s": None}
    table.take([queue("A", 0, enqueued=150)], 12.0)
    assert (table.row("queue://A") or {})["enqueued/s"] == 25.0
    table.take([queue("A", 0, enqueued=5)], 13.0)
    assert (table.row("queue://A") or {})["enqueued/s"] is None


def test_a_long_table_is_cut_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanwire.cli.top.figures.MAX_ROWS", 2)
    table = Table(FIRST)
    table.take([queue(str(number), number) for number in range(5)], 1.0)
    shown = table.shown()
    assert [identity for identity, _ in shown.rows] == ["queue://4", "queue://3"] and shown.total == 5


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (None, "number", "-"), (1234567, "number", "1,234,567"), (1536, "bytes", "1.5 K"), (7, "bytes", "7"),
        (3 << 40, "bytes", "3.0 T"), (0.25, "rate", "0.2"), (12345.6, "rate", "12,346"), (True, "flag", "yes"),
        (False, "flag", ""), (True, "text", "yes"), ("a\x1b[2J\nb", "text", "a\\u001b[2J\\u000ab"),
    ],
)  # fmt: skip
def test_values_are_written_for_people_and_steer_no_terminal(value: object, kind: str, shown: str) -> None:
    assert cell(value, kind) == shown


def test_a_status_of_another_form_is_said_and_a_full_disk_is_loud() -> None:
    assert headline([]) == "the broker's status has another form than expected"
    assert "DISK FULL" in headline({"name": "b", "usage": {"disk_full": True}, "statistics": {"parked_sends": 3}})


def test_without_the_extra_one_line_names_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(reference: str) -> object:
        raise ModuleNotFoundError("No module named 'textual'", name="textual.app")

    real = registry.load
    monkeypatch.setattr(registry, "load", lambda one: load(one) if one == registry.TOP else real(one))
    assert main(["top"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "needs the extra top; run: " in error


def test_without_a_terminal_one_line_names_other_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--data-directory", "/nonexistent"]) == 1
    assert "this is no terminal" in capsys.readouterr().err


def test_the_network_has_each_broker_with_the_sums_of_its_links_as_the_map_has() -> None:
    link = {"state": "running", "waiting": 2, "in_flight": 1, "rate": 3.4, "received_rate": 0.0}
    down = {"state": "waiting", "waiting": 5, "in_flight": 0, "rate": 0.0, "received_rate": 0.0}
    answer = {"brokers": [
        {"name": "a", "kind": "Spanwire", "silence": "", "age_s": 0.0, "links": [link, down], "ledger": []},
        {"name": "b", "kind": "", "silence": "does not answer", "age_s": 4.2, "links": [], "ledger": []},
    ]}  # fmt: skip
    (sheet,) = [sheet for sheet in SHEETS if sheet.key == "network"]
    rows = rows_of(sheet, answer)
    shown = [[row.get(column.key) for column in sheet.columns] for row in rows]
    assert shown == [
        ["a", "Spanwire", 2, 1, 7, 1, 3, 0, 0, ""],
        ["b", "", 0, 0, 0, 0, 0, 0, 4, "does not answer"],
    ]


def test_rows_that_nothing_tells_apart_are_all_shown() -> None:
    client = FakeClient()
    client.answers["network"] = {"brokers": [{"name": "twin", "address": "a"}, {"name": "twin", "address": "b"}]}
    message = {"message_id": "ID:m:1", "timestamp_ms": 1, "priority": 4, "body": "hello"}
    client.answers["browse"] = {"messages": [message, message]}

    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        app.query_one("#tabs", TabbedContent).active = "network"
        await settled(app, pilot)
        assert app.query_one("#network-table", DataTable).row_count == 2
        app.query_one("#tabs", TabbedContent).active = "queues"
        await settled(app, pilot)
        await pilot.press("enter")
        await settled(app, pilot)
        assert app.screen.query_one("#messages", DataTable).row_count == 2

    on_screen(scenario, client)
