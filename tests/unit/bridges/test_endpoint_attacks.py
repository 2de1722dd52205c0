"""Directories and servers of a route that belong to somebody else: links, pipes, names, and answers without end."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spanwire.bridges.endpoints.file_source import OpenFileSource
from spanwire.bridges.endpoints.file_target import OpenFileTarget
from spanwire.bridges.endpoints.http_target import MAX_REASON, OpenHttpTarget
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import FileSource, FileTarget, HttpTarget
from spanwire.model.errors import JmsError
from spanwire.model.message_view import TEXT
from tests.support.bridge_dialogue import Content


def text(message_id: str = "ID:1") -> list[BridgeMessage]:
    return [BridgeMessage(message_id, TEXT, Content("new"), 1)]


def send(directory: Path, exists: str, messages: list[BridgeMessage], name: str = "a") -> None:
    asyncio.run(asyncio.wait_for(OpenFileTarget(FileTarget(str(directory), name, exists)).send(messages), 10.0))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """The directory of an endpoint, and a file outside of it that has to stay as it is."""
    directory, outside = tmp_path / "in", tmp_path / "outside"
    for place in (directory, outside):
        place.mkdir()
    (outside / "a").write_text("old")
    return directory, outside / "a"


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to], ids=["symbolic", "hard"])
def test_a_new_file_is_not_written_through_a_link(places: tuple[Path, Path], make: object) -> None:
    directory, victim = places
    assert callable(make)
    make(directory / ".new-a", victim)
    send(directory, "Override", text())
    assert ((directory / "a").read_text(), victim.read_text()) == ("new", "old")
    assert not (directory / "a").is_symlink()


def test_nothing_is_appended_through_a_link(places: tuple[Path, Path]) -> None:
    directory, victim = places
    (directory / "a").symlink_to(victim)
    with pytest.raises(JmsError, match="symbolic links"):
        send(directory, "Append", text())
    assert victim.read_text() == "old"


def test_a_pipe_in_place_of_a_file_holds_nothing_up(places: tuple[Path, Path]) -> None:
    directory, _ = places
    os.mkfifo(directory / "a")
    with pytest.raises(JmsError, match="No such device"):
        send(directory, "Append", text())
    reader = os.open(directory / "a", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(JmsError, match="is no file"):
            send(directory, "Append", text())
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    ("message_id", "name"), [("..", "-."), (".", "-"), (".new-a", "-new-a"), ("../../etc/passwd", "-.-..-etc-passwd")]
)
def test_s41_an_id_of_a_message_names_no_directory_and_no_hidden_file(
    tmp_path: Path, message_id: str, name: str
) -> None:
    send(tmp_path, "Override", text(message_id), name="")
    (made,) = os.listdir(tmp_path)
    assert re.fullmatch(f"{re.escape(name)}-[0-9a-f]{{64}}", made)


@pytest.mark.parametrize("word", ["move", "move_failed"])
def test_files_are_not_moved_through_a_link_that_a_sender_made(places: tuple[Path, Path], word: str) -> None:
    directory, victim = places
    (directory / "a").write_text("new")
    (directory / word).symlink_to(victim.parent)

    async def scenario() -> None:
        source = OpenFileSource(FileSource(str(directory), False, "move", "move_failed", None, 10))
        await source.receive(1, 100, 0)
        with pytest.raises(JmsError, match=r"Not a directory|symbolic links"):
            await (source.acknowledge() if word == "move" else source.dead_letter("cause"))

    asyncio.run(scenario())
    assert victim.read_text() == "old"
    assert (directory / "a").read_text() == "new"


def test_a_link_of_the_operator_outside_of_the_directory_is_followed(places: tuple[Path, Path]) -> None:
    directory, victim = places
    (directory / "b").write_text("new")
    done = directory.parent / "done"
    done.symlink_to(victim.parent)

    async def scenario() -> None:
        source = OpenFileSource(FileSource(str(directory), False, str(done), "failed", None, 10))
        await source.receive(1, 100, 0)
        await source.acknowledge()

    asyncio.run(scenario())
    assert (victim.parent / "b").read_text() == "new"


@contextmanager
def server(answer: bytes, *, then_byte_by_byte: bool = False) -> Iterator[str]:
    """Run a server that gives one answer to all requests; yield its URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.is_set():
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)
                while then_byte_by_byte and not is_over.wait(0.01):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        break

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        is_over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def request(url: str, timeout_ms: int = 1_000) -> None:
    asyncio.run(asyncio.wait_for(OpenHttpTarget(HttpTarget(url, "POST", timeout_ms)).send(text()), 20.0))


def test_s24_a_server_that_answers_byte_by_byte_holds_no_thread_for_good() -> None:
    with server(b"HTTP/1.1 200 ", then_byte_by_byte=True) as url, pytest.raises(JmsError, match="too slowly"):
        request(url, timeout_ms=200)


@pytest.mark.parametrize("status", [b"500", b"404", b"302"])
def test_s16_the_words_of_a_server_come_short_and_without_control_characters(status: bytes) -> None:
    answer = b"HTTP/1.1 %s \x1b[31mred\x9b%s\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with server(answer % (status, b"x" * 5_000)) as url, pytest.raises(Exception, match=status.decode()) as error:
        request(url)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < MAX_REASON + 100


def test_s37_a_redirect_is_not_followed() -> None:
    with server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as second:
        answer = f"HTTP/1.1 307 go\r\nLocation: {second}\r\nContent-Length: 0\r\n\r\n".encode()
        with server(answer) as first, pytest.raises(JmsError, match="answered 307 go"):
            request(first)
