"""The configuration of the page on hardening runs as printed, and lets in nobody but its users over TLS."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.service.started import Started, spanwire
from tests.support.certificates import Authority
from tests.support.ports import free_port

PAGE: Final = (Path(__file__).parents[2] / "docs/operations/security/hardening.md").read_text("utf-8")
PASSWORDS: Final = {f"{user.upper()}_PASSWORD": f"{user}-dq83lx0wvm" for user in ("shop", "billing", "operator")}


class Hardened(Started):
    """A broker with the page's configuration; only its ports, directories and files are others."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        authority = Authority()
        self.trust: Final = authority.write_certificate(directory / "authority.pem")
        authority.issue().write_pem(directory / "broker.pem").chmod(0o600)
        self.port: Final = free_port()

    def text(self) -> str:
        found = re.search(r'```xml title="activemq.xml"\n(.*?)```', PAGE, re.DOTALL)
        assert found is not None
        text = found[1].replace("/var/lib/spanwire", str(self.data)).replace("/etc/spanwire", str(self.directory))
        text = text.replace("0.0.0.0:61617", f"127.0.0.1:{self.port}").replace('port="8161"', 'port="0"')
        return text.replace("{", "{{").replace("}", "}}")

    def client(self, command: str, user: str | None, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the producer or consumer of the command line as a user, who need not be one of the broker's."""
        login = ["--user", user, "--password", PASSWORDS[f"{user.upper()}_PASSWORD"]] if user else []
        url = f"ssl://127.0.0.1:{self.port}"
        return spanwire(command, "--brokerUrl", url, "--trustStore", str(self.trust), *login, *options)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hardened]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in PASSWORDS.items():
            patch.setenv(name, value)
        with Hardened(tmp_path_factory.mktemp("hardened")) as running:
            yield running


def test_the_check_of_the_configuration_finds_nothing_to_say(broker: Hardened) -> None:
    done = spanwire("config", "check", str(broker.configuration))
    assert done.returncode == 0
    assert done.stdout.startswith("0 obstacles, 0 warnings")


def test_producers_send_and_consumers_receive(broker: Hardened) -> None:
    sent = broker.client("producer", "shop", "--destination", "queue://ORDERS.NEW", "--messageCount", "3")
    assert sent.returncode == 0, sent.stderr
    got = broker.client("consumer", "billing", "--destination", "queue://ORDERS.NEW", "--messageCount", "3")
    assert got.returncode == 0, got.stderr


@pytest.mark.parametrize(
    ("command", "user", "destination", "reason"),
    [
        ("producer", None, "ORDERS.NEW", "User name [null] or password is invalid"),
        ("producer", "billing", "ORDERS.NEW", "not authorized"),
        ("consumer", "shop", "ORDERS.NEW", "not authorized"),
        ("producer", "shop", "ELSEWHERE", "not authorized"),
    ],
)
def test_everybody_else_is_refused_in_one_line(
    broker: Hardened, command: str, user: str | None, destination: str, reason: str
) -> None:
    done = broker.client(command, user, "--destination", f"queue://{destination}", "--messageCount", "1")
    assert done.returncode != 0
    assert reason in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_without_the_authority_no_password_is_sent(broker: Hardened) -> None:
    done = spanwire("producer", "--brokerUrl", f"ssl://127.0.0.1:{broker.port}", "--user", "shop", "--password", "x")
    assert done.returncode != 0
    assert "certificate" in done.stderr
