"""Directories in configurations: the options of ActiveMQ's login modules, and the attributes of its map."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.ldap.filters import FilterTemplate
from spanwire.ldap.ldap_url import LdapUrl
from spanwire.ldap.settings import LoginSettings, RightsSettings, SearchSettings
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.security.ldap import LEAST_REFRESH_MS, REFRESH_S
from tests.support.canary import CANARY

OPTIONS = {
    "connectionURL": "ldap://127.0.0.1:1024",
    "connectionUsername": "uid=admin,ou=system",
    "connectionPassword": "${secret}",
    "userBase": "ou=User",
    "userSearchMatching": "(uid={0})",
}
ROLES = {"roleBase": "ou=Group", "roleName": "cn", "roleSearchMatching": "(member=uid={1})"}
USERS = """<simpleAuthenticationPlugin><users>
<authenticationUser username="u" password="x1"/></users></simpleAuthenticationPlugin>"""


def loaded(conf: Path, plugins: str, name: str = "activemq.xml") -> BrokerConfiguration:
    path = conf / name
    path.write_text(plugins if name.endswith("toml") else f"<broker><plugins>{plugins}</plugins></broker>", "utf-8")
    return load_configuration(str(path), {"activemq.conf": str(conf), "secret": CANARY}, {})


def configured(
    conf: Path, options: dict[str, str], class_name: str = "LDAPLoginModule", flag: str = "required"
) -> BrokerConfiguration:
    lines = "\n".join(f'        {name}="{value}"' for name, value in options.items())
    text = f"activemq-domain {{\n    org.apache.activemq.jaas.{class_name} {flag}\n{lines};\n}};\n"
    (conf / "login.config").write_text(text, "utf-8")
    return loaded(conf, "<jaasAuthenticationPlugin/>")


def login(configuration: BrokerConfiguration) -> LoginSettings:
    assert configuration.authentication is not None
    (module,) = configuration.authentication.modules
    assert module.directory is not None
    return module.directory


def refusal(conf: Path, options: dict[str, str], class_name: str = "LDAPLoginModule") -> str:
    with pytest.raises(ConfigurationError) as raised:
        configured(conf, options, class_name)
    assert CANARY not in str(raised.value)
    return str(raised.value)


def test_the_options_of_activemq_s_login_module_are_read(tmp_path: Path) -> None:
    """Those of its tests."""
    options = {
        "debug": "true",
        "initialContextFactory": "com.sun.jndi.ldap.LdapCtxFactory",
        **OPTIONS,
        "connectionProtocol": "s",
        "authentication": "simple",
        "userSearchSubtree": "true",
        **ROLES,
        "roleSearchSubtree": "false",
        "userRoleName": "memberOf",
        "expandRoles": "true",
        "expandRolesMatching": "(uniqueMember={0})",
    }
    configuration = configured(tmp_path, options, flag="sufficient")
    assert configuration.authentication is not None
    assert configuration.authentication.modules[0].flag == "sufficient"
    assert configuration.warnings == ()
    found = login(configuration)
    assert found.access.urls == (LdapUrl("127.0.0.1", 1024, False, ""),)
    assert found.access.user_name == "uid=admin,ou=system"
    assert found.access.password is not None
    assert found.access.password.reveal() == CANARY
    assert found.users == SearchSettings("ou=User", FilterTemplate("(uid={0})"), True)
    assert found.roles == SearchSettings("ou=Group", FilterTemplate("(member=uid={1})"))
    assert (found.role_name, found.user_role_name) == ("cn", "memberOf")
    assert found.expanded == FilterTemplate("(uniqueMember={0})")
    assert CANARY not in repr(configuration)


def test_roles_are_left_out_without_the_name_of_their_attribute(tmp_path: Path) -> None:
    assert login(configured(tmp_path, OPTIONS)).roles is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"connectionURL": ""}, "LDAPLoginModule has no connectionURL"),
        ({"connectionURL": "http://h"}, "'http://h' is no URL of a directory"),
        ({"connectionURL": "ldaps://a ldap://b"}, "the URLs of a directory mix ldaps: and ldap:"),
        ({"connectionUsername": ""}, "LDAPLoginModule has no connectionUsername"),
        ({"connectionPassword": ""}, "has no connectionPassword, and never asks anonymously"),
        ({"connectionProtocol": "tls13"}, "connectionProtocol 'tls13' is none; write ldaps://"),
        ({"authentication": "DIGEST-MD5"}, "authentication 'DIGEST-MD5' of a directory is not supported"),
        ({"authentication": "none"}, "authentication 'none' of a directory is not supported"),
        ({"userBase": ""}, "LDAPLoginModule has no userBase"),
        ({"userSearchMatching": "(uid={1})"}, "may have the places {0} only"),
        ({"userSearchSubtree": "yes, please"}, "userSearchSubtree of org.apache.activemq.jaas.LDAPLoginModule must be"),
        ({"roleName": "cn"}, "LDAPLoginModule has no roleBase"),
        ({**ROLES, "expandRoles": "true"}, "LDAPLoginModule has no expandRolesMatching"),
        ({"userSearchMaching": "x"}, "unknown option 'userSearchMaching'"),
        ({"encryptionPassword": "x"}, "unknown option 'encryptionPassword'"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_file_and_line(
    tmp_path: Path, change: dict[str, str], expected: str
) -> None:
    text = refusal(tmp_path, {**OPTIONS, **change})
    assert expected in text
    assert "login.config:2: " in text


@pytest.mark.parametrize(
    ("change", "secure", "start_tls"),
    [
        ({"connectionURL": "ldaps://h"}, True, False),
        ({"connectionProtocol": "ssl"}, True, False),
        ({"connectionURL": "ldaps://a ldap://b", "connectionProtocol": "ssl"}, True, False),
        ({"connectionURL": "ldaps://a ldap://b", "connectionProtocol": "starttls"}, True, True),
        ({"connectionURL": "ldaps://a ldap://127.0.0.1"}, True, False),
        ({"connectionProtocol": "starttls"}, False, True),
        ({"connectionProtocol": ""}, False, False),
    ],
)
def test_tls_is_in_the_url_or_the_protocol(
    tmp_path: Path, change: dict[str, str], secure: bool, start_tls: bool
) -> None:
    access = login(configured(tmp_path, {**OPTIONS, **change})).access
    assert (access.urls[0].is_secure, access.start_tls) == (secure, start_tls)


def test_passwords_over_the_network_without_tls_are_warned_of(tmp_path: Path) -> None:
    (warning,) = configured(tmp_path, {**OPTIONS, "connectionURL": "ldap://directory.example.com"}).warnings
    assert "passwords go to the directory unencrypted: write ldaps:// or connectionProtocol starttls" in warning
    secure = {**OPTIONS, "connectionURL": "ldap://directory.example.com", "connectionProtocol": "starttls"}
    assert configured(tmp_path, secure).warnings == ()


def test_a_factory_of_java_has_no_effect_and_a_notice(tmp_path: Path) -> None:
    (warning,) = configured(tmp_path, {**OPTIONS, "initialContextFactory": "org.example.Contexts"}).warnings
    assert "initialContextFactory org.example.Contexts has no effect" in warning


def test_several_addresses_are_one_directory(tmp_path: Path) -> None:
    found = login(configured(tmp_path, {**OPTIONS, "connectionURL": "ldaps://a/o=c ldaps://b/o=c"}))
    assert [url.host for url in found.access.urls] == ["a", "b"]
    assert found.access.name_below("ou=User") == "ou=User,o=c"
    assert "with the same distinguished name" in refusal(
        tmp_path, {**OPTIONS, "connectionURL": "ldap://a/o=c ldap://b"}
    )


def test_an_encrypted_password_needs_no_other_class_but_may_have_one(tmp_path: Path) -> None:
    """ActiveMQ's own value, and password, of its test."""
    encrypted = {**OPTIONS, "connectionPassword": "ENC(dZSxRJoRDuI58eYkWIuH4Q==)"}
    found = configured(tmp_path, {**encrypted, "encryptionPassword": "activemq"}, "EncryptableLDAPLoginModule")
    password = login(found).access.password
    assert password is not None
    assert password.reveal() == "secret"
    assert "ENC(…) needs a password" in refusal(tmp_path, encrypted)


def test_a_realm_of_certificates_has_no_directory(tmp_path: Path) -> None:
    configured(tmp_path, OPTIONS)
    with pytest.raises(ConfigurationError, match="passwords are the matter of a <jaasAuthenticationPlugin>"):
        loaded(tmp_path, "<jaasCertificateAuthenticationPlugin/>")


def rights(configuration: BrokerConfiguration) -> RightsSettings:
    assert configuration.authorization is not None
    assert configuration.authorization.directory is not None
    return configuration.authorization.directory


def mapped(attributes: str) -> str:
    return f"{USERS}<authorizationPlugin><map><cachedLDAPAuthorizationMap {attributes}/></map></authorizationPlugin>"


def test_the_map_has_activemq_s_defaults(tmp_path: Path) -> None:
    found = rights(loaded(tmp_path, mapped('connectionPassword="${secret}"')))
    assert found.access.urls == (LdapUrl("localhost", 1024, False, ""),)
    assert found.access.user_name == "uid=admin,ou=system"
    assert found.queue_base == "ou=Queue,ou=Destination,ou=ActiveMQ,ou=system"
    assert (found.admin_filter, found.read_filter, found.write_filter) == ("(cn=Admin)", "(cn=Read)", "(cn=Write)")
    assert (found.member_attribute, found.group_class, found.user_class) == ("member", "groupOfNames", "person")
    assert (found.group_name, found.user_name, found.legacy_names) == ("cn", "uid", True)
    assert found.refresh_ms == REFRESH_S * 1000, "in place of ActiveMQ's persistent search"


@pytest.mark.parametrize(
    ("attributes", "refresh_ms"),
    [
        ('refreshInterval="300000"', 300_000),
        ('refreshInterval="1"', LEAST_REFRESH_MS),
        ('refreshInterval="-1"', REFRESH_S * 1000),
        ('refreshInterval="5000" refreshDisabled="true"', 0),
    ],
)
def test_a_map_is_read_again_as_often_as_it_says(tmp_path: Path, attributes: str, refresh_ms: int) -> None:
    assert rights(loaded(tmp_path, mapped(f'connectionPassword="x1" {attributes}'))).refresh_ms == refresh_ms


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("", "<cachedLDAPAuthorizationMap>: has no connectionPassword"),
        ('connectionPassword="x1" connectionURL="rmi://h"', "'rmi://h' is no URL of a directory"),
        ('connectionPassword="x1" readPermissionGroupSearchFilter="(cn"', "is no search filter"),
        ('connectionPassword="x1" groupClass="org.example.Group"', "groupClass"),
        ('connectionPassword="x1" queueBase="x"', "unknown attribute"),
    ],
)
def test_a_map_that_cannot_be_honoured_is_refused(tmp_path: Path, attributes: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        loaded(tmp_path, mapped(attributes))
    assert expected in str(raised.value)


def test_a_plugin_has_one_map(tmp_path: Path) -> None:
    both = mapped('connectionPassword="x1"').replace("</map>", "<authorizationMap/></map>")
    with pytest.raises(ConfigurationError, match="must hold one"):
        loaded(tmp_path, both)


def test_toml_has_the_same_words(tmp_path: Path) -> None:
    text = """
[[broker.plugins.simple_authentication_plugin.users]]
username = "u"
password = "x1"
[broker.plugins.authorization_plugin.map.cached_ldap_authorization_map]
connection_url = "ldaps://h"
connection_password = "${secret}"
queue_search_base = "ou=Q"
legacy_group_mapping = false
refresh_interval = 60000
"""
    found = rights(loaded(tmp_path, text, "broker.toml"))
    assert (found.queue_base, found.legacy_names, found.refresh_ms) == ("ou=Q", False, 60_000)
    assert found.access.urls[0].is_secure
