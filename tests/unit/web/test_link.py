"""Snapshots: one answer serves all callers, and a refusal concerns its caller alone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from spanwire.management.control_client import ControlError
from spanwire.management.handles import UNAUTHENTICATED
from spanwire.web.link import MAX_AGE_S, MAX_EXPLAINING, MAX_REQUESTS, ControlLink, Snapshots


class Link:
    """Answers in the order of `release`; the handle "old" has ended."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked: list[object] = []

    async def ask(self, command: str, **arguments: object) -> object:
        self.asked.append(arguments.get("handle"))
        await self.go.wait()
        if arguments.get("handle") == "old":
            raise ControlError("the login has ended", UNAUTHENTICATED)
        return [command]


def test_the_refusal_of_another_caller_is_not_passed_on() -> None:
    async def scene() -> tuple[object, object, list[object]]:
        link = Link()
        snapshots = Snapshots(link)
        first = asyncio.ensure_future(snapshots.answer("consumers", "old"))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(snapshots.answer("consumers", "new"))
        await asyncio.sleep(0)
        link.go.set()
        answers = await asyncio.gather(first, second, return_exceptions=True)
        return answers[0], answers[1], link.asked

    first, second, asked = asyncio.run(scene())
    assert isinstance(first, ControlError)
    assert second == ["consumers"]
    assert asked == ["old", "new"]


def test_an_answer_serves_all_callers_for_a_second() -> None:
    time = [100.0]

    async def scene() -> list[object]:
        link = Link()
        link.go.set()
        snapshots = Snapshots(link, lambda: time[0])
        for handle in ("a", "b", ""):
            assert await snapshots.answer("consumers", handle) == ["consumers"]
        time[0] += MAX_AGE_S
        await snapshots.answer("consumers", "b")
        return link.asked

    assert asyncio.run(scene()) == ["a", "b"]


def test_a_refused_caller_who_asked_first_gets_the_refusal() -> None:
    async def scene() -> None:
        link = Link()
        link.go.set()
        await Snapshots(link).answer("consumers", "old")

    with pytest.raises(ControlError, match="has ended"):
        asyncio.run(scene())


class SlowClient:
    """A broker that searches until ``go``."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def ask(self, command: str, **arguments: object) -> object:
        if command == "why":
            self.go.wait(20)
        return command


def test_questions_why_delay_no_operation_and_too_many_are_refused(tmp_path: Path) -> None:
    async def scene() -> list[object]:
        client = SlowClient()
        link = ControlLink(tmp_path, lambda directory, seconds: client)
        try:
            questions = [asyncio.ensure_future(link.ask("why", name="ID:x")) for _ in range(MAX_EXPLAINING)]
            await asyncio.sleep(0)
            with pytest.raises(ControlError, match="try again"):
                await link.ask("why", name="ID:x")
            async with asyncio.timeout(10):
                answers = [await link.ask(command) for command in ("pause", "purge", "status")]
        finally:
            client.go.set()
        return [*answers, *await asyncio.gather(*questions)]

    assert asyncio.run(scene()) == ["pause", "purge", "status", *["why"] * MAX_EXPLAINING]
    assert MAX_EXPLAINING >= MAX_REQUESTS
