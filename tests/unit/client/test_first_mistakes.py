"""The mistakes of a first connection: the port of another protocol, a name that nobody has, a destination as another
protocol has it, a missing await."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest

from spanwire.cli.main import main
from spanwire.client import aio
from spanwire.client.addressing.address import parse_url
from spanwire.client.addressing.consumer_options import ConsumerOptions, consumer_info
from spanwire.client.io.environment import connection_error, protocol_error, short_reason
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.errors import ConfigurationError, InvalidDestinationError, JmsError, RemoteProtocolError
from spanwire.pipeline.columns.destinations import source_destination, target_destination
from spanwire.protocols.openwire.codec.other_protocol import OtherProtocolError
from spanwire.testing import Broker
from tests.support.client_dialogue import PlayedBroker
from tests.support.client_shells import SHELLS, opened

(ADDRESS,) = parse_url("tcp://h:1").addresses


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"ERROR\nmessage:unknown\n\n\0", "tcp://h:1 is a STOMP port; OpenWire is usually at port 61616"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "tcp://h:1 is an HTTP port, such as that of a web console"),
        (b"AMQP\x00\x01\x00\x00", "tcp://h:1 is an AMQP port"),
        (b"\x20\x02\x00\x01", "tcp://h:1 is an MQTT port"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "tcp://h:1 expects TLS: write ssl:// before the host"),
        (b"\xff\xff\xff\xff", "tcp://h:1 does not speak OpenWire as it should: "),
    ],
)
def test_the_first_octets_tell_which_protocol_a_port_has(answer: bytes, told: str) -> None:
    broker = PlayedBroker()
    broker.opens()
    with pytest.raises(RemoteProtocolError) as refusal:
        broker.sends_octets(answer)
    assert str(protocol_error(ADDRESS, refusal.value)).startswith(told)


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "name one that it trusts as key store"),
        ("TLSV1_ALERT_UNKNOWN_CA", "name one that it trusts as key store"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "name one that it trusts as key store"),
        ("TLSV1_ALERT_INTERNAL_ERROR", "tlsv1 alert internal error"),
        ("WRONG_VERSION_NUMBER", "does not speak TLS: write tcp://, or the port of its ssl connector"),
    ],
)
def test_a_client_without_its_certificate_is_told_of_it(reason: str, advice: str) -> None:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    (address,) = parse_url("ssl://h:1").addresses
    assert str(connection_error(address, error)).endswith(advice)
    assert reason == "WRONG_VERSION_NUMBER" or short_reason(error).endswith(advice)


def test_a_port_that_closes_without_a_word_may_expect_tls() -> None:
    broker = PlayedBroker()
    broker.opens()
    assert str(broker.client.link_error("the broker closed it")).endswith(
        "ended: the broker closed it before it said anything; write ssl:// before the host if the port expects TLS"
    )
    broker = PlayedBroker()
    broker.lets_in()
    assert str(broker.client.link_error("the broker closed it")).endswith("ended: the broker closed it")


def test_octets_after_the_handshake_are_no_other_protocol() -> None:
    broker = PlayedBroker()
    broker.lets_in()
    with pytest.raises(RemoteProtocolError) as refusal:
        broker.sends_octets(b"HTTP/1.1 200 OK\r\n\r\n")
    assert not isinstance(refusal.value, OtherProtocolError)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_client_at_the_stomp_port_is_told_so(shell: str, spanwire_broker: Broker) -> None:
    async def scenario() -> None:
        with pytest.raises(JmsError, match=r"is a STOMP port; OpenWire is usually at port 61616$"):
            await opened(shell, spanwire_broker.stomp_url.replace("stomp://", "tcp://"))

    asyncio.run(scenario())


def test_an_unknown_host_is_told_to_be_checked() -> None:
    error = connection_error(ADDRESS, socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    assert str(error) == "no connection to tcp://h:1: Name or service not known; check the name of the host"


def test_a_connection_that_is_not_awaited_says_how_it_is_made() -> None:
    connecting = aio.connect("tcp://h:1")
    with pytest.raises(AttributeError, match=r"no session: write `async with aio\.connect"):
        connecting.session()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'Connecting' object has no attribute 'sessoin'"):
        connecting.sessoin  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("text", ["/queue/Q", "queue:/Q", "Queue://Q", "kafka://Q"])
def test_a_destination_of_another_form_is_refused_wherever_it_is_named(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = PlayedBroker()
    broker.lets_in()
    producer = broker.producer(broker.session(), None)
    meant = "did you mean queue://Q"
    with pytest.raises(InvalidDestinationError, match=meant):
        producer.send(Outgoing("x", destination=text), None, 0)
    with pytest.raises(InvalidDestinationError, match=meant):
        producer.send(Outgoing("x", destination="queue://A", reply_to=text), None, 0)
    with pytest.raises(InvalidDestinationError, match=meant):
        consumer_info(text, ConsumerOptions(), broker.client.settings)
    for named in (target_destination, lambda name: source_destination(name, None, None)):
        with pytest.raises(ConfigurationError, match=meant):
            named(text)
    assert main(["producer", "--destination", text, "--messageCount", "1"]) != 0
    assert meant in capsys.readouterr().err


@pytest.mark.parametrize("shell", SHELLS)
def test_a_session_makes_no_producer_for_a_destination_of_another_form(shell: str, spanwire_broker: Broker) -> None:
    async def scenario() -> None:
        async with opened(shell, spanwire_broker.url) as connection, connection.session() as session:
            with pytest.raises(InvalidDestinationError, match="did you mean queue://Q"):
                await session.create_producer("/queue/Q")
            with pytest.raises(InvalidDestinationError, match="did you mean topic://T"):
                await session.create_durable_subscriber("/topic/T", "mine")

    asyncio.run(scenario())
    assert spanwire_broker.destinations() == []
