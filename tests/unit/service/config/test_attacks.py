"""Configurations that attack their reader: entities, secrets that must not leak, and any garbage. What the XML itself
may be is tested in ``documents/test_xml.py``.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.documents.element import MAX_DOCUMENT_BYTES
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.interpretation.addresses.uri import parse_uri, redacted
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.readers.properties import read_properties
from spanwire.service.config.reading import read_configuration

SAMPLES = sorted((Path(__file__).parents[3] / "vectors" / "configurations").glob("*.xml"))
CANARY = "c4n4ry-pa55word"


def refusal(content: bytes, path: Path = Path("activemq.xml")) -> str:
    with pytest.raises(ConfigurationError) as raised:
        read_configuration(content, path, {}, {})
    return str(raised.value)


def test_s27_external_entities_are_refused_unread(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(CANARY, "utf-8")
    text = f'<!DOCTYPE broker [<!ENTITY x SYSTEM "file://{secret}">]><broker brokerName="&x;"/>'
    assert "DOCTYPE is refused" in refusal(text.encode())
    assert CANARY not in refusal(text.encode())


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    with path.open("wb") as file:
        file.truncate(100 * MAX_DOCUMENT_BYTES)
    with pytest.raises(ConfigurationError, match="is larger than"):
        load_configuration(str(path), environment={})


def test_s27_class_names_choose_nothing() -> None:
    text = (
        "<beans><bean class='org.springframework.context.support.ClassPathXmlApplicationContext'>"
        "<constructor-arg value='http://192.0.2.1/x.xml'/></bean><broker/></beans>"
    )
    assert "Spanwire runs no Java classes" in refusal(text.encode())


def test_a_location_on_another_machine_is_not_fetched() -> None:
    text = (
        "<beans><bean class='org.springframework.beans.factory.config.PropertyPlaceholderConfigurer'>"
        "<property name='location' value='http://192.0.2.1/x.properties'/></bean><broker/></beans>"
    )
    assert "must be a file: location" in refusal(text.encode())


def test_s25_a_password_in_a_configuration_is_never_repeated(caplog: pytest.LogCaptureFixture) -> None:
    texts = [
        f'<broker userPassword="{CANARY}"/>',
        f'<broker><plugins><simpleAuthenticationPlugin><users><authenticationUser password="{CANARY}"/></users>'
        "</simpleAuthenticationPlugin></plugins></broker>",
        f'<broker><transportConnectors><transportConnector uri="tcp://u:{CANARY}@h:1"/></transportConnectors></broker>',
        f'<broker><transportConnectors><transportConnector uri="ssl://h:1?keyPassword={CANARY}"/></transportConnectors></broker>',
        f'<broker><transportConnectors><transportConnector uri="tcp://h:1?keyPassword={CANARY}"/></transportConnectors></broker>',
        f'<broker><networkConnectors><networkConnector password="{CANARY}"/></networkConnectors></broker>',
    ]
    with caplog.at_level(logging.DEBUG):
        for text in texts:
            assert CANARY not in refusal(text.encode())
    assert CANARY not in caplog.text


def test_secrets_given_as_placeholders_stay_out_of_errors_and_reprs() -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_configuration(b'<broker dataDirectory="/x" foo="${p}"/>', Path("a.xml"), {"p": CANARY}, {})
    assert CANARY not in str(raised.value)
    uri = parse_uri(f"tcp://h:1?password={CANARY}", lambda reason: None)
    assert CANARY not in repr(uri)
    assert CANARY not in redacted(f"tcp://user:{CANARY}@h:1?password={CANARY}")


@given(st.binary(max_size=300))
def test_any_bytes_are_a_configuration_or_an_error(content: bytes) -> None:
    for name in ("a.xml", "a.toml"):
        try:
            read_configuration(content, Path(name), {}, {})
        except ConfigurationError as error:
            for line in str(error).splitlines():
                assert line.startswith(name)


@given(st.data())
def test_any_mutation_of_a_sample_is_a_configuration_or_an_error(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(SAMPLES)).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = min(len(content), start + data.draw(st.integers(0, 40)))
        other = data.draw(st.one_of(st.binary(max_size=8), st.just(bytes(content[: 3 * (end - start)]))))
        content[start:end] = other
    try:
        read_configuration(bytes(content), Path("mutated.xml"), {}, {})
    except ConfigurationError as error:
        for line in str(error).splitlines():
            assert line.startswith("mutated.xml")


WORDS = st.sampled_from(
    (
        "broker beans bean queue topic destinations transportConnectors transportConnector policyEntry policyEntries "
        "policyMap destinationPolicy systemUsage memoryUsage kahaDB persistenceAdapter x"
    ).split()
)
NAMES = st.sampled_from(
    (
        "name uri brokerName physicalName queue limit percentOfJvmHeap persistent memoryLimit class directory "
        "dataDirectory queuePrefetch deadLetterQueue brokerId"
    ).split()
)
VALUES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20),
    st.sampled_from(
        [
            "true",
            "false",
            "1",
            "-1",
            "99999999999999999999",
            "٣",
            "1e9",
            "${a}",
            "${",
            "tcp://h:1",
            "stomp://h:0",
            ">",
            "a,b",
        ]
    ),
)


def element(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda name, settings, inside: (
            f"<{name} "
            + " ".join(
                f'{key}="{value.replace("&", "&amp;").replace("<", "&lt;").replace(chr(34), "&quot;")}"'
                for key, value in settings.items()
            )
            + f">{''.join(inside)}</{name}>"
        ),
        WORDS,
        st.dictionaries(NAMES, VALUES, max_size=3),
        st.lists(children, max_size=3),
    )


@given(st.recursive(st.just(""), element, max_leaves=12))
def test_any_arrangement_of_known_words_is_a_configuration_or_an_error(inside: str) -> None:
    try:
        read_configuration(f"<broker>{inside}</broker>".encode(), Path("arranged.xml"), {"a": "b"}, {})
    except ConfigurationError as error:
        for line in str(error).splitlines():
            assert line.startswith("arranged.xml:")


@given(st.text(max_size=200))
def test_any_text_is_a_properties_file(text: str) -> None:
    found = read_properties(text)
    assert all(isinstance(value, str) for value in found.values())


@given(st.text(max_size=100))
def test_any_text_is_a_transport_uri_or_one_reason_why_not(text: str) -> None:
    reasons: list[str] = []
    uri = parse_uri(text, reasons.append)
    assert (uri is None) == (len(reasons) == 1)
