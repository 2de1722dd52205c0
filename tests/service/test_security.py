"""Logins and rights in a whole broker: at the ports, in its files, and nowhere a password to be seen."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.service.started import TIMEOUT_S, Started, StompClient, spanwire
from tests.support.broker_process import COMMAND
from tests.support.canary import CANARY
from tests.support.ports import free_port

PLUGINS = f"""
  <plugins>
    <simpleAuthenticationPlugin><users>
      <authenticationUser username="user" password="{CANARY}" groups="users"/>
      <authenticationUser username="idle" password="{CANARY}2"/>
    </users></simpleAuthenticationPlugin>
    <authorizationPlugin><map><authorizationMap><authorizationEntries>
      <authorizationEntry queue="USERS.&gt;" read="users" write="users" admin="users"/>
      <authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="*" write="*" admin="*"/>
    </authorizationEntries></authorizationMap></map></authorizationPlugin>
  </plugins>
</broker>"""
JAAS = '<plugins><jaasAuthenticationPlugin configuration="users"/></plugins></broker>'
LOGIN_CONFIG = """
users { org.apache.activemq.jaas.PropertiesLoginModule required reload=true
    org.apache.activemq.jaas.properties.user="users.properties"
    org.apache.activemq.jaas.properties.group="groups.properties"; };
"""


class Secured(Started):
    """A broker with users, at the most talkative log level."""

    plugins = PLUGINS

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, arguments=("--log-level", "debug"))

    def text(self) -> str:
        return super().text().replace("</broker>", self.plugins)


class WithFiles(Secured):
    plugins = JAAS


def login(broker: Started, name: str, password: str) -> tuple[StompClient, str]:
    client = StompClient(broker.ports["stomp"], login=False)
    client.send(f"CONNECT\naccept-version:1.2\nhost:h\nlogin:{name}\npasscode:{password}\n\n")
    return client, client.receive()


@pytest.mark.large
def test_s25_a_broker_at_debug_shows_no_password_anywhere(tmp_path: Path) -> None:
    """CVE-2025-27391: logins that succeed and fail on both protocols, refusals, the tools, the files."""
    with Secured(tmp_path) as broker:
        client, answer = login(broker, "user", CANARY)
        assert answer.startswith("CONNECTED")
        client.send("SEND\ndestination:/queue/OTHER\nreceipt:1\n\nx")
        assert "User user is not authorized to write to: queue://OTHER" in client.receive()
        client.transact("SEND\ndestination:/queue/USERS.a\nreceipt:2\n\nx", "2")
        for name, password in (("user", CANARY + "x"), ("nobody", CANARY), (CANARY + "?", "x")):
            assert "password is invalid" in login(broker, name, password)[1]
        arguments = ["--broker-url", broker.broker_url, "--destination", "queue://USERS.a"]
        done = spanwire("producer", *arguments, "--user", "user", "--password", CANARY, "--message-count", "2")
        assert done.returncode == 0, done.stderr
        bad = spanwire("producer", *arguments, "--user", "idle", "--password", CANARY, "--message-count", "2")
        assert bad.returncode == 1
        assert "User name [idle] or password is invalid." in bad.stderr
        refused = spanwire("consumer", *arguments, "--user", "idle", "--password", CANARY + "2", "--message-count", "1")
        assert "User idle is not authorized to read from: queue://USERS.a" in refused.stderr
        views = [spanwire(command, str(broker.configuration)).stdout for command in ("status", "dstat")]
        client.close()
        assert broker.stop() == 0
        said = "\n".join([*broker.output, *broker.errors, *views, *(done.stdout, done.stderr, bad.stdout, bad.stderr)])
    said = said.replace(f"user {CANARY}? at", "").replace(f"[{CANARY}?]", "")  # somebody's name, not a password
    assert CANARY not in said
    assert "WARNING spanwire.audit: refused: user user at tcp://127.0.0.1:" in said
    assert "(stomp 1.2) may not write to queue://OTHER" in said
    assert "(openwire) may not log in" in said
    for path in broker.data.rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes()


def test_a_started_broker_shows_no_password_on_its_control_socket(tmp_path: Path) -> None:
    with Secured(tmp_path) as broker:
        _client, answer = login(broker, "user", CANARY)
        assert answer.startswith("CONNECTED")
        done = spanwire("status", str(broker.configuration), "--json") if _has_json() else None
        text = spanwire("status", str(broker.configuration)).stdout if done is None else json.dumps(done.stdout)
        assert CANARY not in text


def _has_json() -> bool:
    return "--json" in spanwire("status", "--help").stdout


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ('<simpleAuthenticationPlugin anonymousAccessAllowed="true"/>', "to clients without a password"),
        (
            '<simpleAuthenticationPlugin><users><authenticationUser username="system" password="manager"/></users>'
            "</simpleAuthenticationPlugin>",
            "with well-known passwords: bind 127.0.0.1, change the password of 'system'",
        ),
    ],
)
def test_s33_other_machines_are_not_let_in_without_a_password_worth_the_name(
    tmp_path: Path, plugins: str, expected: str
) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(
        f'<broker dataDirectory="{tmp_path}/data"><transportConnectors><transportConnector name="open" '
        f'uri="tcp://0.0.0.0:0"/></transportConnectors><plugins>{plugins}</plugins></broker>'
    )
    done = spanwire("start", str(path))
    assert done.returncode == 1
    assert "connector open would open tcp://0.0.0.0:0 to other machines" in done.stderr
    assert expected in done.stderr
    assert "--allow-anonymous" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_with_users_other_machines_are_let_in(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(
        f'<broker dataDirectory="{tmp_path}/data"><transportConnectors><transportConnector name="open" '
        f'uri="tcp://0.0.0.0:0"/></transportConnectors>{PLUGINS}'
    )
    with subprocess.Popen([*COMMAND, "start", str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("started\n"):
                break
        else:
            raise AssertionError("the broker did not start")
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


@pytest.mark.large
def test_user_files_are_read_again_when_they_change_and_kept_when_they_break(tmp_path: Path) -> None:
    (tmp_path / "login.config").write_text(LOGIN_CONFIG)
    users = tmp_path / "users.properties"
    users.write_text(f"old={CANARY}\n")
    (tmp_path / "groups.properties").write_text("users=old\n")
    with WithFiles(tmp_path) as broker:
        assert login(broker, "old", CANARY)[1].startswith("CONNECTED")
        _replace(users, "new=\n")
        broker.awaits("users stay as they were: ")
        assert login(broker, "old", CANARY)[1].startswith("CONNECTED")
        _replace(users, f"new={CANARY}\n")
        broker.awaits("users read again: 1")
        assert login(broker, "new", CANARY)[1].startswith("CONNECTED")
        assert "is invalid" in login(broker, "old", CANARY)[1]
        assert CANARY not in "".join(broker.errors)


def _replace(path: Path, text: str) -> None:
    other = path.with_suffix(".next")
    other.write_text(text)
    os.replace(other, path)


def test_the_check_of_a_configuration_tries_its_remote_brokers(tmp_path: Path) -> None:
    """The connectors have the right password, a wrong one, no login, and a port where no broker listens."""
    with Secured(tmp_path / "remote") as remote:
        port = remote.ports["tcp"]
        logins = {"right": ("user", CANARY), "wrong": ("user", f"{CANARY}3"), "anonymous": ("", "")}
        connectors = [
            f'<networkConnector name="{name}" uri="static:(tcp://127.0.0.1:{port})"'
            f' userName="{user}" password="{word}"/>'
            for name, (user, word) in logins.items()
        ]
        connectors.append(f'<networkConnector name="dead" uri="static:(tcp://127.0.0.1:{free_port()})"/>')
        file = tmp_path / "activemq.xml"
        file.write_text(
            f'<broker brokerName="near" dataDirectory="{tmp_path / "near"}"><networkConnectors>\n'
            + "\n".join(connectors)
            + "\n</networkConnectors></broker>"
        )
        done = spanwire("config", "check", str(file), "--connect")
        assert done.returncode == 1
        lines = done.stdout.splitlines()[1:]
        assert lines[0] == (
            f"usable: line 2, network connector right: tcp://127.0.0.1:{port}: broker tested lets in as user; "
            "advisories of its consumers can be read"
        )
        assert [line.partition(":")[0] for line in lines[1:4]] == ["unusable"] * 3
        assert "User name [user] or password is invalid" in lines[1]
        assert "line 5, network connector dead" in lines[3] and "refused" in lines[3]
        assert lines[4] == "4 remote addresses, 3 unusable"
        assert CANARY not in done.stdout + done.stderr
