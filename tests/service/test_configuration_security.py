"""Passwords on a plain port, certificates on an encrypted one, over real sockets; files that change meanwhile."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.service.started import Started, StompClient
from tests.support.certificates import Authority, Certified

HOST: Final = "127.0.0.1"
PASSWORD: Final = "un-guess-able"
REALMS: Final = """
activemq-domain { org.apache.activemq.jaas.PropertiesLoginModule required
    org.apache.activemq.jaas.properties.user="users.properties"
    org.apache.activemq.jaas.properties.group="groups.properties"; };
activemq-ssl-domain { org.apache.activemq.jaas.TextFileCertificateLoginModule required reload=true
    org.apache.activemq.jaas.textfiledn.user="dns.properties"
    org.apache.activemq.jaas.textfiledn.group="groups.properties"; };
"""
CONNECTORS: Final = """\
    <transportConnector uri="stomp+ssl://127.0.0.1:0?wantClientAuth=true"/>
    <transportConnector uri="stomp+nio+ssl://127.0.0.1:0?needClientAuth=true&amp;socket.verifyHostName=true"/>
  </transportConnectors>
  <plugins><jaasDualAuthenticationPlugin/></plugins>"""


class Dual(Started):
    """A broker whose users log in by password on plain ports and by certificate on encrypted ones."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.authority: Final = Authority()
        self.key_store: Final = self.authority.issue().write_pem(directory / "broker.pem")
        self.trust: Final = self.authority.write_certificate(directory / "authority.pem")
        (directory / "login.config").write_text(REALMS, "utf-8")
        (directory / "users.properties").write_text(f"ann={PASSWORD}\n", "utf-8")
        (directory / "groups.properties").write_text("staff=ann\n", "utf-8")
        self.names: Final = directory / "dns.properties"
        self.names.write_text("orders=CN=orders\n", "utf-8")

    def text(self) -> str:
        stores = (
            f'<sslContext><sslContext keyStore="file:{self.key_store}" trustStore="file:{self.trust}"/></sslContext>'
        )
        text = super().text().replace("<transportConnectors>", f"{stores}\n  <transportConnectors>")
        return text.replace("  </transportConnectors>", CONNECTORS)

    def log_in(self, scheme: str, shown: Certified | None = None, headers: str = "") -> str:
        """What a STOMP client hears first; "closed" when that is nothing."""
        plain = socket.create_connection((HOST, self.ports[scheme]), 30)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.trust)
        if shown is not None:
            context.load_cert_chain(shown.write_pem(self.directory / "client.pem"))
        try:
            with context.wrap_socket(plain, server_hostname=HOST) as encrypted:
                encrypted.sendall(f"CONNECT\naccept-version:1.2\nhost:h\n{headers}\n\0".encode())
                return encrypted.recv(65536).decode("utf-8").partition("\n")[0] or "closed"
        except OSError:
            return "closed"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dual]:
    with Dual(tmp_path_factory.mktemp("dual")) as running:
        yield running


def test_a_password_is_taken_on_the_plain_port_and_counts_for_nothing_inside_tls(broker: Dual) -> None:
    headers = f"login:ann\npasscode:{PASSWORD}\n"
    with StompClient(broker.ports["stomp"], login=False) as client:
        client.send(f"CONNECT\naccept-version:1.2\nhost:h\n{headers}\n")
        assert client.receive().startswith("CONNECTED")
    assert broker.log_in("stomp+ssl", headers=headers) == "ERROR"
    assert broker.log_in("stomp+ssl", broker.authority.issue(CN="stranger"), headers) == "ERROR"


def test_a_certificate_is_taken_inside_tls(broker: Dual) -> None:
    assert broker.log_in("stomp+ssl", broker.authority.issue(CN="orders")) == "CONNECTED"


def test_s32_cve_2018_11775_a_connector_that_verifies_addresses_refuses_a_certificate_of_another_machine(
    broker: Dual,
) -> None:
    assert broker.log_in("stomp+nio+ssl", broker.authority.issue((HOST,), CN="orders")) == "CONNECTED"
    assert broker.log_in("stomp+nio+ssl", broker.authority.issue(("10.0.0.8",), CN="orders")) == "closed"
    assert broker.log_in("stomp+nio+ssl", broker.authority.issue(("localhost",), CN="orders")) == "closed"


def test_a_name_that_is_added_to_the_file_of_certificates_can_log_in_soon(broker: Dual) -> None:
    billing = broker.authority.issue(CN="billing")
    assert broker.log_in("stomp+ssl", billing) == "ERROR"
    changed = broker.names.with_suffix(".new")
    changed.write_text("orders=CN=orders\nbilling=CN=billing\n", "utf-8")
    os.replace(changed, broker.names)
    broker.awaits("users read again: 2")
    assert broker.log_in("stomp+ssl", billing) == "CONNECTED"
