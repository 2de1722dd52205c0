"""The brokers of `make bench`: addresses, names, versions and configurations."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tests.bench.brokers.artemis import with_acceptors
from tests.bench.brokers.given import Address, given, parse_address
from tests.bench.brokers.present import NAMES, find_brokers, parse_names
from tests.bench.brokers.process import jar_version


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("stomp://broker.example:61613", Address("stomp", "broker.example", 61613)),
        ("openwire://10.0.0.1:61616/", Address("openwire", "10.0.0.1", 61616)),
        ("tcp://localhost:61616", Address("openwire", "localhost", 61616)),
        ("stomp://[::1]:61613", Address("stomp", "::1", 61613)),
    ],
)
def test_an_address_has_protocol_host_and_port(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("localhost:61616", "is no address"),
        ("amqp://localhost:5672", "is no address"),
        ("stomp://localhost:61613/queue", "is no address"),
        ("stomp://localhost", "has no port: write stomp://localhost:PORT"),
        ("stomp://me:secret@localhost:61613", "BENCH_PASSWORD"),
    ],
)
def test_another_text_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_address(text)


def test_a_refused_address_does_not_show_the_password() -> None:
    with pytest.raises(SystemExit) as refused:
        given(["stomp://me:secret@localhost:61613"], "", None)

    assert "secret" not in str(refused.value)


def test_a_given_broker_has_a_port_for_each_protocol_and_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_PASSWORD", "secret")
    broker = given(["tcp://localhost:61616", "stomp://localhost:61613"], "me", None)

    assert broker.ports == {"openwire": 61616, "stomp": 61613, "jms": 61616}
    assert broker.login == {"LOAD_USER": "me", "LOAD_PASSWORD": "secret"}
    assert "secret" not in broker.about
    assert broker.cpu_seconds() is None


def test_addresses_of_two_hosts_are_refused() -> None:
    with pytest.raises(SystemExit, match="one host, not 2"):
        given(["tcp://one:61616", "stomp://two:61613"], "", None)


def test_names_of_brokers_are_divided_by_commas() -> None:
    assert parse_names("classic,pure") == ("classic", "pure")
    with pytest.raises(argparse.ArgumentTypeError, match=r"no broker is named kafka; there are compiled, pure"):
        parse_names("classic,kafka")


def test_each_broker_is_present_or_left_out_with_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPANWIRE_ARTEMIS_HOME", raising=False)
    (tmp_path / "python").touch()
    present, absent = find_brokers((), tmp_path / "none", tmp_path / "python")

    assert len(present) + len(absent) == len(NAMES)
    assert "pure" in [one.label for one in present]
    assert any("Artemis is left out" in sentence and "--brokers" in sentence for sentence in absent)
    assert any("The compiled build is left out" in sentence and "make compiled" in sentence for sentence in absent)


def test_only_brokers_that_are_asked_for_are_looked_for(tmp_path: Path) -> None:
    present, absent = find_brokers(("pure",), tmp_path / "none", tmp_path / "none")

    assert present == []
    assert absent == [f"The pure build is left out: there is no {tmp_path / 'none'} (make venv)."]


def test_artemis_listens_on_the_given_ports_alone() -> None:
    created = "<core>\n<acceptors>\n<acceptor>tcp://0.0.0.0:61616</acceptor>\n</acceptors>\n</core>"
    text = with_acceptors(created, 1, 2)

    assert "61616" not in text
    assert "tcp://127.0.0.1:1?protocols=OPENWIRE<" in text
    assert "tcp://127.0.0.1:2?protocols=STOMP;anycastPrefix=/queue/;multicastPrefix=/topic/<" in text
    with pytest.raises(ValueError, match="0 elements acceptors"):
        with_acceptors("<core/>", 1, 2)


def test_a_version_is_in_the_name_of_a_jar_or_a_link(tmp_path: Path) -> None:
    (tmp_path / "activemq-broker.jar").touch()
    (tmp_path / "activemq-broker-5.17.2.jar").symlink_to(tmp_path / "activemq-broker.jar")

    assert jar_version(tmp_path, "activemq-broker") == "5.17.2"
    assert jar_version(tmp_path, "activemq-client") == "a version"
