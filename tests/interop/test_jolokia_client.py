"""Jolokia's own Java client reads, lists, searches, writes and executes, and sees the figures of the tutorial."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.service.started import Started, StompClient
from tests.service.test_web import LISTENING
from tests.support.maven_jars import JOLOKIA, find_jars
from tests.support.peers import require

SOURCE: Final = Path(__file__).parent / "jolokia" / "JolokiaQuestions.java"
TIMEOUT_S: Final = 120
BROKER: Final = "org.apache.activemq:type=Broker,brokerName=tested"
QUEUE: Final = f"{BROKER},destinationType=Queue,destinationName=FOO.BAR"
LOGGING: Final = f"{BROKER},service=Log4JConfiguration"
USERS: Final = """\
  <plugins><simpleAuthenticationPlugin><users>
    <authenticationUser username="anna" password="a-4711" groups="admins"/>
    <authenticationUser username="vera" password="v-4711" groups="viewers"/>
  </users></simpleAuthenticationPlugin></plugins>
  <web port="0"/>
"""


class WithWebPort(Started):
    """A broker with an administrator, a viewer and a web port."""

    def text(self) -> str:
        head, end, tail = super().text().partition("</broker>")
        return head + USERS + end + tail


class Questions:
    """A running Java program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process: Final = process

    def ask(self, *words: str) -> str:
        """The answer to a question, one line."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n")

    def counts(self) -> list[str]:
        """What the tutorial looks at, each read by itself."""
        return [self.ask("read", QUEUE, name, "GET") for name in ("EnqueueCount", "DispatchCount", "DequeueCount")]


@contextmanager
def questions(url: str, user: str, class_path: str) -> Iterator[Questions]:
    command = ["java", "-cp", class_path, "JolokiaQuestions", url, *user.split(":")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Questions(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0


def log_in(client: StompClient) -> None:
    client.send("CONNECT\naccept-version:1.2\nhost:localhost\nlogin:anna\npasscode:a-4711\n\n")
    assert client.receive().startswith("CONNECTED")


@pytest.mark.long
def test_jolokias_java_client_sees_the_figures_of_the_tutorial_and_operates(tmp_path: Path) -> None:
    require("java")
    jars = find_jars(JOLOKIA)
    if isinstance(jars, str):
        pytest.skip(jars)
    class_path = os.pathsep.join(map(str, [tmp_path, *jars]))
    compiled = ["javac", "--release", "11", "-cp", class_path, "-d", str(tmp_path), str(SOURCE)]
    subprocess.run(compiled, check=True, timeout=TIMEOUT_S)
    with WithWebPort(tmp_path) as broker:
        broker.awaits("Listening for web requests at: ")
        port = next(found[1] for line in broker.errors if (found := LISTENING.search(line)))
        url = f"http://127.0.0.1:{port}/api/jolokia"
        with questions(url, "anna:a-4711", class_path) as anna, questions(url, "vera:v-4711", class_path) as vera:
            assert vera.ask("version").startswith("7.")
            assert vera.ask("list") == "true"
            assert "needs the role admin" in vera.ask("exec", BROKER, "addQueue", "FOO.BAR")
            assert anna.ask("exec", BROKER, "addQueue", "FOO.BAR") == "null"
            assert vera.ask("search", f"{BROKER},destinationType=Queue,*") == "1"
            with StompClient(broker.ports["stomp"], login=False) as client:
                log_in(client)
                client.transact("SEND\ndestination:/queue/FOO.BAR\nreceipt:1\n\nx", "1")
                steps = [anna.ask("exec", QUEUE, "cursorSize"), *_counted(anna, ["1", "0", "0"])]
                client.send("SUBSCRIBE\nid:1\nack:client\ndestination:/queue/FOO.BAR\n\n")
                message = client.receive()
                steps += _counted(anna, ["1", "1", "0"])
                ack = next(line for line in message.split("\n") if line.startswith("ack:")).removeprefix("ack:")
                client.transact(f"ACK\nid:{ack}\nreceipt:2\n\n", "2")
                steps += _counted(anna, ["1", "1", "1"])
            assert steps == ["1", "1", "0", "0", "1", "1", "0", "1", "1", "1"]
            assert anna.ask("bulk", BROKER, "BrokerName,TotalQueuesCount,TotalDequeueCount") == "[tested, 1, 1]"
            assert anna.ask("write", LOGGING, "RootLogLevel", "DEBUG") == "INFO"
            assert vera.ask("read", QUEUE, "Missing", "POST").startswith("J4pRemoteException")


def _counted(questions: Questions, wanted: list[str]) -> list[str]:
    """The counts; a view may be a second old, so they are read until they are as wanted, or for some seconds."""
    for _ in range(50):
        counts = questions.counts()
        if counts == wanted:
            break
        time.sleep(0.1)  # an idle machine reads fifty times in less than the age of a view
    return counts
