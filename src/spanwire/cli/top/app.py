"""The textual application: tables of objects, and screens for destination and explanation.

Needs the extra ``top``. Threads ask the broker, because the client of the control socket blocks.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar, Final, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from spanwire.cli.monitoring.why import explanation_lines
from spanwire.cli.top.figures import SHEETS, TEXT, Sheet, Table, cell, headline
from spanwire.management.control_client import ControlError

BROWSED: Final = 100  # messages of a queue on its screen
BODY: Final = 60  # characters of a body in a row
MESSAGE_COLUMNS: Final = ("message", "age", "priority", "persistent", "redelivered", "body")
ON_TABLES: Final = ("filter", "sort", "reverse", "why", "pause")  # actions
QUIET: Final = "the broker does not answer: "


class Asks(Protocol):
    """The part of `ControlClient` used here."""

    def ask(self, command: str, **arguments: object) -> object:
        """Return the result of a command. Raises `ControlError`."""
        ...


class TopApp(App[None]):
    """Shows a live broker; ``interval_s`` is the time between two looks."""

    TITLE = "spanwire top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { overflow: hidden; }
    TabbedContent { height: 1fr; }
    TabPane { padding: 0; }
    #headline { height: 1; background: $primary-darken-2; color: $text; padding: 0 1; }
    #notice { height: 1; color: $text-muted; padding: 0 1; }
    #filter { display: none; }
    DataTable { height: 1fr; }
    .facts { height: auto; padding: 0 1; }
    """
    BINDINGS: ClassVar = [
        Binding("q", "quit", "Quit"),
        Binding("slash", "filter", "Filter"),
        Binding("less_than_sign,comma", "sort(-1)", "Sort left"),
        Binding("greater_than_sign,full_stop", "sort(1)", "Sort right"),
        Binding("r", "reverse", "Reverse"),
        Binding("w", "why", "Why"),
        Binding("p", "pause", "Pause"),
    ]

    def __init__(self, client: Asks, interval_s: float) -> None:
        super().__init__()
        self.client: Final = client
        self.tables: Final = {sheet.key: Table(sheet) for sheet in SHEETS}
        self._interval_s: Final = interval_s
        self._is_paused = False
        self._turn: Final = asyncio.Lock()  # one look at a time

    def compose(self) -> ComposeResult:
        yield Static("", id="headline", markup=False)
        with TabbedContent(id="tabs"):
            for sheet in SHEETS:
                with TabPane(sheet.title, id=sheet.key):
                    yield DataTable(id=f"{sheet.key}-table", cursor_type="row", zebra_stripes=True)
        yield Static("", id="notice", markup=False)
        yield Input(placeholder="part of a name; Enter keeps it, Escape shows all", id="filter")
        yield Footer()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the actions of the table only on the screen of the table."""
        return action not in ON_TABLES or len(self.screen_stack) == 1

    def on_mount(self) -> None:
        self.set_interval(self._interval_s, self._tick)
        self._grid().focus()
        self.run_worker(self.look())

    def _tick(self) -> None:
        """Look again after the answer to the last look: the keys stay alive despite a hanging broker."""
        if not self._turn.locked():
            self.run_worker(self.look())

    @property
    def table(self) -> Table:
        """The table of the present tab."""
        return self.tables[str(self.query_one("#tabs", TabbedContent).active or SHEETS[0].key)]

    async def look(self) -> None:
        """Ask the broker, and show the answer; not while paused."""
        async with self._turn:
            if self._is_paused:
                return
            table = self.table
            try:
                status = await self.asked("summary")
                answer = status if table.sheet.command == "summary" else await self.asked(table.sheet.command)
            except ControlError as error:
                self._say(f"{QUIET}{error}")
                return
            table.take(answer, time.monotonic())
            self.query_one("#headline", Static).update(headline(status))
            self.refresh_table()

    async def asked(self, command: str, **arguments: object) -> object:
        """Return the answer to a command. Raises `ControlError`."""
        return await asyncio.to_thread(self.client.ask, command, **arguments)

    def refresh_table(self) -> None:
        """Write the rows of the present table; the cursor stays on the same row."""
        table, grid = self.table, self._grid()
        chosen = self.chosen()
        shown = table.shown()
        grid.clear(columns=True)
        sides: list[Any] = ["left" if column.kind == TEXT else "right" for column in table.sheet.columns]
        for (key, heading), side in zip(table.headings(), sides, strict=True):
            grid.add_column(Text(heading, justify=side), key=key)
        for identity, cells in shown.rows:
            grid.add_row(*(Text(one, justify=side) for one, side in zip(cells, sides, strict=True)), key=identity)
        if chosen is not None and any(identity == chosen for identity, _ in shown.rows):
            grid.move_cursor(row=grid.get_row_index(chosen))
        hidden = shown.total - len(shown.rows)
        more = f", {hidden} more: filter with /" if hidden else ""
        part = f" with {table.order.part!r}" if table.order.part else ""
        self._say(f"{shown.total} {table.sheet.title.lower()}{part}{more}")

    def chosen(self) -> str | None:
        """Return the identity of the row under the cursor."""
        grid = self._grid()
        if not grid.is_valid_row_index(grid.cursor_row):
            return None
        return str(grid.coordinate_to_cell_key(grid.cursor_coordinate).row_key.value)

    def _grid(self) -> DataTable[Any]:
        return self.query_one(f"#{self.table.sheet.key}-table", DataTable)

    def _say(self, text: str) -> None:
        self.query_one("#notice", Static).update(f"{'paused, ' if self._is_paused else ''}{text}")

    def on_tabbed_content_tab_activated(self) -> None:
        """Show another table, with the rows of its last look until the next answer."""
        self._grid().focus()
        self.refresh_table()
        self.run_worker(self.look())

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        if len(self.screen_stack) == 1 and event.column_key.value is not None:
            self.table.turn_to(event.column_key.value)
            self.refresh_table()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the screen of the row under the cursor."""
        row = self.table.row(str(event.row_key.value))
        if row is None:
            return
        sheet = self.table.sheet
        if sheet.key in ("queues", "topics"):
            self.push_screen(DestinationScreen(self, str(row["destination"])))
        elif sheet.explained:
            self._explain(sheet, row)

    def action_sort(self, steps: int) -> None:
        """Sort by the column to the left or right."""
        self.table.move(steps)
        self.refresh_table()

    def action_reverse(self) -> None:
        """Sort in the other direction."""
        self.table.turn_to(self.table.order.column)
        self.refresh_table()

    def action_pause(self) -> None:
        """Stop looking, or go on."""
        self._is_paused = not self._is_paused
        self.refresh_table()

    def action_why(self) -> None:
        """Ask why the object under the cursor does not move."""
        identity = self.chosen()
        row = None if identity is None else self.table.row(identity)
        if row is not None and self.table.sheet.explained:
            self._explain(self.table.sheet, row)

    def _explain(self, sheet: Sheet, row: dict[str, object]) -> None:
        name = str(row[sheet.subject])
        name = name.partition("://")[2] or name if sheet.subject == "destination" else name
        question: dict[str, object] = {"name": name, "kind": sheet.explained}
        if sheet.explained == "subscription":
            question["client_id"] = row["client_id"]
        self.push_screen(WhyScreen(self, question))

    def action_filter(self) -> None:
        """Ask for a part of a name."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.value = self.table.order.part
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.table.order.part = event.value
        self.refresh_table()

    def on_input_submitted(self) -> None:
        self._leave_filter()

    def on_key(self, event: Any) -> None:
        """Show all rows again after Escape in the filter."""
        if event.key == "escape" and self.query_one("#filter", Input).has_focus:
            self.table.order.part = ""
            self._leave_filter()
            self.refresh_table()

    def _leave_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self._grid().focus()


class DestinationScreen(Screen[None]):
    """One queue or topic: attributes, consumers and the first messages of a queue."""

    BINDINGS: ClassVar = [Binding("escape", "app.pop_screen", "Back"), Binding("f5", "load", "Again")]

    def __init__(self, top: TopApp, destination: str) -> None:
        super().__init__()
        self._top: Final = top
        self._destination: Final = destination

    def compose(self) -> ComposeResult:
        yield Static(cell(self._destination, "text"), classes="facts", id="title", markup=False)
        yield Static("", classes="facts", id="facts", markup=False)
        yield Static("", classes="facts", id="consumers", markup=False)
        yield DataTable(id="messages", cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#messages", DataTable).focus()
        self.action_load()

    def action_load(self) -> None:
        """Ask the broker again."""
        self.run_worker(self._load(), exclusive=True)

    async def _load(self) -> None:
        try:
            facts = await self._top.asked("destination", destination=self._destination)
            consumers = await self._top.asked("consumers")
            browsed: object = {}
            if "queue://" in self._destination:
                browsed = await self._top.asked("browse", destination=self._destination, limit=BROWSED)
        except ControlError as error:
            self.query_one("#facts", Static).update(cell(f"{QUIET}{error}", "text"))
            return
        self.query_one("#facts", Static).update(_facts(facts))
        self.query_one("#consumers", Static).update(_consumers(consumers, self._destination))
        messages = browsed.get("messages") if isinstance(browsed, dict) else None
        self._write(messages if isinstance(messages, list) else [])

    def _write(self, messages: list[dict[str, object]]) -> None:
        grid = self.query_one("#messages", DataTable)
        grid.clear(columns=True)
        grid.add_columns(*MESSAGE_COLUMNS)
        now_ms = int(time.time() * 1000)
        for number, message in enumerate(messages):
            sent = message.get("timestamp_ms")
            age = f"{max(0, now_ms - sent) // 1000} s" if isinstance(sent, int) and sent else "-"
            body = message.get("body")
            cells = [
                cell(message.get("message_id"), "text"),
                age,
                cell(message.get("priority"), "number"),
                "yes" if message.get("persistent") else "",
                cell(message.get("redelivery_count"), "number"),
                cell(None if body is None else str(body)[:BODY], "text"),
            ]
            grid.add_row(*map(Text, cells), key=f"{message.get('message_id')}\0{number}")

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Ask why the message under the cursor waits."""
        event.stop()
        question: dict[str, object] = {
            "name": str(event.row_key.value).partition("\0")[0],
            "kind": "message",
            "queue": self._destination.partition("://")[2],
        }
        self._top.push_screen(WhyScreen(self._top, question))


class WhyScreen(Screen[None]):
    """The broker's explanation of one object or message."""

    BINDINGS: ClassVar = [Binding("escape", "app.pop_screen", "Back"), Binding("f5", "load", "Again")]

    def __init__(self, top: TopApp, question: dict[str, object]) -> None:
        super().__init__()
        self._top: Final = top
        self._question: Final = question

    def compose(self) -> ComposeResult:
        title = f"why {self._question['kind']} {self._question['name']}"
        yield Static(cell(title, "text"), classes="facts", id="title", markup=False)
        with VerticalScroll():
            yield Static("the broker searches …", classes="facts", id="explanation", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.action_load()

    def action_load(self) -> None:
        """Ask the broker again."""
        self.run_worker(self._load(), exclusive=True)

    async def _load(self) -> None:
        try:
            answer = await self._top.asked("why", **self._question)
            explanations = answer.get("explanations") if isinstance(answer, dict) else None
            lines = [line for one in explanations or [] for line in explanation_lines(one)]
        except ControlError as error:
            lines = [cell(str(error), "text")]
        self.query_one("#explanation", Static).update("\n".join(lines))


def _facts(answer: object) -> str:
    """Return the attributes with a value of a destination, several in a line."""
    if not isinstance(answer, dict):
        return ""
    shown = [f"{name} {cell(value, 'text')}" for name, value in answer.items() if value not in (None, "", {}, 0, False)]
    return "  ·  ".join(shown)


def _consumers(answer: object, destination: str) -> str:
    rows = [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
    own = [row for row in rows if row.get("destination") == destination]
    lines = [
        f"consumer {cell(row.get('consumer_id'), 'text')} of {cell(row.get('client_id'), 'text')}: "
        f"{cell(row.get('in_flight'), 'number')} of {cell(row.get('prefetch_size'), 'number')} in flight, selector "
        f"{cell(row.get('selector'), 'text')}"
        for row in own[:10]
    ]
    if len(own) > len(lines):
        lines.append(f"and {len(own) - len(lines)} more")
    return "\n".join(lines) or "no consumer"
