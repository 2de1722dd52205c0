"""URLs of providers beside openwire."""

from __future__ import annotations

import pytest

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.addresses import Scheme, context_of, place_of
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret

SCHEMES = {"stomp": Scheme(61613, False), "stomp+ssl": Scheme(61614, True)}


def test_a_url_has_host_port_path_and_login() -> None:
    place = place_of(ConnectionFactory("stomp://ann:a%40b@host/vhost%2Fone"), SCHEMES)
    assert (place.host, place.port, place.path) == ("host", 61613, "vhost/one")
    assert (place.user_name, place.password) == ("ann", Secret("a@b"))
    assert "a%40b" not in place.shown and "ann" not in place.shown


def test_the_login_of_the_factory_takes_the_place_of_that_of_the_url() -> None:
    place = place_of(ConnectionFactory("stomp://ann:b@host:1", "bob", Secret("c")), SCHEMES)
    assert (place.user_name, place.password) == ("bob", Secret("c"))


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("tcp://host:1", "is no URL for the provider"),
        ("stomp:host", "is no URL for the provider"),
        ("stomp://host:port", "is no URL"),
        ("stomp://host:1?a=b", "unknown option 'a'; there are none"),
        ("stomp+ssl://host:1?a=b", "unknown option 'a'; there are verifyHostName"),
        ("stomp+ssl://host:1?verifyHostName=no", "must be true or false"),
    ],
)
def test_a_wrong_url_is_refused_with_the_right_form(url: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        place_of(ConnectionFactory(url, provider="stomp"), SCHEMES)


def test_stores_need_a_url_with_tls() -> None:
    with pytest.raises(ConfigurationError, match=r"write stomp\+ssl://host:port"):
        place_of(ConnectionFactory("stomp://host:1", trust_store="ca.pem"), SCHEMES)


def test_the_name_of_the_host_is_verified_unless_the_url_says_otherwise() -> None:
    for query, verifies in (("", True), ("?verifyHostName=false", False)):
        factory = ConnectionFactory(f"stomp+ssl://host:1{query}", provider="stomp")
        context = context_of(factory, place_of(factory, SCHEMES))
        assert context is not None and context.check_hostname is verifies
    plain = ConnectionFactory("stomp://host:1", provider="stomp")
    assert context_of(plain, place_of(plain, SCHEMES)) is None
