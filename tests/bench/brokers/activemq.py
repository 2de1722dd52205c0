"""Brokers as child processes for the benchmark: ActiveMQ Classic from Debian's packages and Spanwire in both builds."""

from __future__ import annotations

import os
import subprocess
import time
from functools import partial
from pathlib import Path

from tests.support.await_start import await_start, is_listening
from tests.support.ports import free_port

START_DEADLINE = 60.0  # seconds until a broker must accept connections
STOP_DEADLINE = 20.0
CLASSIC_HEAP = "2G"
MIB = 1024 * 1024

CLASSIC_CONFIGURATION = """<beans xmlns="http://www.springframework.org/schema/beans"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:schemaLocation="http://www.springframework.org/schema/beans
 http://www.springframework.org/schema/beans/spring-beans.xsd
 http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
 <broker xmlns="http://activemq.apache.org/schema/core" brokerName="{name}" useJmx="false" dataDirectory="{data}">
  {plugins}
  <persistenceAdapter><kahaDB directory="{data}/kahadb"/></persistenceAdapter>
  <systemUsage><systemUsage><memoryUsage><memoryUsage {memory}/></memoryUsage></systemUsage></systemUsage>
  <transportConnectors>
   <transportConnector name="openwire" uri="tcp://127.0.0.1:{openwire}"/>
   <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}"/>
  </transportConnectors>
 </broker>
</beans>
"""


def interpreter(path: str) -> Path:
    """Return the path of a build's Python, from any directory: a broker runs in a directory of its own."""
    return Path(path).absolute()


class Broker:
    """One broker process on two free loopback ports."""

    def __init__(
        self,
        label: str,
        command: list[str],
        directory: Path,
        memory: str,
        plugins: str = "",
        patience: float = START_DEADLINE,
    ) -> None:
        self.label = label
        self._patience = patience
        openwire = free_port()
        self.ports = {"openwire": openwire, "stomp": free_port(), "jms": openwire}
        directory.mkdir(parents=True, exist_ok=True)
        configuration = directory / "activemq.xml"
        configuration.write_text(
            CLASSIC_CONFIGURATION.format(
                name=directory.name,
                data=directory / "data",
                memory=memory,
                plugins=plugins,
                openwire=self.ports["openwire"],
                stomp=self.ports["stomp"],
            )
        )
        self._log = (directory / "log").open("wb")
        self._directory = directory
        self._arguments = [part.replace("{configuration}", str(configuration)) for part in command]
        self._process = self._start()
        self._await_ports(directory / "log")

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._arguments, stdout=self._log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=self._directory
        )

    def restart(self) -> float:
        """Stop in order and start again on the same data; gives the seconds from the start until it accepts
        connections.
        """
        self._end()
        started = time.monotonic()
        self._process = self._start()
        self._await_ports(self._directory / "log")
        return time.monotonic() - started

    def _await_ports(self, log: Path) -> None:
        try:
            for port in self.ports.values():
                await_start(self._process, partial(is_listening, port), self.stop, log, self._patience)
        except AssertionError as error:
            raise SystemExit(f"bench: {self.label} did not start: {error}") from error

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """User and system time of the whole process so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self) -> float:
        """Resident memory of the process."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MIB

    def stop(self, patience: float = STOP_DEADLINE) -> None:
        """End this process, and only this one."""
        self._end(patience)
        self._log.close()

    def _end(self, patience: float = STOP_DEADLINE) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def classic(directory: Path, plugins: str = "") -> Broker:
    """ActiveMQ Classic with the settings the comparison states."""
    command = [
        "java",
        f"-Xms{CLASSIC_HEAP}",
        f"-Xmx{CLASSIC_HEAP}",
        "-Dorg.apache.activemq.UseDedicatedTaskRunner=false",
        "-Dactivemq.home=/usr/share/activemq",
        f"-Dactivemq.base={directory}",
        f"-Dactivemq.conf={directory}",
        f"-Dactivemq.data={directory}/data",
        "-jar",
        "/usr/share/activemq/bin/activemq.jar",
        "start",
        "xbean:file:{configuration}",
    ]
    return Broker("classic", command, directory, 'percentOfJvmHeap="70"', plugins)


def spanwire(label: str, python: Path, directory: Path, plugins: str = "") -> Broker:
    """Spanwire from one environment's interpreter, reading the same configuration."""
    command = [str(python), "-m", "spanwire", "start", "xbean:{configuration}", "--log-level", "warning"]
    return Broker(label, command, directory, 'limit="1400 mb"', plugins)
