"""Brokers that read an ``activemq.xml``: ActiveMQ Classic from Debian's packages and Spanwire in both builds."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.bench.brokers.process import START_DEADLINE, BrokerProcess, jar_version
from tests.support.peers import BROKER_JAR, JARS
from tests.support.ports import free_port

HEAP: Final = "2G"

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
   {connectors}
  </transportConnectors>
 </broker>
</beans>
"""


def interpreter(path: str) -> Path:
    """Return the path of a build's Python, from any directory: a broker runs in a directory of its own."""
    return Path(path).absolute()


class Broker(BrokerProcess):
    """One broker process with a connector for each protocol; ``{configuration}`` in its command is the file."""

    def __init__(
        self,
        label: str,
        command: list[str],
        directory: Path,
        memory: str,
        plugins: str = "",
        patience: float = START_DEADLINE,
        about: str = "",
        *,
        is_tunnelled: bool = False,
    ) -> None:
        """With ``is_tunnelled`` there is a connector for OpenWire over HTTP beside the others."""
        openwire, stomp, http = free_port(), free_port(), free_port()
        tunnel = f'<transportConnector name="http" uri="http://127.0.0.1:{http}"/>'
        directory.mkdir(parents=True, exist_ok=True)
        configuration = directory / "activemq.xml"
        configuration.write_text(
            CLASSIC_CONFIGURATION.format(
                name=directory.name,
                data=directory / "data",
                memory=memory,
                plugins=plugins,
                openwire=openwire,
                stomp=stomp,
                connectors=tunnel if is_tunnelled else "",
            )
        )
        super().__init__(
            label,
            [part.replace("{configuration}", str(configuration)) for part in command],
            {"openwire": openwire, "stomp": stomp, "jms": openwire, **({"http": http} if is_tunnelled else {})},
            directory,
            about=about,
            patience=patience,
        )


def classic(directory: Path, plugins: str = "") -> Broker:
    """ActiveMQ Classic with the settings the comparison states."""
    command = [
        "java",
        f"-Xms{HEAP}",
        f"-Xmx{HEAP}",
        "-Dorg.apache.activemq.UseDedicatedTaskRunner=false",
        "-Dactivemq.home=/usr/share/activemq",
        f"-Dactivemq.base={directory}",
        f"-Dactivemq.conf={directory}",
        f"-Dactivemq.data={directory}/data",
        "-jar",
        str(BROKER_JAR),
        "start",
        "xbean:file:{configuration}",
    ]
    about = (
        f"{jar_version(JARS, 'activemq-broker')} of Debian's packages, -Xms{HEAP} -Xmx{HEAP}, KahaDB's defaults, "
        "memoryUsage 70 % of the heap, UseDedicatedTaskRunner=false"
    )
    return Broker("classic", command, directory, 'percentOfJvmHeap="70"', plugins, about=about)


def spanwire(label: str, python: Path, directory: Path, plugins: str = "") -> Broker:
    """Spanwire from one environment's interpreter, reading the same configuration."""
    command = [str(python), "-m", "spanwire", "start", "xbean:{configuration}", "--log-level", "warning"]
    done = subprocess.run([str(python), "-m", "spanwire", "--version"], capture_output=True, text=True, check=False)
    about = f"{done.stdout.strip()}, Classic's configuration, memoryUsage 1,400 MB"
    return Broker(label, command, directory, 'limit="1400 mb"', plugins, about=about)
