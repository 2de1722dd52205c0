"""Logins and sessions of messages over HTTP, at a broker in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

import pytest
from starlette.types import Receive

from spanwire.client.aio import Connection, connect
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import JmsError
from spanwire.web.rest import logins, sessions
from spanwire.web.rest.answers import answer_of
from spanwire.web.rest.logins import IDLE_S, POOLED_S, Logins, TooManyError
from spanwire.web.rest.reads import UNWATCHED_S, Reader
from spanwire.web.rest.requests import Posted
from spanwire.web.rest.servlet import Delivery
from spanwire.web.rest.sessions import FullSessionsError

A, T = Destination(QUEUE, "A"), Destination(TOPIC, "T")


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def message(body: str, destination: Destination = A) -> Posted:
    return Posted(destination, body, {}, None, None, None, 5, 0, False)


def run(test: Callable[[Logins, Clock], Awaitable[None]], name: str) -> None:
    """Run a test with logins at an embedded broker."""

    async def whole() -> None:
        clock = Clock()

        async def connected(user: str | None, password: str | None, host: str) -> Connection:
            if user == "unknown":
                raise JmsError("no such user")
            return await connect(f"vm://{name}?broker.persistent=false")

        kept = Logins(connected, clock)
        try:
            await test(kept, clock)
        finally:
            await kept.close()

    asyncio.run(whole())


async def never() -> None:
    await asyncio.get_running_loop().create_future()


def test_a_user_has_one_connection_and_an_idle_one_ends() -> None:
    async def test(kept: Logins, clock: Clock) -> None:
        first = await kept.login("mia", "m", "127.0.0.1")
        assert await kept.login("mia", "m", "127.0.0.1") is first
        assert await kept.login("mia", "other", "127.0.0.1") is not first
        clock.seconds = IDLE_S
        await kept.sweep()
        assert not first.is_alive
        assert await kept.login("mia", "m", "127.0.0.1") is not first

    run(test, "one-connection")


def test_a_failed_login_is_tried_again() -> None:
    async def test(kept: Logins, clock: Clock) -> None:
        for _ in range(2):
            with pytest.raises(JmsError, match="no such user"):
                await kept.login("unknown", None, "h")

    run(test, "failed-login")


class FakeConnection:
    """A connection that has failed when it is told, and closes when it is told."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.may_close = asyncio.Event()
        self.may_close.set()
        self.is_closed = False

    @property
    def shared(self) -> FakeConnection:
        return self

    @property
    def core(self) -> FakeConnection:
        return self

    async def close(self) -> None:
        self.is_closed = True
        await self.may_close.wait()


def test_requests_after_a_lost_connection_share_one_new_connection() -> None:
    async def scenario() -> None:
        made: list[FakeConnection] = []

        async def connected(user: str | None, password: str | None, host: str) -> Connection:
            made.append(FakeConnection())
            return cast("Connection", made[-1])

        kept = Logins(connected, Clock())
        await kept.login("mia", None, "h")
        made[0].failure = JmsError("lost")
        made[0].may_close.clear()
        first = asyncio.create_task(kept.login("mia", None, "h"))
        await asyncio.sleep(0)
        second = asyncio.create_task(kept.login("mia", None, "h"))
        for _ in range(5):
            await asyncio.sleep(0)
        made[0].may_close.set()
        assert await first is await second
        await kept.close()
        assert [one.is_closed for one in made] == [True, True]

    asyncio.run(scenario())


def test_a_look_for_idle_logins_leaves_a_login_that_was_made_meanwhile() -> None:
    async def scenario() -> None:
        made: list[FakeConnection] = []

        async def connected(user: str | None, password: str | None, host: str) -> Connection:
            made.append(FakeConnection())
            return cast("Connection", made[-1])

        clock = Clock()
        kept = Logins(connected, clock)
        login = await kept.login("mia", None, "h")
        slow = cast("Reader", FakeReader())
        await login.give_back(slow, is_queue=True)
        clock.seconds = POOLED_S
        sweeping = asyncio.create_task(kept.sweep())
        await asyncio.sleep(0)  # it waits for the consumer to close
        made[0].failure = JmsError("lost")
        again = await kept.login("mia", None, "h")
        cast("FakeReader", slow).may_close.set()
        await sweeping
        assert not made[1].is_closed and await kept.login("mia", None, "h") is again
        await kept.close()

    asyncio.run(scenario())


class FakeReader:
    """A consumer that closes when it is told."""

    def __init__(self) -> None:
        self.key = "queue://A", None
        self.used_at = 0.0
        self.is_left = False
        self.may_close = asyncio.Event()

    async def close(self) -> None:
        await self.may_close.wait()


def test_users_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "MAX_LOGINS", 2)

    async def test(kept: Logins, clock: Clock) -> None:
        for user in ("a", "b", "a"):
            await kept.login(user, None, "h")
        with pytest.raises(TooManyError, match="2 users"):
            await kept.login("c", None, "h")

    run(test, "many-users")


def test_a_user_has_a_bounded_number_of_requests() -> None:
    async def test(kept: Logins, clock: Clock) -> None:
        login = await kept.login("mia", None, "h")
        login.requests = logins.MAX_USERS_REQUESTS
        with pytest.raises(TooManyError):
            await kept.login("mia", None, "h")

    run(test, "many-requests")


def test_a_consumer_of_a_queue_waits_a_moment_for_the_next_request() -> None:
    async def test(kept: Logins, clock: Clock) -> None:
        login = await kept.login(None, None, "h")
        reader = await login.reader(A, None)
        await login.give_back(reader, is_queue=True)
        assert await login.reader(A, "n = 1") is not reader
        assert await login.reader(A, None) is reader
        await login.give_back(reader, is_queue=True)
        clock.seconds = POOLED_S
        await login.sweep()
        assert await login.reader(A, None) is not reader

    run(test, "pooled-consumer")


def test_a_message_that_is_not_acknowledged_is_delivered_again() -> None:
    async def test(kept: Logins, clock: Clock) -> None:
        login = await kept.login(None, None, "h")
        message_id = await login.send(message("x"))
        reader = await login.reader(A, None)
        got = await reader.read(30, never)
        assert got is not None
        assert (got.text, got.message_id) == ("x", message_id)
        await login.give_back(reader, is_queue=False)
        reader = await login.reader(A, None)
        again = await reader.read(30, never)
        assert again is not None
        assert (again.text, again.redelivered) == ("x", True)
        reader.accept(again)

    run(test, "not-acknowledged")


def test_a_client_that_has_gone_takes_no_message() -> None:
    async def test(kept: Logins, clock: Clock) -> None:
        login = await kept.login(None, None, "h")
        await login.send(message("kept"))
        reader = await login.reader(A, None)

        async def gone() -> None:
            return

        assert await reader.read(30, gone) is None
        await login.give_back(reader, is_queue=True)
        other = await login.reader(A, None)
        assert other is not reader
        got = await other.read(30, never)
        assert got is not None
        assert got.text == "kept"
        other.accept(got)

    run(test, "gone-client")


def test_a_client_that_goes_while_it_waits_takes_no_message() -> None:
    async def test(kept: Logins, clock: Clock) -> None:
        login = await kept.login(None, None, "h")
        reader = await login.reader(A, None)
        going = asyncio.Event()
        reading = asyncio.ensure_future(reader.read(30, going.wait))
        await asyncio.sleep(2 * UNWATCHED_S)
        going.set()
        assert await reading is None
        await login.give_back(reader, is_queue=True)
        await login.send(message("kept"))
        other = await login.reader(A, None)
        got = await other.read(30, never)
        assert got is not None
        other.accept(got)

    run(test, "going-client")


def test_a_message_that_comes_late_is_read() -> None:
    async def test(kept: Logins, clock: Clock) -> None:
        login = await kept.login(None, None, "h")
        reader = await login.reader(A, None)
        assert await reader.read(0.01, never) is None
        reading = asyncio.ensure_future(reader.read(30, never))
        await asyncio.sleep(2 * UNWATCHED_S)
        await login.send(message("late"))
        got = await reading
        assert got is not None
        assert got.text == "late"

    run(test, "late-message")


def test_sessions_of_a_user_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_READERS", 2)

    async def test(kept: Logins, clock: Clock) -> None:
        login = await kept.login(None, None, "h")
        for client_id in ("a", "b"):
            await login.sessions.reader(client_id, T, None)
        with pytest.raises(FullSessionsError, match="oneShot"):
            await login.sessions.reader("c", T, None)
        assert await login.sessions.end("a", T)
        await login.sessions.reader("c", T, None)

    run(test, "many-sessions")


def test_an_idle_session_ends() -> None:
    async def test(kept: Logins, clock: Clock) -> None:
        login = await kept.login(None, None, "h")
        idle = await login.sessions.reader("idle", T, None)
        await login.sessions.reader("busy", T, None)
        await login.sessions.give_back("idle", T, idle, ends=False)
        clock.seconds = sessions.IDLE_S
        await login.sweep()
        assert login.sessions.count == 1
        assert await login.sessions.reader("idle", T, None) is not idle

    run(test, "idle-session")


def test_a_message_whose_answer_was_not_written_goes_to_the_next_read() -> None:
    async def test(kept: Logins, clock: Clock) -> None:
        login = await kept.login(None, None, "h")
        await login.send(message("kept"))
        reader = await login.sessions.reader("c", A, None)
        got = await reader.read(30, never)
        assert got is not None

        async def broken(event: object) -> None:
            raise ConnectionError("the response cannot be written")

        give_back = partial(login.sessions.give_back, "c", A, reader, ends=False)
        delivery = Delivery(answer_of(got), reader, got, give_back)
        with pytest.raises(ConnectionError):
            await delivery({"type": "http"}, cast("Receive", never), broken)
        again = await login.sessions.reader("c", A, None)
        redelivered = await again.read(30, never)
        assert redelivered is not None
        assert (redelivered.text, redelivered.redelivered) == ("kept", True)
        again.accept(redelivered)

    run(test, "unwritten-answer")
