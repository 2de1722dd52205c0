"""A bridge finds its broker and its queue in an LDAP directory, with OpenLDAP."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from spanwire import client
from spanwire.bridges.jndi.environment import read_environment
from spanwire.bridges.model.definition import BridgeDefinition, ConnectionFactory, Source, Target
from spanwire.bridges.model.directory import Directory
from spanwire.bridges.providers.ldap.lookup import find_destination, find_factory
from spanwire.bridges.running.process import BridgeProcess
from spanwire.ldap.ldap_url import parse_ldap_url
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import JmsError
from spanwire.model.secret import Secret
from spanwire.testing import Broker
from tests.interop.conftest import SOURCES
from tests.support.directory_server import ADMIN, PASSWORD, DirectoryServer, factory_entry, reference
from tests.support.java import COMPILE_TIMEOUT_S, compile_java_once
from tests.support.peers import activemq_classpath, require

LDAP: Final = "com.sun.jndi.ldap.LdapCtxFactory"
QUEUE_CLASS: Final = "org.apache.activemq.command.ActiveMQQueue"


@pytest.fixture(autouse=True)
def _openldap() -> None:
    require("openldap")


def directory(server: DirectoryServer, **more: str) -> Directory:
    names = {"principal": "java.naming.security.principal", "credentials": "java.naming.security.credentials"}
    environment = {"java.naming.factory.initial": LDAP, "java.naming.provider.url": server.url}
    found = read_environment({**environment, **{names[name]: value for name, value in more.items()}})
    assert isinstance(found, Directory)
    return found


def entry(found: Directory, name: str) -> ConnectionFactory:
    url = str(parse_ldap_url(found.url).entry(name))
    return ConnectionFactory(url, provider="ldap", directory=replace(found, finds_destinations=True))


def error_of(found: Directory, name: str) -> str:
    with pytest.raises(JmsError) as raised:
        asyncio.run(find_factory(found, parse_ldap_url(found.url).entry(name)))
    return str(raised.value)


@pytest.mark.smoke
def test_a_bridge_connects_to_what_the_directory_names(tmp_path: Path) -> None:
    with Broker() as far, Broker() as near:
        entries = (
            factory_entry("cn=CF", far.url),
            reference("cn=IN", QUEUE_CLASS, {"physicalName": "SHOP.ORDERS"}),
        )
        with DirectoryServer(tmp_path / "ldap", *entries) as server:
            factory = entry(directory(server), "cn=CF")
            with client.connect(far.url) as connection, connection.session() as session:
                session.create_producer("queue://SHOP.ORDERS").send("found")
            definition = BridgeDefinition(
                "b",
                Source(factory, Destination(QUEUE, "cn=IN")),
                Target(ConnectionFactory(near.url), Destination(QUEUE, "OUT")),
            )
            process = BridgeProcess([definition], lambda line: None, ends_when_empty=True)
            assert asyncio.run(process.run())
            assert [str(message.body) for message in near.browse(Destination(QUEUE, "OUT"), 10)] == ["found"]


@pytest.mark.long
def test_what_is_no_reference_to_a_broker_is_an_error_with_the_entry(tmp_path: Path) -> None:
    mq = "com.ibm.mq.jms.MQQueueConnectionFactory"
    entries = (
        reference("cn=MQ", mq, {"HOST": "far"}),
        reference("cn=EVIL", "org.apache.activemq.ActiveMQConnectionFactory", {}, "javaCodebase: http://evil/"),
        "dn: cn=S,o=company\nobjectClass: javaContainer\nobjectClass: javaSerializedObject\ncn: S\n"
        "javaClassName: x.Y\njavaSerializedData:: rO0ABQ==\n",
        "dn: cn=EMPTY,o=company\nobjectClass: javaContainer\ncn: EMPTY\n",
    )
    with DirectoryServer(tmp_path / "ldap", *entries) as server:
        found = directory(server)
        assert "has no entry ldap://" in error_of(found, "cn=NO")
        assert f"is of the class {mq}" in error_of(found, "cn=MQ")
        assert "names Java classes on another machine (javaCodebase)" in error_of(found, "cn=EVIL")
        assert "is a serialized Java object" in error_of(found, "cn=S")
        assert "is no Java object" in error_of(found, "cn=EMPTY")
        assert "cannot be asked" in error_of(found, "no name") or "has no answer" in error_of(found, "no name")
        missing = parse_ldap_url(found.url).entry("cn=NO")
        assert asyncio.run(find_destination(found, missing)) is None
        server.stop()
        assert "cannot be asked" in error_of(found, "cn=MQ")


@pytest.mark.long
def test_a_directory_that_asks_for_a_login_gets_one(tmp_path: Path) -> None:
    with DirectoryServer(tmp_path / "ldap", factory_entry("cn=CF", "tcp://far:1"), readers="users") as server:
        assert "has no entry" in error_of(directory(server), "cn=CF")
        wrong = directory(server, principal=ADMIN, credentials="wrong")
        said = error_of(wrong, "cn=CF")
        assert "refuses the login cn=admin,o=company: invalidCredentials" in said
        assert "wrong" not in said
        right = directory(server, principal=ADMIN, credentials=PASSWORD)
        assert asyncio.run(find_factory(right, parse_ldap_url(right.url).entry("cn=CF"))).url == "tcp://far:1"


@pytest.mark.long
def test_what_java_has_stored_is_found(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    require("activemq-client")
    classes = compile_java_once(SOURCES, "classes", tmp_path_factory.getbasetemp())
    with DirectoryServer(tmp_path / "ldap") as server:
        subprocess.run(
            ["java", "-cp", activemq_classpath(classes), "Bind", server.url, ADMIN, PASSWORD, "tcp://far:1"],
            check=True,
            capture_output=True,
            timeout=COMPILE_TIMEOUT_S,
        )
        found = directory(server)
        factory = asyncio.run(find_factory(found, parse_ldap_url(found.url).entry("cn=Stored")))
        assert (factory.url, factory.user_name, factory.password) == ("tcp://far:1", "bridge", Secret("word"))
        queue = asyncio.run(find_destination(found, parse_ldap_url(found.url).entry("cn=StoredQueue")))
        assert queue == Destination(QUEUE, "STORED.A")
