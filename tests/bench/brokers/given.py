"""A broker that runs already, here or elsewhere, by its addresses."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from tests.bench.brokers.process import cpu_seconds, resident_mib

PROTOCOLS: Final = {"openwire": "openwire", "tcp": "openwire", "stomp": "stomp"}  # by scheme; tcp as ActiveMQ says it


class Address(NamedTuple):
    """Host and port that speak one protocol."""

    protocol: str
    host: str
    port: int


def parse_address(text: str) -> Address:
    """Return the parts of ``openwire://HOST:PORT`` or ``stomp://HOST:PORT``.

    Raises:
        ValueError: the text is no such address, or holds a password, which other users of the machine could read.
    """
    parts = urlsplit(text)
    if parts.scheme not in PROTOCOLS or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError(f"{text} is no address: write openwire://HOST:PORT or stomp://HOST:PORT")
    if parts.username or parts.password:
        raise ValueError("an address has no user or password: use --user, and BENCH_PASSWORD in the environment")
    if not parts.port:
        raise ValueError(f"{text} has no port: write {parts.scheme}://{parts.hostname}:PORT")
    return Address(PROTOCOLS[parts.scheme], parts.hostname, parts.port)


class GivenBroker:
    """A broker of somebody else: nothing is started or stopped, and only its process id tells what it takes."""

    def __init__(self, addresses: Sequence[Address], user: str, password: str, pid: int | None) -> None:
        hosts = {address.host for address in addresses}
        if len(hosts) != 1:
            raise SystemExit(f"bench: addresses of one broker have one host, not {len(hosts)}")
        self.label = "given"
        self.host = hosts.pop()
        self.ports: Mapping[str, int] = {address.protocol: address.port for address in addresses}
        if "openwire" in self.ports:
            self.ports = {**self.ports, "jms": self.ports["openwire"]}
        self.login: Mapping[str, str] = {"LOAD_USER": user, "LOAD_PASSWORD": password} if user else {}
        # Names of their own: what an interrupted run leaves behind must not count in the next.
        self.prefix = f"BENCH.{int(time.time())}"
        self.about = ", ".join(f"{address.protocol}://{address.host}:{address.port}" for address in addresses)
        self._pid = pid

    def cpu_seconds(self) -> float | None:
        """User and system time of the process; None without its id."""
        return None if self._pid is None else cpu_seconds(self._pid)

    def resident_mib(self) -> float | None:
        """Resident memory of the process; None without its id."""
        return None if self._pid is None else resident_mib(self._pid)

    def is_alive(self) -> bool:
        """Return False if the process is known and has ended."""
        return self._pid is None or Path(f"/proc/{self._pid}").exists()

    def restart(self) -> float:
        """Refuse: the broker is not ours."""
        raise SystemExit("bench: a broker that was running before is not restarted")

    def stop(self) -> None:
        """Leave the broker alone."""


def given(addresses: Sequence[str], user: str, pid: int | None) -> GivenBroker:
    """Return the broker at the addresses of the command line; the password is in the environment."""
    try:
        return GivenBroker([parse_address(text) for text in addresses], user, os.environ.get("BENCH_PASSWORD", ""), pid)
    except ValueError as error:
        raise SystemExit(f"bench: {error}") from error
