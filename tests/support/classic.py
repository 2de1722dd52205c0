"""ActiveMQ Classic, as Debian packages it, in the role of the oracle: the same `activemq.xml`, the same questions.

Never a system service: a child in the foreground, with all it writes in one temporary directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.broker_process import BROKER_NAME, BrokerProcess
from tests.support.peers import BROKER_JAR

HOME: Final = BROKER_JAR.parent.parent
LOGGING: Final = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%p %m%n
"""
# A test broker lives for a minute: quick to start and small matters more than quick at its best.
JVM_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m")


def classic_broker(
    directory: Path, *, name: str = BROKER_NAME, inside: str = "", attributes: str = ""
) -> BrokerProcess:
    """A broker that is not started yet."""
    return BrokerProcess(classic_command, directory, name=name, inside=inside, attributes=attributes)


def classic_command(directory: Path) -> list[str]:
    """What starts it with the ``activemq.xml`` of ``directory``."""
    properties = directory / "log4j.properties"
    properties.write_text(LOGGING, encoding="utf-8")
    return [
        "java",
        *JVM_OPTIONS,
        f"-Dlog4j.configuration={properties.as_uri()}",
        f"-Dactivemq.home={HOME}",
        f"-Dactivemq.base={directory}",
        f"-Dactivemq.conf={directory}",
        f"-Dactivemq.data={directory / 'data'}",
        "-jar",
        str(BROKER_JAR),
        "start",
        f"xbean:file:{directory / 'activemq.xml'}",
    ]
