"""ActiveMQ's own client over TLS: versions, client certificates, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.service.started import Started
from tests.support.certificates import Authority, Certified
from tests.support.java import JavaProcess

PASSWORD: Final = "password"
MAX_ATTEMPTS: Final = (
    20  # its reader and its writer both notice; often the one that was closed by the other tells first
)
CONNECTORS: Final = """\
    <transportConnector uri="ssl://127.0.0.1:0"/>
    <transportConnector uri="nio+ssl://127.0.0.1:0?transport.needClientAuth=true&amp;enabledProtocols=TLSv1.2"/>
    <transportConnector uri="auto+nio+ssl://127.0.0.1:0"/>
  </transportConnectors>"""


class Encrypted(Started):
    """A broker whose stores are those a Java client has."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.authority: Final = Authority()
        self.trust: Final = self.authority.write_trust_pkcs12(directory / "trust.p12", PASSWORD)
        self.key_store: Final = self.authority.issue().write_pkcs12(directory / "broker.p12", PASSWORD)

    def text(self) -> str:
        stores = (
            f'<sslContext><sslContext keyStore="file:{self.key_store}" keyStorePassword="{PASSWORD}" '
            f'trustStore="file:{self.trust}" trustStorePassword="{PASSWORD}"/></sslContext>\n  <transportConnectors>'
        )
        text = super().text().replace("<transportConnectors>", stores)
        return text.replace("  </transportConnectors>", CONNECTORS)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    with Encrypted(tmp_path_factory.mktemp("encrypted")) as running:
        yield running


def outcome(
    java: JavaProcess, broker: Encrypted, scheme: str, *, trust: bool = True, shown: Certified | None = None
) -> str:
    """What comes of a round trip."""
    key_store = "" if shown is None else str(shown.write_pkcs12(broker.directory / "client.p12", PASSWORD))
    uri = f"{scheme if not scheme.startswith('auto') else 'ssl'}://127.0.0.1:{broker.ports[scheme]}"
    (row,) = java.ask("encrypted", uri, str(broker.trust) if trust else "", PASSWORD, key_store, PASSWORD)
    return str(row["outcome"])


@pytest.mark.smoke
@pytest.mark.parametrize("scheme", ["ssl", "auto+nio+ssl"])
def test_the_java_client_sends_and_receives_over_tls(java: JavaProcess, broker: Encrypted, scheme: str) -> None:
    assert outcome(java, broker, scheme) == "small and large"


def test_the_java_client_refuses_a_broker_it_does_not_trust(java: JavaProcess, broker: Encrypted) -> None:
    told = []
    for _ in range(MAX_ATTEMPTS):
        told.append(outcome(java, broker, "ssl", trust=False))
        assert not told[-1].startswith("small")
        if "unable to find valid certification path" in told[-1]:
            return
    raise AssertionError(f"the client never says why: {told}")


def test_the_java_client_shows_its_certificate(java: JavaProcess, broker: Encrypted) -> None:
    client = broker.authority.issue(C="DE", O="Example", CN="orders")
    assert outcome(java, broker, "nio+ssl", shown=client) == "small and large"


def test_the_java_client_is_refused_without_a_certificate_or_with_a_strangers(
    java: JavaProcess, broker: Encrypted
) -> None:
    assert not outcome(java, broker, "nio+ssl").startswith("small")
    assert not outcome(java, broker, "nio+ssl", shown=Authority().issue(CN="orders")).startswith("small")
