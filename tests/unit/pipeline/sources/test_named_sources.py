"""The names of sources, and what is derived of them."""

from __future__ import annotations

import pytest

from spanwire.model.destination import parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.options import ReadOptions, read_options
from spanwire.pipeline.source.named_sources import (
    MAX_CURSOR,
    MAX_DIRECTORY,
    cursor_of,
    name_of_staging,
    source_name,
    sources_of,
    staging_of,
)


def options(**given: str) -> ReadOptions:
    return read_options({"destination": "A,B.>", "brokers": "tcp://a:1,tcp://b:2", **given})


def test_each_destination_of_a_broker_is_a_source_with_a_directory_of_its_own() -> None:
    first, second = sources_of(options(stagingDirectory="/data"), "tcp://b:2?soTimeout=1")
    assert [first.name, second.name] == ["tcp://b:2 queue://A", "tcp://b:2 queue://B.>"]
    assert first.options.staging_directory == "/data/tcp=3A=2F=2Fb=3A2=20queue=3A=2F=2FA"
    assert (str(second.options.destination), second.options.login.url) == ("queue://B.>", "tcp://b:2?soTimeout=1")
    assert (second.options.brokers, second.options.partitions) == ((), 1)


def test_a_source_has_a_cursor_of_its_own_at_its_broker() -> None:
    (source,) = sources_of(options(destination="ORDERS", cursor="nightly"), "tcp://a:1")
    assert (source.options.cursor, source.options.staging_directory) == ("nightly:ORDERS", None)
    names = {cursor_of("c", parse_destination(name)) for name in ("Ä", "Ö", "x" * MAX_CURSOR, "y z")}
    assert len(names) == 4 and all(len(name) <= MAX_CURSOR and name.isascii() and " " not in name for name in names)


@pytest.mark.parametrize("url", ["tcp://a:1", "failover:(tcp://a:1,tcp://b:2)?randomize=false"])
def test_the_name_of_a_directory_tells_the_source(url: str) -> None:
    name = source_name(url, parse_destination("A~ü.>"))
    for directory in ("/data", "s3://bucket/staging?region=eu"):
        address = staging_of(directory, name)
        encoded = address.partition("?")[0].rpartition("/")[2]
        assert name_of_staging(encoded) == name
        assert encoded.isascii() and not set(encoded) & set('%?/\\: "<>|*~')
    assert staging_of("s3://bucket/staging?region=eu", name).endswith("?region=eu")
    assert name_of_staging("_archive") is None and name_of_staging("tcp://a") is None


def test_long_names_are_cut_and_stay_different() -> None:
    names = [source_name("tcp://a:1", parse_destination("Q" * 500 + end)) for end in "xy"]
    assert names[0] != names[1]
    for name in names:
        encoded = staging_of("/d", name).removeprefix("/d/")
        assert len(encoded) <= MAX_DIRECTORY and name_of_staging(encoded) == name


def test_a_name_has_no_secret() -> None:
    name = source_name("tcp://a:1?jms.userName=me&jms.password=canary", parse_destination("Q"))
    assert name == "tcp://a:1 queue://Q"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"url": "tcp://a:1"}, "the options url and brokers both name brokers; leave url out"),
        ({"brokers": "tcp://a:1,tcp://a:1?soTimeout=5"}, "the option brokers names tcp://a:1 twice"),
        ({"brokers": "tcp://a:1,(tcp://b"}, "the option brokers: the parentheses"),
        ({"brokers": "tcp://a:1,amqp://b:5672"}, "the client speaks OpenWire"),
        ({"brokers": "multicast://default"}, r"write discovery:\(agent\)"),
        ({"clientId": "me"}, "leave the option clientId out"),
    ],
)
def test_a_faulty_list_is_refused_in_one_line(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as caught:
        options(**given)
    assert "\n" not in str(caught.value)


def test_several_queues_of_several_brokers_may_have_cursors() -> None:
    assert options(destination="A,B", cursor="c").partitions == 1
    assert [source.is_pattern for source in sources_of(options(cursor="c"), "tcp://a:1")] == [False, True]
    assert not sources_of(options(stagingDirectory="/d"), "tcp://a:1")[1].is_pattern
    assert read_options({"destination": "A", "url": "tcp://a:1"}).partitions == 2
