"""With TLS no member is joined whose certificate is wrong, and members behind NAT are joined where they say."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from spanwire.testing import Broker
from spanwire.testing.queue import wait_until
from spanwire.testing.wire import Wire
from tests.service.test_networks import send_and_receive
from tests.support.certificates import Authority, Certified
from tests.support.ports import free_port

WAIT_S: Final = 60.0
HOST: Final = "127.0.0.1"
PASSWORD: Final = "c4n4ry-st0re"
TEXT: Final = """
<broker brokerName="{name}" persistent="false">{inside}
  <networkConnectors>
    <networkConnector name="mesh" uri="gossip:({seed})?networks=127.0.0.1&amp;initialReconnectDelay=200"/>
  </networkConnectors>
  <transportConnectors>{connectors}</transportConnectors>
</broker>"""
STORES: Final = """
  <sslContext>
    <sslContext keyStore="file:{key}" keyStorePassword="{password}" trustStore="file:{trust}"/>
  </sslContext>"""
POLICY: Final = """
    <publishedAddressPolicy><publishedAddressPolicy publishedHostStrategy="IPADDRESS">
      <portMapping><entry key="{port}" value="{published}"/></portMapping>
    </publishedAddressPolicy></publishedAddressPolicy>"""


def running(broker: Broker) -> dict[str, str]:
    """The brokers that a broker has linked itself, with their addresses."""
    return {str(one["remote"]): str(one["uri"]) for one in broker.links() if one["state"] == "running"}


class Encrypted:
    """Brokers with an ``ssl:`` connector that asks for client certificates, and a plain port for the test."""

    def __init__(self, directory: Path) -> None:
        self.directory: Final = directory
        self.authority: Final = Authority()
        self.trust: Final = self.authority.write_certificate(directory / "authority.pem")
        self.seed: Final = free_port()

    def broker(self, name: str, certificate: Certified, port: int) -> Broker:
        key = certificate.write_pkcs12(self.directory / f"{name}.p12", PASSWORD)
        return Broker(
            TEXT.format(
                name=name,
                inside=STORES.format(key=key, password=PASSWORD, trust=self.trust),
                seed=f"ssl://{HOST}:{self.seed}",
                connectors=f'<transportConnector uri="ssl://{HOST}:{port}?needClientAuth=true"/>'
                f'<transportConnector uri="stomp://{HOST}:0"/>',
            ),
            keep_ports=True,
        )


def test_a_member_with_a_wrong_certificate_or_name_is_never_joined(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Encrypted(tmp_path)
    misnamed_port = free_port()
    misnamed_uri = f"ssl://{HOST}:{misnamed_port}"
    good = brokers.authority.issue
    with ExitStack() as stack:
        anna = stack.enter_context(brokers.broker("anna", good(), brokers.seed))
        berta = stack.enter_context(brokers.broker("berta", good(), free_port()))
        # One has a certificate of the authority for another host, and one of a stranger.
        misnamed = stack.enter_context(brokers.broker("clara", good(("other.example.org",)), misnamed_port))
        stranger = stack.enter_context(brokers.broker("dora", Authority("Stranger").issue(), free_port()))
        assert wait_until(lambda: set(running(anna)) == {"berta"} and set(running(berta)) == {"anna"}, WAIT_S)
        assert wait_until(lambda: set(running(misnamed)) == {"anna", "berta"}, WAIT_S)  # a client of both, by right
        refused = (
            f"network connector mesh: discovered {misnamed_uri}: the certificate of the remote broker is refused: "
        )
        mismatch = f"{refused}IP address mismatch, certificate is not valid for '{HOST}'."
        assert wait_until(lambda: caplog.messages.count(mismatch) == 2, WAIT_S)  # by both, and once each
        assert running(stranger) == {}  # it comes in nowhere, so nobody hears of it
        assert set(running(anna)) == {"berta"}
        assert set(running(berta)) == {"anna"}
        assert "broker dora" not in caplog.text


def test_a_member_behind_nat_is_joined_at_its_published_address() -> None:
    seed, port = free_port(), free_port()

    def broker(name: str, at: int, policy: str = "") -> Broker:
        connector = f'<transportConnector uri="tcp://localhost:{at}">{policy}</transportConnector>'
        return Broker(
            TEXT.format(name=name, inside="", seed=f"tcp://{HOST}:{seed}", connectors=connector), keep_ports=True
        )

    with (
        Wire(lambda: port) as wire,
        broker("anna", seed, POLICY.format(port=seed, published=seed)) as anna,
        broker("berta", port, POLICY.format(port=port, published=wire.port)) as hidden,
        broker("clara", free_port()) as clara,
    ):
        assert wait_until(lambda: running(anna).get("berta") == running(clara).get("berta") == wire.url, WAIT_S)
        assert send_and_receive(clara.url, hidden.url, "Q", ["m"]) == ["m"]
