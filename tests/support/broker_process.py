"""A whole broker as a child process on free loopback ports, configured by an `activemq.xml` in a directory of its own.

    with BrokerProcess(spanwire_command(), directory) as broker:
        broker.openwire_uri({"wireFormat.cacheEnabled": "false"})
        broker.kill()      # as the machine would
        broker.start()     # the same ports, the same data

Waiting is reading: `start` returns when the broker has said that it is started and raises when it ends or stays silent.
Knows nothing of tests; `tests/support/classic.py` runs ActiveMQ Classic through the same class.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlencode

from tests.support.announcing_process import AnnouncingProcess
from tests.support.ports import free_port

START_TIMEOUT_S: Final = 180.0  # beside other tests on two processors; alone it takes seconds
STARTED: Final = re.compile(r"\(.*\) started$")
BROKER_NAME: Final = "interop"
CONFIGURATION: Final = """\
<beans xmlns="http://www.springframework.org/schema/beans"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans
                           http://www.springframework.org/schema/beans/spring-beans.xsd
                           http://activemq.apache.org/schema/core
                           http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="{name}" dataDirectory="{data}"
          useJmx="false"{attributes}>
{inside}    <persistenceAdapter>
      <kahaDB directory="{data}/kahadb"/>
    </persistenceAdapter>
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://{host}:{openwire}{connectors}"/>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}{connectors}"/>
    </transportConnectors>
  </broker>
</beans>
"""

Command = Callable[[Path], list[str]]


# `spanwire` of this interpreter, whichever build it is.
COMMAND: Final = [sys.executable, "-c", "import sys; from spanwire.cli.main import main; sys.exit(main())"]


def spanwire_command(*arguments: str) -> Command:
    """The command that starts the Spanwire of this interpreter, whichever build it is."""
    return lambda directory: [*COMMAND, "start", f"xbean:{directory / 'activemq.xml'}", *arguments]


class BrokerProcess:
    """One broker with an OpenWire and a STOMP connector, on the same ports at every start."""

    started: re.Pattern[str] = STARTED  # the line that says so
    dead_letters: str = "queue://ActiveMQ.DLQ"
    expired_letters: str = "queue://ActiveMQ.DLQ"
    lacks: frozenset[str] = frozenset()  # what it does otherwise than ActiveMQ Classic

    def __init__(
        self,
        command: Command,
        directory: Path,
        *,
        name: str = BROKER_NAME,
        inside: str = "",
        attributes: str = "",
        connectors: str = "",
        openwire_port: int = 0,
        openwire_host: str = "127.0.0.1",
    ) -> None:
        """``inside`` are elements of the broker that come before the usual ones in the order of Classic's schema,
        ``attributes`` those of the broker itself, ``connectors`` the options in the URI of each connector.
        ``openwire_port`` is for brokers of which others have to know before they are there, ``openwire_host`` for those
        that others reach from elsewhere.
        """
        self.directory: Final = directory
        self.name: Final = name
        self.inside = inside  # a test may change it between two starts
        self.attributes: Final = f" {attributes}" if attributes else ""
        self.connectors: Final = f"?{connectors}" if connectors else ""
        self.log: Final[list[str]] = []  # every line the broker has printed, over all its starts
        self._command: Final = command
        self._host: Final = openwire_host
        self._ports: Final = {"tcp": openwire_port or free_port(), "stomp": free_port()}
        self._process: AnnouncingProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def openwire_port(self) -> int:
        return self._ports["tcp"]

    @property
    def stomp_port(self) -> int:
        return self._ports["stomp"]

    def openwire_uri(self, options: Mapping[str, str] | None = None) -> str:
        """The address for a Java client; `options` are its wire format, JMS and socket options."""
        return f"tcp://127.0.0.1:{self.openwire_port}" + (f"?{urlencode(options)}" if options else "")

    def start(self) -> None:
        """Raises RuntimeError with the broker's last lines if it does not come up."""
        assert self._process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        text = CONFIGURATION.format(
            name=self.name,
            data=self.directory / "data",
            host=self._host,
            openwire=self.openwire_port,
            stomp=self.stomp_port,
            inside=self.inside,
            attributes=self.attributes,
            connectors=self.connectors,
        )
        (self.directory / "activemq.xml").write_text(text, encoding="utf-8")
        process = AnnouncingProcess(self._command(self.directory), self.directory, self.log)
        self._process = process  # already, for others may end it while it starts
        try:
            process.wait_until(lambda line: self.started.search(line) is not None, START_TIMEOUT_S)
        except RuntimeError:
            self._process = None
            raise

    def awaits(self, words: str) -> None:
        """Until a line of the log holds them, behind the line that was awaited last."""
        assert self._process is not None
        self._process.wait_until(lambda line: words in line, START_TIMEOUT_S, f"did not say {words!r}")

    def stop(self) -> int:
        """Ask the broker to end in order; its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker at once, with nothing written that is not written yet. A broker that is not there stays so."""
        if self._process is not None:
            self._end(signal.SIGKILL)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None
        return process.end(number)
