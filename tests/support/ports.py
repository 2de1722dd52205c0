"""Ports for brokers that listen again after a restart, or of which others have to know before they are there.

They lie below those that the kernel gives to outgoing connections (32,768 and more on Linux): while such a broker is
away no connection takes its port, and no client that asks for it connects to itself. Processes of a parallel run choose
from shares of their own.
"""

from __future__ import annotations

import os
import random
import re
import socket
from typing import Final

FIRST: Final = 12_000
LAST: Final = 32_000
SHARES: Final = 8
ATTEMPTS: Final = 200
DICE: Final = random.SystemRandom()
given: Final[set[int]] = set()  # to this process: no two of its brokers have the same, though both are away


def free_port() -> int:
    """One that nobody has, and that nobody gets who does not ask for it."""
    share = own_share()
    size = (LAST - FIRST) // SHARES
    for _ in range(ATTEMPTS):
        port = FIRST + share * size + DICE.randrange(size)
        if port in given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        given.add(port)
        return port
    raise AssertionError(f"none of {ATTEMPTS} ports is free")


def own_share() -> int:
    """Of this process of a parallel run; a run that is not parallel has one by its process id."""
    worker = re.fullmatch(r"gw(\d+)", os.environ.get("PYTEST_XDIST_WORKER", ""))
    return (int(worker[1]) if worker else os.getpid()) % SHARES
