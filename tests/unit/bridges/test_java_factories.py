"""Connection factories of JMS providers in Java: how files name them, and where their jars come from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.files.definition_json import definition_of, plain_definition
from spanwire.bridges.jars import MAX_JARS, jar_obstacles, with_jars
from spanwire.bridges.model.definition import BridgeDefinition
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.bridges.model.route_definition import Definition
from spanwire.bridges.providers.jvm.frames import (
    MAX_BLOBS,
    UnwritableError,
    check_lengths,
    decode_frame,
    encode_frame,
    read_messages,
    write_messages,
)
from spanwire.bridges.providers.jvm.inside.java import OPTIONS
from spanwire.bridges.providers.jvm.inside.jms_messages import encoded_properties
from spanwire.bridges.providers.jvm.provider import JvmProvider
from spanwire.model.errors import ConfigurationError, JmsError, MessageFormatError
from spanwire.model.secret import Secret
from spanwire.routes.readers.placeholders import Placeholders
from tests.conformance.bridge_providers import BrokenText, neutral_message
from tests.support.bridge_dialogue import text_messages

FILE: Final = """
[connectionFactories.mq]
provider = "jvm"
{words}
[bridges.b]
sourceConnectionFactory = "mq"
sourceDestination = "queue://A"
targetConnectionFactory = "tcp://far:2"
targetDestination = "queue://B"
"""
MADE: Final = 'factoryClass = "com.acme.Factory"\n[connectionFactories.mq.properties]\nhostName = "mq"\nport = 1414\n'
FOUND: Final = """jndiName = "cf"
jars = ["a.jar"]
[connectionFactories.mq.jndi]
"java.naming.factory.initial" = "com.acme.Contexts"
"""


def from_file(words: str) -> BridgeDefinition:
    (definition,) = read_bridges(FILE.format(words=words).encode(), "f.toml", Placeholders({}, {}))
    return definition


def java_of(definition: Definition) -> JavaFactory:
    assert isinstance(definition, BridgeDefinition)
    java = definition.source.factory.java
    assert java is not None
    return java


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(ConfigurationError) as raised:
        act()
    return str(raised.value)


def directory(path: Path, *names: str) -> Path:
    path.chmod(0o755)
    for name in names:
        (path / name).write_bytes(b"PK")
    return path


def test_a_factory_is_a_class_with_properties_or_a_name_of_jndi() -> None:
    made, found = from_file(MADE), from_file(FOUND)
    assert made.source.factory.url == "jvm:com.acme.Factory"
    assert java_of(made) == JavaFactory(
        "com.acme.Factory", (("hostName", Secret("mq")), ("port", Secret("1414"))), jars=()
    )
    assert found.source.factory.url == "jvm:cf"
    assert java_of(found).environment == (("java.naming.factory.initial", Secret("com.acme.Contexts")),)
    for definition in (made, found):
        assert definition_of(plain_definition(definition)) == definition


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("", "f.toml:2: the connection factory mq needs factoryClass, or jndiName and jndi"),
        ('url = "tcp://x:1"\n', "f.toml:4: the provider jvm has no url"),
        ('factoryClass = "a.B"\njars = 3\n[connectionFactories.mq.jndi]\nx = "y"', "factoryClass and jndi exclude"),
        (FOUND.replace("com.acme.Contexts", "com.sun.jndi.rmi.registry.RegistryContextFactory"), "rmi: brings Java"),
        (FOUND.replace('"cf"', '"rmi://evil/x"'), "f.toml:4: the name rmi://evil/x is refused"),
        (FOUND.replace("initial", "first"), "the JNDI environment has no java.naming.factory.initial"),
        ('factoryClass = "a.B"\njars = []\n', "f.toml:5: jars must be a list of file names"),
        ('factoryClass = "a.B"\njars = ["/any/x.jar"]\n', "f.toml:5: '/any/x.jar' is no file name of the directory"),
        ('factoryClass = "a.B"\njars = "../x.jar"\n', "f.toml:5: '../x.jar' is no file name of the directory"),
    ],
)
def test_a_factory_that_cannot_be_made_is_refused_with_its_line(words: str, fault: str) -> None:
    assert fault in refusal(lambda: from_file(words))


def test_words_of_java_are_for_the_provider_jvm_alone() -> None:
    text = FILE.format(words=MADE).replace('provider = "jvm"', 'url = "tcp://x:1"')
    fault = refusal(lambda: read_bridges(text.encode(), "f.toml", Placeholders({}, {})))
    assert 'f.toml:4: factoryClass is for provider = "jvm"' in fault


def test_without_a_list_all_jars_of_the_directory_count(tmp_path: Path) -> None:
    place = directory(tmp_path, "b.jar", "a.jar", "notes.txt")
    (found,) = with_jars([from_file(MADE)], place)
    assert java_of(found).jars == (str(place / "a.jar"), str(place / "b.jar"))
    (named,) = with_jars([from_file(FOUND)], place)
    assert java_of(named).jars == (str(place / "a.jar"),)


def test_jars_outside_of_the_directory_or_of_other_users_are_refused(tmp_path: Path) -> None:
    definition = from_file(MADE)
    assert refusal(lambda: with_jars([definition], None)).startswith(
        "f.toml:9: bridge b: the provider jvm needs --jars DIRECTORY"
    )
    place = directory(tmp_path)
    assert f"has 0 jars; it must have 1 to {MAX_JARS}" in refusal(lambda: with_jars([definition], place))
    directory(place, "a.jar")
    for name, words in (
        ("../a.jar", "is no jar of the directory"),
        (str(place / "a.jar"), "is no jar of the directory"),
        ("a.zip", "is no jar of the directory"),
        ("c.jar", "c.jar: No such file or directory"),
    ):
        factory = replace(definition.source.factory, java=replace(java_of(definition), jars=(name,)))
        other = replace(definition, source=replace(definition.source, factory=factory))
        assert words in refusal(lambda other=other: with_jars([other], place))  # type: ignore[misc]
    (place / "a.jar").chmod(0o666)
    assert "can be written by other users: chmod go-w" in refusal(lambda: with_jars([definition], place))
    (place / "a.jar").unlink()
    (place / "a.jar").symlink_to("/usr/share/java/slf4j-api.jar")
    assert "is no file of this directory" in refusal(lambda: with_jars([definition], place))
    assert jar_obstacles([definition], tmp_path / "no")[0].endswith("no: No such file or directory")


def test_jars_of_a_directory_that_others_can_write_start_no_java(tmp_path: Path) -> None:
    (found,) = with_jars([from_file(MADE)], directory(tmp_path, "a.jar"))
    assert isinstance(found, BridgeDefinition)
    tmp_path.chmod(0o777)

    async def scenario() -> None:
        await JvmProvider().open_source(found.source, 1)

    assert "the directory of jars" in refusal(lambda: asyncio.run(scenario()))


class Value:
    """A value of Java."""

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def getClass(self) -> Value:  # noqa: N802 - of Java
        return self

    def getName(self) -> str:  # noqa: N802
        return self.name


class JavaMessage:
    """A message of JMS with a property that JMS does not have."""

    def getPropertyNames(self) -> JavaMessage:  # noqa: N802
        self.names = ["good", "odd"]
        return self

    def hasMoreElements(self) -> bool:  # noqa: N802
        return bool(self.names)

    def nextElement(self) -> str:  # noqa: N802
        return self.names.pop()

    def getObjectProperty(self, name: str) -> object:  # noqa: N802
        return Value("java.util.HashMap") if name == "odd" else "text"


def test_a_property_that_jms_does_not_have_makes_a_dead_letter_and_no_endless_redelivery() -> None:
    _, _, _, fault = encoded_properties(JavaMessage())
    assert fault == "the property odd: a value of the Java class java.util.HashMap is no value of a JMS message"
    headers, blobs = write_messages(text_messages(1))
    (found,) = read_messages([{**headers[0], "property_fault": fault}], blobs)
    with pytest.raises(MessageFormatError, match="the property odd"):
        found.property_values()


def test_an_entry_of_a_directory_brings_no_java_objects() -> None:
    assert "-Dcom.sun.jndi.ldap.object.trustSerialData=false" in OPTIONS


def test_a_frame_reads_as_it_was_written() -> None:
    messages = [neutral_message("é"), *text_messages(2)]
    headers, blobs = write_messages(messages)
    frame = encode_frame({"messages": headers}, blobs)
    length = int.from_bytes(frame[:4], "big")
    header, read_blobs = decode_frame(frame[8 : 8 + length], frame[8 + length :])
    found = read_messages(header["messages"], read_blobs)
    assert [one.content.neutral_body() for one in found] == ["é".encode(), b"text 0", b"text 1"]
    assert found[0].property_values() == messages[0].property_values()
    for name in ("reply_to", "group_id", "group_sequence", "priority", "correlation_id", "persistent"):
        assert getattr(found[0], name) == getattr(messages[0], name)


def test_a_message_without_a_neutral_form_is_named() -> None:
    class Broken(BrokenText):
        def neutral_body(self) -> bytes | None:
            raise UnwritableError(0, "no body")

    broken = text_messages(2)
    odd = type(broken[1])("ID:x", 1, Broken(), 1)
    with pytest.raises(UnwritableError) as raised:
        write_messages([broken[0], odd])
    assert raised.value.index == 1


def test_a_frame_has_a_largest_size() -> None:
    with pytest.raises(JmsError, match="more than 512 MiB"):
        check_lengths(1, MAX_BLOBS + 1)
