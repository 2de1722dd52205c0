"""Modules that commands load before their first line of output: imports are most of what a short command costs.

`make bench-start` has the costs. Modules that only mistakes, files or secure connections need are loaded by name
through `spanwire.registry`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys

def show():
    os.write(2, ("\\n" + " ".join(sys.modules)).encode())

class UntilStarted:
    def write(self, text):
        if " started\\n" in text:
            show()
            os._exit(0)
    def flush(self):
        pass

if sys.argv[1:2] == ["start"]:
    from spanwire.service.config.model import DEFAULT_CONNECTORS
    for connector in DEFAULT_CONNECTORS:  # the usual ports may be taken
        object.__setattr__(connector, "port", 0)
    sys.stdout = UntilStarted()
from spanwire.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
show()
"""
# A mistake, a configuration and other protocols than the command's own need these.
RARE = {
    "difflib", "email", "http", "importlib.metadata", "logging.config", "multiprocessing", "tempfile", "tomllib",
    "unittest", "xml", "yaml",
}  # fmt: skip
# Without an event loop, a broker, a client or dataclasses, whose methods Python compiles at each import.
HEAVY = {"asyncio", "dataclasses", "hashlib", "inspect", "spanwire.broker", "spanwire.client", "ssl"}
# Discovery, links of networks, TLS and plug-ins are for configurations and URLs that ask for them.
SPECIAL = {
    "spanwire.broker.plugins.filtered_broker", "spanwire.broker.plugins.plugins", "spanwire.discovery.agents",
    "spanwire.discovery.groups.agent_settings", "spanwire.network.connector", "spanwire.transports.tls",
}  # fmt: skip
CONFIGURATION = """<broker xmlns="http://activemq.apache.org/schema/core"><transportConnectors>
<transportConnector uri="tcp://127.0.0.1:0"/></transportConnectors></broker>"""


def loaded_by(*words: str) -> set[str]:
    """Run a command in a process of its own; return the modules that it loaded."""
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_a_question_about_the_program_loads_no_command(word: str) -> None:
    loaded = loaded_by(word)
    assert "spanwire.cli.main" in loaded
    assert loaded & (RARE | HEAVY | {"argparse", "json", "logging", "socket"}) == set()


@pytest.mark.parametrize("command", ["delete", "dstat", "pause", "purge", "reload", "status", "stop"])
def test_a_command_for_a_running_broker_loads_no_broker(command: str, tmp_path: Path) -> None:
    words = ["QUEUE"] if command in ("delete", "pause", "purge") else []
    loaded = loaded_by(command, *words, "--data-directory", str(tmp_path))
    assert "spanwire.management.control_client" in loaded
    assert loaded & (RARE | HEAVY) == set()


def test_the_list_of_brokers_loads_no_broker() -> None:
    loaded = loaded_by("list")
    assert "spanwire.management.running_brokers" in loaded
    assert loaded & (RARE | HEAVY) == set()


@pytest.mark.parametrize("command", ["producer", "consumer"])
def test_a_client_command_loads_no_broker_and_no_tls(command: str) -> None:
    loaded = loaded_by(command, "--brokerUrl", "tcp://127.0.0.1:1")
    assert "spanwire.client.blocking.shared.channel" in loaded
    assert loaded & (RARE | SPECIAL | {"asyncio", "hashlib", "spanwire.broker", "spanwire.tls", "ssl"}) == set()


def test_a_broker_with_the_default_configuration_loads_no_reader_link_or_plug_in(tmp_path: Path) -> None:
    loaded = loaded_by("start", "--data-directory", str(tmp_path))
    assert {"spanwire.broker.broker", "spanwire.protocols.stomp.broker_connection"} <= loaded
    assert loaded & (RARE | SPECIAL | {"spanwire.service.config.reading", "spanwire.tls"}) == set()


def test_a_broker_with_a_file_loads_what_the_file_asks_for(tmp_path: Path) -> None:
    file = tmp_path / "activemq.xml"
    file.write_text(CONFIGURATION, "utf-8")
    loaded = loaded_by("start", str(file), "--data-directory", str(tmp_path / "data"))
    assert "spanwire.service.config.interpretation.interpretation" in loaded
    assert loaded & ((RARE - {"xml"}) | SPECIAL | {"spanwire.service.config.interpretation.network"}) == set()
