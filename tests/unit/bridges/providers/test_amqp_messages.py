"""Messages of AMQP 1.0 as messages of a bridge, and back, by the JMS mapping."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.bridges.model.definition import ConnectionFactory, Source
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.addresses import Scheme, place_of
from spanwire.bridges.providers.amqp import sections as s
from spanwire.bridges.providers.amqp.codec import (
    ARRAY,
    BINARY,
    BOOLEAN,
    BYTE,
    CHAR,
    DECIMAL64,
    DOUBLE,
    FLOAT,
    INT,
    LIST,
    LONG,
    MAP,
    NULL,
    SHORT,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    UUID,
    Value,
    described,
    write,
)
from spanwire.bridges.providers.amqp.messages import Way, bridge_message, dead_letter, outgoing_message
from spanwire.bridges.providers.amqp.peers import Peer, address, capability, dead_letter_queue, destination_of, peer_of
from spanwire.bridges.providers.amqp.sections import Sections, field
from spanwire.bridges.providers.amqp.values import id_text, id_value, jms_value, property_value
from spanwire.model.destination import QUEUE, TEMP_QUEUE, TOPIC, Destination
from spanwire.model.errors import InvalidDestinationError, MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES,
    BYTES_VALUE,
    CHAR_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP_VALUE,
    NULL_VALUE,
    OBJECT,
    PLAIN,
    SHORT_VALUE,
    STREAM,
    STRING_VALUE,
    TEXT,
    PropertyValue,
)
from spanwire.model.message_view import MAP as MAP_KIND
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map, decode_stream, encode_map, encode_stream
from tests.support.bridge_dialogue import Content

NOW: Final = 1_700_000_000_000
ARTEMIS: Final = Peer("apache-activemq-artemis", "2.56.0")
CLASSIC: Final = Peer("ActiveMQ", "5.18.3")
RABBIT: Final = Peer("RabbitMQ", "3.10.8")
NEW_RABBIT: Final = Peer("RabbitMQ", "4.1.0")
PLACE: Final = place_of(ConnectionFactory("amqp://h", provider="amqp"), {"amqp": Scheme(5672, False)}, ("exchange",))
OTHER: Final = place_of(
    ConnectionFactory("amqp://h?exchange=a/b", provider="amqp"), {"amqp": Scheme(5672, False)}, ("exchange",)
)
ORDERS: Final = Destination(QUEUE, "ORDERS")


class Body:
    def __init__(self, octets: bytes | None, properties: dict[str, PropertyValue] | None = None) -> None:
        self._octets = octets
        self._properties = properties or {}

    def neutral_body(self) -> bytes | None:
        return self._octets

    def property_values(self) -> dict[str, PropertyValue]:
        return self._properties


def message(kind: int, body: bytes | None, properties: dict[str, PropertyValue] | None = None) -> BridgeMessage:
    return BridgeMessage("ID:1", kind, Body(body, properties), 1)


def way(peer: Peer = ARTEMIS, destination: Destination = ORDERS) -> Way:
    return Way(peer, PLACE, destination, address(peer, destination, PLACE))


def sent(one: BridgeMessage, peer: Peer = ARTEMIS) -> Sections:
    return Sections(outgoing_message(one, way(peer), NOW))


def crossed(one: BridgeMessage, peer: Peer = ARTEMIS) -> BridgeMessage:
    return bridge_message(outgoing_message(one, way(peer), NOW), NOW, peer)


def received(*parts: bytes, peer: Peer = ARTEMIS) -> BridgeMessage:
    return bridge_message(b"".join(parts), NOW, peer)


def properties(**fields: Value) -> bytes:
    numbers = {name: getattr(s, name.upper()) for name in fields}
    values = [s.ABSENT] * s.FIELDS
    for name, value in fields.items():
        values[numbers[name]] = value
    return s.list_section(s.PROPERTIES, values)


def annotated(kind: int) -> bytes:
    return s.map_section(s.ANNOTATIONS, [((SYMBOL, "x-opt-jms-msg-type"), (BYTE, kind))])


EVERYTHING: Final[dict[str, PropertyValue]] = {
    "boolean": (BOOLEAN_VALUE, True),
    "byte": (BYTE_VALUE, -1),
    "char": (CHAR_VALUE, "é"),
    "short": (SHORT_VALUE, -300),
    "int": (INT_VALUE, 70_000),
    "long": (LONG_VALUE, 2**40),
    "float": (FLOAT_VALUE, 0.5),
    "double": (DOUBLE_VALUE, 0.1),
    "string": (STRING_VALUE, "é"),
    "bytes": (BYTES_VALUE, b"\0\xff"),
    "null": (NULL_VALUE, None),
}
NESTED: Final[dict[str, PropertyValue]] = {
    "map": (MAP_VALUE, {"n": (INT_VALUE, 1)}),
    "list": (LIST_VALUE, [(STRING_VALUE, "a"), (BYTES_VALUE, b"b")]),
}


@pytest.mark.parametrize("peer", [ARTEMIS, CLASSIC, RABBIT])
def test_all_kinds_of_bodies_cross_with_their_types(peer: Peer) -> None:
    stream = encode_stream([*EVERYTHING.values(), *NESTED.values()])
    for kind, body in (
        (TEXT, "é".encode()),
        (TEXT, b""),
        (TEXT, None),
        (BYTES, b"\0\xff"),
        (BYTES, b""),
        (MAP_KIND, encode_map(EVERYTHING | NESTED)),
        (STREAM, stream),
        (OBJECT, b"\xac\xed"),
        (PLAIN, None),
    ):
        found = crossed(message(kind, body), peer)
        assert (found.kind, found.content.neutral_body()) == (kind, body)


def test_all_types_of_properties_cross_and_maps_and_lists_become_json() -> None:
    found = crossed(message(TEXT, b"", EVERYTHING | NESTED)).property_values()
    assert {name: found[name] for name in EVERYTHING} == EVERYTHING
    assert found["map"] == (STRING_VALUE, '{"n":1}')
    assert found["list"] == (STRING_VALUE, '["a","Yg=="]')


def test_headers_stand_where_the_jms_mapping_has_them() -> None:
    one = message(TEXT, b"")
    one.persistent, one.priority, one.expiration_ms, one.timestamp_ms = True, 7, NOW + 5_000, NOW - 1
    one.correlation_id, one.message_type, one.group_id, one.group_sequence = "c", "t", "g", 3
    one.reply_to = Destination(TOPIC, "REPLIES")
    found = sent(one)
    assert found.header == [(BOOLEAN, True), (UBYTE, 7), (UINT, 5_000)]
    assert found.annotations == {
        "x-opt-jms-msg-type": (BYTE, 5),
        "x-opt-jms-dest": (BYTE, 0),
        "x-opt-jms-reply-to": (BYTE, 1),
    }
    assert [field(found.properties, index) for index in range(s.FIELDS)] == [
        (STRING, "ID:1"), (NULL, None), (STRING, "ORDERS"), (STRING, "t"), (STRING, "REPLIES"), (STRING, "c"),
        (NULL, None), (NULL, None), (TIMESTAMP, NOW + 5_000), (TIMESTAMP, NOW - 1), (STRING, "g"), (UINT, 3),
    ]  # fmt: skip
    back = bridge_message(found.octets, NOW + 1_000, ARTEMIS)
    for name in ("persistent", "priority", "expiration_ms", "timestamp_ms", "correlation_id", "message_type"):
        assert getattr(back, name) == getattr(one, name), name
    assert (back.group_id, back.group_sequence, back.reply_to) == ("g", 3, one.reply_to)


def test_a_message_that_has_expired_keeps_one_millisecond_for_the_broker_to_see_it() -> None:
    one = message(TEXT, b"")
    one.expiration_ms = NOW - 1
    assert field(sent(one).header, s.TTL) == (UINT, 1)


def test_defaults_of_the_specification_hold_for_absent_sections() -> None:
    found = received(s.value_section((STRING, "x")))
    assert (found.persistent, found.priority, found.expiration_ms, found.timestamp_ms) == (False, 4, 0, 0)
    assert (found.message_id, found.correlation_id, found.group_id, found.is_redelivered) == ("", None, None, False)


@pytest.mark.parametrize(
    ("parts", "kind", "body"),
    [
        ([s.value_section((STRING, "x"))], TEXT, b"x"),
        ([s.value_section((NULL, None))], PLAIN, None),
        ([annotated(5), s.value_section((NULL, None))], TEXT, None),
        ([annotated(5)], TEXT, None),
        ([annotated(3)], BYTES, b""),
        ([], PLAIN, None),
        ([s.value_section((BINARY, b"x"))], BYTES, b"x"),
        ([s.data_section(b"a"), s.data_section(b"b")], BYTES, b"ab"),
        ([properties(content_type=(SYMBOL, "text/plain; charset=utf-8")), s.data_section(b"x")], TEXT, b"x"),
        ([properties(content_type=(SYMBOL, "text/plain")), s.data_section(b"\xff")], BYTES, b"\xff"),
        ([properties(content_type=(SYMBOL, "application/json")), s.data_section(b"{}")], TEXT, b"{}"),
        (
            [properties(content_type=(SYMBOL, "text/plain"), content_encoding=(SYMBOL, "gzip")), s.data_section(b"x")],
            BYTES,
            b"x",
        ),
        (
            [properties(content_type=(SYMBOL, "application/x-java-serialized-object")), s.data_section(b"\xac")],
            OBJECT,
            b"\xac",
        ),
    ],
)
def test_bodies_of_other_programs_have_the_kind_that_is_nearest(parts: list[bytes], kind: int, body: Any) -> None:
    found = received(*parts)
    assert (found.kind, found.content.neutral_body()) == (kind, body)


@pytest.mark.parametrize(
    ("parts", "values"),
    [
        ([s.sequence_section([(INT, 1)]), s.sequence_section([(STRING, "a")])], [(INT_VALUE, 1), (STRING_VALUE, "a")]),
        ([s.value_section((LIST, [(LONG, 1)]))], [(LONG_VALUE, 1)]),
        ([s.value_section((LONG, 42))], [(LONG_VALUE, 42)]),
    ],
)
def test_sequences_lists_and_single_values_are_streams(parts: list[bytes], values: list[PropertyValue]) -> None:
    found = received(*parts)
    assert found.kind == STREAM
    assert decode_stream(found.content.neutral_body() or b"", UNBOUNDED) == values


def test_names_of_a_map_become_strings() -> None:
    found = received(s.value_section((MAP, [((INT, 1), (BOOLEAN, True)), ((SYMBOL, "s"), (SYMBOL, "t"))])))
    body = decode_map(found.content.neutral_body() or b"", UNBOUNDED)
    assert (found.kind, body) == (MAP_KIND, {"1": (BOOLEAN_VALUE, True), "s": (STRING_VALUE, "t")})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((UBYTE, 255), (SHORT_VALUE, 255)),
        ((USHORT, 65_535), (INT_VALUE, 65_535)),
        ((UINT, 2**32 - 1), (LONG_VALUE, 2**32 - 1)),
        ((ULONG, 2**63 - 1), (LONG_VALUE, 2**63 - 1)),
        ((ULONG, 2**63), (STRING_VALUE, str(2**63))),
        ((TIMESTAMP, NOW), (LONG_VALUE, NOW)),
        ((UUID, uuid.UUID(int=1)), (STRING_VALUE, "00000000-0000-0000-0000-000000000001")),
        ((SYMBOL, "s"), (STRING_VALUE, "s")),
        ((CHAR, "\U0001f600"), (STRING_VALUE, "\U0001f600")),
        ((DECIMAL64, bytes(8)), (BYTES_VALUE, bytes(8))),
        ((ARRAY, [(INT, 1)]), (LIST_VALUE, [(INT_VALUE, 1)])),
        ((0, ((SYMBOL, "d"), (FLOAT, 1.0))), (FLOAT_VALUE, 1.0)),
    ],
)
def test_types_that_jms_has_not_become_the_nearest(value: Value, expected: PropertyValue) -> None:
    assert jms_value(value) == expected


@given(
    st.one_of(
        st.text(st.characters(codec="utf-8"), min_size=1).map(lambda text: (STRING, text)),
        st.uuids().map(lambda value: (UUID, value)),
        st.integers(0, 2**64 - 1).map(lambda value: (ULONG, value)),
        st.binary(min_size=1).map(lambda value: (BINARY, value)),
    )
)
def test_ids_of_all_types_return_as_what_they_were(value: Value) -> None:
    text = id_text(value)
    assert text is not None
    assert id_value(text) == value or value[0] == STRING


@pytest.mark.parametrize(
    "text", ["ID:AMQP_UUID:no", "ID:AMQP_ULONG:x", f"ID:AMQP_ULONG:{2**64}", "ID:AMQP_BINARY:0", "ID:AMQP_ULONG:-1"]
)
def test_an_id_that_only_looks_like_another_type_is_a_string(text: str) -> None:
    assert id_value(text) == (STRING, text)


def test_rabbitmq_gets_ids_as_texts_and_refuses_long_ones() -> None:
    one = message(TEXT, b"")
    one.correlation_id = f"ID:AMQP_UUID:{uuid.UUID(int=1)}"
    assert field(sent(one).properties, s.CORRELATION_ID) == (UUID, uuid.UUID(int=1))
    assert field(sent(one, RABBIT).properties, s.CORRELATION_ID) == (STRING, one.correlation_id)
    one.correlation_id = "é" * 200
    sent(one)
    with pytest.raises(MessageFormatError, match="more than 255 bytes"):
        sent(one, RABBIT)


def test_a_text_for_rabbitmq_is_octets_with_a_content_type() -> None:
    one = message(TEXT, "é".encode(), {"content_type": (STRING_VALUE, "application/xml")})
    found = sent(one, RABBIT)
    assert (found.body(), field(found.properties, s.CONTENT_TYPE)) == (
        s.data_section("é".encode()),
        (SYMBOL, "application/xml"),
    )
    assert field(sent(message(TEXT, b""), RABBIT).properties, s.CONTENT_TYPE) == (SYMBOL, "text/plain")


def test_rabbitmq_says_by_the_first_acquirer_that_a_message_comes_again() -> None:
    header = s.list_section(s.HEADER, [(BOOLEAN, True), (NULL, None), (NULL, None), (BOOLEAN, False)])
    assert received(header, s.data_section(b""), peer=RABBIT).is_redelivered
    assert not received(header, s.data_section(b"")).is_redelivered
    counted = s.list_section(s.HEADER, [*[s.ABSENT] * 4, (UINT, 1)])
    assert received(counted, s.data_section(b"")).is_redelivered


def test_the_routing_key_of_a_client_of_amqp_0_9_1_is_no_type() -> None:
    parts = properties(subject=(STRING, "orders")), s.data_section(b"")
    assert received(*parts, peer=RABBIT).message_type is None
    assert received(*parts).message_type == "orders"


def test_a_message_of_amqp_is_forwarded_with_values_that_jms_has_not() -> None:
    exotic = s.map_section(s.APPLICATION_PROPERTIES, [((STRING, "u"), (UUID, uuid.UUID(int=7)))])
    body = described(s.VALUE, write((ULONG, 2**64 - 1)))
    arrived = received(properties(content_type=(SYMBOL, "x/y")), exotic, body)
    forwarded = sent(arrived)
    assert (forwarded.body(), forwarded.application_values()) == (body, [((STRING, "u"), (UUID, uuid.UUID(int=7)))])
    assert field(forwarded.properties, s.CONTENT_TYPE) == (SYMBOL, "x/y")
    arrived.properties = {"n": (INT_VALUE, 1)}
    changed = sent(arrived)
    assert (changed.body(), changed.application_values()) == (body, [((STRING, "n"), (INT, 1))])
    assert crossed(received(s.value_section((STRING, "t"))), RABBIT).kind == TEXT


def test_a_damaged_message_fails_when_it_is_sent_and_its_dead_letter_has_its_octets() -> None:
    damaged = b"\x00\x53\x75\xb0\x00\x00\xff\xff"
    arrived = received(damaged)
    with pytest.raises(MessageFormatError, match="ends inside"):
        sent(arrived)
    found = Sections(dead_letter(damaged, {"cause": "c"}))
    assert found.body() == s.data_section(damaged)
    assert found.application_values() == [((STRING, "cause"), (STRING, "c"))]


def test_a_dead_letter_keeps_everything_but_expiration_and_target() -> None:
    one = message(TEXT, b"x", {"n": (INT_VALUE, 1), "cause": (STRING_VALUE, "former")})
    one.expiration_ms, one.priority, one.correlation_id = NOW + 1, 8, "c"
    found = Sections(dead_letter(outgoing_message(one, way(), NOW), {"cause": "new"}))
    assert found.header == [(BOOLEAN, True), (UBYTE, 8)]
    assert [field(found.properties, index) for index in (s.TO, s.EXPIRY_TIME)] == [s.ABSENT, s.ABSENT]
    assert field(found.properties, s.CORRELATION_ID) == (STRING, "c")
    assert found.application_values() == [((STRING, "n"), (INT, 1)), ((STRING, "cause"), (STRING, "new"))]
    assert found.annotations["x-opt-jms-msg-type"] == (BYTE, 5)


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"content_type": (STRING_VALUE, "é")}, "ASCII alone"),
        ({"n": (STRING_VALUE, "\ud800")}, "no form in AMQP"),
    ],
)
def test_properties_without_a_form_are_refused(properties: dict[str, PropertyValue], reason: str) -> None:
    with pytest.raises(MessageFormatError, match=reason):
        sent(message(TEXT, b"", properties))


def test_a_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(MessageFormatError, match="not UTF-8"):
        sent(message(TEXT, b"\xff"))


def compound(code: int, parts: list[bytes]) -> bytes:
    content = b"".join(parts)
    return bytes((code,)) + struct.pack(">II", len(content) + 4, len(parts)) + content


def array(count: int, constructor: bytes, octets: bytes) -> bytes:
    return b"\xf0" + struct.pack(">II", 4 + len(constructor + octets), count) + constructor + octets


ENCODED: Final = st.recursive(
    st.one_of(
        st.sampled_from(
            [b"\x40", b"\x41", b"\x43", b"\x45", b"\x53\x76", b"\xa1\x01a", b"\xa0\x01a", b"\xa3\x01a", b"\xa0\x00"]
        ),
        st.sampled_from(
            [
                b"\x80" + b"\xff" * 8,
                b"\x83" + b"\xff" * 8,
                b"\x73\x00\x00\x00A",
                b"\x82" + b"\xff" * 8,
                b"\x98" + b"a" * 16,
            ]
        ),
        st.builds(
            array,
            st.integers(0, 100_000),
            st.sampled_from([b"\x40", b"\x45", b"\x00\x40\x43", b"\x50"]),
            st.binary(max_size=3),
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: compound(0xD0, parts)),
        st.lists(inner, max_size=4).map(lambda parts: compound(0xD1, parts)),
        st.tuples(inner, inner).map(lambda pair: b"\x00" + pair[0] + pair[1]),
    ),
    max_leaves=10,
)
SECTIONS: Final = st.lists(
    st.tuples(st.integers(0x70, 0x78), st.one_of(ENCODED, st.binary(max_size=40))).map(
        lambda part: described(part[0], part[1])
    ),
    max_size=4,
).map(b"".join)


def is_refused(action: Callable[[], object]) -> bool:
    """Return True for a `MessageFormatError`; another error fails the test."""
    try:
        action()
    except MessageFormatError as error:
        if error.__cause__ is not None:
            raise error.__cause__ from None
        return True
    return False


@given(st.one_of(st.binary(max_size=300), SECTIONS))
def test_any_octets_become_a_message_or_are_refused_and_have_a_dead_letter(octets: bytes) -> None:
    for peer in (ARTEMIS, RABBIT):
        arrived = received(octets, peer=peer)
        for target in (ARTEMIS, RABBIT):
            _ = is_refused(lambda: sent(arrived, target))  # noqa: B023 -- runs at once
        if not is_refused(arrived.content.neutral_body):
            assert len(arrived.content.neutral_body() or b"") <= 1_000 + 30 * len(octets)
        _ = is_refused(arrived.content.property_values)
    letter = Sections(dead_letter(octets, {"cause": "c"}))
    letter.body_values()
    assert ((STRING, "cause"), (STRING, "c")) in letter.application_values()


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"\x00\x53\x76\xa1\x01a", "no list"),
        (b"\x00\x53\x76\x40", "no list"),
        (b"\x00\x53\x76\xc1\x03\x02\x40\x40", "no list"),
        (b"\x00\x53\x75\x40", "no octets"),
        (b"\x00\x53\x75" + b"\x00" * 3_000, "inside each other"),
        (b"\x00\x53\x76\xf0\x00\x00\x00\x05\x00\x01\x80\x00\x40" * 10, "without octets"),
    ],
)
def test_a_message_that_a_client_may_send_by_mistake_or_malice_is_refused(octets: bytes, reason: str) -> None:
    arrived = received(octets)
    with pytest.raises(MessageFormatError, match=reason):
        arrived.content.neutral_body()
    with pytest.raises(MessageFormatError, match=reason):
        sent(arrived)
    assert Sections(dead_letter(octets, {"cause": "c"})).body() == s.data_section(octets)


@pytest.mark.parametrize(
    "octets",
    [
        s.data_section(b"x") * 3,
        described(s.DATA, b"\xc0\x02\x01\x40"),
        described(s.VALUE, write((MAP, [((STRING, "n"), (LIST, [(NULL, None)] * 100))]))),
        s.value_section((STRING, "t")),
        s.sequence_section([(NULL, None)] * 100),
    ],
)
def test_the_receipt_decodes_no_body(octets: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sections, "body_values", lambda _: pytest.fail("the body was decoded"))
    received(octets)


def test_an_error_that_nobody_expects_refuses_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise AssertionError

    arrived = received(s.data_section(b"x"))
    monkeypatch.setattr(Sections, "body_values", fail)
    monkeypatch.setattr(Sections, "application_values", fail)
    for action in (arrived.content.neutral_body, arrived.content.property_values):
        with pytest.raises(MessageFormatError, match=r"cannot be read \(AssertionError\)"):
            action()
    assert dead_letter(s.data_section(b"x"), {}).endswith(s.data_section(s.data_section(b"x")))
    monkeypatch.setattr(Sections, "body_type", fail)
    damaged = received(s.value_section((STRING, "t")))
    with pytest.raises(MessageFormatError, match=r"cannot be read \(AssertionError\)"):
        damaged.content.neutral_body()


def test_numbers_of_headers_that_jms_cannot_hold_become_the_nearest() -> None:
    widest: Value = (ULONG, 2**64 - 1)
    found = received(
        s.list_section(s.HEADER, [(BOOLEAN, True), (BYTE, -5), widest]),
        properties(creation_time=widest, group_sequence=(ULONG, 2**64 - 2)),
    )
    assert (found.priority, found.expiration_ms, found.timestamp_ms) == (0, 2**63 - 1, 2**63 - 1)
    assert found.group_sequence == -2


def test_a_property_whose_name_is_a_list_has_a_dead_letter() -> None:
    octets = s.map_section(s.APPLICATION_PROPERTIES, [((LIST, []), (NULL, None))])
    assert Sections(dead_letter(octets, {"cause": "c"})).application_values()[-1] == ((STRING, "cause"), (STRING, "c"))


@pytest.mark.parametrize(
    ("peer", "destination", "expected"),
    [
        (ARTEMIS, Destination(QUEUE, "A"), "A"),
        (ARTEMIS, Destination(QUEUE, "NEWS::mine"), "NEWS::mine"),
        (ARTEMIS, Destination(TOPIC, "A.*"), "A.*"),
        (CLASSIC, Destination(TOPIC, "A"), "topic://A"),
        (RABBIT, Destination(QUEUE, "a"), "/amq/queue/a"),
        (RABBIT, Destination(QUEUE, "a b/c%20"), "/amq/queue/a b%2Fc%20"),
        (RABBIT, Destination(QUEUE, "/queue/a"), "/queue/a"),
        (RABBIT, Destination(TOPIC, "a.b"), "/exchange/amq.topic/a.b"),
        (RABBIT, Destination(QUEUE, "/queue/a%2Fb"), "/queue/a%2Fb"),
        (RABBIT, Destination(QUEUE, "a%2fb"), "/amq/queue/a%2fb"),
        (NEW_RABBIT, Destination(QUEUE, "a%2Fb"), "/queues/a%252Fb"),
        (NEW_RABBIT, Destination(QUEUE, "a b/c"), "/queues/a%20b%2Fc"),
        (NEW_RABBIT, Destination(TOPIC, "a.b"), "/exchanges/amq.topic/a.b"),
    ],
)
def test_each_broker_has_its_own_addresses(peer: Peer, destination: Destination, expected: str) -> None:
    assert address(peer, destination, PLACE) == expected


@pytest.mark.parametrize("kind", [QUEUE, TOPIC])
def test_rabbitmq_3_has_no_address_for_a_name_in_which_it_reads_a_slash(kind: int) -> None:
    with pytest.raises(InvalidDestinationError, match=r"A%2FB: RabbitMQ 3\.10\.8 reads %2F as a slash"):
        address(RABBIT, Destination(kind, "A%2FB"), PLACE)
    one = message(TEXT, b"")
    one.reply_to = Destination(TOPIC, "A%2FB")
    with pytest.raises(MessageFormatError, match="JMSReplyTo"):
        sent(one, RABBIT)


@pytest.mark.parametrize(
    ("peer", "name", "expected"),
    [
        (RABBIT, "/queue/A%2FB%20", "A/B%20"),
        (NEW_RABBIT, "/queues/A%2FB%20", "A/B "),
        (NEW_RABBIT, "A%2FB", "A%2FB"),
        (RABBIT, "A/B", "A/B"),
        (NEW_RABBIT, "A/B::C", "A/B::C"),
        (CLASSIC, "/A/B::C", "/A/B::C"),
        (ARTEMIS, "/A%2FB", "A%2FB"),
        (ARTEMIS, "A/B", "A/B"),
        (ARTEMIS, "NEWS::A/B", "A/B"),
    ],
)
def test_dead_letters_have_the_name_of_the_source_as_the_broker_reads_it(peer: Peer, name: str, expected: str) -> None:
    source = Source(ConnectionFactory("amqp://h", provider="amqp"), Destination(QUEUE, name))
    assert dead_letter_queue(peer, source) == Destination(QUEUE, expected + ".DLQ")


def test_the_exchange_of_the_url_has_the_topics() -> None:
    assert address(RABBIT, Destination(TOPIC, "k"), OTHER) == "/exchange/a%2Fb/k"
    assert address(NEW_RABBIT, Destination(TOPIC, "k"), OTHER) == "/exchanges/a%2Fb/k"


def test_artemis_is_told_queues_from_topics_but_for_qualified_names() -> None:
    assert [capability(one) for one in (ORDERS, Destination(TOPIC, "A"), Destination(QUEUE, "A::b"))] == [
        "queue",
        "topic",
        None,
    ]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("A", QUEUE, Destination(QUEUE, "A")),
        ("A", TOPIC, Destination(TOPIC, "A")),
        ("A", TEMP_QUEUE, Destination(TEMP_QUEUE, "A")),
        ("topic://A", QUEUE, Destination(TOPIC, "A")),
        ("/queue/a", TOPIC, Destination(QUEUE, "a")),
        ("/amq/queue/a%2Fb%20", TOPIC, Destination(QUEUE, "a/b%20")),
        ("/queues/a%2Fb", TOPIC, Destination(QUEUE, "a/b")),
        ("/exchange/amq.topic/k", QUEUE, Destination(TOPIC, "k")),
        ("/topic/k", QUEUE, Destination(TOPIC, "k")),
        ("queue://", QUEUE, None),
        ("a\nb", QUEUE, None),
        ("queue://A%2FB", QUEUE, Destination(QUEUE, "A%2FB")),
    ],
)
def test_an_address_of_a_reply_is_a_destination(text: str, kind: int, expected: Destination | None) -> None:
    assert destination_of(text, kind) == expected


def test_a_queue_of_one_connection_of_rabbitmq_is_no_destination_for_replies() -> None:
    assert received(properties(reply_to=(STRING, "/queue/amq.gen-x")), s.data_section(b"")).reply_to is None


def test_a_broker_is_known_by_the_properties_of_its_connection() -> None:
    assert peer_of({"product": "RabbitMQ", "version": "4.0.1"}).has_new_addresses
    assert not peer_of({"product": "RabbitMQ", "version": "3.13"}).has_new_addresses
    assert peer_of({}) == Peer("", "")


def test_a_property_of_a_map_is_json_even_inside_of_a_list() -> None:
    value = (LIST_VALUE, [(MAP_VALUE, {"a": (LIST_VALUE, [(DOUBLE_VALUE, 0.5)])})])
    assert property_value(value) == (STRING, '[{"a":[0.5]}]')
    assert property_value((DOUBLE_VALUE, 0.5)) == (DOUBLE, 0.5)
    assert property_value((SHORT_VALUE, 1)) == (SHORT, 1)


def test_a_group_sequence_is_unsigned_on_the_wire_and_signed_in_jms() -> None:
    one = message(TEXT, b"")
    one.group_id, one.group_sequence = "g", -1
    assert field(sent(one).properties, s.GROUP_SEQUENCE) == (UINT, 2**32 - 1)
    assert crossed(one).group_sequence == -1


def test_a_message_of_a_text_provider_crosses() -> None:
    found = crossed(BridgeMessage("", TEXT, Content("x"), 1))
    assert (found.content.neutral_body(), found.message_id) == (b"x", "")
