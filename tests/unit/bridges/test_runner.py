"""The runner performs what the machine decides, over links that fail and hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from spanwire.bridges.engine.machine import BridgeMachine
from spanwire.bridges.model.definition import BridgeDefinition, Quality
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, WrongConnectionError
from spanwire.bridges.running.announcing import MAX_CAUSES, Announcer
from spanwire.bridges.running.links import Link
from spanwire.bridges.running.runner import BridgeRunner
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.routes.readers.bridge_parameters import FOREVER
from tests.support.bridge_dialogue import definition, text_messages


class FakeLink:
    """A link that keeps a list of its calls. A receive without messages hangs until it is cancelled."""

    def __init__(self, script: list[list[BridgeMessage]], calls: list[str]) -> None:
        self._script = script
        self._calls = calls
        self.is_lost = False
        self.refusal = ""
        self.defect: BaseException | None = None
        self.poisonous: tuple[str, ...] = ()
        self.close_waits_for: asyncio.Event | None = None

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        if self._script:
            messages = self._script.pop(0)
            self._calls.append(f"receive {len(messages)}")
            return messages
        self._calls.append("idle")
        await asyncio.Event().wait()
        raise AssertionError("an idle receive is cancelled")

    async def acknowledge(self) -> None:
        self._calls.append("acknowledge")

    async def send(self, messages: list[BridgeMessage]) -> None:
        for index, message in enumerate(messages):
            if message.message_id in self.poisonous:
                raise MessageRefusedError(index, "too large")
        if self.defect is not None:
            defect, self.defect = self.defect, None
            raise defect
        if self.refusal:
            reason, self.refusal = self.refusal, ""
            raise JmsError(reason)
        self._calls.append(f"send {len(messages)}")

    async def dead_letter(self, cause: str) -> None:
        self._calls.append(f"dead letter: {cause}")

    async def commit(self) -> None:
        self._calls.append("commit")

    def check(self) -> None:
        if self.is_lost:
            raise JmsError("the target is lost")

    async def close(self) -> None:
        if self.close_waits_for is not None:
            self._calls.append("closing")
            await self.close_waits_for.wait()
        self._calls.append("close")


class Stage:
    """A runner with one link, and a clock that stands still."""

    def __init__(
        self,
        bridge: BridgeDefinition,
        script: list[list[BridgeMessage]],
        announce: Callable[[BridgeMachine], None] = lambda machine: None,
    ) -> None:
        self._announce: Final = announce
        self.calls: Final[list[str]] = []
        self.link: Final = FakeLink(script, self.calls)
        self.states: Final[list[str]] = []
        self.refusals: Final[list[str]] = []
        self.refusal: type[JmsError] = JmsError
        self._when: dict[str, Callable[[], None]] = {}
        self.runner: Final = BridgeRunner(BridgeMachine(bridge), self._open, lambda: Time(0.0, 0), self._on_change)

    async def _open(self) -> Link:
        self.calls.append("open")
        if self.refusals:
            raise self.refusal(self.refusals.pop(0))
        return self.link

    def _on_change(self, machine: BridgeMachine) -> None:
        self._announce(machine)
        self.states.append(machine.state.value)

    async def until_idle(self) -> None:
        """Let the tasks run until the link waits for messages."""
        for _ in range(1_000):
            if self.calls and self.calls[-1] == "idle":
                return
            await asyncio.sleep(0)
        raise AssertionError(f"never idle: {self.calls}")


def test_a_batch_is_sent_and_acknowledged_and_a_stop_ends_the_wait() -> None:
    async def scenario() -> None:
        stage = Stage(definition(), [text_messages(3)])
        task = asyncio.create_task(stage.runner.run())
        await stage.until_idle()
        stage.runner.stop()
        await task
        assert stage.calls == ["open", "receive 3", "send 3", "acknowledge", "idle", "close"]
        assert stage.states == ["starting", "running", "stopped"]

    asyncio.run(scenario())


def test_an_unexpected_error_fails_the_batch_with_one_line_and_ends_no_other_bridge(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        stage = Stage(definition(interval_ms=1), [text_messages(1), text_messages(1)])
        stage.link.defect = ValueError("a\nb")
        task = asyncio.create_task(stage.runner.run())
        await stage.until_idle()
        stage.runner.stop()
        await task
        assert stage.states == ["starting", "running", "retrying", "running", "stopped"]
        assert stage.runner.machine.last_error == "ValueError: a\\u000ab"

    asyncio.run(scenario())
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert line.startswith("bridge orders: unexpected error in Send: ValueError: a\\u000ab (test_runner.")


def test_a_request_that_its_library_gives_up_is_a_failure_and_not_the_end_of_the_bridge() -> None:
    async def scenario() -> None:
        stage = Stage(definition(interval_ms=1), [text_messages(1), text_messages(1)])
        stage.link.defect = asyncio.CancelledError()
        task = asyncio.create_task(stage.runner.run())
        await stage.until_idle()
        stage.runner.stop()
        await task
        assert stage.states == ["starting", "running", "retrying", "running", "stopped"]
        assert stage.runner.machine.last_error == "Send was given up by the library of the connection"

    asyncio.run(scenario())


def test_a_transaction_is_committed() -> None:
    async def scenario() -> None:
        stage = Stage(definition(Quality.ONCE_AND_ONLY_ONCE), [text_messages(3)])
        task = asyncio.create_task(stage.runner.run())
        await stage.until_idle()
        stage.runner.stop()
        await task
        assert stage.calls == ["open", "receive 3", "send 3", "commit", "idle", "close"]

    asyncio.run(scenario())


def test_a_paused_bridge_holds_no_connection_and_resumes() -> None:
    async def scenario() -> None:
        stage = Stage(definition(), [])
        task = asyncio.create_task(stage.runner.run())
        await stage.until_idle()
        stage.runner.pause()
        while "paused" not in stage.states:
            await asyncio.sleep(0)
        assert stage.calls == ["open", "idle", "close"]
        stage.runner.start()
        await stage.until_idle()
        stage.runner.stop()
        await task
        assert stage.states == ["starting", "running", "paused", "starting", "running", "stopped"]

    asyncio.run(scenario())


def test_a_failed_send_closes_the_link_and_opens_another() -> None:
    async def scenario() -> None:
        messages = text_messages(2)
        stage = Stage(definition(interval_ms=1), [messages, messages])
        stage.link.refusal = "the queue is full"
        task = asyncio.create_task(stage.runner.run())
        await stage.until_idle()
        stage.runner.stop()
        await task
        assert stage.calls == [
            "open", "receive 2", "close", "open", "receive 2", "send 2", "acknowledge", "idle", "close",
        ]  # fmt: skip
        assert stage.states == ["starting", "running", "retrying", "running", "stopped"]
        assert stage.runner.machine.last_error == "the queue is full"

    asyncio.run(scenario())


def test_a_message_that_the_target_refuses_becomes_a_dead_letter_and_the_others_arrive() -> None:
    async def scenario() -> None:
        first, second = text_messages(2)
        stage = Stage(definition(), [[first, second], [first], [second]])
        stage.link.poisonous = (second.message_id,)
        task = asyncio.create_task(stage.runner.run())
        await stage.until_idle()
        stage.runner.stop()
        await task
        assert stage.calls == [
            "open", "receive 2", "close", "open", "receive 1", "send 1", "acknowledge", "receive 1",
            "dead letter: too large", "idle", "close",
        ]  # fmt: skip
        assert stage.runner.machine.counters.failures == 0

    asyncio.run(scenario())


def test_a_bridge_whose_broker_is_down_ends_as_failed() -> None:
    async def scenario() -> None:
        stage = Stage(definition(max_retries=1, interval_ms=1), [])
        stage.refusals.extend(["no broker", "no broker"])
        await stage.runner.run()
        assert stage.calls == ["open", "open"]
        assert stage.states == ["starting", "retrying", "failed"]

    asyncio.run(scenario())


def test_each_new_cause_of_failures_is_logged_once_and_a_few_at_most(caplog: pytest.LogCaptureFixture) -> None:
    def logged(refusals: list[str]) -> list[str]:
        caplog.clear()
        bridge = definition(max_retries=len(refusals) - 1, interval_ms=1)
        stage = Stage(bridge, [], Announcer(bridge, lambda line: None).on_change)
        stage.refusals.extend(refusals)
        asyncio.run(stage.runner.run())
        return [text.rpartition(": ")[2] for text in caplog.messages if "retrying after a failure" in text]

    assert logged(["down", "down", "the password is invalid", "down", "end"]) == ["down", "the password is invalid"]
    assert logged([str(number) for number in range(10)]) == [str(number) for number in range(MAX_CAUSES)]


def test_a_wrong_connection_factory_is_told_once_and_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    bridge = definition(max_retries=FOREVER, interval_ms=1)
    stage = Stage(bridge, [], Announcer(bridge, lambda line: None).on_change)
    stage.refusal = WrongConnectionError
    stage.refusals.extend(["no property 'hostNmae'", "no property 'hostNmae'"])
    asyncio.run(asyncio.wait_for(stage.runner.run(), 20))
    assert (stage.calls, stage.states) == (["open"], ["starting", "failed"])
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        f"bridge {bridge.name}: failed, correct its connection factory and start it again: no property 'hostNmae'"
    ]


def test_at_most_once_acknowledges_nothing_for_a_target_that_is_known_to_be_lost() -> None:
    async def scenario() -> None:
        stage = Stage(definition(Quality.AT_MOST_ONCE, max_retries=0), [text_messages(2)])
        stage.link.is_lost = True
        await stage.runner.run()
        assert stage.calls == ["open", "receive 2", "close"]
        assert stage.runner.machine.counters.perhaps_lost == 0

    asyncio.run(scenario())


def test_a_target_that_is_lost_while_the_source_is_quiet_is_noticed() -> None:
    async def scenario() -> None:
        stage = Stage(definition(max_retries=0), [[]])
        stage.link.is_lost = True
        await stage.runner.run()
        assert stage.states == ["starting", "running", "failed"]

    asyncio.run(scenario())


def test_a_cancelled_runner_closes_its_link() -> None:
    async def scenario() -> None:
        stage = Stage(definition(), [])
        task = asyncio.create_task(stage.runner.run())
        await stage.until_idle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled() and stage.calls == ["open", "idle", "close"]

    asyncio.run(scenario())


def test_a_runner_that_is_cancelled_while_it_closes_its_link_closes_all_of_it() -> None:
    async def scenario() -> None:
        stage = Stage(definition(), [])
        stage.link.close_waits_for = goes_on = asyncio.Event()
        task = asyncio.create_task(stage.runner.run())
        await stage.until_idle()
        stage.runner.stop()
        while stage.calls[-1] != "closing":
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        goes_on.set()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled() and stage.calls == ["open", "idle", "closing", "close"]

    asyncio.run(scenario())


def test_a_defect_at_a_command_fails_the_bridge_and_ends_its_receive() -> None:
    calls: list[str] = []
    link = FakeLink([], calls)
    defects: list[Exception] = []

    def clock() -> Time:
        if defects:
            raise defects.pop()
        return Time(0.0, 0)

    async def open_one() -> Link:
        return link

    async def play() -> str:
        runner = BridgeRunner(BridgeMachine(definition()), open_one, clock, lambda machine: None)
        running = asyncio.create_task(runner.run())
        while "idle" not in calls:
            await asyncio.sleep(0)
        defects.append(ValueError("no time"))
        runner.pause()
        await running
        return f"{runner.machine.state.value}: {runner.machine.last_error}"

    assert asyncio.run(play()) == "failed: ValueError: no time"
    assert calls[-1] == "close"
