"""The screen of ``spanwire top`` shows a real broker, down to the reason why a message waits."""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual.widgets import Static

from spanwire.cli.top.app import TopApp
from spanwire.client.blocking import connect
from spanwire.management.control_client import ControlClient
from tests.service.started import Started


def test_a_message_of_a_real_queue_is_found_and_explained(tmp_path: Path) -> None:
    with Started(tmp_path / "broker") as broker:
        with connect(broker.broker_url) as connection, connection.session() as session:
            session.create_producer("queue://ORDERS").send("hello")
        text = asyncio.run(explanation_of_the_first(TopApp(ControlClient(broker.data, 60.0), 3600.0)))
    assert "[no-consumer]" in text and "  do: " in text


async def explanation_of_the_first(app: TopApp) -> str:
    """Open the queue with most messages, and its first message."""
    async with app.run_test(size=(120, 40)) as pilot:
        for key in ("", "enter", "enter"):
            if key:
                await pilot.press(key)
            await pilot.pause()
            await app.workers.wait_for_complete()
            await pilot.pause()
        return str(app.screen.query_one("#explanation", Static).content)
