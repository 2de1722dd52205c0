"""Files of users that change while the broker runs, and the two realms of the dual plugin."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from spanwire.model.errors import AuthenticationError, ConfigurationError
from spanwire.model.info import ConnectionInfo
from spanwire.service.config.loading import load_configuration
from spanwire.service.security import Security

REALMS = """
activemq-domain {
    org.apache.activemq.jaas.PropertiesLoginModule sufficient
        org.apache.activemq.jaas.properties.user="users.properties"
        org.apache.activemq.jaas.properties.group="groups.properties";
};
activemq-ssl-domain {
    org.apache.activemq.jaas.TextFileCertificateLoginModule required reload=%s
        org.apache.activemq.jaas.textfiledn.user="dns.properties"
        org.apache.activemq.jaas.textfiledn.group="groups.properties";
};
open { org.apache.activemq.jaas.GuestLoginModule required; };
"""


def write(directory: Path, reload: bool = True, attributes: str = "") -> str:
    (directory / "login.config").write_text(REALMS % str(reload).lower(), "utf-8")
    (directory / "users.properties").write_text("ann=unguessable\n", "utf-8")
    (directory / "groups.properties").write_text("staff=ann\nmachines=orders\n", "utf-8")
    (directory / "dns.properties").write_text("orders=CN=orders\n", "utf-8")
    path = directory / "activemq.xml"
    path.write_text(f"<broker><plugins><jaasDualAuthenticationPlugin {attributes}/></plugins></broker>", "utf-8")
    return str(path)


def security(directory: Path, reload: bool = True, attributes: str = "") -> Security:
    return Security(load_configuration(write(directory, reload, attributes), environment={}))


def change(path: Path, text: str) -> None:
    """With another time of change, however coarse the file system's clock is."""
    path.write_text(text, "utf-8")
    os.utime(path, ns=(path.stat().st_mtime_ns + 10**9,) * 2)


def inside(subject: str | None) -> ConnectionInfo:
    return ConnectionInfo("c", encrypted=True, certificate_subject=subject)


def test_the_dual_plugin_has_one_realm_for_tls_and_one_for_the_rest(tmp_path: Path) -> None:
    authenticator = security(tmp_path).authenticator()
    assert authenticator is not None
    assert authenticator.authenticate(ConnectionInfo("c", "i", "ann", "unguessable")).groups == {"staff"}
    assert authenticator.authenticate(inside("CN=orders")).groups == {"machines"}
    for info in (inside(None), ConnectionInfo("c", certificate_subject="CN=orders")):
        with pytest.raises(AuthenticationError):
            authenticator.authenticate(info)


def test_the_realms_of_the_dual_plugin_can_have_other_names(tmp_path: Path) -> None:
    found = security(tmp_path, attributes="configuration='open' sslConfiguration='activemq-ssl-domain'")
    authenticator = found.authenticator()
    assert authenticator is not None
    assert authenticator.authenticate(ConnectionInfo("c")).name == "guest"
    with pytest.raises(AuthenticationError):
        authenticator.authenticate(inside(None))
    assert found.obstacle() is not None  # a guest is let in on one side


@pytest.mark.parametrize(
    ("attributes", "part"),
    [
        ("sslConfiguration='activemq-domain'", "passwords are the matter of a <jaasAuthenticationPlugin>"),
        ("sslConfiguration='nowhere'", "has no login modules for 'nowhere'"),
        ("configuration='nowhere'", "has no login modules for 'nowhere'"),
        ("sslConfiguraton='open'", "did you mean sslConfiguration?"),
    ],
)
def test_a_realm_of_the_dual_plugin_that_cannot_be_had_is_told(tmp_path: Path, attributes: str, part: str) -> None:
    with pytest.raises(ConfigurationError, match=part):
        security(tmp_path, attributes=attributes)


def test_names_of_certificates_are_read_again_when_their_file_changes(tmp_path: Path) -> None:
    found = security(tmp_path)
    authenticator = found.authenticator()
    assert authenticator is not None
    change(tmp_path / "dns.properties", "billing=CN=billing\n")
    asyncio.run(found.check_files())
    assert authenticator.authenticate(inside("CN=billing")).name == "billing"
    with pytest.raises(AuthenticationError):
        authenticator.authenticate(inside("CN=orders"))
    change(tmp_path / "groups.properties", "auditors=billing\n")
    asyncio.run(found.check_files())
    assert authenticator.authenticate(inside("CN=billing")).groups == {"auditors"}


def test_a_certificate_file_that_becomes_unreadable_leaves_everything_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = security(tmp_path)
    authenticator = found.authenticator()
    assert authenticator is not None
    with caplog.at_level(logging.WARNING):
        change(tmp_path / "dns.properties", "orders=nobody\n")
        asyncio.run(found.check_files())
        (tmp_path / "dns.properties").unlink()
        asyncio.run(found.check_files())
    assert authenticator.authenticate(inside("CN=orders")).name == "orders"
    assert caplog.text.count("users stay as they were") == 2


def test_without_reload_a_certificate_file_is_read_once(tmp_path: Path) -> None:
    found = security(tmp_path, reload=False)
    authenticator = found.authenticator()
    assert authenticator is not None
    change(tmp_path / "dns.properties", "billing=CN=billing\n")
    asyncio.run(found.check_files())
    assert authenticator.authenticate(inside("CN=orders")).name == "orders"
