"""What ``jms.`` options of a URL change, as a dialogue."""

from __future__ import annotations

import pytest

from spanwire.client.addressing.address import parse_url
from spanwire.client.addressing.consumer_options import ConsumerOptions, consumer_info
from spanwire.client.addressing.options import JMS, WITHOUT_EFFECT
from spanwire.client.messages.message import Message
from spanwire.client.messages.typed_values import Serialized
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.client.protocol.error_mapping import refusal
from spanwire.client.protocol.removed_temporaries import ACKNOWLEDGED_AT, MAX_DELETED
from spanwire.model.destination import TEMP_QUEUE, Destination
from spanwire.model.errors import (
    ConfigurationError,
    InvalidDestinationError,
    InvalidSelectorError,
    MessageFormatError,
)
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.loose import LooseWriter
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.messages.identities import wire_destination
from spanwire.protocols.openwire.messages.message_layout import MessageScanner
from tests.support.client_dialogue import START_MS, URL, PlayedBroker, text_message

TEN = ConsumerOptions(prefetch=10)
DELAY = "jms.redeliveryPolicy.initialRedeliveryDelay=1000&jms.redeliveryPolicy.redeliveryDelay=1000"


def played(options: str) -> PlayedBroker:
    broker = PlayedBroker(f"{URL}?{options}")
    broker.lets_in()
    return broker


def sent_as(broker: PlayedBroker, body: object) -> Message:
    """What a receiver would see of a body that the client sends."""
    broker.send(broker.producer(broker.session()), body, wait=False)
    (command,) = broker.receives()
    assert isinstance(command, wire.Message)
    writer = LooseWriter(12, False)
    writer.out.append(command.type_id())
    command.write(writer)
    raw = writer.out.getvalue()
    scanner = MessageScanner(12)
    scanner.scan(raw)
    return Message(raw, 12, scanner, b"", 0)


BODIES = ["h\u00e9llo " * 50, "", b"\x00\xff" * 100, b"", {"a": 1, "b": ["x" * 200]}, [1, "two" * 50, b"3"]]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("compressed", ["true", "false"])
def test_a_body_is_compressed_when_the_option_says_so_and_comes_back_as_it_was(body: object, compressed: str) -> None:
    message = sent_as(played(f"jms.useCompression={compressed}"), body)
    assert message.body == body
    assert message.is_compressed() == (compressed == "true")


def test_a_message_without_a_body_is_not_compressed() -> None:
    assert not sent_as(played("jms.useCompression=true"), None).is_compressed()


def test_a_compressed_message_is_smaller() -> None:
    small, large = sent_as(played("jms.useCompression=true"), "x" * 10_000), sent_as(played(""), "x" * 10_000)
    assert len(small.raw) < len(large.raw) / 10


def test_a_serialization_stream_is_an_object_message() -> None:
    message = sent_as(played(""), Serialized(b"\xac\xed\x00\x05p"))
    assert (message.kind, message.body) == ("object", b"\xac\xed\x00\x05p")


def test_maps_inside_of_maps_can_be_forbidden() -> None:
    broker = played("jms.nestedMapAndListEnabled=false")
    assert sent_as(broker, {"a": 1}).body == {"a": 1}
    with pytest.raises(MessageFormatError, match="nestedMapAndListEnabled"):
        sent_as(broker, {"a": {"b": 1}})


def test_messages_have_no_timestamp_when_nobody_wants_it() -> None:
    assert sent_as(played(""), "x").timestamp == START_MS
    assert sent_as(played("jms.disableTimeStampsByDefault=true"), "x").timestamp == 0


def test_made_up_ids_begin_as_they_shall() -> None:
    broker = PlayedBroker(f"{URL}?jms.connectionIDPrefix=C-&jms.clientIDPrefix=shop-")
    assert broker.client.connection_id.startswith("C-test-")
    assert broker.client.client_id.startswith("shop-test-")
    assert PlayedBroker(URL, client_id="me").client.client_id == "me"
    with pytest.raises(ConfigurationError, match="printable"):
        parse_url(f"{URL}?jms.clientIDPrefix=" + "x" * 101)


def taken(broker: PlayedBroker, consumer: ClientConsumer, count: int) -> None:
    broker.dispatches(consumer, *["x"] * count)
    for _ in range(count):
        broker.takes(consumer)


def test_optimized_acknowledgements_come_at_65_percent_of_the_prefetch() -> None:
    broker = played("jms.optimizeAcknowledge=true&jms.optimizeAcknowledgeTimeOut=0")
    consumer = broker.consumer(broker.session("auto"), options=TEN)
    assert consumer.info.optimized_acknowledge
    taken(broker, consumer, 6)
    assert broker.acknowledgements() == []
    taken(broker, consumer, 1)
    assert broker.acknowledgements() == [(2, 1, 7)]


def test_optimized_acknowledgements_come_after_the_timeout_and_before_a_wait_and_with_the_close() -> None:
    broker = played("jms.optimizeAcknowledge=true")
    session = broker.session("auto")
    consumer = broker.consumer(session, options=TEN)
    taken(broker, consumer, 1)
    assert broker.acknowledgements() == [(2, 1, 1)], "the first one is late"
    taken(broker, consumer, 1)
    broker.passes(0.2)
    taken(broker, consumer, 1)
    assert broker.acknowledgements() == []
    broker.passes(0.2)
    taken(broker, consumer, 1)
    assert broker.acknowledgements() == [(2, 2, 4)]
    taken(broker, consumer, 1)
    consumer.prepare_wait()
    assert broker.acknowledgements() == [(2, 5, 5)]
    taken(broker, consumer, 1)
    session.close_consumer(consumer)
    assert broker.acknowledgements() == [(2, 6, 6)]


def test_optimized_acknowledgements_come_by_the_clock_when_that_is_asked_for() -> None:
    options = "jms.optimizeAcknowledge=true&jms.optimizeAcknowledgeTimeOut=0&jms.optimizedAckScheduledAckInterval=500"
    broker = played(options)
    consumer = broker.consumer(broker.session("auto"), options=TEN)
    taken(broker, consumer, 2)
    consumer.prepare_wait()
    assert broker.acknowledgements() == []
    due = broker.client.next_timeout()
    assert due is not None
    assert due <= broker.now.monotonic + 0.5
    broker.client.handle_timeout(broker.passes(0.6))
    assert broker.acknowledgements() == [(2, 1, 2)]


def test_recover_brings_back_nothing_that_was_handed_over_in_an_optimized_session() -> None:
    broker = played("jms.optimizeAcknowledge=true&jms.optimizeAcknowledgeTimeOut=0")
    session = broker.session("auto")
    consumer = broker.consumer(session, options=TEN)
    taken(broker, consumer, 2)
    session.recover(broker.now)
    assert broker.acknowledgements() == [(2, 1, 2)]
    assert consumer.next_message(broker.now) is None


def test_what_a_listener_has_done_is_acknowledged_and_what_it_has_not_comes_again() -> None:
    broker = played("jms.redeliveryPolicy.initialRedeliveryDelay=0")
    consumer = broker.consumer(broker.session("auto"))
    consumer.is_listening = True
    broker.dispatches(consumer, "a", "b")
    broker.takes(consumer)
    assert broker.acknowledgements() == []
    consumer.on_listener_done()
    assert broker.acknowledgements() == [(2, 1, 1)]
    broker.takes(consumer)
    consumer.on_listener_failed(broker.now)
    assert broker.acknowledgements() == [(3, 2, 2)]
    again = broker.takes(consumer)
    assert (again.body, again.delivery_count) == ("b", 2)
    consumer.on_listener_done()
    consumer.on_listener_done()
    assert broker.acknowledgements() == [(2, 2, 2)]


def test_a_listener_that_fails_too_often_makes_a_dead_letter() -> None:
    broker = played("jms.redeliveryPolicy.initialRedeliveryDelay=0&jms.redeliveryPolicy.maximumRedeliveries=0")
    consumer = broker.consumer(broker.session("auto"))
    consumer.is_listening = True
    broker.dispatches(consumer, "a")
    broker.takes(consumer)
    consumer.on_listener_failed(broker.now)
    assert broker.acknowledgements() == [(1, 1, 1)]
    assert consumer.next_message(broker.now) is None


@pytest.mark.parametrize(("mode", "comes_again"), [("dups_ok", True), ("individual", True), ("client", False)])
def test_a_failed_listener_gets_again_what_nobody_else_decides_about(mode: str, comes_again: bool) -> None:
    broker = played("jms.redeliveryPolicy.initialRedeliveryDelay=0")
    consumer = broker.consumer(broker.session(mode))
    consumer.is_listening = True
    broker.dispatches(consumer, "a")
    broker.takes(consumer)
    consumer.on_listener_failed(broker.now)
    assert (consumer.next_message(broker.now) is not None) == comes_again


def test_rolled_back_messages_hold_up_those_behind_them_unless_told_otherwise() -> None:
    for options, waits in ((DELAY, True), (f"{DELAY}&jms.nonBlockingRedelivery=true", False)):
        broker = played(options)
        session = broker.session("client")
        consumer = broker.consumer(session)
        broker.dispatches(consumer, "a", "b")
        broker.takes(consumer)
        session.recover(broker.now)
        if waits:
            assert consumer.next_message(broker.now) is None
        else:
            assert broker.takes(consumer).body == "b"
        assert consumer.resume_at == pytest.approx(broker.now.monotonic + 1.0)
        broker.passes(1.1)
        again = broker.takes(consumer)
        assert (again.body, again.delivery_count) == ("a", 2)


def test_without_blocking_each_rollback_has_its_own_time() -> None:
    broker = played(f"{DELAY}&jms.nonBlockingRedelivery=true")
    session = broker.session("client")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a", "b")
    broker.takes(consumer)
    session.recover(broker.now)
    broker.passes(0.5)
    broker.takes(consumer)
    session.recover(broker.now)
    broker.passes(0.6)
    assert broker.takes(consumer).body == "a"
    assert consumer.next_message(broker.now) is None
    broker.passes(0.5)
    assert broker.takes(consumer).body == "b"


def test_a_pulling_consumer_asks_for_nothing_while_it_holds_something_back() -> None:
    broker = played(DELAY)
    session = broker.session("client")
    consumer = broker.consumer(session, options=ConsumerOptions(prefetch=0))
    consumer.pull(0)
    broker.receives()
    broker.dispatches(consumer, "a")
    broker.takes(consumer)
    session.recover(broker.now)
    broker.receives()
    consumer.pull(0)
    assert broker.receives() == []


def test_a_priority_goes_first_among_those_that_wait_here() -> None:
    broker = played("jms.messagePrioritySupported=true&" + DELAY.replace("1000", "0"))
    session = broker.session("client")
    consumer = broker.consumer(session)
    for number, priority in enumerate((4, 9, 4, 0, 9)):
        message = text_message(str(number), number + 1)
        message.priority = priority
        broker.sends(
            wire.MessageDispatch(
                consumer_id=consumer.info.consumer_id, destination=consumer.info.destination, message=message
            )
        )
    assert broker.takes(consumer).body == "1"
    session.recover(broker.now)
    assert [broker.takes(consumer).body for _ in range(5)] == ["1", "4", "0", "2", "3"]


def test_collisions_are_avoided_within_the_percentage() -> None:
    settings = parse_url(
        f"{URL}?{DELAY}&jms.redeliveryPolicy.useCollisionAvoidance=true"
        "&jms.redeliveryPolicy.collisionAvoidancePercent=10"
    ).settings
    delays = {settings.redelivery.delay_ms(1, dice) for dice in (-1.0, 0.0, 1.0)}
    assert delays == {900, 1000, 1100}


def test_too_many_redeliveries_elsewhere_count_unless_told_otherwise() -> None:
    for check, refused in (("true", True), ("false", False)):
        broker = played(f"jms.redeliveryPolicy.preDispatchCheck={check}")
        consumer = broker.consumer(broker.session("transacted"))
        broker.dispatches(consumer, "a", redelivered=7)
        assert (consumer.next_message(broker.now) is None) == refused


def test_held_bytes_are_those_of_messages_that_nobody_has_taken() -> None:
    broker = played(DELAY)
    session = broker.session("client")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a", "b")
    held = broker.client.correlator.buffered_bytes
    assert held > 0
    broker.takes(consumer)
    assert broker.client.correlator.buffered_bytes == held // 2
    session.recover(broker.now)
    broker.passes(2.0)
    broker.takes(consumer)
    broker.takes(consumer)
    assert broker.client.correlator.buffered_bytes == 0
    broker.dispatches(consumer, "c")
    session.close()
    assert broker.client.correlator.buffered_bytes == 0


def advisory(broker: PlayedBroker, watch: wire.ConsumerInfo, operation: int, name: str, sequence: int) -> None:
    message = text_message("x", sequence)
    message.data_structure = wire.DestinationInfo(
        destination=wire_destination(Destination(TEMP_QUEUE, name)), operation_type=operation
    )
    broker.sends(wire.MessageDispatch(consumer_id=watch.consumer_id, destination=watch.destination, message=message))


def test_nothing_is_sent_to_a_temporary_destination_that_is_known_to_be_gone() -> None:
    broker = PlayedBroker(f"failover:({URL})?jms.watchTopicAdvisories=true&initialReconnectDelay=0")
    (watch,) = broker.lets_in()
    assert isinstance(watch, wire.ConsumerInfo)
    assert watch.consumer_id is not None
    assert watch.consumer_id.session_id == -1
    session = broker.session()
    bound, free = broker.producer(session, "temp-queue://ID:x:1"), broker.producer(session, None)
    broker.send(bound, "a")
    advisory(broker, watch, 1, "ID:x:1", 1)
    with pytest.raises(InvalidDestinationError, match="has been deleted"):
        broker.send(bound, "b")
    with pytest.raises(InvalidDestinationError, match="has been deleted"):
        broker.send_with(free, None, body="b", destination="temp-queue://ID:x:1")
    broker.send_with(free, False, body="c", destination="temp-queue://ID:x:2")
    advisory(broker, watch, 0, "ID:x:1", 2)
    broker.send(bound, "d")
    advisory(broker, watch, 1, "ID:x:1", 3)
    broker.goes()
    assert any(isinstance(command, wire.ConsumerInfo) for command in broker.lets_in())
    broker.send(bound, "e", wait=False)


def test_advisories_are_acknowledged_and_limited() -> None:
    broker = PlayedBroker(f"{URL}?jms.watchTopicAdvisories=true")
    (watch,) = broker.lets_in()
    assert isinstance(watch, wire.ConsumerInfo)
    for number in range(ACKNOWLEDGED_AT):
        advisory(broker, watch, 1, f"ID:x:{number}", number + 1)
    assert broker.acknowledgements() == [(2, 1, ACKNOWLEDGED_AT)]
    broker.client.correlator.deleted.update(dict.fromkeys(map(str, range(MAX_DELETED))))
    advisory(broker, watch, 1, "ID:y:1", 1)
    assert "temp-queue://ID:y:1" in broker.client.correlator.deleted
    assert "temp-queue://ID:x:0" not in broker.client.correlator.deleted


def test_prefetch_and_pending_limits_come_from_the_policy() -> None:
    url = (
        f"{URL}?jms.prefetchPolicy.maximumPendingMessageLimit=7&jms.prefetchPolicy.optimizeDurableTopicPrefetch=77"
        "&jms.optimizeAcknowledge=true"
    )
    settings = parse_url(url, client_id="me").settings
    info = consumer_info("topic://T", ConsumerOptions(subscription_name="s"), settings)
    assert (info.prefetch_size, info.maximum_pending_message_limit) == (77, 7)
    info = consumer_info("topic://T?consumer.maximumPendingMessageLimit=3&consumer.selector=a=1", TEN, settings)
    assert (info.maximum_pending_message_limit, info.selector) == (3, "a=1")


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_what_only_a_java_client_has_is_understood(name: str) -> None:
    value = {"a whole number": "5", "true or false": "true", "a text": "x"}[JMS[name][0]]
    assert parse_url(f"{URL}?{name}={value}").settings == parse_url(URL).settings


@pytest.mark.parametrize("name", [name for name, (_, only) in JMS.items() if only])
def test_what_cannot_be_honoured_is_refused_by_name(name: str) -> None:
    kind, only = JMS[name]
    other = {"true": "false", "false": "true"}.get(only, "5")
    parse_url(f"{URL}?{name}={only}")
    with pytest.raises(ConfigurationError, match=f"{name} with another value than {only}") as raised:
        parse_url(f"{URL}?{name}={other}")
    assert kind and str(raised.value).isprintable()


def test_a_selector_that_artemis_refuses_is_told_as_one() -> None:
    thrown = Throwable(
        "org.apache.activemq.artemis.api.core.ActiveMQInvalidFilterExpressionException", "Invalid filter: a b"
    )
    found = refusal(thrown)
    assert isinstance(found, InvalidSelectorError)
    assert "Invalid filter: a b" in str(found)
