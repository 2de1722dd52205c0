"""Keys, certificates and stores from files: what works, and the one line for each that does not."""

from __future__ import annotations

import os
import ssl
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.tls.context import client_context, server_context
from spanwire.tls.settings import ClientTlsSettings, KeyStore, TlsSettings, TrustStore
from tests.support.certificates import Authority, self_signed

PASSWORD = "c4n4ry-st0re"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def refused(store: KeyStore) -> str:
    """The one line about a key store."""
    with pytest.raises(ConfigurationError) as raised:
        server_context(TlsSettings(store))
    text = str(raised.value)
    assert "\n" not in text and PASSWORD not in text
    assert str(store.path.parent) in text
    return text


def shakes_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> str | None:
    """The version two contexts agree on; raises what the client finds wrong."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(8):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[0].version()


def test_one_pem_file_two_pem_files_and_pkcs12_all_work(tmp_path: Path, authority: Authority) -> None:
    broker = authority.issue()
    trust = ClientTlsSettings(TrustStore(authority.write_certificate(tmp_path / "authority.pem")))
    key = tmp_path / "key.pem"
    key.write_bytes(broker.key_pem(PASSWORD))
    stores = [
        KeyStore(broker.write_pem(tmp_path / "both.pem")),
        KeyStore(broker.write_pem(tmp_path / "secret.pem", PASSWORD), Secret(PASSWORD)),
        KeyStore(broker.write_certificate(tmp_path / "cert.pem"), Secret("x"), key, Secret(PASSWORD)),
        KeyStore(broker.write_pkcs12(tmp_path / "broker.p12", PASSWORD), Secret(PASSWORD)),
    ]
    for store in stores:
        assert shakes_hands(server_context(TlsSettings(store)), client_context(trust)) == "TLSv1.3"


def test_paths_of_stores_may_be_texts(tmp_path: Path, authority: Authority) -> None:
    text: Any = str(authority.write_certificate(tmp_path / "authority.pem"))  # a program without annotations
    assert client_context(ClientTlsSettings(TrustStore(text))).get_ca_certs()
    with pytest.raises(ConfigurationError, match="there is no such key or trust store"):
        client_context(ClientTlsSettings(TrustStore(text + ".old")))


def test_a_trust_store_of_java_is_read(tmp_path: Path, authority: Authority) -> None:
    broker = KeyStore(authority.issue().write_pem(tmp_path / "broker.pem"))
    trust = TrustStore(authority.write_trust_pkcs12(tmp_path / "trust.p12", PASSWORD), Secret(PASSWORD))
    assert shakes_hands(server_context(TlsSettings(broker)), client_context(ClientTlsSettings(trust)))


def test_a_brokers_own_certificate_may_be_what_is_believed(tmp_path: Path) -> None:
    broker = self_signed()
    trust = TrustStore(broker.write_certificate(tmp_path / "trust.pem"))
    context = server_context(TlsSettings(KeyStore(broker.write_pem(tmp_path / "broker.pem"))))
    assert shakes_hands(context, client_context(ClientTlsSettings(trust)))


def test_no_key_stays_on_the_disk(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    store = KeyStore(authority.issue().write_pkcs12(tmp_path / "broker.p12", PASSWORD), Secret(PASSWORD))
    server_context(TlsSettings(store))
    assert list((tmp_path / "temporary").iterdir()) == []


def test_s32_cve_2018_11775_a_certificate_for_another_host_is_refused(tmp_path: Path, authority: Authority) -> None:
    store = KeyStore(authority.issue(hosts=("other.example",)).write_pem(tmp_path / "broker.pem"))
    trust = TrustStore(authority.write_certificate(tmp_path / "authority.pem"))
    context = server_context(TlsSettings(store))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shakes_hands(context, client_context(ClientTlsSettings(trust)))
    assert shakes_hands(context, client_context(ClientTlsSettings(trust, verify_host_name=False)))


def test_s32_a_self_signed_certificate_is_refused_even_without_host_names(tmp_path: Path) -> None:
    context = server_context(TlsSettings(KeyStore(self_signed().write_pem(tmp_path / "broker.pem"))))
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        shakes_hands(context, client_context(ClientTlsSettings(verify_host_name=False)))


def test_s32_an_expired_certificate_is_refused(tmp_path: Path, authority: Authority) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue(days=-1).write_pem(tmp_path / "broker.pem"))
    trust = TrustStore(authority.write_certificate(tmp_path / "authority.pem"))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shakes_hands(context, client_context(ClientTlsSettings(trust)))


def test_an_expired_certificate_of_the_broker_is_one_line(tmp_path: Path, authority: Authority) -> None:
    store = KeyStore(authority.issue(days=-1).write_pem(tmp_path / "broker.pem"))
    assert "certificate has expired" in refused(store)


@pytest.mark.parametrize("days", [3, 40])
def test_a_context_knows_the_end_of_its_certificate(tmp_path: Path, authority: Authority, days: int) -> None:
    issued = authority.issue(days=days)
    context = server_context(TlsSettings(KeyStore(issued.write_pem(tmp_path / "broker.pem"))))
    assert context.expires_s == issued.certificate.not_valid_after_utc.timestamp()


def test_a_key_of_another_certificate_is_one_line(tmp_path: Path, authority: Authority) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(authority.issue().key_pem())
    store = KeyStore(authority.issue().write_certificate(tmp_path / "cert.pem"), key_path=key)
    assert refused(store).endswith("key.pem: the private key does not belong to the certificate")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "neither PEM nor PKCS#12"),
        (b"\xfe\xed\xfe\xed\0\0\0\2", "keytool -importkeystore"),
        (b"\xce\xce\xce\xce\0\0\0\2", "JCEKS store"),
        (b"\x30\x82\x01\x00rubbish", "the file is damaged"),
        (b"hello", "neither PEM nor PKCS#12"),
        (b"-----BEGIN NOTHING-----\n", "holds no certificate"),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
            b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "damaged",
        ),
        (b"\x30" + b"x" * (4 * 1024 * 1024), "larger than"),
    ],
)
def test_a_store_that_is_none_is_one_line(tmp_path: Path, content: bytes, part: str) -> None:
    path = tmp_path / "store"
    path.write_bytes(content)
    assert part in refused(KeyStore(path))


def test_a_store_that_is_not_there_or_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    assert "there is no such" in refused(KeyStore(tmp_path / "absent.pem"))
    assert "cannot be read" in refused(KeyStore(tmp_path))


def test_a_store_without_permission_is_one_line(tmp_path: Path, authority: Authority) -> None:
    path = authority.issue().write_pem(tmp_path / "broker.pem")
    path.chmod(0)
    if os.access(path, os.R_OK):
        assert stat.S_IMODE(path.stat().st_mode) == 0  # the superuser reads everything
        return
    assert "Permission denied" in refused(KeyStore(path))


def test_a_certificate_without_its_key_is_one_line(tmp_path: Path, authority: Authority) -> None:
    assert "keyStoreKey" in refused(KeyStore(authority.issue().write_certificate(tmp_path / "cert.pem")))
    trust = authority.write_trust_pkcs12(tmp_path / "trust.p12", PASSWORD)
    assert "may be a trust store" in refused(KeyStore(trust, Secret(PASSWORD)))


def test_wrong_and_missing_passwords_are_one_line(tmp_path: Path, authority: Authority) -> None:
    broker = authority.issue()
    pem = broker.write_pem(tmp_path / "broker.pem", PASSWORD)
    store = broker.write_pkcs12(tmp_path / "broker.p12", PASSWORD)
    assert "give its keyStoreKeyPassword" in refused(KeyStore(pem))
    assert "password of the private key is wrong" in refused(KeyStore(pem, Secret(PASSWORD + "x")))
    assert "is missing" in refused(KeyStore(store))
    assert "is wrong" in refused(KeyStore(store, Secret(PASSWORD + "x")))


def test_suites_that_the_key_cannot_serve_are_one_line(tmp_path: Path, authority: Authority) -> None:
    store = KeyStore(authority.issue().write_pem(tmp_path / "broker.pem"))  # an elliptic key
    settings = TlsSettings(store, cipher_suites=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",))
    with pytest.raises(ConfigurationError, match="does not work with the enabled protocols and cipher suites"):
        server_context(settings)


def test_a_trust_store_without_certificates_is_one_line(tmp_path: Path, authority: Authority) -> None:
    broker = authority.issue()
    path = tmp_path / "key-only.pem"
    path.write_bytes(broker.key_pem())
    with pytest.raises(ConfigurationError, match="holds no certificate to trust"):
        client_context(ClientTlsSettings(TrustStore(path)))


def test_s32_neither_side_renegotiates_or_compresses(tmp_path: Path, authority: Authority) -> None:
    key_store = KeyStore(authority.issue().write_pem(tmp_path / "broker.pem"))
    trust_store = TrustStore(authority.write_certificate(tmp_path / "authority.pem"))
    for context in (server_context(TlsSettings(key_store)), client_context(ClientTlsSettings(trust_store))):
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.options & ssl.OP_NO_COMPRESSION
