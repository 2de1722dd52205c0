"""Java programs as test peers: compiled once per run, and kept running so that a question costs no start of a JVM.

A program answers one line of tab-separated words with lines of JSON; `{"done": true}` ends an answer.
"""

from __future__ import annotations

import fcntl
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, Self

from tests.support.peers import activemq_classpath

COMPILE_TIMEOUT_S: Final = 120
ANSWER_TIMEOUT_S: Final = 120.0
JVM_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-Dfile.encoding=UTF-8")

Observation = dict[str, Any]
ClassPath = Callable[..., str]  # of a client, with folders and jars before it


def compile_java(sources: Path, classes: Path, classpath: ClassPath = activemq_classpath) -> Path:
    """Compile every source of a folder into `classes`; raises RuntimeError with what the compiler says."""
    command = [
        "javac",
        "--release",
        "11",
        "-nowarn",
        "-encoding",
        "UTF-8",
        "-cp",
        classpath(),
        "-d",
        str(classes),
    ]
    classes.mkdir(exist_ok=True)
    files = sorted(str(path) for path in sources.glob("*.java"))
    result = subprocess.run([*command, *files], capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"javac failed:\n{result.stdout}{result.stderr}")
    return classes


def compile_java_once(sources: Path, name: str, own: Path) -> Path:
    """The same for all processes of a parallel run: one compiles, the others wait for it. ``own`` is the temporary
    directory of the process, those of one run lie side by side.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return compile_java(sources, own / name)
    classes = own.parent / name
    with (own.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = own.parent / f"{name}.done"
        if not done.exists():
            compile_java(sources, classes)
            done.touch()
    return classes


class JavaProcess:
    """A running Java program, one question at a time. One that did not answer to its end may still be busy with the
    question: another takes its place.
    """

    def __init__(self, classes: Path, main_class: str, java: Sequence[str] = ()) -> None:
        """``java`` is the command with its class path; by default that of ActiveMQ's client with ``classes``."""
        self._command: Final = [*(java or ("java", *JVM_OPTIONS, "-cp", activemq_classpath(classes))), main_class]
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, *words: str, on_event: Callable[[str], None] | None = None) -> list[Observation]:
        """What the program observes. `on_event` is called when it waits for something to happen, then it goes on."""
        return list(self.observations(*words, on_event=on_event))

    def observations(self, *words: str, on_event: Callable[[str], None] | None = None) -> Iterator[Observation]:
        """The same, one by one. Raises RuntimeError if the program fails, ends or stays silent."""
        if self._process is None:
            self._start()
        is_answered = False
        try:
            yield from self._answers(words, on_event)
            is_answered = True
        finally:
            if not is_answered:
                self._end()

    def _answers(self, words: tuple[str, ...], on_event: Callable[[str], None] | None) -> Iterator[Observation]:
        self._tell("\t".join(words))
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise RuntimeError(f"no answer to {words} within {ANSWER_TIMEOUT_S} s") from None
            if line is None:
                raise RuntimeError(f"the Java program ended at {words}")
            observation = json.loads(line)
            if "done" in observation:
                return
            if "failure" in observation:
                raise RuntimeError(f"{words}: {observation['failure']}")
            if "event" in observation:
                assert on_event is not None, observation
                on_event(observation["event"])
                self._tell("")
            else:
                yield observation

    def _start(self) -> None:
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._process = process
        self._lines = queue.SimpleQueue()
        assert process.stdout is not None
        threading.Thread(target=_read, args=(process.stdout, self._lines), daemon=True).start()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _tell(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


def _read(stream: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)
