"""Questions why about messages: one search runs at a time, some wait, and more are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import pytest

from spanwire.broker.explanation.links import LinkDescription
from spanwire.broker.queue.pending_messages import MAX_RESIDENT_MESSAGES
from spanwire.management.questions.why import MAX_WAITING, WhyQuestions
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.model.message import Message
from tests.support.dialogue.broker_dialogue import START_MS, Stage

MESSAGE: Final = {"name": "ID:nobody:1:1:1:1", "kind": "message"}


class Reading:
    """A broker with stored messages; a search of them waits for ``go``."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.producer = self.stage.peer("p")
        self.producer.sends("queue://Q", *("x" for _ in range(MAX_RESIDENT_MESSAGES + 150)))
        self.stage.settle()
        self.go = asyncio.Event()
        self.now_reading = self.most_reading = 0
        self.questions = WhyQuestions(self.stage.broker, self, self.read, None, START_MS)

    def now(self) -> Time:
        return self.stage.now

    async def read(self, destination: Destination, sequences: Sequence[int]) -> list[Message | None]:
        self.now_reading += 1
        self.most_reading = max(self.most_reading, self.now_reading)
        await self.go.wait()
        self.now_reading -= 1
        return self.stage.store.read(destination, list(sequences))

    def asks(self) -> asyncio.Task[dict[str, object]]:
        return asyncio.ensure_future(self.questions.why(MESSAGE))

    async def reads(self) -> None:
        """Return when a search reads."""
        for _ in range(1_000):
            if self.now_reading:
                return
            await asyncio.sleep(0)
        raise AssertionError("no search reads")


def test_one_message_is_searched_at_a_time_and_others_wait() -> None:
    async def scene() -> tuple[int, list[object]]:
        reading = Reading()
        tasks = [reading.asks() for _ in range(MAX_WAITING + 1)]
        await reading.reads()
        for _ in range(100):
            await asyncio.sleep(0)
        reading.go.set()
        return reading.most_reading, [answer["kind"] for answer in await asyncio.gather(*tasks)]

    assert asyncio.run(scene()) == (1, ["message"] * (MAX_WAITING + 1))


def test_a_search_too_many_is_refused_and_what_needs_none_is_answered() -> None:
    async def scene() -> None:
        reading = Reading()
        tasks = [reading.asks() for _ in range(MAX_WAITING + 1)]
        await reading.reads()
        with pytest.raises(ConfigurationError, match="another search runs, and 4 wait: try again"):
            await reading.asks()
        answer = await reading.questions.why({"name": reading.producer.connection_id, "kind": "connection"})
        assert answer["kind"] == "connection"
        tasks.pop().cancel()  # who waits no more makes room
        await asyncio.sleep(0)
        tasks.append(reading.asks())
        reading.go.set()
        assert len(await asyncio.gather(*tasks)) == MAX_WAITING + 1

    asyncio.run(scene())


class Links:
    """A network with a link to each of these addresses, all of one connector."""

    def __init__(self, *uris: str) -> None:
        self._links = [LinkDescription("hub", "", "", uri, "connecting", "", 3.0, 1, True) for uri in uris]

    def link_descriptions(self) -> list[LinkDescription]:
        return self._links


def test_several_links_of_one_name_are_named_and_one_of_them_is_asked_about() -> None:
    async def scene() -> None:
        stage = Stage()
        questions = WhyQuestions(stage.broker, Reading(), None, Links("tcp://a:1", "tcp://b:1"), START_MS)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=r"^2 links are named hub: name one of 'hub tcp://a:1', 'hub tcp:"):
            await questions.why({"name": "hub", "kind": "link"})
        answer = await questions.why({"name": "hub tcp://b:1", "kind": "link"})
        assert "tcp://b:1" in str(answer)

    asyncio.run(scene())
