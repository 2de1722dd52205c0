"""Broker URLs: what of them is shown to people."""

from __future__ import annotations

import pytest

from spanwire.client.address import parse_url, redacted
from spanwire.model.errors import ConfigurationError


@pytest.mark.parametrize(
    "url",
    [
        "tcp://h:1?jms.password=s3c,r3t&x=1",
        "tcp://h:1?jms.password=s3c)r3t&x=1",
        "tcp://h:1?jms.password=a&r3t&x=1",
        "tcp://h:1?jms.password=s3c&r3t@x=1",
        "tcp://u:s3c/r3t@h:1",
        "tcp://u:s3c@r3t@h:1",
        "tcp://u:s3c?r3t@h:1",
        "tcp://u:s3c,r3t@h:1",
        "tcp://u:s3c(r3t@h:1",
        "failover:(tcp://a:1?soTimeout=s3c,tcp://b:2)?jms.password=a)r3t&x=1",
        "failover:(tcp://a:1,tcp://u:s3c@r3t@b:2)",
        "failover:(tcp://a:1,tcp://u:s3c?r3t@b:2)",
        "failover:tcp://u:s3c/r3t@a:1,tcp://b:2",
    ],
)
def test_no_part_of_a_secret_in_a_url_stands_in_its_error(url: str) -> None:
    assert "s3c" not in redacted(url)
    assert "r3t" not in redacted(url)
    with pytest.raises(ConfigurationError) as raised:
        parse_url(url)
    assert "s3c" not in str(raised.value)
    assert "r3t@" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("tcp://localhost:61616", "tcp://localhost:61616"),
        ("tcp://my host:x", "tcp://my host:x"),
        ("ssl://[::1]:61617?verifyHostName=false", "ssl://[::1]:61617?…"),
        ("tcp://u:p@h:1?a=b", "tcp://…@h:1?…"),
        ("failover:(tcp://a:1?x=1,tcp://b:2)?y=2", "failover:(tcp://a:1?…,tcp://b:2)?…"),
        ("failover:(tcp://a:1,tcp://b:2?x=1)", "failover:(tcp://a:1,tcp://b:2?…)"),
    ],
)
def test_a_url_is_recognized_in_its_error(url: str, shown: str) -> None:
    assert redacted(url) == shown
