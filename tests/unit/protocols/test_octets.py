"""Numbers and texts as Java lays them out."""

from __future__ import annotations

import pytest

from spanwire.protocols.octets import OctetReader, OctetWriter, decode_text, encode_text
from spanwire.protocols.openwire.codec.errors import OpenWireEncodeError, OpenWireProtocolError

# Text, and what java.io.DataOutputStream.writeUTF writes behind the length.
TEXTS = [
    ("", ""),
    ("abc", "616263"),
    ("\0", "c080"),
    ("a\0b", "61c08062"),
    ("\x7f\x80", "7fc280"),
    ("é€", "c3a9e282ac"),
    ("\uffff", "efbfbf"),
    ("\U00010000", "eda080edb080"),
    ("😀", "eda0bdedb880"),
    ("x😀\0é", "78eda0bdedb880c080c3a9"),
]


@pytest.mark.parametrize(("text", "octets"), TEXTS)
def test_texts_are_modified_utf_8_in_both_directions(text: str, octets: str) -> None:
    assert encode_text(text).hex() == octets
    assert decode_text(bytes.fromhex(octets)) == text


@pytest.mark.parametrize(
    "octets",
    [
        "80",
        "c3",
        "c328",
        "e282",
        "f09f9880",
        "c0af",
        "c1bf",
        "e0808a",
        "ff",
    ],
    ids=[
        "continuation",
        "cut",
        "no continuation",
        "cut of three",
        "four bytes",
        "overlong slash",
        "overlong",
        "overlong of three",
        "ff",
    ],
)
def test_octets_that_are_no_modified_utf_8_are_refused(octets: str) -> None:
    with pytest.raises(OpenWireProtocolError):
        decode_text(bytes.fromhex(octets))


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        ("eda0bd", "\ufffd"),
        ("edb880", "\ufffd"),
        ("eda0bd61", "\ufffda"),
        ("edb880eda0bd", "\ufffd\ufffd"),
        ("eda0bdeda0bdedb880", "\ufffd\U0001f600"),
    ],
    ids=["high half", "low half", "half and letter", "halves swapped", "half before a pair"],
)
def test_half_a_surrogate_pair_is_read_as_the_replacement_character(octets: str, text: str) -> None:
    assert decode_text(bytes.fromhex(octets)) == text


def test_half_a_surrogate_pair_cannot_be_written() -> None:
    with pytest.raises(OpenWireEncodeError):
        encode_text("a\ud83d")


def test_numbers_are_big_endian_and_signed_as_in_java() -> None:
    reader = OctetReader(bytes.fromhex("ff fe fffd 8000 fffffffc 8000000000000000 3fc00000 bff8000000000000"), 0, 31)
    assert (reader.read_byte(), reader.read_unsigned_byte()) == (-1, 254)
    assert (reader.read_short(), reader.read_unsigned_short()) == (-3, 32768)
    assert (reader.read_int(), reader.read_full_long()) == (-4, -(2**63))
    assert (reader.read_float(), reader.read_double()) == (1.5, -1.5)
    assert reader.remaining() == 1


def test_a_reader_stops_at_its_end_though_there_are_more_octets_behind_it() -> None:
    for end in range(8):
        reader = OctetReader(bytes(16), 0, end)
        for read in (reader.read_full_long, reader.read_double):
            with pytest.raises(OpenWireProtocolError):
                read()
        assert reader.position == 0
    with pytest.raises(OpenWireProtocolError, match="negative"):
        OctetReader(bytes(16), 0, 16).read_octets(-1)
    with pytest.raises(OpenWireProtocolError, match="17 bytes are announced where 16 are left"):
        OctetReader(bytes(16), 0, 16).read_octets(17)


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("write_byte", 256),
        ("write_byte", -129),
        ("write_short", 65536),
        ("write_int", 2**31),
        ("write_full_long", -(2**63) - 1),
    ],
)
def test_a_number_out_of_the_range_of_its_type_cannot_be_written(method: str, value: int) -> None:
    writer = OctetWriter()
    with pytest.raises(OpenWireEncodeError, match=str(value)):
        getattr(writer, method)(value)
    assert len(writer.out) == 0
