"""A whole broker with its users and rights in a directory: the example of the page, outages, and links of brokers."""

from __future__ import annotations

import re
import textwrap
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.service.started import TIMEOUT_S, Started, StompClient, spanwire
from tests.service.test_console_browser import served
from tests.support import directory_entries as entries
from tests.support.canary import CANARY
from tests.support.certificates import Authority
from tests.support.directory_server import DirectoryServer
from tests.support.false_directory import FalseDirectory
from tests.support.peers import require

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/operations/security/ldap.md"
BLOCK: Final = re.compile(r'^```\w+ title="([\w.]+)"\n(.*?)^```', re.DOTALL | re.MULTILINE)
BROKER_PASSWORD: Final = f"{CANARY}-of-the-broker"


def example() -> dict[str, str]:
    return {title: textwrap.dedent(text) for title, text in BLOCK.findall(PAGE.read_text("utf-8"))}


@pytest.fixture(autouse=True)
def _openldap() -> None:
    require("openldap")


class OnPage(Started):
    """The broker of the page, with the addresses, the passwords and the patience of a test."""

    def __init__(self, directory: Path, server: DirectoryServer, trust: Path) -> None:
        placeholder = ("-D", f"ldap.password={BROKER_PASSWORD}")
        super().__init__(directory, arguments=("--log-level", "debug", *placeholder))
        directory.mkdir(parents=True, exist_ok=True)
        self.trust: Final = trust
        self.url: Final = f"ldaps://127.0.0.1:{server.secure_port}"
        (directory / "login.config").write_text(self.local(example()["login.config"]), "utf-8")

    def local(self, text: str) -> str:
        return text.replace("ldaps://directory.example.com", self.url).replace("60000", "1000")

    def text(self) -> str:
        store = f'<sslContext><sslContext trustStore="file:{self.trust}"/></sslContext>\n  <transportConnectors>'
        text = super().text().replace("<transportConnectors>", store)
        plugins = self.local(example()["activemq.xml"]).replace("{", "{{").replace("}", "}}")
        return text.replace("</broker>", f"{plugins}</broker>")


def log_in(broker: Started, name: str = "anna", password: str = CANARY) -> tuple[StompClient, str]:
    client = StompClient(broker.ports["stomp"], login=False)
    client.send(f"CONNECT\naccept-version:1.2\nhost:h\nlogin:{name}\npasscode:{password}\n\n")
    return client, client.receive()


def send(client: StompClient, queue: str) -> str:
    client.send(f"SEND\ndestination:/queue/{queue}\nreceipt:r\n\nx")
    return client.receive()


@pytest.mark.smoke
def test_the_example_of_the_page_works_and_survives_the_directory(tmp_path: Path) -> None:
    authority = Authority()
    key = authority.issue().write_pem(tmp_path / "slapd.pem")
    trust = authority.write_certificate(tmp_path / "authority.pem")
    ldif = example()["company.ldif"].replace("anna-password", CANARY).replace("broker-password", BROKER_PASSWORD)
    with DirectoryServer(tmp_path / "ldap", ldif, key=key) as server:
        with OnPage(tmp_path / "broker", server, trust) as broker:
            client, answer = log_in(broker)
            assert answer.startswith("CONNECTED")
            assert send(client, "ORDERS.new").startswith("RECEIPT")
            assert "User anna is not authorized to write to: queue://OTHER" in send(client, "OTHER")
            for name, password in (("anna", "wrong"), ("anna", ""), ("nobody", CANARY), ("*", CANARY)):
                assert "password is invalid" in log_in(broker, name, password)[1]
            over_openwire = ("producer", "--broker-url", broker.broker_url, "--destination", "queue://ORDERS.new")
            done = spanwire(*over_openwire, "--user", "anna", "--password", CANARY, "--message-count", "1")
            assert done.returncode == 0, done.stderr

            server.change(
                "".join(
                    f"{entry}changetype: add\n{rest}\n"
                    for entry, _, rest in (
                        text.partition("\n")
                        for text in (
                            entries.destination("OTHER"),
                            entries.right("OTHER", "write", entries.member("anna")),
                            entries.right("OTHER", "admin", f"cn=clerks,{entries.GROUPS}"),
                        )
                    )
                ).replace("changetype", "\nchangetype")
            )
            broker.awaits("rights read from the directory: 6")
            assert send(client, "OTHER").startswith("RECEIPT"), "the change counts for open connections, and for users"

            server.stop()
            assert "cannot be checked now" in log_in(broker)[1]
            broker.awaits("logins are refused: the directory ldaps://127.0.0.1:")
            broker.awaits("rights stay as they were: the directory ldaps://127.0.0.1:")
            assert send(client, "ORDERS.new").startswith("RECEIPT")
            server.start()
            again, answer = log_in(broker)
            assert answer.startswith("CONNECTED")
            broker.awaits("answers logins again")
            client.close()
            again.close()
            assert broker.stop() == 0
            said = "\n".join([*broker.output, *broker.errors, done.stdout, done.stderr])
    assert CANARY not in said
    assert "Traceback" not in said


def hangs(number: int, kind: int) -> Iterable[bytes]:
    time.sleep(30.0)
    return []


LOCAL: Final = """
    org.apache.activemq.jaas.PropertiesLoginModule sufficient
        org.apache.activemq.jaas.properties.user="users.properties"
        org.apache.activemq.jaas.properties.group="groups.properties";
"""


class WithModules(Started):
    """A broker with login modules of the test."""

    def __init__(self, directory: Path, modules: str, inside: str = "") -> None:
        super().__init__(directory, inside=f"\n{inside}" if inside else "")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "login.config").write_text(f"activemq-domain {{\n{modules}}};\n", "utf-8")
        (directory / "users.properties").write_text(f"local={CANARY}\n", "utf-8")
        (directory / "groups.properties").write_text("staff=local\n", "utf-8")

    def text(self) -> str:
        plugin = "<plugins><jaasAuthenticationPlugin/></plugins>\n</broker>"
        text = super().text().replace('brokerName="tested"', f'brokerName="{self.directory.name}"')
        return text.replace("</broker>", plugin)


def flooded(broker: Started, count: int) -> list[StompClient]:
    clients = [StompClient(broker.ports["stomp"], login=False) for _ in range(count)]
    for client in clients:
        client.send("CONNECT\naccept-version:1.2\nhost:h\nlogin:anna\npasscode:guess\n\n")
    return clients


def test_s31_a_flood_of_logins_at_a_directory_that_hangs_harms_no_local_user(tmp_path: Path) -> None:
    with FalseDirectory(hangs) as directory:
        with WithModules(tmp_path / "broker", LOCAL + entries.module(directory.url)) as broker:
            flood = flooded(broker, 100)
            client, answer = log_in(broker, "local")
            assert answer.startswith("CONNECTED")
            assert send(client, "Q").startswith("RECEIPT")
            for other in flood:
                other.close()
            assert send(client, "Q").startswith("RECEIPT")
            client.close()
            assert broker.stop() == 0, "and it does not wait for the directory"
    assert not [line for line in broker.errors if "Traceback" in line]


@pytest.mark.long
def test_s31_logins_at_a_directory_that_hangs_are_refused_with_one_line(tmp_path: Path) -> None:
    with FalseDirectory(hangs) as directory:
        with WithModules(tmp_path / "broker", entries.module(directory.url)) as broker:
            for client in flooded(broker, 20):
                assert "cannot be checked now" in client.receive()
            assert broker.stop() == 0
    assert len([line for line in broker.errors if "logins are refused" in line]) == 1


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DirectoryServer]:
    users = (entries.user("anna"), entries.group("staff", entries.member("anna")))
    with DirectoryServer(tmp_path / "ldap", *entries.UNITS, *users) as running:
        yield running


@pytest.mark.parametrize("duplex", ["false", "true"])
def test_links_of_brokers_log_in_at_the_directory_at_both_ends(
    tmp_path: Path, server: DirectoryServer, duplex: str
) -> None:
    modules = entries.module(f"ldap://127.0.0.1:{server.port}")
    with WithModules(tmp_path / "far", modules) as far:
        connector = (
            f'  <networkConnectors><networkConnector name="link" uri="static:({far.broker_url})" userName="anna" '
            f'password="{CANARY}" duplex="{duplex}"/></networkConnectors>'
        )
        with WithModules(tmp_path / "near", modules, connector) as near:
            there, answer = log_in(far)
            assert answer.startswith("CONNECTED")
            there.send("SUBSCRIBE\ndestination:/queue/Q\nid:1\n\n")
            here, answer = log_in(near)
            assert answer.startswith("CONNECTED")
            assert send(here, "Q").startswith("RECEIPT")
            assert "\n\nx" in there.receive()


def at_console(base: str, user: str, password: str, path: str = "/admin/queues") -> tuple[int, str]:
    """The status of the login by the form, and the text of a page that is read afterwards."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    form = urllib.parse.urlencode({"user": user, "password": password}).encode()
    request = urllib.request.Request(f"{base}/admin/login", form, {"Origin": base})
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            assert answer.url == f"{base}/admin"
        with opener.open(f"{base}{path}", timeout=TIMEOUT_S) as answer:
            return 200, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_web_console_takes_users_and_roles_of_the_directory(tmp_path: Path) -> None:
    with DirectoryServer(
        tmp_path / "ldap",
        *entries.UNITS,
        entries.user("anna"),
        entries.user("vera", "v-4711"),
        entries.user("otto", "o-4711"),
        entries.user("nina"),
        entries.group("admins", entries.member("anna"), entries.member("nina")),
        entries.group("viewers", entries.member("vera")),
        entries.group("clerks", entries.member("otto")),
    ) as server:
        modules = entries.module(f"ldap://127.0.0.1:{server.port}")
        with WithModules(tmp_path / "broker", modules) as broker, served(broker, tmp_path) as base:
            client, answer = log_in(broker)
            assert answer.startswith("CONNECTED")
            assert send(client, "ORDERS").startswith("RECEIPT")
            deadline = time.monotonic() + TIMEOUT_S
            status, page = at_console(base, "anna", CANARY)
            while status == 200 and "ORDERS" not in page and time.monotonic() < deadline:
                status, page = at_console(base, "anna", CANARY)  # pages are some moments behind the broker
            assert (status, "ORDERS" in page) == (200, True)
            assert at_console(base, "vera", "v-4711", "/admin/queue?name=queue://ORDERS")[0] == 200
            for user, password in (("anna", "wrong"), ("anna", ""), ("nobody", CANARY), ("*", CANARY)):
                assert at_console(base, user, password)[0] in (401, 403), user
            assert at_console(base, "otto", "o-4711")[0] == 403, "no group with a role"
            client.close()
            server.stop()
            status, page = at_console(base, "nina", CANARY)  # the login of anna counts for a minute
            assert status >= 400
            assert "Traceback" not in page
        assert CANARY not in "\n".join([*broker.output, *broker.errors])


def test_a_reload_takes_other_users_from_the_directory(tmp_path: Path) -> None:
    other = f"ou=Partners,{entries.GROUPS.partition(',')[2]}"
    with DirectoryServer(
        tmp_path / "ldap",
        *entries.UNITS,
        entries.unit(other),
        entries.user("anna"),
        entries.user("paul", CANARY, name=f"uid=paul,{other}"),
    ) as server:
        url = f"ldap://127.0.0.1:{server.port}"
        with WithModules(tmp_path / "broker", entries.module(url)) as broker:
            client, answer = log_in(broker)
            assert answer.startswith("CONNECTED")
            assert "password is invalid" in log_in(broker, "paul")[1]
            configuration = broker.directory / "login.config"
            before = configuration.read_text("utf-8")
            configuration.write_text(before.replace(entries.USERS, other), "utf-8")
            done = spanwire("reload", "--data-directory", str(broker.data))
            assert (done.returncode, done.stdout) == (0, "users: changed, applies to new logins\n"), done.stderr
            assert log_in(broker, "paul")[1].startswith("CONNECTED")
            assert "password is invalid" in log_in(broker)[1]
            assert send(client, "ORDERS").startswith("RECEIPT"), "who is logged in stays"
            mixed = before.replace(url, f"ldaps://ldap.invalid ldap://ldap.invalid {url}")
            configuration.write_text(mixed, "utf-8")
            done = spanwire("reload", "--data-directory", str(broker.data))
            assert done.returncode != 0
            assert "the URLs of a directory mix ldaps: and ldap:" in done.stderr
            assert log_in(broker, "paul")[1].startswith("CONNECTED"), "an error changes nothing"
            client.close()
