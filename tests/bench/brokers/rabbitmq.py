"""RabbitMQ as Debian packages it, with its plug-in for STOMP and nothing of the machine's own configuration."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from tests.bench.brokers.process import START_DEADLINE, STOP_DEADLINE, BrokerProcess
from tests.support.ports import free_port

# The script behind Debian's wrapper of the same name, which insists on the user rabbitmq.
SCRIPT: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
LOGIN: Final = {"LOAD_USER": "guest", "LOAD_PASSWORD": "guest"}  # RabbitMQ lets this user in from loopback alone
EPMD_PATIENCE: Final = 0.5  # seconds
CONFIGURATION: Final = """listeners.tcp = none
stomp.listeners.tcp.1 = 127.0.0.1:{stomp}
log.console = true
log.console.level = warning
vm_memory_high_watermark.absolute = 1400MB
"""


class RabbitMQ(BrokerProcess):
    """RabbitMQ and the port mapper that Erlang needs, both on ports of their own."""

    def __init__(self, script: Path, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        stomp, mapper = free_port(), free_port()
        (directory / "rabbitmq.conf").write_text(CONFIGURATION.format(stomp=stomp))
        (directory / "enabled_plugins").write_text("[rabbitmq_stomp].\n")
        environment = {
            "HOME": str(directory),  # where Erlang keeps its cookie
            "RABBITMQ_NODENAME": f"bench{stomp}@localhost",
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "none"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(directory / "data"),
            "RABBITMQ_LOG_BASE": str(directory),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RUNNING_UNDER_SYSTEMD": "1",  # the script becomes the broker: no shell stays between
            "ERL_EPMD_PORT": str(mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        self._mapper = subprocess.Popen(
            ["epmd", "-port", str(mapper), "-address", "127.0.0.1"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        time.sleep(EPMD_PATIENCE)  # RabbitMQ starts a mapper that stays behind where none answers
        try:
            super().__init__(
                "rabbitmq",
                [str(script)],
                {"stomp": stomp},
                directory,
                environment=environment,
                login=LOGIN,
                about=f"{version(script)}, plug-in rabbitmq_stomp, queues of its default kind, memory limit 1,400 MB",
                patience=2 * START_DEADLINE,
            )
        except BaseException:
            self._end_mapper()
            raise

    def stop(self, patience: float = STOP_DEADLINE) -> None:
        """End the broker, then its port mapper."""
        super().stop(patience)
        self._end_mapper()

    def _end_mapper(self) -> None:
        if self._mapper.poll() is None:
            self._mapper.terminate()
            self._mapper.wait()


def find_rabbitmq() -> Path | None:
    """Return the script that starts RabbitMQ, or None."""
    if shutil.which("epmd") is None:
        return None
    if SCRIPT.exists():
        return SCRIPT
    found = shutil.which("rabbitmq-server")
    return Path(found) if found else None


def version(script: Path) -> str:
    """Return the version that the path of the script tells, or "a version"."""
    match = re.search(r"rabbitmq_server-([\d.]+)", str(script.resolve()))
    return match[1] if match else "a version"
