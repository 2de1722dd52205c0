"""Users, login modules and access lists as configurations write them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from spanwire.broker.security.authorization_map import AccessList, AuthorizationEntry
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration
from spanwire.service.config.security.login_config import LoginModuleEntry, read_login_config
from spanwire.service.security import Security
from tests.support.canary import CANARY

USERS = f"""
<simpleAuthenticationPlugin>
  <users>
    <authenticationUser username="system" password="{CANARY}" groups="users, admins"/>
    <authenticationUser username="guest" password="{CANARY}2" groups=""/>
  </users>
</simpleAuthenticationPlugin>
"""


def read(
    plugins: str, given: dict[str, str] | None = None, environment: dict[str, str] | None = None
) -> BrokerConfiguration:
    text = f"<broker><plugins>{plugins}</plugins></broker>"
    return read_configuration(text.encode(), Path("a.xml"), given or {}, environment or {})


def refusal(plugins: str, given: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigurationError) as raised:
        read(plugins, given)
    return str(raised.value)


def lists(read: str = "", write: str = "", admin: str = "") -> AccessList:
    return AccessList(*(frozenset(text.split()) for text in (read, write, admin)))


def test_users_have_names_passwords_and_groups() -> None:
    configuration = read(USERS)
    assert configuration.authentication is not None
    (module,) = configuration.authentication.modules
    assert [(user.name, user.password.reveal(), user.groups) for user in module.users] == [
        ("system", CANARY, frozenset({"users", "admins"})),
        ("guest", CANARY + "2", frozenset()),
    ]
    assert not configuration.authentication.lets_anybody_in
    assert configuration.authorization is None


def test_anonymous_access_is_off_unless_it_is_turned_on() -> None:
    plugin = (
        '<simpleAuthenticationPlugin anonymousAccessAllowed="true" anonymousUser="nobody" anonymousGroup="nobodies"/>'
    )
    for text, name, group in (
        (plugin, "nobody", "nobodies"),
        ('<simpleAuthenticationPlugin anonymousAccessAllowed="true"/>', "anonymous", "anonymous"),
    ):
        found = read(text).authentication
        assert found is not None
        assert (found.modules[0].guest, found.modules[0].guest_groups) == (name, frozenset({group}))
        assert found.modules[0].without_credentials
        assert found.lets_anybody_in


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ("<simpleAuthenticationPlugin/>", "lets nobody in: it has no users"),
        ('<simpleAuthenticationPlugin anonymousAccesAllowed="true"/>', "did you mean anonymousAccessAllowed?"),
        (USERS.replace('username="guest"', 'username="system"'), "names user 'system' twice"),
        (USERS.replace('username="guest"', ""), "<authenticationUser> has no username"),
        (USERS.replace(f'password="{CANARY}2"', 'password=""'), "<authenticationUser> 'guest' has no password"),
        (USERS.replace(f'password="{CANARY}2"', ""), "<authenticationUser> 'guest' has no password"),
        (USERS + USERS, "more than one of simpleAuthenticationPlugin and jaasAuthenticationPlugin"),
        (
            USERS + "<jaasDualAuthenticationPlugin configuration='x'/>",
            "more than one of simpleAuthenticationPlugin and jaasAuthenticationPlugin",
        ),
        (USERS + "<destinationsPlugin enabled='x'/>", "<destinationsPlugin> is not supported"),
        (USERS + "<bean class='evil.Plugin'/>", "<bean> is not supported"),
        (USERS + "<simpleAutorizationPlugin/>", "unknown element in <plugins>"),
        (USERS + "<authorizationPlugin/>", "<authorizationPlugin> must hold one <map><authorizationMap>"),
        ("<authorizationPlugin><map><authorizationMap/></map></authorizationPlugin>", "knows no users without a login"),
        (
            USERS + "<authorizationPlugin><map><lDAPAuthorizationMap adminBase='x'/></map></authorizationPlugin>",
            "<lDAPAuthorizationMap> is not supported",
        ),
    ],
)
def test_what_cannot_be_honoured_is_named(plugins: str, expected: str) -> None:
    text = refusal(plugins)
    assert expected in text
    assert CANARY not in text


def test_a_password_that_cannot_be_decrypted_is_the_only_obstacle() -> None:
    text = refusal(
        '<simpleAuthenticationPlugin><users><authenticationUser username="a" password="ENC(AAAA)"/></users>'
        "</simpleAuthenticationPlugin>"
    )
    (line,) = text.splitlines()
    assert "set the environment variable ACTIVEMQ_ENCRYPTION_PASSWORD" in line


def mapped(inside: str) -> str:
    return f"{USERS}<authorizationPlugin><map><authorizationMap>{inside}</authorizationMap></map></authorizationPlugin>"


def test_access_lists_stand_in_entries() -> None:
    found = read(
        mapped(
            '<authorizationEntries><authorizationEntry queue="A.&gt;" read="r, s" write="w" admin="a"/>'
            '<authorizationEntry topic="*.T" read="*"/></authorizationEntries>'
            '<tempDestinationAuthorizationEntry><tempDestinationAuthorizationEntry read="t" write="t" admin="ta"/>'
            "</tempDestinationAuthorizationEntry>"
            '<defaultEntry><authorizationEntry admin="d"/></defaultEntry>'
        )
    ).authorization
    assert found is not None
    assert found.entries == (
        AuthorizationEntry(Destination(QUEUE, "A.>"), lists("r s", "w", "a")),
        AuthorizationEntry(Destination(TOPIC, "*.T"), lists("*")),
    )
    assert (found.temporary, found.default) == (lists("t", "t", "ta"), lists(admin="d"))


def test_an_empty_map_allows_nothing_but_temporary_destinations() -> None:
    found = read(mapped("")).authorization
    assert found is not None
    assert (found.entries, found.temporary, found.default) == ((), None, None)


def test_a_map_without_the_advisories_that_java_clients_hear_is_warned_of() -> None:
    entry = '<authorizationEntries><authorizationEntry topic="{}" read="*"/></authorizationEntries>'
    (warning,) = read(mapped(entry.format("A.&gt;"))).warnings
    assert "covers topic://ActiveMQ.Advisory.TempQueue, to which every Java client listens" in warning
    for pattern in ("&gt;", "ActiveMQ.Advisory.&gt;", "ActiveMQ.Advisory.*"):
        assert read(mapped(entry.format(pattern))).warnings == ()


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("<authorizationEntry read='r'/>", "must name either a queue or a topic"),
        ("<authorizationEntry queue='A' topic='B'/>", "must name either a queue or a topic"),
        ("<authorizationEntry queue='A.>.B'/>", "> may stand at the end only"),
        ("<authorizationEntry queue='A,B'/>", "must name one destination"),
        ("<authorizationEntry queue=''/>", "queue of <authorizationEntry> is empty"),
        ("<authorizationEntry queue='A' reed='r'/>", "did you mean read?"),
        ("<authorizationEntry tempQueue='true'/>", "tempQueue of <authorizationEntry>"),
        ("<authorizationEntry queue='A' groupClass='x.Y'/>", "groupClass of <authorizationEntry>"),
    ],
)
def test_a_wrong_entry_is_an_error(entry: str, expected: str) -> None:
    text = mapped(f"<authorizationEntries>{entry}</authorizationEntries>".replace(">.B", "&gt;.B"))
    assert expected in refusal(text)


def test_toml_says_the_same_in_snake_case() -> None:
    text = f"""
        [plugins.simple_authentication_plugin]
        anonymous_access_allowed = true
        [[plugins.simple_authentication_plugin.users]]
        username = "system"
        password = "{CANARY}"
        groups = "users,admins"
        [[plugins.authorization_plugin.map.authorization_map.authorization_entries]]
        queue = "A.>"
        read = "users"
        [plugins.authorization_plugin.map.authorization_map.temp_destination_authorization_entry]
        read = "users"
    """
    found = read_configuration(text.encode(), Path("a.toml"), {}, {})
    assert found.authentication is not None
    assert found.authorization is not None
    guest, users = found.authentication.modules
    assert guest.guest == "anonymous"
    assert [(user.name, user.password.reveal()) for user in users.users] == [("system", CANARY)]
    assert found.authorization.entries == (AuthorizationEntry(Destination(QUEUE, "A.>"), lists("users")),)
    assert found.authorization.temporary == lists("users")


def test_s25_no_password_shows_in_what_was_read(caplog: pytest.LogCaptureFixture) -> None:
    configuration = read(mapped("").replace(CANARY, "${secret}"), {"secret": CANARY})
    assert configuration.authentication is not None
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("test").warning("%s %r", configuration, configuration.authentication)
    security = Security(configuration)
    shown = f"{configuration!r} {configuration.authentication} {vars(security)} {security.authenticator()!r}"
    assert CANARY not in shown
    assert "********" in shown


LOGIN_CONFIG = """
/* several
   lines */
activemq-domain {
    org.apache.activemq.jaas.PropertiesLoginModule sufficient // the users
        debug=true
        org.apache.activemq.jaas.properties.user="users.properties"
        org.apache.activemq.jaas.properties.group='groups.properties';
    org.apache.activemq.jaas.GuestLoginModule Required credentialsInvalidate=true
        org.apache.activemq.jaas.guest.user="${guest.name}";
};
# another
ldap { org.apache.activemq.jaas.LDAPLoginModule required connectionURL="ldap://h:389"; };
certificates { org.apache.activemq.jaas.CertificateLoginModule required; };
foreign { com.sun.security.auth.module.UnixLoginModule required; };
reloading { org.apache.activemq.jaas.PropertiesLoginModule required reload=true
    org.apache.activemq.jaas.properties.user="users.properties"
    org.apache.activemq.jaas.properties.group="groups.properties"; };
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "login.config").write_text(LOGIN_CONFIG, encoding="utf-8")
    (tmp_path / "users.properties").write_text(f"# who\nsystem={CANARY}\nuser = {CANARY}2\n", encoding="utf-8")
    (tmp_path / "groups.properties").write_text("admins=system\nusers=system, user,\n", encoding="utf-8")
    return tmp_path


def jaas(conf: Path, name: str = "activemq-domain", given: dict[str, str] | None = None) -> BrokerConfiguration:
    path = conf / "activemq.xml"
    path.write_text(f'<broker><plugins><jaasAuthenticationPlugin configuration="{name}"/></plugins></broker>')
    return load_configuration(str(path), {"activemq.conf": str(conf), "guest.name": "visitor", **(given or {})}, {})


def test_the_properties_and_guest_modules_of_a_login_configuration(conf: Path) -> None:
    found = jaas(conf).authentication
    assert found is not None
    users, guest = found.modules
    assert (users.flag, guest.flag) == ("sufficient", "required")
    assert [(user.name, user.password.reveal(), user.groups) for user in users.users] == [
        ("system", CANARY, frozenset({"admins", "users"})),
        ("user", CANARY + "2", frozenset({"users"})),
    ]
    assert (guest.guest, guest.guest_groups, guest.without_credentials) == ("visitor", frozenset({"guests"}), True)
    assert found.lets_anybody_in


def test_a_placeholder_of_a_login_configuration_without_a_value_is_told_with_its_remedy(conf: Path) -> None:
    path = conf / "login.config"
    path.write_text(path.read_text("utf-8").replace("guest.name", "nobody.name"), "utf-8")
    with pytest.raises(ConfigurationError, match=r"login\.config:\d+: the placeholder \$\{nobody\.name\} has no value"):
        jaas(conf)


def test_the_login_configuration_can_lie_elsewhere(conf: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else"
    elsewhere.mkdir()
    (conf / "login.config").rename(elsewhere / "jaas.config")
    with pytest.raises(ConfigurationError, match=r"login\.config: there is no such file.*java\.security\.auth"):
        jaas(conf)
    with pytest.raises(ConfigurationError, match=r"else/groups\.properties: there is no such file"):
        jaas(conf, given={"java.security.auth.login.config": str(elsewhere / "jaas.config")})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("activemq-domian", "did you mean activemq-domain?"),
        ("ldap", "LDAPLoginModule has no connectionUsername"),
        ("certificates", "CertificateLoginModule is not built; use TextFileCertificateLoginModule"),
        ("foreign", "UnixLoginModule is not built: Spanwire runs no Java classes"),
    ],
)
def test_other_realms_and_modules_are_refused_by_name(conf: Path, name: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        jaas(conf, name)
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"system={CANARY}\nuser=", "user 'user' has no password"),
        (f"system=ENC({CANARY})", "the password of user 'system': ENC(…) needs a password"),
    ],
)
def test_a_user_file_with_a_bad_line_names_the_user_only(conf: Path, text: str, expected: str) -> None:
    (conf / "users.properties").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as raised:
        jaas(conf)
    assert expected in str(raised.value)
    assert CANARY not in str(raised.value)


def test_a_login_configuration_is_read_as_java_does() -> None:
    found = read_login_config('a { x.Y optional k="a\\"b" l=\'c d\' m=1; z.Z requisite; }; b { };', "login.config")
    assert found == {
        "a": [
            LoginModuleEntry("x.Y", "optional", {"k": 'a"b', "l": "c d", "m": "1"}, 1),
            LoginModuleEntry("z.Z", "requisite", {}, 1),
        ],
        "b": [],
    }
    assert read_login_config("", "f") == {}


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a {",
        "a { x.Y",
        f'a {{ x.Y required p="{CANARY}',
        f"a {{ x.Y required p={CANARY} }};",
        f"a {{ x.Y {CANARY} ; }};",
        f"a {{ x.Y required {CANARY} ; }};",
        "a { x.Y required; }",
        "a } ;",
        "a { " + "x.Y required; " * 17 + "};",
        "\0",
    ],
)
def test_a_broken_login_configuration_names_its_line_and_no_value(text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_login_config("\n" + text, "login.config")
    assert str(raised.value).startswith("login.config:2: ")
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ("", "without authentication"),
        ('<simpleAuthenticationPlugin anonymousAccessAllowed="true"/>', "to clients without a password"),
        (
            USERS.replace(CANARY + "2", "guest"),
            "with well-known passwords: bind 127.0.0.1, change the password of 'guest'",
        ),
        (USERS.replace(CANARY + "2", "Manager"), "change the password of 'guest'"),
        (USERS, None),
    ],
)
def test_s33_a_door_without_a_lock_stays_at_home(plugins: str, expected: str | None) -> None:
    obstacle = Security(read(plugins)).obstacle()
    assert obstacle == expected or (expected is not None and obstacle is not None and expected in obstacle)
