"""Batches of bodies: null, an error in a field or the end of the query; packages that are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.pipeline.formats import codecs
from spanwire.pipeline.formats.codecs import codec_of
from spanwire.pipeline.formats.plans import MAX_DESCRIPTOR_BYTES, AvroPlan, JsonPlan, read_descriptors
from spanwire.pipeline.formats.rows import COLUMN, FAIL, NULL, decode_bodies, decoded_type, encode_values
from spanwire.pipeline.formats.spark_types import quoted

ORDER = AvroPlan('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}')
BODIES = [b"\x02", None, b"\x02\x02"]
REASON = "1 octets are left behind the value"


def test_a_bad_body_becomes_null() -> None:
    assert decode_bodies(BODIES, codec_of(ORDER), NULL).to_pylist() == [{"id": 1}, None, None]


def test_a_bad_body_becomes_a_row_with_its_reason() -> None:
    rows = decode_bodies(BODIES, codec_of(ORDER), COLUMN)
    assert rows.to_pylist() == [{"id": 1, "_error": None}, None, {"id": None, "_error": REASON}]
    assert rows.type == pa.struct([("id", pa.int32()), ("_error", pa.string())])


def test_a_bad_body_ends_the_query() -> None:
    with pytest.raises(MessageFormatError, match=f"^spanwire: a body cannot be read: {REASON}; on_error=null"):
        decode_bodies(BODIES, codec_of(ORDER), FAIL)


def test_a_row_that_the_schema_does_not_allow_ends_the_query_or_has_no_body() -> None:
    values = [{"id": 1}, None, {"id": "a"}]
    assert encode_values(values, codec_of(ORDER), NULL).to_pylist() == [b"\x02", None, None]
    with pytest.raises(MessageFormatError, match=r"^spanwire: a row makes no body: id: expected int, got str$"):
        encode_values(values, codec_of(ORDER), FAIL)


def test_another_word_for_bad_bodies_is_refused_and_a_field_where_there_is_no_struct() -> None:
    with pytest.raises(ConfigurationError, match="on_error is 'drop'; write null, fail or column"):
        decoded_type(codec_of(ORDER), "drop")
    with pytest.raises(ConfigurationError, match="on_error is 'column'; write null or fail"):
        encode_values([], codec_of(ORDER), COLUMN)
    with pytest.raises(ConfigurationError, match="adds a field _error to a struct, and this schema makes int32"):
        decoded_type(codec_of(AvroPlan('"int"')), COLUMN)
    assert decode_bodies([b"\x02", b""], codec_of(AvroPlan('"int"')), NULL).to_pylist() == [1, None]


def test_a_codec_is_made_once_and_so_many_are_kept() -> None:
    first = codec_of(ORDER)
    assert codec_of(AvroPlan(str(ORDER.schema))) is first
    for number in range(codecs.MAX_CODECS):
        codec_of(AvroPlan(f'{{"type": "fixed", "name": "F", "size": {number + 1}}}'))
    assert codec_of.cache_info().currsize == codecs.MAX_CODECS
    assert codec_of(ORDER) is not first


def test_a_missing_package_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for package, extra, reference in (
        ("google.protobuf", "protobuf", codecs.PROTOBUF_FILE_TEXT),
        ("jsonschema", "jsonschema", codecs.CODECS[JsonPlan]),
    ):
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.delitem(sys.modules, reference.partition(":")[0], raising=False)
        with pytest.raises(
            ConfigurationError, match=f"the package {extra} is not installed; run: .* -m pip install .*{extra}"
        ):
            codecs.load_format(reference)


def test_avro_needs_no_package_but_arrow() -> None:
    program = (
        "import sys; from spanwire.pipeline.formats.codecs import codec_of; "
        "from spanwire.pipeline.formats.plans import AvroPlan; codec_of(AvroPlan('\"int\"')); "
        "print({'fastavro', 'google', 'jsonschema', 'pyspark'} & set(sys.modules) or 'none')"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "none"


def test_descriptors_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"the descriptors {tmp_path}/none cannot be read: No such file"):
        read_descriptors(tmp_path / "none")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_DESCRIPTOR_BYTES)
    assert len(read_descriptors(tmp_path / "large")) == MAX_DESCRIPTOR_BYTES
    with (tmp_path / "large").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ConfigurationError, match=f"large have more than {MAX_DESCRIPTOR_BYTES} octets"):
        read_descriptors(tmp_path / "large")


def test_a_name_with_a_backtick_is_quoted() -> None:
    assert quoted("a`b") == "`a``b`"
