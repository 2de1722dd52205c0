"""Frames between the bridges and the process of Java, without Java."""

from __future__ import annotations

import pytest

from spanwire.bridges.providers.jvm.frames import LENGTHS, MAX_BRANCHES, check_branches, decode_frame, encode_frame
from spanwire.bridges.providers.jvm.xa_connections import plain_branch
from spanwire.model.errors import JmsError
from spanwire.model.ids import XaTransactionId


def test_more_prepared_branches_than_the_limit_are_refused_as_a_whole() -> None:
    check_branches(MAX_BRANCHES)
    with pytest.raises(JmsError, match="100001 prepared branches, and 100000 are read; settle some there"):
        check_branches(MAX_BRANCHES + 1)


def test_a_branch_crosses_with_all_its_octets() -> None:
    branch = XaTransactionId(-1, bytes(range(200, 256)), b"\x00\x80")
    frame = encode_frame({"branch": plain_branch(branch)}, [b"blob"])
    text, _ = LENGTHS.unpack_from(frame)
    header, blobs = decode_frame(frame[LENGTHS.size : LENGTHS.size + text], frame[LENGTHS.size + text :])
    format_id, global_id, qualifier = header["branch"]
    assert XaTransactionId(format_id, bytes.fromhex(global_id), bytes.fromhex(qualifier)) == branch
    assert blobs == [b"blob"]
