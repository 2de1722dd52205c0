"""The client of schema registries, and framed bodies with a registry on loopback."""

from __future__ import annotations

import base64
import json
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.pipeline.formats.avro.codec import AvroCodec
from spanwire.pipeline.formats.json_codec import JsonCodec
from spanwire.pipeline.formats.plans import AvroPlan, JsonPlan, ProtobufPlan
from spanwire.pipeline.formats.protobuf_codec import ProtobufCodec, file_text
from spanwire.pipeline.formats.rows import decode_bodies
from spanwire.pipeline.formats.schema_registry import (
    ATTEMPTS,
    JSON,
    MAX_ANSWER_BYTES,
    PAUSES_S,
    PROTOBUF,
    RegistryError,
    SchemaRegistry,
    StoredSchema,
    UnknownSchemaError,
    UnreachableError,
    ask_again,
)
from spanwire.pipeline.formats.writer_schemas import MAX_SCHEMAS, MAX_UNUSABLE, UNUSABLE_S, WriterSchemas
from tests.support.canary import CANARY
from tests.support.certificates import Authority
from tests.support.schema_registry import RegistryState, running_registry

OLD = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]})
NEW = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "region", "type": "string", "default": "none"}],
    }
)


@pytest.fixture
def state() -> Iterator[RegistryState]:
    with running_registry() as state:
        yield state


def test_a_version_of_a_subject_is_found_and_registration_is_repeatable(state: RegistryState) -> None:
    registry = SchemaRegistry(state.url + "/")
    first = registry.register("orders/eu-value", OLD)
    second = registry.register("orders/eu-value", NEW)
    assert registry.register("orders/eu-value", OLD) == first
    assert registry.find("orders/eu-value") == second and registry.find("orders/eu-value", 1) == first
    assert (second.id, second.text, second.stored.kind) == (100_002, NEW, "AVRO")
    assert state.requests[0] == "POST /subjects/orders%2Feu-value/versions"
    assert registry.schema(100_001) == StoredSchema(100_001, "AVRO", OLD)


def test_what_a_registry_does_not_have_is_told_in_one_line(state: RegistryState) -> None:
    registry = SchemaRegistry(state.url)
    registry.register("orders-value", OLD)
    with pytest.raises(UnknownSchemaError, match="has no schema 7"):
        registry.schema(7)
    for subject, version in (("none", "latest"), ("orders-value", 9)):
        fault = "has no schema yet" if version == "latest" else f"has no version {version}"
        with pytest.raises(RegistryError, match=f"the subject {subject} {fault}, or does not exist; check"):
            registry.find(subject, version)
    with pytest.raises(RegistryError, match="answers 404: HTTP 404 Not Found"):
        SchemaRegistry(state.url + "/elsewhere").schema(7)


def test_a_registry_with_a_login_takes_it_and_shows_it_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_registry(f"app:{CANARY}") as state:
        for name in ("SPANWIRE_REGISTRY_USER", "SPANWIRE_REGISTRY_PASSWORD"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(RegistryError, match=r"refuses no user \(401\); set user and password"):
            SchemaRegistry(state.url).schema(1)
        with pytest.raises(RegistryError, match="refuses the user app"):
            SchemaRegistry(state.url, "app", "wrong").schema(1)
        known = SchemaRegistry(state.url, "app", CANARY)
        assert known.register("s", OLD).id == 100_001
        assert CANARY not in repr(known) + repr(known.find("s")) + repr(AvroPlan(known.find("s")))
        monkeypatch.setenv("SPANWIRE_REGISTRY_USER", "app")
        monkeypatch.setenv("SPANWIRE_REGISTRY_PASSWORD", CANARY)
        registry: SchemaRegistry = pickle.loads(pickle.dumps(SchemaRegistry(state.url)))  # noqa: S301
        assert registry.schema(100_001).text == OLD


@pytest.mark.parametrize("url", ["registry:8081", "ftp://registry", "http://", "http://h:99999", "http://h/?x=1", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="http://HOST:PORT or https://HOST:PORT"):
        SchemaRegistry(url)


def test_a_login_in_the_address_and_an_impossible_wait_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="write user and password") as caught:
        SchemaRegistry(f"http://app:{CANARY}@registry:8081")
    assert CANARY not in str(caught.value)
    with pytest.raises(ConfigurationError, match="positive number of seconds"):
        SchemaRegistry("http://registry", timeout_s=0)
    with pytest.raises(ConfigurationError, match="ca_file /nowhere cannot be read"):
        SchemaRegistry("https://127.0.0.1:9", ca_file="/nowhere").schema(1)


def test_requests_are_repeated_while_the_registry_is_not_there() -> None:
    pauses: list[float] = []
    answers = iter([UnreachableError("a"), UnreachableError("b")])

    def ask() -> object:
        raise next(answers, None) or RegistryError("refused")

    with pytest.raises(RegistryError, match="refused"):
        ask_again(ask, pauses.append)
    assert tuple(pauses) == PAUSES_S and len(pauses) == ATTEMPTS - 1


def test_a_failure_of_the_registry_is_told_in_one_line_and_none_of_a_body(
    state: RegistryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spanwire.pipeline.formats.schema_registry.PAUSES_S", (0.0, 0.0))
    registry = SchemaRegistry(state.url)
    order = registry.register("s", OLD)
    codec = AvroCodec(AvroPlan(order))
    state.failures = 1
    assert codec.decode(codec.encode({"id": 5})) == {"id": 5}
    fresh = AvroCodec(AvroPlan(order))
    state.failures = ATTEMPTS
    with pytest.raises(RegistryError, match=r"answers 503: Leader not known$"):
        decode_bodies([codec.encode({"id": 5})], fresh, "null")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(RegistryError, match=f"http://127.0.0.1:{port}: ConnectionRefusedError"):
        SchemaRegistry(f"http://127.0.0.1:{port}").schema(1)


def test_a_registry_with_tls_is_believed_if_a_known_authority_signed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spanwire.pipeline.formats.schema_registry.PAUSES_S", (0.0, 0.0))
    authority = Authority()
    trusted = str(authority.write_certificate(tmp_path / "authority.pem"))
    with running_registry(certificate=authority.issue().write_pem(tmp_path / "registry.pem")) as state:
        assert SchemaRegistry(state.url, ca_file=trusted).register("s", OLD).id == 100_001
        with pytest.raises(RegistryError, match="certificate verify failed"):
            SchemaRegistry(state.url).find("s")


def test_an_answer_has_a_limit(state: RegistryState) -> None:
    state.schemas[1] = ("AVRO", "x" * MAX_ANSWER_BYTES)
    with pytest.raises(RegistryError, match=f"larger than {MAX_ANSWER_BYTES} octets"):
        SchemaRegistry(state.url).schema(1)


def test_framed_avro_is_read_with_the_schema_that_wrote_it_and_asked_for_once(state: RegistryState) -> None:
    registry = SchemaRegistry(state.url)
    old, new = registry.register("s", OLD), registry.register("s", NEW)
    writer, reader = AvroCodec(AvroPlan(old)), AvroCodec(AvroPlan(new))
    body = writer.encode({"id": 7})
    assert body == bytes.fromhex("00 00 01 86 a1 0e")
    state.requests.clear()
    rows = decode_bodies([body, reader.encode({"id": 8, "region": "eu"}), body], reader, "fail").to_pylist()
    assert rows == [{"id": 7, "region": "none"}, {"id": 8, "region": "eu"}, {"id": 7, "region": "none"}]
    assert state.requests == ["GET /schemas/ids/100001", "GET /schemas/ids/100002"]


def test_an_unknown_id_is_asked_for_once_and_each_body_has_the_reason(state: RegistryState) -> None:
    order = SchemaRegistry(state.url).register("s", OLD)
    codec = AvroCodec(AvroPlan(order))
    unknown = bytes.fromhex("00 00 01 86 a2 0e")
    state.requests.clear()
    rows = decode_bodies([unknown, unknown, b"{}"], codec, "column").to_pylist()
    assert [row["_error"] for row in rows] == [
        "the schema registry has no schema 100002",
        "the schema registry has no schema 100002",
        "a framed body has at least 5 octets, this one 2",
    ]
    (again,) = decode_bodies([unknown], codec, "column").to_pylist()
    assert again["_error"] == rows[0]["_error"]
    assert len(state.requests) == 1


def test_a_schema_of_another_kind_or_in_parts_is_refused(state: RegistryState) -> None:
    registry = SchemaRegistry(state.url)
    json_schema = registry.register("j", "{}", JSON)
    with pytest.raises(ConfigurationError, match="schema 100001 of the registry is JSON"):
        AvroCodec(AvroPlan(json_schema))
    order = registry.register("s", OLD)
    codec = AvroCodec(AvroPlan(order))
    with pytest.raises(MessageFormatError, match="schema 100001 of the registry is JSON, not AVRO"):
        codec.decode(bytes.fromhex("00 00 01 86 a1 0e"))
    state.references[order.id] = [{"name": "shop.Region", "subject": "region", "version": 1}]
    with pytest.raises(ConfigurationError, match=r"refers to other schemas \(shop.Region\); register it in one piece"):
        AvroCodec(AvroPlan(registry.find("s")))
    with pytest.raises(ConfigurationError, match="'XML' is not a kind of schema; there are AVRO, JSON, PROTOBUF"):
        registry.register("s", OLD, "XML")


def test_framed_json_is_octets_with_a_header(state: RegistryState) -> None:
    registry = SchemaRegistry(state.url)
    schema = registry.register("j", '{"type": "object", "properties": {"id": {"type": "integer"}}}', JSON)
    codec = JsonCodec(JsonPlan(registry.find("j")))
    body = codec.encode({"id": 5})
    assert body == bytes.fromhex("00 00 01 86 a1") + b'{"id":5}'
    assert codec.decode(body) == {"id": 5} and schema.stored.kind == JSON


def descriptors(*messages: str) -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    for name in messages:
        file.message_type.add(name=name).field.add(name="id", number=1, type=3, label=1)
    octets: bytes = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    return octets


def test_framed_protobuf_names_its_message_by_the_writer_s_file(state: RegistryState) -> None:
    registry = SchemaRegistry(state.url)
    plan = ProtobufPlan(descriptors("Item", "Order"), "shop.Order")
    written = registry.register("p", file_text(plan), PROTOBUF)
    writer = ProtobufCodec(ProtobufPlan(plan.descriptors, plan.message, written))
    body = writer.encode({"id": 7})
    assert body == bytes.fromhex("00 00 01 86 a1 02 02 08 07")
    # The reader's file has the messages in another order: the writer's file counts.
    newer = ProtobufPlan(descriptors("Order", "Item"), "shop.Order")
    registered = registry.register("p", file_text(newer), PROTOBUF)
    reader = ProtobufCodec(ProtobufPlan(newer.descriptors, newer.message, registered))
    rows = decode_bodies([body, reader.encode({"id": 8})], reader, "fail").to_pylist()
    assert rows == [{"id": 7}, {"id": 8}]
    assert reader.encode({"id": 8}) == bytes.fromhex("00 00 01 86 a2 00 08 08")
    with pytest.raises(MessageFormatError, match=r"the body is a message shop\.Item, not shop\.Order"):
        reader.decode(bytes.fromhex("00 00 01 86 a1 00 08 07"))
    with pytest.raises(MessageFormatError, match=r"the schema has no message at \[2\]"):
        reader.decode(bytes.fromhex("00 00 01 86 a1 02 04 08 07"))


def test_a_registry_that_sends_no_descriptors_makes_bad_bodies(state: RegistryState) -> None:
    plan = ProtobufPlan(descriptors("Order"), "shop.Order")
    number = state.add("p", base64.b64encode(b"\xff").decode(), PROTOBUF)
    registered = SchemaRegistry(state.url).find("p")
    codec = ProtobufCodec(ProtobufPlan(plan.descriptors, plan.message, registered))
    with pytest.raises(MessageFormatError, match=f"does not send schema {number} as a descriptor"):
        codec.decode(codec.encode({"id": 1}))


def test_a_worker_keeps_so_many_schemas_and_no_more() -> None:
    asked: list[int] = []

    def fetch(number: int, form: str) -> StoredSchema:
        asked.append(number)
        return StoredSchema(number, "AVRO", form)

    schemas = WriterSchemas(fetch, "AVRO", lambda stored: stored.number)
    for number in range(MAX_SCHEMAS + 1):
        assert schemas.get(number) == number
    assert schemas.get(MAX_SCHEMAS) == MAX_SCHEMAS and len(asked) == MAX_SCHEMAS + 1
    assert schemas.get(0) == 0 and asked[-1] == 0  # the oldest was forgotten


class LateRegistry:
    """A registry without schemas, its clock, and the ids that were requested."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.known: set[int] = set()
        self.asked: list[int] = []
        self.schemas = WriterSchemas(self.fetch, "AVRO", lambda stored: stored.number, clock=lambda: self.now)

    def fetch(self, number: int, form: str) -> StoredSchema:
        self.asked.append(number)
        if number not in self.known:
            raise UnknownSchemaError(f"the schema registry has no schema {number}")
        return StoredSchema(number, "AVRO", form)

    def refuses(self, number: int) -> bool:
        try:
            self.schemas.get(number)
        except MessageFormatError as error:
            return str(error) == f"the schema registry has no schema {number}"
        return False


def test_an_unknown_id_is_asked_for_again_after_a_while_and_then_readable() -> None:
    registry = LateRegistry()
    for _ in range(3):
        assert registry.refuses(7)
        registry.now += UNUSABLE_S / 3 - 0.1
    assert registry.asked == [7]
    registry.known.add(7)
    assert registry.refuses(7)
    registry.now += 0.3
    assert not registry.refuses(7) and registry.asked == [7, 7]


def test_a_worker_remembers_so_many_unknown_ids_and_no_more() -> None:
    registry = LateRegistry()
    for number in range(MAX_UNUSABLE + 1):
        assert registry.refuses(number)
    assert len(registry.schemas._unusable) == MAX_UNUSABLE
    assert registry.refuses(MAX_UNUSABLE) and len(registry.asked) == MAX_UNUSABLE + 1
    assert registry.refuses(0) and registry.asked[-1] == 0  # the oldest was forgotten
