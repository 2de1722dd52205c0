"""The web server of ActiveMQ's files: its address and its users."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration, WebConfiguration
from spanwire.service.config.reading import read_configuration
from spanwire.service.config.security.user_files import RealmFile

JETTY = """\
<beans xmlns="http://www.springframework.org/schema/beans">
  <bean id="login" class="org.eclipse.jetty.security.HashLoginService">
    <property name="config" value="${activemq.conf}/jetty-realm.properties"/>
  </bean>
  <bean id="constraint" class="org.eclipse.jetty.util.security.Constraint">
    <property name="roles" value="user,admin"/>
    <property name="authenticate" value="true"/>
  </bean>
  <bean id="jettyPort" class="org.apache.activemq.web.WebConsolePort">
    <property name="host" value="127.0.0.1"/>
    <property name="port" value="8162"/>
  </bean>
  <bean id="Connector" class="org.eclipse.jetty.server.ServerConnector">
    <property name="host" value="#{systemProperties['jetty.host']}"/>
    <property name="port" value="#{systemProperties['jetty.port']}"/>
  </bean>
</beans>
"""
OWN = '<web port="1"/>'


def read(
    directory: Path, jetty: str = JETTY, inside: str = "", resource: str = "jetty.xml", **names: str
) -> BrokerConfiguration:
    """Read a configuration beside this jetty.xml."""
    (directory / "jetty.xml").write_text(jetty)
    (directory / "jetty-realm.properties").write_text("admin: a-4711, admin\n")
    text = f"<beans><broker>{inside}</broker><import resource='{resource}'/></beans>"
    known = {name.replace("_", "."): value for name, value in names.items()}
    placeholders = {"activemq.conf": str(directory), **known}
    return read_configuration(text.encode(), directory / "activemq.xml", placeholders, {})


def web(directory: Path, jetty: str = JETTY, **names: str) -> WebConfiguration:
    """The web port of a configuration without a warning."""
    configuration = read(directory, jetty, **names)
    assert configuration.warnings == ()
    assert configuration.web is not None
    return configuration.web


@pytest.mark.parametrize(
    ("resource", "advice"),
    [
        ("jety.xml", "there is no such file in {0}; did you mean jetty.xml?"),
        ("${activemq.conf}/jety.xml", "there is no such file in {0}; did you mean jetty.xml?"),
        ("credentials.xml", "there is no such file in {0}; correct its name, or remove the line"),
        ("users.xml", "only web servers and routes are read from another file; copy its beans here"),
        ("http://192.0.2.1/jetty.xml", "only web servers and routes are read from another file; copy its beans here"),
    ],
)
def test_an_import_that_is_not_read_says_whether_its_file_is_missing(
    tmp_path: Path, resource: str, advice: str
) -> None:
    (tmp_path / "users.xml").write_text("<beans/>")
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path, resource=resource)
    assert f"<import> of {resource!r} is not read: {advice.format(tmp_path)}" in str(raised.value)


def test_the_address_and_the_users_of_an_imported_file_count(tmp_path: Path) -> None:
    found = web(tmp_path)
    assert (found.host, found.port) == ("127.0.0.1", 8162)
    assert found.realm == RealmFile(tmp_path / "jetty-realm.properties")


@pytest.mark.parametrize(
    "resource", ["classpath:jetty.xml", "${activemq.conf}/jetty.xml", "file:${activemq.conf}/jetty.xml"]
)
def test_the_file_is_found_where_it_is_named(tmp_path: Path, resource: str) -> None:
    configuration = read(tmp_path, resource=resource)
    assert (configuration.warnings, configuration.web is not None) == ((), True)


def test_java_s_properties_override_the_address(tmp_path: Path) -> None:
    found = web(tmp_path, jetty_host="127.0.0.2", jetty_port="0")
    assert (found.host, found.port) == ("127.0.0.2", 0)


def test_older_files_have_the_address_at_the_connector(tmp_path: Path) -> None:
    old = JETTY.replace("org.apache.activemq.web.WebConsolePort", "org.eclipse.jetty.server.nio.SelectChannelConnector")
    assert web(tmp_path, old).port == 8162


def test_a_file_without_logins_has_no_users(tmp_path: Path) -> None:
    assert web(tmp_path, JETTY.replace('value="true"', 'value="false"')).realm is None


def test_the_broker_s_own_web_port_comes_first(tmp_path: Path) -> None:
    configuration = read(tmp_path, inside=OWN)
    assert configuration.web is not None and configuration.web.port == 1
    assert "<broker> has a <web>" in configuration.warnings[0]


def test_what_a_file_has_beyond_one_port_is_named(tmp_path: Path) -> None:
    secure = '<bean class="org.eclipse.jetty.server.SslConnectionFactory"/></beans>'
    configuration = read(tmp_path, JETTY.replace("</beans>", secure))
    assert "the https connector of jetty.xml is not opened" in configuration.warnings[0]
    other = JETTY.replace("HashLoginService", "JAASLoginService").replace("org.eclipse.jetty.security", "org.x")
    configuration = read(tmp_path, other)
    assert "the JAASLoginService of jetty.xml has no effect: the broker's users log in" in configuration.warnings[0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("<beans>", "jetty.xml:"),
        (JETTY.replace("8162", "none"), "port of <web>"),
        (JETTY.replace("realm.prop", "r.prop"), "r.properties"),
    ],
)
def test_a_file_with_an_error_is_refused_in_one_line(tmp_path: Path, wrong: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        read(tmp_path, wrong)
    assert "\n" not in str(caught.value)


def test_an_element_has_a_port_and_no_users() -> None:
    jetty = "<jetty xmlns='x'><connectors><nioConnector port='8171'/><nioConnector port='8172'/></connectors></jetty>"
    text = f"<beans><broker/>{jetty}{jetty}</beans>".encode()
    configuration = read_configuration(text, Path("a.xml"), {"jetty.host": "127.0.0.1"}, {})
    assert configuration.web == WebConfiguration("127.0.0.1", 8171)
    told = [warning.partition(": ")[2] for warning in configuration.warnings]
    assert told == [
        "<nioConnector> has no effect: one port serves HTTP",
        "a second web server has no effect; the first one is in line 1",
    ]


CONTEXTS = """\
<jetty xmlns="http://mortbay.com/schemas/jetty/1.0"><connectors><nioConnector port="8161"/></connectors><handlers>
  <webAppContext contextPath="/admin" resourceBase="${activemq.base}/webapps/admin" logUrlOnStart="true"/>
  <webAppContext contextPath="/activemq-web-demo" resourceBase="${activemq.base}/webapps/demo/" logUrlOnStart="true"/>
  <webAppContext contextPath="/" resourceBase="${activemq.base}/webapps/api"/>
  <webAppContext contextPath="/fileserver" resourceBase="${activemq.base}/webapps/fileserver"/>
  <webAppContext contextPath="/a/../b" resourceBase="webapps/demo"/>
</handlers></jetty>"""


def test_web_applications_of_an_element_are_where_it_puts_them() -> None:
    text = f"<beans><broker/>{CONTEXTS}</beans>".encode()
    configuration = read_configuration(text, Path("a.xml"), {"activemq.base": "/srv"}, {})
    assert configuration.web is not None
    assert [str(mount) for mount in configuration.web.mounts] == ["demo=/activemq-web-demo", "api=/"]
    told = " ".join(configuration.warnings)
    assert "the web application 'fileserver' has no effect" in told
    assert "'/a/../b' is no path of a web application" in told


def test_web_applications_of_an_imported_file_are_where_it_puts_them(tmp_path: Path) -> None:
    context = (
        '<bean class="org.eclipse.jetty.webapp.WebAppContext"><property name="contextPath" value="{}"/>'
        '<property name="resourceBase" value="${{activemq.home}}/webapps/{}"/></bean>'
    )
    contexts = context.format("/admin", "admin") + context.format("/rest", "api")
    found = web(tmp_path, JETTY.replace("</beans>", contexts + "</beans>"))
    assert [str(mount) for mount in found.mounts] == ["api=/rest"]


def test_toml_names_further_paths() -> None:
    configuration = read_configuration(b'[web]\nmounts = "demo=/shop, api=/v0"\n', Path("a.toml"), {}, {})
    assert configuration.web is not None
    assert [str(mount) for mount in configuration.web.mounts] == ["demo=/shop", "api=/v0"]


@pytest.mark.parametrize("mounts", ["shop=/demo", "demo=shop", "demo=/a/./b", "demo=/a?b", "demo=/ä", "demo=/a//b"])
def test_s17_what_is_no_path_of_an_application_is_refused(mounts: str) -> None:
    with pytest.raises(ConfigurationError, match="mounts of <web>: "):
        read_configuration(f'[web]\nmounts = "{mounts}"\n'.encode(), Path("a.toml"), {}, {})


def passwords(directory: Path, text: str) -> dict[str, tuple[str, frozenset[str]]]:
    """The users of a realm's file."""
    (directory / "realm").write_text(text)
    return {user.name: (user.password.reveal(), user.groups) for user in RealmFile(directory / "realm").read()}


def test_a_realm_has_passwords_with_roles(tmp_path: Path) -> None:
    found = passwords(tmp_path, "# name: password, roles\nadmin: secret, admin , user\nvera=v\n")
    assert found == {"admin": ("secret", frozenset({"admin", "user"})), "vera": ("v", frozenset())}


def test_obfuscated_passwords_are_those_of_jetty_s_documentation(tmp_path: Path) -> None:
    found = passwords(
        tmp_path, "a: OBF:1vny1zlo1x8e1vnw1vn61x8g1zlu1vn4, admin\nb: OBF:1u2u1wml1z7s1z7a1wnl1u2g, user\n"
    )
    assert {name: password for name, (password, _) in found.items()} == {"a": "storepwd", "b": "keypwd"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: CRYPT:adpexzg3FUZAk, admin", "user 'a': CRYPT: passwords are too weak"),
        ("a: OBF:!!!!, admin", "the password behind OBF: is not obfuscated"),
        ("a: , admin", "user 'a' has no password"),
        ("\n".join(f"u{n}: p{n}, user" for n in range(1_001)), "more than 1000 users"),
    ],
)
def test_a_realm_with_an_error_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        passwords(tmp_path, text)
    assert "\n" not in str(caught.value)
