"""ActiveMQ Artemis as Maven Central has it, with an acceptor for OpenWire and one for STOMP."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from tests.bench.brokers.activemq import HEAP
from tests.bench.brokers.process import BrokerProcess, jar_version
from tests.support.distributions import ARTEMIS, CREATE_TIMEOUT_S, cache_directory, find_destination
from tests.support.ports import free_port

ACCEPTORS: Final = re.compile(r"<acceptors>.*?</acceptors>", re.DOTALL)
PREFIXES: Final = "anycastPrefix=/queue/;multicastPrefix=/topic/"
OURS: Final = """<acceptors>
 <acceptor name="openwire">tcp://127.0.0.1:{openwire}?protocols=OPENWIRE</acceptor>
 <acceptor name="stomp">tcp://127.0.0.1:{stomp}?protocols=STOMP;{prefixes}</acceptor>
</acceptors>"""


def is_unpacked() -> bool:
    """Return True if nothing is to be fetched."""
    home = cache_directory() / "distributions" / ARTEMIS.folder
    return bool(os.environ.get(ARTEMIS.variable)) or home.is_dir()


def find_artemis() -> Path | str:
    """Return the directory of the distribution, fetched if need be, or the reason that it cannot be had."""
    return find_destination(ARTEMIS)


def artemis(home: Path, directory: Path) -> BrokerProcess:
    """Artemis as its own ``artemis create`` makes it on this machine, but for the ports and the heap."""
    directory.mkdir(parents=True, exist_ok=True)
    instance = directory / "instance"
    done = subprocess.run(
        [
            str(home / "bin" / "artemis"), "create", str(instance), "--silent", "--user", "bench",
            "--password", "bench", "--allow-anonymous", "--host", "127.0.0.1", "--default-port",
            str(free_port()), "--no-web", "--java-options", f"-Xms{HEAP} -Xmx{HEAP}",
        ],
        capture_output=True, text=True, timeout=CREATE_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"bench: artemis create failed: {(done.stderr or done.stdout).strip()}")
    ports = {"openwire": free_port(), "stomp": free_port()}
    configuration = instance / "etc" / "broker.xml"
    configuration.write_text(with_acceptors(configuration.read_text(), ports["openwire"], ports["stomp"]))
    found = jar_version(home / "lib", "artemis-server")
    return BrokerProcess(
        "artemis",
        [str(instance / "bin" / "artemis"), "run"],
        {**ports, "jms": ports["openwire"]},
        directory,
        about=f"{found} of Maven Central, -Xms{HEAP} -Xmx{HEAP}, else as `artemis create` configures it",
    )


def with_acceptors(configuration: str, openwire: int, stomp: int) -> str:
    """Return a ``broker.xml`` that listens on these ports alone."""
    acceptors = OURS.format(openwire=openwire, stomp=stomp, prefixes=PREFIXES)
    text, count = ACCEPTORS.subn(acceptors, configuration)
    if count != 1:
        raise ValueError(f"broker.xml has {count} elements acceptors, not one")
    return text
