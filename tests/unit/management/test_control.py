"""What the control socket answers, also to nonsense."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.ports import Authenticator, LoginObserver, Principal
from spanwire.management.control import ENTRIES_PER_TURN, ROWS_PER_TURN, ControlServer, _audited
from spanwire.management.handles import Handles
from spanwire.model.environment import Time
from spanwire.model.errors import AuthenticationError, ConfigurationError
from spanwire.model.info import ConnectionInfo


def fail() -> object:
    raise RuntimeError("planted")


def server() -> ControlServer:
    return ControlServer(Path("/nowhere"), {"status": lambda: {"name": "orders"}, "broken": fail})


def test_a_command_gets_its_result() -> None:
    assert server().answer(b'{"command": "status"}') == {"ok": True, "result": {"name": "orders"}}


@pytest.mark.parametrize(
    "request_", [b"", b"{", b"[]", b"1", b"null", b'{"command": 1}', b'{"command": "exec"}', b"\xff"]
)
def test_nonsense_is_refused(request_: bytes) -> None:
    answer = server().answer(request_)
    assert answer["ok"] is False
    assert answer["error"]


def test_a_failing_command_is_logged_and_answered_without_its_inside(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer = server().answer(b'{"command": "broken"}')
    assert answer["ok"] is False
    assert "planted" not in str(answer)
    assert "planted" in caplog.text


@given(st.binary(max_size=200))
def test_any_request_gets_an_answer_that_is_json(request_: bytes) -> None:
    json.dumps(server().answer(request_))


def test_deep_json_is_refused() -> None:
    assert server().answer(b"[" * 4000)["ok"] is False


class Client:
    """Duck-typed to the part of `asyncio.Transport` that the server uses."""

    def __init__(self) -> None:
        self.written = b""
        self.gone = False

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.gone

    def get_extra_info(self, name: str) -> object:
        return None

    def answers(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.written.splitlines()]


class Operations:
    """Operations that end when the test says so."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.cancelled = False

    async def slow(self, arguments: Mapping[str, object]) -> object:
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return arguments["destinations"]

    async def refused(self, arguments: Mapping[str, object]) -> object:
        raise ConfigurationError("there is no queue Q")

    async def broken(self, arguments: Mapping[str, object]) -> object:
        raise RuntimeError("planted")


def operated(operations: Operations) -> ControlServer:
    return ControlServer(
        Path("/nowhere"),
        {"status": lambda: "fine"},
        {"slow": operations.slow, "refused": operations.refused, "broken": operations.broken},
    )


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_an_operation_is_answered_when_it_is_done_and_holds_nobody_up() -> None:
    async def dialogue() -> None:
        operations = Operations()
        server, client = operated(operations), Client()
        server.handle(b'{"command": "slow", "destinations": ["Q"]}', cast(asyncio.Transport, client))
        await _settle()
        assert client.answers() == []
        server.handle(b'{"command": "status"}', cast(asyncio.Transport, client))
        assert client.answers() == [{"ok": True, "result": "fine"}]
        operations.go.set()
        await _settle()
        assert client.answers()[1:] == [{"ok": True, "result": ["Q"]}]

    asyncio.run(dialogue())


def test_a_refused_operation_says_why_and_a_broken_one_shows_nothing_of_its_inside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def dialogue() -> list[dict[str, object]]:
        server, client = operated(Operations()), Client()
        for name in ("refused", "broken"):
            server.handle(json.dumps({"command": name}).encode(), cast(asyncio.Transport, client))
        await _settle()
        return client.answers()

    with caplog.at_level(logging.ERROR):
        refused, broken = asyncio.run(dialogue())
    assert refused == {"ok": False, "error": "there is no queue Q", "code": "refused"}
    assert "planted" not in str(broken)
    assert "planted" in caplog.text


def test_an_operation_whose_client_is_gone_is_finished_and_told_to_nobody() -> None:
    async def dialogue() -> bytes:
        operations = Operations()
        server, client = operated(operations), Client()
        server.handle(b'{"command": "slow", "destinations": []}', cast(asyncio.Transport, client))
        await _settle()
        client.gone = True
        operations.go.set()
        await _settle()
        return client.written

    assert asyncio.run(dialogue()) == b""


def test_operations_end_with_the_server() -> None:
    async def dialogue() -> bool:
        operations = Operations()
        server = operated(operations)
        server.handle(b'{"command": "slow"}', cast(asyncio.Transport, Client()))
        await _settle()
        server.stop()
        await _settle()
        return operations.cancelled

    assert asyncio.run(dialogue())


def test_unknown_commands_are_told_what_there_is() -> None:
    answer = operated(Operations()).answer(b'{"command": "exec"}')
    assert answer["error"] == "unknown command; there are status, slow, refused, broken"


def test_each_operation_leaves_one_line_in_the_audit(caplog: pytest.LogCaptureFixture) -> None:
    async def dialogue() -> None:
        operations = Operations()
        operations.go.set()
        server, client = operated(operations), cast(asyncio.Transport, Client())
        server.handle(b'{"command": "status"}', client)
        server.handle(b'{"command": "slow", "destinations": ["Q\\n"]}', client)
        server.handle(b'{"command": "refused"}', client)
        await _settle()

    with caplog.at_level(logging.INFO, "spanwire.audit"):
        asyncio.run(dialogue())
    assert [record.message for record in caplog.records if record.name == "spanwire.audit"] == [
        'control socket, its owner: slow {"destinations": ["Q\\n"]} done',
        "control socket, its owner: refused {} refused: there is no queue Q",
    ]


def test_s25_passwords_are_in_no_line_of_the_audit(caplog: pytest.LogCaptureFixture) -> None:
    async def dialogue() -> None:
        operations = Operations()
        operations.go.set()
        request = {
            "command": "slow",
            "uri": "static:(tcp://anna:canary@b:1,ssl://otto:ca@canary@c:1?socket.keyStorePassword=canary&x=1)?authToken=canary",
            "settings": {
                "remotePassword": "canary",
                "clientSecret": "canary",
                "name": "toB",
                "list": [{"Password": ["canary"]}],
            },
        }
        operated(operations).handle(json.dumps(request).encode(), cast(asyncio.Transport, Client()))
        await _settle()

    with caplog.at_level(logging.INFO, "spanwire.audit"):
        asyncio.run(dialogue())
    (line,) = [record.message for record in caplog.records if record.name == "spanwire.audit"]
    assert "canary" not in line
    assert '"name": "toB"' in line
    hidden = "********"
    assert f"tcp://{hidden}@b:1,ssl://{hidden}@c:1?socket.keyStorePassword={hidden}&x=1)?authToken={hidden}" in line


class Logins:
    """Duck-typed to `LoginBroker`."""

    def must_wait(self, asker: object, info: ConnectionInfo, observer: LoginObserver, now: Time) -> bool:
        return False

    def forget_login(self, asker: object) -> None:
        """Nothing waits."""

    def log_in(
        self, info: ConnectionInfo, now: Time, authenticator: Authenticator | None = None, asker: object = None
    ) -> Principal:
        if info.password != "canary-word":
            raise AuthenticationError("User name or password is invalid.")
        return Principal(str(info.user_name), frozenset({"viewers" if info.user_name == "vera" else "admins"}))


class Clock:
    def now(self) -> Time:
        return Time(0.0, 0)


def with_handles() -> ControlServer:
    operations = Operations()
    operations.go.set()
    handles = Handles(Logins(), Clock(), lambda: False, lambda: "the-handle")
    return ControlServer(
        Path("/nowhere"),
        {"summary": lambda: "fine", "stop": lambda: "stopped", "destinations": lambda: iter([1])},
        {"login": handles.login, "purge": operations.slow},
        handles,
    )


def asked(*requests: dict[str, object]) -> list[dict[str, object]]:
    async def dialogue() -> list[dict[str, object]]:
        server, client = with_handles(), Client()
        for request in requests:
            server.handle(json.dumps(request).encode(), cast(asyncio.Transport, client))
            await _settle()
        return client.answers()

    return asyncio.run(dialogue())


def login_of(user: str, password: str = "canary-word") -> dict[str, object]:
    return {"command": "login", "user": user, "password": password, "address": "http://10.0.0.1:5"}


def test_s19_a_handle_has_the_rights_of_its_user_and_no_more() -> None:
    answers = asked(
        login_of("vera"),
        {"command": "summary", "handle": "the-handle"},
        {"command": "destinations", "handle": "the-handle"},
        {"command": "purge", "handle": "the-handle", "destinations": ["Q"]},
        {"command": "stop", "handle": "the-handle"},
        {"command": "summary", "handle": "another"},
        {"command": "stop", "handle": None},
    )
    assert [answer.get("code") for answer in answers] == [
        None, None, None, "forbidden", "forbidden", "unauthenticated", "unauthenticated",
    ]  # fmt: skip
    assert answers[1:3] == [{"ok": True, "result": "fine"}, {"ok": True, "result": [1]}]


def test_a_wrong_password_is_answered_with_its_code() -> None:
    (answer,) = asked(login_of("anna", "x"))
    assert (answer["ok"], answer["code"]) == (False, "unauthenticated")


@pytest.mark.parametrize(
    "address",
    [
        "static:(ssl://a:1?wireFormat.x=0,ssl://b:1?keyStorePassword=canary)",
        "masterslave:(ssl://a?socket.verifyHostName=false,ssl://b?socket.keyStorePassword=canary)",
        "http://x?uri=tcp://h/?secretKey=canary",
    ],
)
def test_s25_a_secret_behind_an_option_without_one_is_in_no_line_of_the_audit(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def dialogue() -> None:
        operations = Operations()
        operations.go.set()
        request = {"command": "slow", "uri": address}
        operated(operations).handle(json.dumps(request).encode(), cast(asyncio.Transport, Client()))
        await _settle()

    with caplog.at_level(logging.INFO, "spanwire.audit"):
        asyncio.run(dialogue())
    (line,) = [record.message for record in caplog.records if record.name == "spanwire.audit"]
    assert address.replace("canary", "********") in line


def test_s25_the_audit_shows_where_a_message_was_sent_and_not_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    message = {"destinations": ["queue://ORDERS"], "body": "canary", "properties": {"iban": "canary"}, "priority": 4}

    async def dialogue() -> None:
        operations = Operations()
        operations.go.set()
        operated(operations).handle(
            json.dumps({"command": "slow", **message}).encode(), cast(asyncio.Transport, Client())
        )
        await _settle()

    with caplog.at_level(logging.INFO, "spanwire.audit"):
        asyncio.run(dialogue())
    assert [record.message for record in caplog.records if record.name == "spanwire.audit"] == [
        'control socket, its owner: slow {"destinations": ["queue://ORDERS"], "priority": 4} done'
    ]


def test_s25_a_long_argument_is_searched_for_secrets_in_linear_time() -> None:
    text = "?" + "token" * 200_000
    assert _audited({"queue": text, "uri": "tcp://a:1?x.keyStorePassword=s3cret&y=1"}) == {
        "queue": text,
        "uri": "tcp://a:1?x.keyStorePassword=********&y=1",
    }


def test_s25_the_audit_names_the_user_of_a_handle_and_shows_neither_handle_nor_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        asked(
            login_of("anna"),
            login_of("anna", "canary-mistyped"),
            {"command": "purge", "handle": "the-handle", "destinations": ["Q"]},
            {"command": "stop", "handle": "the-handle"},
        )
    assert [record.message for record in caplog.records if record.name == "spanwire.audit"] == [
        'control socket, its owner: login {"user": "anna", "address": "http://10.0.0.1:5"} '
        "refused: User name or password is invalid.",
        'control socket, its owner for user anna at http://10.0.0.1:5: purge {"destinations": ["Q"]} done',
        "control socket, its owner: stop refused: no role allows the command stop",
    ]
    assert "canary" not in caplog.text
    assert "the-handle" not in caplog.text


def test_a_long_result_of_an_operation_is_encoded_some_rows_in_each_turn() -> None:
    taken = 0

    def rows() -> Iterator[object]:
        nonlocal taken
        for number in range(5 * ROWS_PER_TURN):
            taken += 1
            yield [f"queue://Q.{number}", number]

    async def changes(arguments: Mapping[str, object]) -> Iterator[object]:
        return rows()

    async def dialogue() -> None:
        server, client = ControlServer(Path("/nowhere"), {}, {"changes": changes}), Client()
        server.handle(b'{"command": "changes"}', cast(asyncio.Transport, client))
        steps: list[int] = []
        while len(client.answers()) == 0:
            before = taken
            await asyncio.sleep(0)
            steps.append(taken - before)
        assert max(steps) == ROWS_PER_TURN
        assert sum(steps) == 5 * ROWS_PER_TURN
        (answer,) = client.answers()
        assert len(cast("list[object]", answer["result"])) == 5 * ROWS_PER_TURN

    asyncio.run(dialogue())


def test_a_long_list_is_made_some_entries_in_each_turn_and_answered_as_a_whole() -> None:
    made = 0

    def entries() -> Iterator[object]:
        nonlocal made
        for number in range(2 * ENTRIES_PER_TURN + 1):
            made += 1
            yield {"number": number}

    async def dialogue() -> None:
        server, client = ControlServer(Path("/nowhere"), {"list": entries, "status": lambda: "fine"}), Client()
        server.handle(b'{"command": "list"}', cast(asyncio.Transport, client))
        for turn in (1, 2):
            await asyncio.sleep(0)
            assert made == turn * ENTRIES_PER_TURN
        server.handle(b'{"command": "status"}', cast(asyncio.Transport, client))
        await _settle()
        assert client.answers() == [
            {"ok": True, "result": "fine"},
            {"ok": True, "result": [{"number": number} for number in range(made)]},
        ]

    asyncio.run(dialogue())


def test_a_list_without_entries_is_a_list() -> None:
    async def dialogue() -> list[dict[str, object]]:
        server, client = ControlServer(Path("/nowhere"), {"list": lambda: iter(())}), Client()
        server.handle(b'{"command": "list"}', cast(asyncio.Transport, client))
        await _settle()
        return client.answers()

    assert asyncio.run(dialogue()) == [{"ok": True, "result": []}]


def test_a_list_that_breaks_off_is_logged_and_answered_as_failed(caplog: pytest.LogCaptureFixture) -> None:
    def entries() -> Iterator[object]:
        yield 1
        raise RuntimeError("planted")

    async def dialogue() -> list[dict[str, object]]:
        server, client = ControlServer(Path("/nowhere"), {"list": entries}), Client()
        server.handle(b'{"command": "list"}', cast(asyncio.Transport, client))
        await _settle()
        return client.answers()

    (answer,) = asyncio.run(dialogue())
    assert answer["ok"] is False
    assert "planted" in caplog.text
