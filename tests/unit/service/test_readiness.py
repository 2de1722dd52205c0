"""Obstacles that lie outside of a configuration's text, told together with those inside of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration
from spanwire.service.config.reference import default_reference
from spanwire.service.readiness import inspection, start_obstacles, start_warnings

SHIPPED = """<broker dataDirectory="${activemq.base}/data"><persistenceAdapter>
<kahaDB directory="${activemq.base}/data/kahadb"/></persistenceAdapter></broker>"""


def read(
    place: str, given: dict[str, str] | None = None, environment: dict[str, str] | None = None, text: str = SHIPPED
) -> BrokerConfiguration:
    return read_configuration(text.encode(), Path(place), given or {}, environment or {})


def obstacles(configuration: BrokerConfiguration, override: Path | None = None) -> list[str]:
    return asyncio.run(start_obstacles(configuration, override, {}, allow_anonymous=False))


@pytest.mark.parametrize(
    ("place", "data"),
    [
        ("/etc/activemq/activemq.xml", "/etc/activemq/data"),
        ("/etc/activemq/conf/activemq.xml", "/etc/activemq/data"),
        ("/usr/share/activemq/conf/activemq.xml", "/usr/share/activemq/data"),
        ("/usr/local/etc/activemq/activemq.xml", "/usr/local/etc/activemq/data"),
    ],
)
def test_data_never_goes_below_a_system_directory_because_the_file_lies_there(place: str, data: str) -> None:
    lines = obstacles(read(place))
    assert [line for line in lines if f"would keep its data in {data}, below /" in line]
    assert all("-D activemq.base=DIRECTORY" in line for line in lines)


@pytest.mark.parametrize("override", [None, Path("/srv/data")])
def test_a_journal_of_its_own_is_refused_below_a_system_directory_too(override: Path | None) -> None:
    lines = obstacles(read("/etc/activemq/activemq.xml"), override)
    assert [line for line in lines if "its data in /etc/activemq/data/kahadb, below /etc" in line]
    assert len(lines) == (2 if override is None else 1)


@pytest.mark.parametrize(
    ("given", "environment"),
    [({"activemq.base": "/etc/here"}, {}), ({}, {"ACTIVEMQ_BASE": "/etc/here"}), ({}, {"ACTIVEMQ_HOME": "/etc/here"})],
)
def test_an_operator_who_names_a_system_directory_gets_it_with_a_warning(
    given: dict[str, str], environment: dict[str, str]
) -> None:
    configuration = read("/etc/activemq/activemq.xml", given, environment)
    assert obstacles(configuration) == []
    told = start_warnings(configuration, None, {})
    assert [line for line in told if "keeps its data in /etc/here/data, below /etc" in line]


@pytest.mark.parametrize("place", ["/srv/mq/conf/activemq.xml", "/usr/local/var/activemq/conf/activemq.xml"])
def test_data_beside_a_file_elsewhere_needs_no_word(place: str) -> None:
    configuration = read(place)
    assert obstacles(configuration) == []
    assert start_warnings(configuration, None, {}) == []


def test_settings_of_activemqs_log_beside_the_file_are_told_to_be_unread(tmp_path: Path) -> None:
    file = tmp_path / "activemq.xml"
    file.write_text('<broker persistent="false"/>', "utf-8")
    (tmp_path / "log4j2.properties").touch()
    (line,) = start_warnings(load_configuration(str(file)), tmp_path / "data", {})
    assert line.startswith(f"{tmp_path}/log4j2.properties is not read: the log goes to standard error")


@pytest.mark.parametrize("state", ["available", "enabled"])
def test_an_instance_of_debians_package_has_its_base_below_var_lib(state: str) -> None:
    configuration = read(f"/etc/activemq/instances-{state}/main/activemq.xml")
    assert configuration.data_directory == Path("/var/lib/activemq/main/data")
    assert configuration.persistence.directory == Path("/var/lib/activemq/main/data/kahadb")
    assert obstacles(configuration) == []


def test_a_configuration_in_debians_layout_finds_what_lies_beside_it() -> None:
    text = '<broker brokerName="b" dataDirectory="${activemq.conf}"/>'
    found = read("/etc/activemq/instances-enabled/main/activemq.xml", text=text)
    assert found.data_directory == Path("/etc/activemq/instances-enabled/main")


def test_everything_that_keeps_a_broker_from_starting_is_told_in_one_run(tmp_path: Path) -> None:
    (tmp_path / "java.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    path = tmp_path / "activemq.xml"
    path.write_text(
        f"""<broker brokerName="many" persistant="true" useJmx="true">
        <sslContext><sslContext keyStore="file:{tmp_path}/java.jks"/></sslContext>
        <transportConnectors>
          <transportConnector name="open" uri="tcp://0.0.0.0:61616"/>
          <transportConnector name="secure" uri="ssl://127.0.0.1:61617"/>
          <transportConnector name="lost" uri="amqp://127.0.0.1:5672"/>
        </transportConnectors></broker>"""
    )
    with pytest.raises(ConfigurationError) as refused:
        load_configuration(str(path), environment={}, inspect=inspection(None, {}, allow_anonymous=False))
    lines = str(refused.value).splitlines()
    assert [part for part in ("'persistant'", "amqp://", "connector open would open tcp://0.0.0.0:61616", "JKS")
            if not any(part in line for line in lines)] == []  # fmt: skip


def test_a_host_that_nobody_knows_is_an_obstacle(tmp_path: Path) -> None:
    text = '<broker brokerName="b"><transportConnectors><transportConnector uri="tcp://no.such.host.invalid:1"/>\
</transportConnectors></broker>'
    assert [line for line in obstacles(read("/srv/b.xml", text=text)) if "no.such.host.invalid" in line]


@pytest.mark.parametrize("variable", ["ACTIVEMQ_BASE", "ACTIVEMQ_CONF"])
def test_without_a_file_the_one_of_activemqs_variables_is_read(tmp_path: Path, variable: str) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "activemq.xml").write_text(SHIPPED.replace("<broker ", '<broker brokerName="found" ', 1))
    place = tmp_path if variable == "ACTIVEMQ_BASE" else conf
    found = load_configuration(default_reference({variable: str(place)}), environment={})
    assert (found.broker_name, found.source) == ("found", str(conf / "activemq.xml"))


def test_a_variable_that_leads_to_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"ACTIVEMQ_BASE is set, but there is no .*/conf/activemq\.xml"):
        default_reference({"ACTIVEMQ_BASE": str(tmp_path)})
