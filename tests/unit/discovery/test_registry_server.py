"""The registry of the http agent, without sockets but for one test of limits."""

from __future__ import annotations

import asyncio

import pytest

from spanwire.discovery.agents.http_registry import lookup, request
from spanwire.discovery.agents.registry_server import (
    FORGET_SECONDS,
    MAX_AGE,
    MAX_CLIENTS,
    MAX_GROUPS,
    MAX_SERVICES,
    Registry,
    RegistryServer,
)
from spanwire.discovery.groups.agent_settings import HttpRegistrySettings, parse_agent
from spanwire.discovery.groups.sightings import MAX_SIGHTINGS
from spanwire.model.errors import ConfigurationError, JmsError
from tests.support.ports import free_port

GROUP = "/discovery-registry/default"
URI = "tcp://a:61616"


def test_a_registered_service_is_listed_while_it_is_fresh() -> None:
    registry = Registry()
    assert registry.respond("PUT", GROUP, URI, 0.0) == (200, "")
    assert registry.respond("PUT", GROUP, "tcp://b:1", 20.0) == (200, "")
    assert registry.respond("GET", GROUP, "", 25.0) == (200, f"{URI}\ntcp://b:1\n")
    assert registry.respond("GET", GROUP, "", 31.0) == (200, "tcp://b:1\n")
    assert registry.respond("GET", f"{GROUP}?freshness=60000", "", 31.0) == (200, f"{URI}\ntcp://b:1\n")
    assert registry.respond("GET", "/other", "", 25.0) == (200, "")


def test_a_removed_service_is_not_listed() -> None:
    registry = Registry()
    registry.respond("PUT", GROUP, URI, 0.0)
    assert registry.respond("DELETE", GROUP, URI, 1.0) == (200, "")
    assert registry.respond("DELETE", "/other", URI, 1.0) == (200, "")
    assert registry.respond("GET", GROUP, "", 1.0) == (200, "")


@pytest.mark.parametrize(
    ("method", "target", "service", "status"),
    [
        ("POST", GROUP, URI, 405),
        ("PUT", GROUP, "", 400),
        ("PUT", GROUP, "x" * 2000, 400),
        ("PUT", GROUP, "tcp://a:1\ntcp://evil:1", 400),
        ("PUT", "/" + "x" * 300, URI, 400),
        ("GET", f"{GROUP}?freshness=-1", "", 400),
        ("GET", f"{GROUP}?freshness=99999999999999", "", 400),
    ],
)
def test_bad_requests_are_refused_in_one_line(method: str, target: str, service: str, status: int) -> None:
    answer = Registry().respond(method, target, service, 0.0)
    assert answer[0] == status
    assert answer[1] and "\n" not in answer[1]


def test_a_registry_has_limits() -> None:
    registry = Registry()
    for number in range(MAX_GROUPS):
        assert registry.respond("PUT", f"/{number}", URI, 0.0)[0] == 200
    assert registry.respond("PUT", "/one-more", URI, 1.0)[0] == 503
    for number in range(MAX_SIGHTINGS - 1):
        assert registry.respond("PUT", "/0", f"tcp://h:{number}", 1.0)[0] == 200
    assert registry.respond("PUT", "/0", "tcp://h:one-more", 1.0)[0] == 503
    assert registry.respond("PUT", "/one-more", URI, MAX_AGE + 0.5)[0] == 200

    async def crowd() -> None:
        server, port = RegistryServer(), free_port()
        await server.start("127.0.0.1", port)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CLIENTS)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        for _, one in [*silent, (reader, writer)]:
            one.close()
        server.stop()

    asyncio.run(crowd())


def test_a_malformed_header_is_refused_without_a_word_of_it() -> None:
    async def answer() -> bytes:
        reader = asyncio.StreamReader()
        reader.feed_data(b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization : Basic c2VjcmV0\r\n\r\n")
        return await RegistryServer()._answer(reader)

    head, _, body = asyncio.run(answer()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert body == b"the request is no HTTP, or its head is too long"


def test_all_groups_together_have_a_limit() -> None:
    registry = Registry()
    for number in range(MAX_SERVICES):
        assert registry.respond("PUT", f"/{number % 20}", f"tcp://h:{number}", 1.0)[0] == 200
    assert registry.respond("PUT", "/0", "tcp://h:one-more", 1.0)[0] == 503
    assert registry.respond("PUT", "/new", URI, 1.0)[0] == 503
    assert registry.respond("PUT", "/0", "tcp://h:0", 1.0)[0] == 200


def test_old_services_are_searched_for_once_a_second() -> None:
    registry = Registry()
    query = f"{GROUP}?freshness=9999999999"
    registry.respond("PUT", GROUP, URI, 1.0)
    registry.respond("PUT", "/other", URI, MAX_AGE + 0.9)
    registry.respond("PUT", "/other", URI, MAX_AGE + 1.1)
    assert registry.respond("GET", query, "", MAX_AGE + 1.1) == (200, f"{URI}\n")
    registry.respond("PUT", "/other", URI, MAX_AGE + 1.0 + FORGET_SECONDS)
    assert registry.respond("GET", query, "", MAX_AGE + 1.0 + FORGET_SECONDS) == (200, "")


@pytest.mark.parametrize("end", [b"\r\n", b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n"])
def test_a_head_request_is_refused_without_a_body(end: bytes) -> None:
    async def scenario() -> bytes:
        server, port = RegistryServer(), free_port()
        await server.start("127.0.0.1", port)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HEAD / HTTP/1.1\r\nHost: h\r\n" + end)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        server.stop()
        return answer

    answer = asyncio.run(scenario())
    assert answer.startswith(b"HTTP/1.1 40")
    assert answer.endswith(b"\r\n\r\n")


def test_a_host_that_is_no_name_is_told_in_one_line() -> None:
    with pytest.raises(JmsError, match=r"the registry http://a..b does not answer: .*label"):
        lookup(HttpRegistrySettings("http://a..b", "a..b", 80))


def test_an_agent_registers_and_asks_over_a_socket() -> None:
    async def scenario() -> list[str]:
        server, port = RegistryServer(), free_port()
        await server.start("127.0.0.1", port)
        settings = HttpRegistrySettings(f"http://127.0.0.1:{port}{GROUP}", "127.0.0.1", port, GROUP)
        await asyncio.to_thread(request, settings, "PUT", URI)
        found = await asyncio.to_thread(lookup, settings)
        with pytest.raises(JmsError, match="answers PUT with HTTP 400"):
            await asyncio.to_thread(request, settings, "PUT")
        server.stop()
        return found

    assert asyncio.run(scenario()) == [URI]


def test_a_registry_that_is_away_is_told_in_one_line() -> None:
    port = free_port()
    with pytest.raises(JmsError, match=r"the registry http://h does not answer"):
        lookup(HttpRegistrySettings("http://h", "127.0.0.1", port))


def test_a_registry_s_uri_is_read_with_activemq_s_options() -> None:
    text = "http://h:8080/discovery-registry/g?updateInterval=500&startEmbeddRegistry=true&initialReconnectDelay=1"
    url = "http://h:8080/discovery-registry/g"
    assert parse_agent(text) == HttpRegistrySettings(url, "h", 8080, "/discovery-registry/g", False, 500, True)
    assert parse_agent("https://h") == HttpRegistrySettings("https://h", "h", 443, "/", True)
    other = parse_agent("http://x?registryURL=http://y:1/z")
    assert isinstance(other, HttpRegistrySettings)
    assert (other.host, other.port, other.path, other.description) == ("y", 1, "/z", "the registry http://y:1/z")


@pytest.mark.parametrize(
    "uri",
    [
        "http:",
        "http://u:p@h/g",
        "http://h:99999/g",
        "http://h/g\r\nx",
        "http://h/g#f",
        "http://h/g?updateInterval=0",
        "http://h/g?updateInterval=x",
        "http://h/g?startEmbeddRegistry=maybe",
        "http://h/g?registryURL=file:///etc/passwd",
        "http://h/g?nonsense=1",
    ],
)
def test_other_uris_of_a_registry_are_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_agent(uri)
    assert "\n" not in str(caught.value)
