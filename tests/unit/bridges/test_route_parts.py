"""The parts around the steps of a route: its state on the disk, its way to the child, files, timers and HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.bridges.endpoints.file_source import OpenFileSource
from spanwire.bridges.endpoints.file_target import OpenFileTarget, _name_of
from spanwire.bridges.endpoints.http_target import OpenHttpTarget
from spanwire.bridges.endpoints.timer_source import OpenTimerSource, TickCount
from spanwire.bridges.engine.route_processor import RouteProcessor
from spanwire.bridges.engine.route_state import Change, Changes, Completed, Gathered, KeyForgotten, KeySeen, RouteState
from spanwire.bridges.files.definition_json import definition_of, plain_definition
from spanwire.bridges.files.route_bridges import bridges_of
from spanwire.bridges.files.route_definitions import route_definition
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import Definition, FileSource, FileTarget, HttpTarget, TimerSource
from spanwire.bridges.model.route_diagram import route_diagram
from spanwire.bridges.ports import PartlySentError
from spanwire.bridges.running.process import Opener, link_opener
from spanwire.bridges.running.route_link import RouteLink
from spanwire.bridges.running.route_store import RouteStore, refuse_left_state
from spanwire.bridges.running.stored_message import decode_message, encode_message
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError, JmsError, MessageFormatError, StoreError
from spanwire.model.message_view import INT_VALUE, STRING_VALUE, TEXT
from spanwire.routes.model import EMBEDDED
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders
from tests.support.bridge_dialogue import Content, text_message
from tests.support.route_world import BROKERS, route

STEP_NAMES: Final = {1: "aggregate header k #1", 2: "idempotentConsumer header k #1"}
STEPS: Final = (
    "{log: '${body}'}, {throttle: 5}, {delay: 10}, {filter: {selector: 'n > 1', steps: [{to: 'far:queue:B'}]}}, "
    "{idempotentConsumer: {header: k}}, {split: {tokenize: ','}}, "
    "{aggregate: {correlationExpression: {header: k}, completionSize: 2}}, "
    "{choice: {when: [{simple: \"${header.a} == 'b'\", steps: [{to: 'file:/tmp/x'}]}]}}, {to: 'http://h:1/p'}"
)


def test_a_route_reaches_the_child_as_it_is() -> None:
    definition = route(STEPS, "far:queue:D")
    assert definition_of(json.loads(json.dumps(plain_definition(definition)))) == definition


def test_a_diagram_shows_steps_and_targets_without_passwords() -> None:
    definition = route("{setBody: {constant: x}}, {to: 'far:queue:B?password=canary'}", "near:queue:D")
    text = route_diagram(definition)
    assert text.splitlines()[:4] == [
        "route r",
        "  queue://A at tcp://near:61616",
        "    set the text to constant x",
        "    to queue://B at tcp://far:61616",
    ]
    assert "canary" not in text and "canary" not in repr(definition)


def test_a_stored_message_is_the_message() -> None:
    message = text_message(1, properties={"a": (INT_VALUE, 1)})
    message.reply_to = Destination(QUEUE, "R")
    message.priority, message.correlation_id = 7, "c"
    again = decode_message(encode_message(message))
    assert (again.message_id, again.kind, again.size) == (message.message_id, message.kind, message.size)
    assert again.content.neutral_body() == message.content.neutral_body()
    assert again.property_values() == message.property_values()
    assert (again.reply_to, again.priority, again.correlation_id) == (message.reply_to, 7, "c")


@pytest.mark.parametrize("octets", [b"", b"\0\0\0\x09{}", b"\0\0\0\x02{}\0\0\0\0", b"\xff\xff\xff\xff"])
def test_a_damaged_stored_message_is_told(octets: bytes) -> None:
    with pytest.raises(MessageFormatError, match="damaged"):
        decode_message(octets)


def known_keys(state: RouteState) -> list[tuple[int, str]]:
    """Return the steps and keys of a state."""
    return [(step, key) for step, keys in state.keys.items() for key in keys]


def test_a_key_that_is_known_again_after_a_fault_is_the_next_to_be_forgotten() -> None:
    state = RouteState()
    for change in (KeySeen(1, "other step"), KeySeen(2, "a"), KeySeen(2, "b")):
        state.apply(change)
    oldest = state.oldest_key(2, 2)
    assert (oldest, state.oldest_key(2, 3)) == ("a", None)
    undo = state.apply(KeyForgotten(2, "a"))
    assert state.oldest_key(2, 1) == "b"
    undo()
    assert state.oldest_key(2, 2) == "a"


def test_the_state_of_a_route_is_there_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = RouteStore(tmp_path, "r", STEP_NAMES)
        await store.open()
        gathered = [Gathered(1, key, 5, text_message(number)) for number, key in enumerate("xxy")]
        await store.store(Changes([*gathered, KeySeen(2, "k"), KeySeen(2, "old"), KeyForgotten(2, "old")], ["ID:0"]))
        await store.store(Changes([Completed(1, "y")], ["ID:1"]))
        with pytest.raises(StoreError, match="another process runs this route"):
            await RouteStore(tmp_path, "r", STEP_NAMES).open()
        await store.close()
        again = RouteStore(tmp_path, "r", STEP_NAMES)
        await again.open()
        state = await again.load()
        await again.close()
        assert {at: len(group.messages) for at, group in state.groups.items()} == {(1, "x"): 2}
        assert (known_keys(state), list(state.recent)) == ([(2, "k")], ["ID:0", "ID:1"])

    asyncio.run(scenario())


def test_a_cancelled_opening_of_a_state_ends_with_the_database_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    async def scenario() -> None:
        store = RouteStore(tmp_path, "r", STEP_NAMES)
        opened = store._open

        def slow_open() -> None:
            begun.set()
            goes_on.wait()
            opened()

        monkeypatch.setattr(store, "_open", slow_open)
        opening = asyncio.create_task(store.open())
        while not begun.is_set():
            await asyncio.sleep(0)
        opening.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        has_waited = not opening.done()
        goes_on.set()
        await asyncio.gather(opening, return_exceptions=True)
        assert has_waited and opening.cancelled()
        again = RouteStore(tmp_path, "r", STEP_NAMES)
        await again.open()
        await again.close()

    asyncio.run(scenario())


def test_a_source_that_fails_to_close_leaves_no_state_open(tmp_path: Path) -> None:
    class BrokenSource(OpenTimerSource):
        async def close(self) -> None:
            raise ValueError("odd")

    async def scenario() -> None:
        store = RouteStore(tmp_path, "r", STEP_NAMES)
        await store.open()
        link = RouteLink(BrokenSource(TimerSource("t", 20, 0, 2), TickCount()), [], store)
        with pytest.raises(ValueError, match="odd"):
            await link.close()
        again = RouteStore(tmp_path, "r", STEP_NAMES)
        await again.open()
        await again.close()

    asyncio.run(scenario())


def stored_state(directory: Path, names: dict[int, str], *changes: Change) -> RouteState:
    """The state that a route with these steps finds, after it has stored changes."""

    async def scenario() -> RouteState:
        store = RouteStore(directory, "r", names)
        try:
            await store.open()
            await store.store(Changes(list(changes), []))
            return await store.load()
        finally:
            await store.close()

    return asyncio.run(scenario())


def test_a_changed_route_finds_the_state_of_the_steps_that_it_still_has(tmp_path: Path) -> None:
    stored_state(tmp_path, STEP_NAMES, Gathered(1, "x", 5, text_message(1)), KeySeen(2, "k"))
    state = stored_state(tmp_path, {1: "idempotentConsumer header new #1", 2: STEP_NAMES[2], 3: STEP_NAMES[1]})
    assert (list(state.groups), known_keys(state)) == ([(3, "x")], [(2, "k")])


@pytest.mark.parametrize("names", [{}, {1: "aggregate header other #1"}, {1: STEP_NAMES[2]}], ids=len)
def test_a_route_without_the_step_whose_messages_wait_is_refused(tmp_path: Path, names: dict[int, str]) -> None:
    stored_state(tmp_path, STEP_NAMES, Gathered(1, "x", 5, text_message(1)), KeySeen(2, "k"))
    with pytest.raises(StoreError, match="1 messages wait in groups of a step that the route r lacks now: aggregate"):
        stored_state(tmp_path, names)
    assert list(stored_state(tmp_path, STEP_NAMES).groups) == [(1, "x")]  # the step is back


def test_a_route_without_its_last_step_with_a_state_is_refused_while_messages_wait(tmp_path: Path) -> None:
    asyncio.run(refuse_left_state(tmp_path, "r"))
    stored_state(tmp_path, STEP_NAMES, KeySeen(2, "k"))
    asyncio.run(refuse_left_state(tmp_path, "r"))
    stored_state(tmp_path, STEP_NAMES, Gathered(1, "x", 5, text_message(1)))
    for steps in ("{log: x}, {to: 'far:queue:B'}", "{to: 'far:queue:B'}"):  # a route, and a bridge
        opener = link_opener(route_or_bridge(steps), states=tmp_path)
        with pytest.raises((StoreError, JmsError), match="messages wait in groups of a step"):
            asyncio.run(opened(opener))


async def opened(opener: Opener) -> None:
    link = await opener()
    await link.close()


def route_or_bridge(steps: str) -> Definition:
    uri = "timer:t" if "log" in steps else "near:queue:A"
    steps = steps.replace("far:queue:B", "file:/tmp/none") if "log" in steps else steps
    text = f"- route: {{id: r, from: {{uri: '{uri}', steps: [{steps}]}}}}\n"
    (definition,) = bridges_of(
        read_routes(text.encode(), "r.yaml", Placeholders({}, {}), BROKERS).only(EMBEDDED).routes
    )
    return definition


def test_a_state_of_the_first_format_belongs_to_the_steps_by_number(tmp_path: Path) -> None:
    stored_state(tmp_path, STEP_NAMES, Gathered(1, "x", 5, text_message(1)), KeySeen(2, "k"))
    with sqlite3.connect(tmp_path / "r.routestate") as database:
        database.executescript("DROP TABLE steps; PRAGMA user_version = 1")
    database.close()
    with pytest.raises(StoreError, match="lacks now: step 1;"):
        stored_state(tmp_path, {})
    state = stored_state(tmp_path, STEP_NAMES)
    assert (list(state.groups), known_keys(state)) == ([(1, "x")], [(2, "k")])


def test_steps_with_one_key_have_names_of_their_own() -> None:
    step = "{idempotentConsumer: {header: k}}"
    assert RouteProcessor(route(f"{step}, {step}, {{to: 'far:queue:B'}}")).step_names == {
        1: "idempotentConsumer simple ${header.k} #1",
        2: "idempotentConsumer simple ${header.k} #2",
    }


def test_a_damaged_state_is_one_line(tmp_path: Path) -> None:
    store = RouteStore(tmp_path, "r", STEP_NAMES)
    store.path.write_bytes(b"no database" * 100)
    with pytest.raises(StoreError, match=r"r\.routestate: file is not a database"):
        asyncio.run(store.open())


def file_source(directory: Path, include: str | None = None) -> OpenFileSource:
    return OpenFileSource(FileSource(str(directory), False, ".camel", ".error", include, 10))


def test_files_are_read_in_order_and_moved_once_they_are_sent(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", ".hidden", "c.bin"):
        (tmp_path / name).write_bytes(name.encode())

    async def scenario() -> None:
        source = file_source(tmp_path, include=r".*\.txt")
        messages = await source.receive(10, 1000, 0.0)
        assert [message.property_values()["CamelFileName"] for message in messages] == [
            (STRING_VALUE, "a.txt"),
            (STRING_VALUE, "b.txt"),
        ]
        assert await source.receive(10, 1000, 0.0) == []
        await source.close()
        again = file_source(tmp_path, include=r".*\.txt")
        assert len(await again.receive(1, 1000, 0.0)) == 1
        await again.acknowledge()
        assert len(await again.receive(1, 1000, 0.0)) == 1
        await again.dead_letter("refused")

    asyncio.run(scenario())
    assert sorted(path.name for path in tmp_path.iterdir()) == [".camel", ".error", ".hidden", "c.bin"]
    assert [path.name for path in (tmp_path / ".error").iterdir()] == ["b.txt"]


def test_a_link_or_pipe_in_the_place_of_a_listed_file_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("canary")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    source = file_source(tmp_path)
    monkeypatch.setattr(source, "_names", lambda: ["gone", "link", "pipe"])
    assert asyncio.run(source.receive(10, 1000, 0.0)) == []


def test_a_cancelled_receive_takes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("a")
    begun, goes_on = threading.Event(), threading.Event()

    async def scenario() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # one call after the other
        source = file_source(tmp_path)
        names = source._names

        def slow_names() -> list[str]:
            begun.set()
            goes_on.wait()
            return names()

        monkeypatch.setattr(source, "_names", slow_names)
        receiving = asyncio.create_task(source.receive(10, 1000, 0.0))
        while not begun.is_set():
            await asyncio.sleep(0)
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        goes_on.set()
        await source.acknowledge()  # of the messages before
        assert len(await source.receive(10, 1000, 0.0)) == 1

    asyncio.run(scenario())


def test_a_file_that_is_too_large_is_moved_to_the_failed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanwire.bridges.endpoints.file_source.MAX_FILE_BYTES", 3)
    (tmp_path / "large").write_text("1234")
    assert asyncio.run(file_source(tmp_path).receive(10, 1000, 0.0)) == []
    assert (tmp_path / ".error" / "large").read_text() == "1234"


def test_a_missing_directory_is_a_failure_that_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(JmsError, match="No such file"):
        asyncio.run(file_source(tmp_path / "none").receive(1, 1, 0.0))


def test_a_message_makes_a_file_and_a_repeated_one_the_same_file(tmp_path: Path) -> None:
    target = OpenFileTarget(FileTarget(str(tmp_path / "out"), "", "Override"))
    for _ in range(2):
        asyncio.run(target.send([text_message(1)]))
    (path,) = (tmp_path / "out").iterdir()
    assert (path.name, path.read_text()) == ("ID-1", "text 1")


def test_long_ids_that_differ_in_their_ends_make_different_files(tmp_path: Path) -> None:
    target = OpenFileTarget(FileTarget(str(tmp_path), "", "Override"))
    messages = [BridgeMessage("ID:" + "x" * 300 + end, TEXT, Content(end), 1) for end in "ab"]
    asyncio.run(target.send(messages))
    paths = list(tmp_path.iterdir())
    assert sorted(path.read_text() for path in paths) == ["a", "b"]
    assert {len(path.name) for path in paths} == {200}


JMS: Final = "ID:host-61616-1700000000000-1"
LOOKALIKES: Final = [
    ["a:b", "a-b", "a/b", "a b"],
    [f"{JMS}:1:1:1:1", f"{JMS}-1:1:1:1", f"{JMS}:1:1:1-1", f"{JMS.replace(':', '-')}:1:1:1:1", f"{JMS}-1-1-1-1"],
    [f"{JMS}:2:-1:1:1", f"{JMS}:2-:1:1:1", f"{JMS}-:2:1:1:1", f"{JMS}:2::1:1:1"],
    ["ID:1", "ID-1", "id:1"],
    [".a", "-a", ":a"],
    ["é", "-", "ü", "\ud800"],
]


def file_names(directory: Path, ids: list[str]) -> list[str]:
    """Return the names of the files that a target makes."""
    target = OpenFileTarget(FileTarget(str(directory), "", "Override"))
    asyncio.run(target.send([BridgeMessage(one, TEXT, Content(str(place)), 1) for place, one in enumerate(ids)]))
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("ids", LOOKALIKES, ids=[ids[0] for ids in LOOKALIKES[:-1]] + ["others"])
def test_ids_that_look_alike_make_different_files(tmp_path: Path, ids: list[str]) -> None:
    names = file_names(tmp_path, ids)
    assert len(names) == len(ids)
    others = {*ids, *names}  # a name of a file is an id, too
    assert len(file_names(tmp_path, list(others))) == len(others)


@given(st.lists(st.text(":-/é", min_size=1, max_size=3), min_size=2, max_size=2, unique=True))
def test_no_two_ids_have_one_file(ids: list[str]) -> None:
    one, other = ids
    assert _name_of(one) != _name_of(other)


@pytest.mark.parametrize(
    ("message_id", "name"),
    [
        (f"{JMS}:1:2:3:4", "ID-host-61616-1700000000000-1-1-2-3-4"),
        (f"{JMS}:2:-1:1:7", "ID-host-61616-1700000000000-1-2--1-1-7"),
        (f"{JMS}:1:2:3:4-5", "ID-host-61616-1700000000000-1-1-2-3-4-5"),
        ("ID:3fa85f64-5717-4562-b3fc-2c963f66afa6", "ID-3fa85f64-5717-4562-b3fc-2c963f66afa6"),
        ("topic-0-17", "topic-0-17"),
    ],
)
def test_usual_ids_keep_the_file_names_of_earlier_versions(tmp_path: Path, message_id: str, name: str) -> None:
    assert file_names(tmp_path, [message_id]) == [name]


def test_a_message_without_an_id_needs_a_file_name(tmp_path: Path) -> None:
    target = OpenFileTarget(FileTarget(str(tmp_path), "", "Override"))
    with pytest.raises(PartlySentError, match="has no id, so fileName must name its file"):
        asyncio.run(target.send([BridgeMessage("", TEXT, Content("a"), 1)]))


def test_files_before_a_refused_message_are_there_after_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode)))
    target = OpenFileTarget(FileTarget(str(tmp_path), "", "Override"))
    with pytest.raises(PartlySentError):
        asyncio.run(target.send([text_message(1), BridgeMessage("", TEXT, Content("a"), 1)]))
    assert synced == [False, True]  # the file, and the directory with its name


@pytest.mark.parametrize("name", ["../up", "/etc/x", ".hidden", "a\nb", "", "x" * 300])
def test_a_header_chooses_no_other_directory(tmp_path: Path, name: str) -> None:
    target = OpenFileTarget(FileTarget(str(tmp_path / "out"), "${header.name}", "Override"))
    good, bad = (text_message(1, properties={"name": (STRING_VALUE, text)}) for text in ("a", name))
    with pytest.raises(PartlySentError, match="is no name of a file") as caught:
        asyncio.run(target.send([good, bad]))
    assert caught.value.index == 1
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a"]


def test_a_timer_ticks_and_leaves_out_what_it_missed() -> None:
    async def scenario() -> None:
        source = OpenTimerSource(TimerSource("t", 20, 0, 2), TickCount())
        first = await source.receive(1, 1, 1.0)
        await asyncio.sleep(0.05)
        second = await source.receive(1, 1, 1.0)
        assert [one.property_values()["timerCounter"][1] for one in (*first, *second)] == [1, 2]
        assert await source.receive(1, 1, 0.0) == []

    asyncio.run(scenario())


def test_a_timer_counts_its_ticks_over_all_links() -> None:
    async def scenario() -> None:
        ticks, timer = TickCount(), TimerSource("t", 1, 0, 1)
        assert len(await OpenTimerSource(timer, ticks).receive(1, 1, 1.0)) == 1  # and the link is lost
        source = OpenTimerSource(timer, ticks)
        assert len(await source.receive(1, 1, 1.0)) == 1
        await source.acknowledge()
        assert await OpenTimerSource(timer, ticks).receive(1, 1, 0.01) == []

    asyncio.run(scenario())


class Answers(BaseHTTPRequestHandler):
    """Answers with the status in the body of the request."""

    taken: Final[list[str]] = []
    users: Final[list[str | None]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.taken.append(body)
        self.users.append(self.headers["Authorization"])
        self.send_response(int(body))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def test_an_answer_stores_refuses_or_asks_for_another_attempt() -> None:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    url = f"http://u:p%40@127.0.0.1:{server.server_port}/x"
    try:
        target = OpenHttpTarget(HttpTarget(url, "POST", 5_000))

        async def send(*codes: str) -> None:
            await target.send(
                [BridgeMessage(f"ID:{number}\n", TEXT, Content(code), 1) for number, code in enumerate(codes)]
            )

        asyncio.run(send("200", "204"))
        with pytest.raises(PartlySentError, match="answered 400") as caught:
            asyncio.run(send("201", "400", "200"))
        assert caught.value.index == 1
        with pytest.raises(JmsError, match="answered 503"):
            asyncio.run(send("503"))
        asyncio.run(target.close())
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
    assert set(Answers.users) == {"Basic dTpwQA=="}
    assert Answers.taken == ["200", "204", "201", "400", "503"]


def test_a_body_that_cannot_be_decoded_is_the_fault_of_its_message_alone() -> None:
    class Malformed(Content):
        def neutral_body(self) -> bytes | None:
            raise MessageFormatError("the body is malformed")

    target = OpenHttpTarget(HttpTarget("http://h", "POST", 1))
    with pytest.raises(PartlySentError, match="the body is malformed"):
        asyncio.run(target.send([BridgeMessage("ID:1", TEXT, Malformed(""), 1)]))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://h:port/x", "names no host, or a wrong host or port"),
        ("http://h:99999/x", "names no host, or a wrong host or port"),
        ("http:///x", "names no host, or a wrong host or port"),
        ("http://a..b/x", "names no host, or a wrong host or port"),
        ("http://u:canary@h h/x", "names no host, or a wrong host or port"),
        ("http://h/\u00e9", "write spaces and letters beyond ASCII in the path as %XX"),
        ("http://h/a b", "write spaces and letters beyond ASCII in the path as %XX"),
    ],
)
def test_a_wrong_url_of_a_target_is_told_at_the_start(url: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^r\.yaml:1: ") as caught:
        route(f"{{log: x}}, {{to: '{url}'}}")
    assert told in str(caught.value) and "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://h", "https://b\u00fccher.example:8443/x", "http://[::1]:80/x", "http://u:p@h/"]
)
def test_a_right_url_of_a_target_is_taken(url: str) -> None:
    assert isinstance(route(f"{{log: x}}, {{to: '{url}'}}").targets[0], HttpTarget)


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("http://h/x", "http is a target, and no source of a route"),
        ("file:relative", "must name a whole path"),
        ("file:/x?noop=true", "there is no option of file 'noop'"),
        ("file:/x?include=(", "is no regular expression"),
        ("file:/x?move=a/b", "it must be the name of a directory below"),
        ("timer:t?period=0", "period is '0'; it must lie between 1 and"),
        ("timer:t?period=soon", "period is 'soon'"),
    ],
)
def test_a_wrong_option_is_named(uri: str, told: str) -> None:
    text = f"- from: {{uri: '{uri}', steps: [{{to: 'jms:queue:B'}}]}}\n"
    (one,) = read_routes(text.encode(), "r.yaml", Placeholders({}, {})).routes
    with pytest.raises(ConfigurationError, match=r"^r\.yaml:1: ") as caught:
        route_definition(one)
    assert told in str(caught.value)
