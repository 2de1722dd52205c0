"""The recipes do what their page says: each program is taken from there and run against a broker."""

from __future__ import annotations

import asyncio
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from httpx import ASGITransport, AsyncClient

from spanwire.client import Message, connect
from spanwire.testing import Broker

PAGE = (Path(__file__).resolve().parents[3] / "docs/guides/client/recipes.md").read_text("utf-8")
PROGRAMS: dict[str, str] = dict(re.findall(r"^## (.+?)\n.*?```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
WAIT_S = 20.0


def recipe(title: str, broker: Broker) -> dict[str, Any]:
    """The names of a program that has run."""
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(PROGRAMS[title], title, "exec"), names)  # noqa: S102
    names["BROKER"] = broker.url
    return names


class Running:
    """A recipe's loop in a thread, with the event that ends it."""

    def __init__(self, run: Callable[..., None], *arguments: object) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=run, args=(*arguments, self._stop))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


def test_every_recipe_is_run_here() -> None:
    text = Path(__file__).read_text("utf-8")
    assert len(PROGRAMS) == 6
    assert [title for title in PROGRAMS if f'"{title}"' not in text] == []


def test_the_worker_retries_and_gives_up(spanwire_broker: Broker) -> None:
    found = recipe("A worker with retries", spanwire_broker)
    found["RETRIES"] = re.sub("initialRedeliveryDelay=1000", "initialRedeliveryDelay=1", found["RETRIES"])
    attempts: list[str] = []

    def handle(message: Message) -> None:
        attempts.append(message.text)
        if message.text == "poison" or attempts.count(message.text) < 3:
            raise ValueError("not this time")

    with Running(found["work"], handle):
        with connect(spanwire_broker.url) as connection, connection.session() as session:
            producer = session.create_producer("queue://ORDERS")
            producer.send("poison")
            producer.send("good")
        spanwire_broker.queue("ORDERS").wait_for(pending=0, dequeued=2, timeout=WAIT_S)
    assert sorted(attempts) == ["good"] * 3 + ["poison"] * 4
    assert [message.body for message in spanwire_broker.queue("ActiveMQ.DLQ").messages()] == ["poison"]


def test_each_group_gets_each_message_once(spanwire_broker: Broker) -> None:
    found = recipe("Consumer groups", spanwire_broker)
    with connect(spanwire_broker.url) as connection, connection.session() as session:
        for group in ("billing", "mail"):
            assert list(found["join"](session, group)) == []
        for order in ("a", "b"):
            found["publish"](session, order)
        for group in ("billing", "mail"):
            assert [message.text for message in found["join"](session, group)] == ["a", "b"]


def test_the_server_answers_requests(spanwire_broker: Broker) -> None:
    found = recipe("A request server", spanwire_broker)
    with Running(found["serve"]):
        with connect(spanwire_broker.url) as connection, connection.session() as session:
            session.create_producer("queue://PRICES").send("book")  # asks for no answer
        assert found["ask"]("book") == 12.5
        assert found["ask"]("nothing") is None


def test_the_program_leaves_in_order(spanwire_broker: Broker, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAMS["An orderly shutdown"].replace("tcp://localhost:61616", spanwire_broker.url), "utf-8")
    with connect(spanwire_broker.url) as connection, connection.session() as session:
        session.create_producer("queue://JOBS").send("one")
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            spanwire_broker.queue("JOBS").wait_for(dequeued=1, timeout=WAIT_S)
            process.send_signal(signal.SIGTERM)
            assert process.stdout.read() == "done: one\nleft in order\n"
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()


def test_the_application_sends_over_one_connection(spanwire_broker: Broker) -> None:
    found = recipe("A web application with asyncio", spanwire_broker)
    app = found["app"]

    with spanwire_broker.wire() as wire:
        found["BROKER"] = wire.url

        async def scenario() -> None:
            async with (
                app.router.lifespan_context(app),
                AsyncClient(transport=ASGITransport(app), base_url="http://a") as web,
            ):
                posts = (web.post("/orders", content=f"order {number}") for number in range(20))
                answers = await asyncio.gather(*posts)
                assert {(answer.status_code, answer.json()["status"]) for answer in answers} == {(202, "accepted")}
                wire.cut()
                refused = await web.post("/orders", content="late")
                assert (refused.status_code, refused.json()) == (503, {"error": "try again"})
                wire.mend()

        asyncio.run(scenario())
    bodies = [message.body for message in spanwire_broker.queue("ORDERS").messages()]
    assert sorted(str(body) for body in bodies) == sorted(f"order {number}" for number in range(20))


def test_a_message_that_comes_twice_is_billed_once(spanwire_broker: Broker) -> None:
    found = recipe("A consumer that does each message once", spanwire_broker)
    database = sqlite3.connect(":memory:")
    database.executescript(found["TABLES"])
    with connect(spanwire_broker.url) as connection:
        with connection.session() as session:
            session.create_producer("queue://ORDERS").send("one book")
        with connection.session("individual") as crashes:
            message = crashes.create_consumer("queue://ORDERS").receive(WAIT_S)
            assert message is not None
            found["bill"](message, database)
        with connection.session("individual") as session:
            found["work"](session, database)
    assert database.execute("SELECT text FROM bills").fetchall() == [("one book",)]
    assert spanwire_broker.queue("ORDERS").pending == 0
    database.close()
