"""A console whose broker knows a network of many brokers: its answers are made up, and the web server is the real one.

Hundreds of brokers do not fit on one machine, so what they tell stands here: stars of brokers around hubs that form a
ring with chords, each link with figures, some of them broken, and some brokers that tell nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from spanwire.web.console.figures.recorder import Recorder
from spanwire.web.events.changes import Changes
from spanwire.web.link import Snapshots
from spanwire.web.routes import application
from spanwire.web.serving.listening import WebServer, listening_socket
from spanwire.web.serving.server import server_config
from tests.support.fake_broker_link import FakeBrokerLink

HUB_EACH: Final = 10  # brokers of a star
BROKEN_EACH: Final = 17
SILENT_EACH: Final = 41
START_S: Final = 30.0

Row = dict[str, object]


def name_of(number: int) -> str:
    """The name of a broker."""
    return f"broker-{number:04}"


def reports(count: int) -> list[Row]:
    """What each of so many brokers tells."""
    links: dict[int, list[Row]] = {number: [] for number in range(count)}
    hubs = range(0, count, HUB_EACH)
    for number in range(count):
        if number % HUB_EACH:
            links[number].append(_link(number, number - number % HUB_EACH, duplex=True))
            accepted = _link(number - number % HUB_EACH, number, duplex=False)
            links[number - number % HUB_EACH].append({**accepted, "accepted": True})
    for place, hub in enumerate(hubs):
        links[hub].append(_link(hub, hubs[(place + 1) % len(hubs)], duplex=False))
        if place % 3 == 0:
            links[hub].append(_link(hub, hubs[(place + 7) % len(hubs)], duplex=True))
    return [_report(number, links[number]) for number in range(count)]


def _report(number: int, links: list[Row]) -> Row:
    is_silent = number % SILENT_EACH == SILENT_EACH - 1
    return {
        "name": name_of(number), "id": f"ID:{number}", "kind": "" if is_silent else "spanwire",
        "silence": "does not answer: the user has no right to write to its control queue" if is_silent else "",
        "age_s": 2.0, "links": [] if is_silent else links,
    }  # fmt: skip


def _link(near: int, far: int, *, duplex: bool) -> Row:
    is_broken = near % BROKEN_EACH == BROKEN_EACH - 1
    return {
        "name": f"to-{name_of(far)}", "uri": f"tcp://{name_of(far)}.example:61616", "remote": name_of(far),
        "state": "waiting" if is_broken else "running", "reason": "connection refused" if is_broken else "",
        "demand": 3, "waiting": near * 7 % 50, "in_flight": near % 5, "enqueued": near * 100, "dequeued": near * 99,
        "received": near * 10, "rate": near % 30 / 2, "failed": 0, "reconnects": near % 3, "since_s": 300.0,
        "duplex": duplex,
    }  # fmt: skip


@contextmanager
def served_map(count: int, link: FakeBrokerLink | None = None) -> Iterator[str]:
    """The address of a console that shows so many brokers to everybody, by the answers of ``link``."""
    link = link or FakeBrokerLink(is_open=True)
    summary = link.answers["summary"]
    assert isinstance(summary, dict)
    link.answers["summary"] = {**summary, "name": name_of(0), "id": "ID:0"}
    link.answers["network"] = {"brokers": reports(count)}
    changes = Changes()
    app = application(link, is_loopback=True, changes=changes, recorder=Recorder(Snapshots(link)))
    listener = listening_socket("127.0.0.1", 0)
    is_up = threading.Event()

    async def run() -> None:
        server = WebServer(server_config(app), listener, None, changes.stop)
        stopping = asyncio.get_running_loop()
        stops.append(lambda: stopping.call_soon_threadsafe(setattr, server, "should_exit", True))
        is_up.set()
        await server.serve()

    stops: list[object] = []
    with listener:
        thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
        thread.start()
        assert is_up.wait(START_S)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        for stop in stops:
            stop()  # type: ignore[operator]
        thread.join(START_S)
