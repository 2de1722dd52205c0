"""What a configuration says about TLS, protocol detection and what a connector grants."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.protocols.base import LOGIN_DEADLINE
from spanwire.service.config.interpretation.addresses.uri import MAX_LOGIN_TIMEOUT
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration
from spanwire.tls.settings import NEED_CLIENT_CERTIFICATE, NO_CLIENT_CERTIFICATE, WANT_CLIENT_CERTIFICATE
from spanwire.transports.base import ConnectorSettings

PATH = Path("/etc/spanwire/conf/activemq.xml")
CANARY = "c4n4ry-st0re"
STORES = (
    f'<sslContext><sslContext keyStore="file:/k/broker.p12" keyStorePassword="{CANARY}" keyStoreType="PKCS12" '
    f'trustStore="/k/trust.pem" trustStorePassword="{CANARY}"/></sslContext>'
)


def read(
    uri: str, stores: str = STORES, attributes: str = "", given: dict[str, str] | None = None
) -> BrokerConfiguration:
    uri = uri.replace("&", "&amp;")
    text = (
        f"<broker>{stores}<transportConnectors>"
        f'<transportConnector name="c" uri="{uri}" {attributes}/></transportConnectors></broker>'
    )
    return read_configuration(text.encode(), PATH, given or {}, {})


def connector(uri: str, stores: str = STORES, attributes: str = "") -> ConnectorSettings:
    return read(uri, stores, attributes).connectors[0]


def refused(uri: str, stores: str = STORES, attributes: str = "") -> str:
    with pytest.raises(ConfigurationError) as raised:
        read(uri, stores, attributes)
    assert CANARY not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("scheme", "protocols"),
    [
        ("ssl", ("openwire",)),
        ("nio+ssl", ("openwire",)),
        ("stomp+ssl", ("stomp",)),
        ("stomp+nio+ssl", ("stomp",)),
        ("auto+ssl", ("openwire", "stomp")),
        ("auto+nio+ssl", ("openwire", "stomp")),
    ],
)
def test_every_encrypted_transport_gets_the_stores_of_the_broker(scheme: str, protocols: tuple[str, ...]) -> None:
    found = connector(f"{scheme}://0.0.0.0:61617")
    assert found.spoken() == protocols
    assert found.tls is not None and found.tls.trust_store is not None
    assert found.tls.key_store.path == Path("/k/broker.p12")
    assert found.tls.key_store.password.reveal() == CANARY
    assert found.tls.trust_store.path == Path("/k/trust.pem")
    assert CANARY not in repr(found)


@pytest.mark.parametrize("scheme", ["tcp", "nio", "stomp", "auto", "auto+nio"])
def test_a_plain_transport_gets_none(scheme: str) -> None:
    assert connector(f"{scheme}://0.0.0.0:1").tls is None


def test_an_encrypted_transport_without_a_key_store_is_one_line() -> None:
    assert "needs a key store; add <sslContext>" in refused("ssl://h:1", stores="")


def test_java_properties_stand_in_for_the_element() -> None:
    given = {
        "javax.net.ssl.keyStore": "/j/broker.p12",
        "javax.net.ssl.keyStorePassword": CANARY,
        "javax.net.ssl.trustStore": "/j/trust.p12",
    }
    found = read("ssl://h:1", "", given=given).connectors[0]
    assert found.tls is not None and found.tls.trust_store is not None
    assert found.tls.key_store.path == Path("/j/broker.p12")
    assert found.tls.key_store.password.reveal() == CANARY


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", NO_CLIENT_CERTIFICATE),
        ("?needClientAuth=true", NEED_CLIENT_CERTIFICATE),
        ("?transport.needClientAuth=true&transport.wantClientAuth=true", NEED_CLIENT_CERTIFICATE),
        ("?transport.wantClientAuth=true", WANT_CLIENT_CERTIFICATE),
        ("?needClientAuth=false", NO_CLIENT_CERTIFICATE),
    ],
)
def test_client_certificates_are_asked_for(options: str, wanted: int) -> None:
    found = connector(f"ssl://h:1{options}")
    assert found.tls is not None
    assert found.tls.client_certificate == wanted


@pytest.mark.parametrize("spelling", ["verifyHostName", "transport.verifyHostName", "socket.verifyHostName"])
@pytest.mark.parametrize(("value", "verified"), [("true", True), ("false", False)])
def test_the_address_in_a_clients_certificate_is_verified_where_the_connector_says_so(
    spelling: str, value: str, verified: bool
) -> None:
    found = connector(f"ssl://h:1?needClientAuth=true&{spelling}={value}")
    assert found.tls is not None
    assert found.tls.verify_address is verified


def test_client_certificates_without_a_trust_store_are_one_line() -> None:
    stores = '<sslContext keyStore="/k/broker.pem"/>'
    assert "give <sslContext> a trustStore" in refused("ssl://h:1?needClientAuth=true", stores)


def test_protocols_and_suites_keep_javas_names() -> None:
    suites = "TLS_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    found = connector(f"ssl://h:1?transport.enabledProtocols=TLSv1.2,TLSv1.3&transport.enabledCipherSuites={suites}")
    assert found.tls is not None
    assert found.tls.protocols == ("TLSv1.2", "TLSv1.3")
    assert found.tls.cipher_suites == tuple(suites.split(","))


@pytest.mark.parametrize(
    ("option", "part"),
    [
        ("enabledProtocols=TLSv1.4", "unknown TLS version 'TLSv1.4'; did you mean TLSv1.3?"),
        ("enabledProtocols=TLSv1,TLSv1.1", "has no TLS version left"),
        (
            "enabledCipherSuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA",
            "did you mean TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256?",
        ),
        ("enabledCipherSuites=SSL_RSA_WITH_RC4_128_MD5", "has no cipher suite left"),
        ("needClientAuth=maybe", "must be true or false"),
        ("verifyHostName=true", "asks for none; add needClientAuth=true or remove verifyHostName"),
        ("socket.verifyHostName=maybe", "the option socket.verifyHostName must be true or false"),
        ("socket.verifyHostNam=true", "did you mean socket.verifyHostName?"),
        ("transport.keyStorePassword=x", "write keyStore and keyStorePassword in the <sslContext> of the broker"),
        ("needClientAut=true", "did you mean needClientAuth?"),
    ],
)
def test_what_cannot_be_meant_is_one_line(option: str, part: str) -> None:
    assert part in refused(f"ssl://h:1?{option}")


def test_a_broken_version_beside_a_good_one_is_left_out_with_a_warning() -> None:
    configuration = read("ssl://h:1?transport.enabledProtocols=TLSv1.1,TLSv1.2")
    tls = configuration.connectors[0].tls
    assert tls is not None and tls.protocols == ("TLSv1.2",)
    assert "does not offer TLSv1.1" in configuration.warnings[0]


def test_options_of_tls_do_not_belong_to_plain_transports() -> None:
    assert "unknown option of tcp://" in refused("tcp://h:1?needClientAuth=true")


@pytest.mark.parametrize(
    ("stores", "part"),
    [
        ('<sslContext keyStore="classpath:broker.ks"/>', "must be a file"),
        ('<sslContext keyStore=""/>', "is no file name"),
        ('<sslContext keyStor="x"/>', "did you mean keyStore?"),
        ('<sslContext keyStore="x" keyStoreType="BKS"/>', "keyStoreType of <sslContext>"),
        ('<sslContext keyStore="x" crlPath="y"/>', "crlPath of <sslContext> is not supported"),
        ('<sslContext keyStore="x"/><sslContext keyStore="y"/>', "a second <sslContext>"),
        ('<sslContext keyStore="${nowhere}"/>', "placeholder"),
    ],
)
def test_faults_of_the_element_are_one_line(stores: str, part: str) -> None:
    assert part in refused("tcp://h:1", stores)


def test_the_element_reads_as_toml(tmp_path: Path) -> None:
    text = '[ssl_context]\nkey_store = "/k/b.pem"\n[[transport_connectors]]\nuri = "ssl://h:1"\n'
    found = read_configuration(text.encode(), tmp_path / "spanwire.toml", {}, {}).connectors[0]
    assert found.tls is not None
    assert found.tls.key_store.path == Path("/k/b.pem")


@pytest.mark.parametrize(
    ("options", "protocols"),
    [
        ("", ("openwire", "stomp")),
        ("?protocols=stomp", ("stomp",)),
        ("?auto.protocols=default,stomp", ("openwire", "stomp")),
    ],
)
def test_a_detecting_connector_takes_the_named_protocols(options: str, protocols: tuple[str, ...]) -> None:
    assert connector(f"auto://h:1{options}").spoken() == protocols


def test_protocols_of_later_versions_and_unknown_ones_are_told_apart() -> None:
    assert "the protocol mqtt is not yet supported" in refused("auto://h:1?protocols=mqtt,stomp")
    assert "unknown protocol 'stompp'; did you mean stomp?" in refused("auto://h:1?protocols=stompp")


def test_deadlines_have_defaults_and_cannot_be_switched_off() -> None:
    assert connector("tcp://h:1").login_timeout == LOGIN_DEADLINE
    assert connector("tcp://h:1?transport.connectAttemptTimeout=2500").login_timeout == 2.5
    assert connector("tcp://h:1?connectAttemptTimeout=0").login_timeout == LOGIN_DEADLINE
    assert connector("tcp://h:1?connectAttemptTimeout=999999999").login_timeout == MAX_LOGIN_TIMEOUT
    detecting = connector("auto://h:1?protocolDetectionTimeOut=30000")
    assert detecting.detection_timeout == LOGIN_DEADLINE  # it is part of the login
    assert connector("auto://h:1?protocolDetectionTimeOut=500").detection_timeout == 0.5


def test_consumers_and_producers_of_a_connection_are_granted() -> None:
    found = connector(
        "tcp://h:1",
        attributes='maximumConsumersAllowedPerConnection="7" maximumProducersAllowedPerConnection="5000"',
    )
    assert (found.max_consumers, found.max_producers) == (7, 5000)
    plain = connector("tcp://h:1")
    assert (plain.max_consumers, plain.max_producers) == (1000, 1000)


def test_an_audit_of_makers_is_taken_over() -> None:
    assert connector("tcp://h:1", attributes='auditNetworkProducers="true"').audit_makers
    assert not connector("tcp://h:1").audit_makers


def test_a_grant_cannot_be_switched_off() -> None:
    assert "must be a whole number from 1" in refused(
        "tcp://h:1", attributes='maximumConsumersAllowedPerConnection="0"'
    )


def certified(directory: Path, users: str, options: str = "", module: str = "TextFileCertificateLoginModule") -> str:
    """What becomes of a realm with certificates: the users, or the error."""
    (directory / "users.properties").write_text(users, "utf-8")
    (directory / "groups.properties").write_text("traders=orders,bills\n", "utf-8")
    (directory / "login.config").write_text(
        f"certs {{ org.apache.activemq.jaas.{module} required "
        'org.apache.activemq.jaas.textfiledn.user="users.properties" '
        f'org.apache.activemq.jaas.textfiledn.group="groups.properties" {options}; }};',
        "utf-8",
    )
    text = '<broker><plugins><jaasCertificateAuthenticationPlugin configuration="certs"/></plugins></broker>'
    given = {"java.security.auth.login.config": str(directory / "login.config")}
    try:
        configuration = read_configuration(text.encode(), PATH, given, {})
    except ConfigurationError as error:
        return str(error)
    assert configuration.authentication is not None
    assert not configuration.authentication.lets_anybody_in
    found = [user for entry in configuration.authentication.modules for user in entry.certified]
    return "; ".join(f"{user.name}: {user.subject} ({', '.join(user.groups)})" for user in found)


def test_certificates_and_their_groups_are_read_as_java_writes_them(tmp_path: Path) -> None:
    assert certified(tmp_path, "orders=CN=orders, O=Example\nother=CN=other\n") == (
        "orders: CN=orders, O=Example (traders); other: CN=other ()"
    )


@pytest.mark.parametrize(
    ("users", "options", "module", "part"),
    [
        ("orders=orders", "", "TextFileCertificateLoginModule", "has no distinguished name"),
        ("a=CN=x\nb=CN=x\n", "", "TextFileCertificateLoginModule", "have one name"),
        ("", "", "TextFileCertificateLoginModule", "names no user"),
        ("a=CN=x", "reload=perhaps", "TextFileCertificateLoginModule", "must be true or false"),
        ("a=CN=x", "relod=true", "TextFileCertificateLoginModule", "did you mean reload?"),
        ("a=b", "", "PropertiesLoginModule", "use that for this module"),
    ],
)
def test_faults_of_certificate_files_are_one_line(
    tmp_path: Path, users: str, options: str, module: str, part: str
) -> None:
    told = certified(tmp_path, users, options, module)
    assert part in told
    assert "\n" not in told
