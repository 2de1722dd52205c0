"""Two brokers on hosts of their own, and a cable between them that is cut one way, the other way and both ways, is
slow and brings resets: each message arrives once, and both ends tell how the link is. See `network_hosts.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.interop.network_hosts import checksum, resets_for, segment
from tests.support.peers import require

ROOT: Final = Path(__file__).parents[2]
TIMEOUT_S: Final = 280.0


@pytest.mark.long
def test_whatever_happens_to_the_cable_between_two_hosts_every_message_arrives_once(tmp_path: Path) -> None:
    require("network-namespace")
    inside = [sys.executable, "-m", "tests.interop.network_hosts", "everything", str(tmp_path)]
    done = subprocess.run(
        ["unshare", "-rn", *inside],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_reset_is_answered_to_both_ends_of_a_connection_that_is_up() -> None:
    ethernet = b"\x01" * 6 + b"\x02" * 6
    one, other = bytes([10, 77, 0, 1]), bytes([10, 77, 0, 2])
    sent = segment(ethernet, one, other, b"\x00\x50\x9c\x40", (7).to_bytes(4, "big"))
    assert checksum(sent[14:34]) == 0
    assert resets_for(sent) is None  # it is one itself
    acknowledging = bytearray(sent)
    acknowledging[14 + 20 + 13] = 0x10
    acknowledging[14 + 20 + 8 : 14 + 20 + 12] = (9).to_bytes(4, "big")
    answers = resets_for(bytes(acknowledging))
    assert answers is not None
    on, back = answers
    assert on == sent
    assert back == segment(b"\x02" * 6 + b"\x01" * 6, other, one, b"\x9c\x40\x00\x50", (9).to_bytes(4, "big"))
