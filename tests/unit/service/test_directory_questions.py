"""Questions to a directory: threads, deadlines, limits, and lines in the log."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from spanwire.broker.ports import Principal
from spanwire.ldap.directory_error import DirectoryError
from spanwire.model.info import ConnectionInfo
from spanwire.service.directories import questions as module
from spanwire.service.directories.questions import DirectoryQuestions

WAIT_S = 10.0


class Asker:
    """A login. Duck-typed to `DirectoryAsker`."""

    def __init__(self) -> None:
        self.is_dropped = False
        self.answers: list[tuple[Principal | None, bool]] = []
        self.answered = asyncio.Event()

    def on_answer(self, principal: Principal | None, is_available: bool) -> None:
        self.answers.append((principal, is_available))
        self.answered.set()

    async def answer(self) -> str:
        await asyncio.wait_for(self.answered.wait(), WAIT_S)
        ((principal, is_available),) = self.answers
        if principal is not None:
            return f"{principal.name}:{' '.join(sorted(principal.groups))}"
        return "refused" if is_available else "not available"


class Directory:
    """What the threads ask: each password is the name; ``open`` lets them go on."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.wakes = 0

    def check(self, name: str, password: str) -> frozenset[str] | None:
        self.asked.append(name)
        assert self.open.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        return frozenset({"staff"}) if password == name else None

    def wake(self) -> None:
        self.wakes += 1


def runs(scene: Callable[[Directory, DirectoryQuestions], Coroutine[Any, Any, None]], threads: int = 2) -> None:
    directory = Directory()

    async def whole() -> None:
        questions = DirectoryQuestions("the directory", directory.check, directory.wake, threads)
        try:
            await scene(directory, questions)
        finally:
            directory.open.set()
            questions.close()

    asyncio.run(whole())


def asked(questions: DirectoryQuestions, name: str = "anna", password: str = "") -> Asker:
    asker = Asker()
    questions.ask(ConnectionInfo("", user_name=name, password=password or name), asker)
    return asker


def test_an_answer_comes_in_the_loop_and_wakes_the_broker() -> None:
    async def scene(directory: Directory, questions: DirectoryQuestions) -> None:
        right, wrong = asked(questions), asked(questions, password="x")
        assert right.answers == []
        assert await right.answer() == "anna:staff"
        assert await wrong.answer() == "refused"
        assert directory.wakes == 2

    runs(scene)


def test_no_more_threads_ask_than_there_are_and_the_rest_waits_in_order() -> None:
    async def scene(directory: Directory, questions: DirectoryQuestions) -> None:
        directory.open.clear()
        askers = [asked(questions, str(number)) for number in range(5)]
        while len(directory.asked) < 2:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        assert sorted(directory.asked) == ["0", "1"]
        directory.open.set()
        assert [await asker.answer() for asker in askers] == [f"{number}:staff" for number in range(5)]

    runs(scene)


def test_a_question_of_a_connection_that_has_ended_is_not_asked() -> None:
    async def scene(directory: Directory, questions: DirectoryQuestions) -> None:
        directory.open.clear()
        first, gone, last = asked(questions), asked(questions, "gone"), asked(questions, "last")
        gone.is_dropped = True
        directory.open.set()
        assert await last.answer() == "last:staff"
        assert await first.answer() == "anna:staff"
        assert directory.asked == ["anna", "last"]

    runs(scene, threads=1)


def test_too_many_questions_get_no_answer_and_those_of_ended_connections_make_room(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No build compiles the module."""
    monkeypatch.setattr(module, "MAX_QUESTIONS", 3)

    async def scene(directory: Directory, questions: DirectoryQuestions) -> None:
        directory.open.clear()
        running, *waiting = (asked(questions, "b") for _ in range(4))
        assert await asked(questions).answer() == "not available"
        waiting[1].is_dropped = True
        late = asked(questions, "late")
        directory.open.set()
        assert await late.answer() == "late:staff"
        assert await running.answer() == "b:staff"

    runs(scene, threads=1)
    assert "logins are refused: 3 logins wait for it, more are refused" in caplog.text


def test_a_directory_that_hangs_meets_a_deadline_and_a_late_answer_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.05)

    async def scene(directory: Directory, questions: DirectoryQuestions) -> None:
        directory.open.clear()
        running, waiting = asked(questions), asked(questions)
        assert await running.answer() == "not available"
        assert await waiting.answer() == "not available"
        monkeypatch.setattr(module, "ANSWER_S", WAIT_S)
        directory.open.set()
        assert await asked(questions).answer() == "anna:staff"
        assert len(running.answers) == 1

    runs(scene, threads=1)
    assert "the directory has not answered within 0.05 s (1 since the last line)" in caplog.text


def test_failures_have_a_line_from_time_to_time_and_one_for_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(directory: Directory, questions: DirectoryQuestions) -> None:
        directory.error = DirectoryError("the directory", "cannot be asked: connection refused")
        for _ in range(20):
            assert await asked(questions).answer() == "not available"
        directory.error = None
        assert await asked(questions).answer() == "anna:staff"

    with caplog.at_level(logging.INFO):
        runs(scene)
    lines = [record.getMessage() for record in caplog.records if record.name == module.__name__]
    assert lines == [
        "logins are refused: the directory cannot be asked: connection refused (1 since the last line)",
        "the directory answers logins again",
    ]


def test_a_defect_refuses_one_login_and_shows_no_password(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(directory: Directory, questions: DirectoryQuestions) -> None:
        directory.error = RuntimeError("planted")
        assert await asked(questions, password="canary-word").answer() == "not available"
        directory.error = None
        assert await asked(questions).answer() == "anna:staff"

    runs(scene)
    assert "unexpected error in a login" in caplog.text
    assert "canary-word" not in caplog.text


def test_a_machine_without_threads_refuses_logins_until_it_has_some(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No build compiles the module."""

    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    async def scene(_: Directory, questions: DirectoryQuestions) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(threading, "Thread", NoThread)
            for _number in range(3):
                assert await asked(questions).answer() == "not available"
        assert await asked(questions).answer() == "anna:staff"

    runs(scene)
    assert "logins are refused: no thread can be started: can't start new thread" in caplog.text


def test_a_directory_that_is_closed_answers_what_waits_and_asks_no_more() -> None:
    async def scene(directory: Directory, questions: DirectoryQuestions) -> None:
        directory.open.clear()
        running, waiting = asked(questions), asked(questions)
        questions.close()
        assert await waiting.answer() == "not available"
        assert await asked(questions).answer() == "not available"
        assert running.answers == []

    runs(scene, threads=1)
