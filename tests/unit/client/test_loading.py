"""What importing the client brings along: a Spark executor loads it alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spanwire.testing import Broker

FORBIDDEN = ("broker", "stores", "service", "web", "transports", "management", "network", "testing", "cli")


def loaded_by(modules: str) -> set[str]:
    program = f"import sys, {modules}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("shell", ["aio", "blocking"])
def test_the_client_loads_nothing_of_the_broker(shell: str) -> None:
    loaded = loaded_by(f"spanwire.client.{shell}")
    packages = {name.split(".")[1] for name in loaded if name.startswith("spanwire.")}
    assert "client" in packages
    assert packages & set(FORBIDDEN) == set()


def test_the_blocking_client_needs_no_event_loop() -> None:
    assert "asyncio" not in loaded_by("spanwire.client.blocking")


WITHOUT_UNIX = """
import asyncio, os, select, sys
del os.register_at_fork, select.poll, os.fork
from spanwire.client import aio, blocking

async def main():
    async with aio.connect(sys.argv[1]) as connection, connection.session() as session:
        await (await session.create_producer("queue://Q")).send("x")
        print((await (await session.create_consumer("queue://Q")).receive(10)).body)

asyncio.run(main())
"""


def test_both_shells_load_and_asyncio_works_without_what_only_unix_has(spanwire_broker: Broker) -> None:
    command = [sys.executable, "-c", WITHOUT_UNIX, spanwire_broker.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("x\n", "")


def test_the_client_loads_no_module_that_only_hints_need() -> None:
    assert {"importlib.metadata", "email", "zipfile"} & loaded_by("spanwire.client.aio") == set()


def test_the_core_needs_no_socket_and_no_event_loop() -> None:
    loaded = loaded_by("spanwire.client.protocol.connection")
    assert {"asyncio", "socket", "ssl", "subprocess"} & loaded == set()
