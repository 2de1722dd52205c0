"""``spanwire create``: makes a directory for a broker, with configuration, data and start script."""

from __future__ import annotations

import shlex
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from spanwire.cli.arguments import Parser
from spanwire.model.errors import ConfigurationError

FILE_MODE: Final = 0o600
OPENWIRE_PORT: Final = 61616
STOMP_PORT: Final = 61613
PORT_STEP: Final = 100  # 61716 for the second broker of a machine, as in ActiveMQ's documentation
MOST_BROKERS: Final = 39  # steps up to port 65516
CONFIGURATION: Final = """\
<beans xmlns="http://www.springframework.org/schema/beans">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName={name} dataDirectory="${{activemq.base}}/data">
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://127.0.0.1:{openwire}"/>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}"/>
    </transportConnectors>
  </broker>
</beans>
"""
SCRIPT: Final = """\
#!/bin/sh
# Runs commands of the broker in this directory; without a command starts it in the foreground.
ACTIVEMQ_BASE=$(cd "$(dirname "$0")/.." && pwd) || exit 1
export ACTIVEMQ_BASE
unset ACTIVEMQ_CONF
[ $# -gt 0 ] || set -- start
exec {python} -m spanwire "$@"
"""


def run(arguments: Sequence[str]) -> int:
    """Make the directory, and print the contents."""
    parser = Parser(
        prog="spanwire create",
        description="Create a directory for a further broker of this machine: its configuration in conf, its data in "
        "data, and in bin a script that starts it and runs commands of it.",
    )
    parser.add_argument("path", type=Path, metavar="PATH", help="a new directory; its name becomes that of the broker")
    parser.add_argument(
        "--amqconf", type=Path, metavar="FILE", help="take this configuration, unchanged, as conf/activemq.xml"
    )
    options = parser.parse(arguments)
    path: Path = options.path.absolute()
    text = _given(options.amqconf) if options.amqconf is not None else _made(path.name)
    script = path / "bin" / path.name
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ConfigurationError(f"{path} is there and not empty; name a new directory")
        for name in ("bin", "conf", "data"):
            (path / name).mkdir(parents=True)
        configuration = path / "conf" / "activemq.xml"
        configuration.touch(mode=FILE_MODE if options.amqconf is not None else 0o644)  # a given file may have passwords
        configuration.write_text(text, "utf-8")
        script.write_text(SCRIPT.format(python=shlex.quote(sys.executable)), "utf-8")
        script.chmod(0o755)
    except OSError as error:
        raise ConfigurationError(f"{error.filename or path}: {error.strerror or error}") from error
    sys.stdout.write(f"created {path}\nconfiguration: {path / 'conf' / 'activemq.xml'}\nstart it with: {script}\n")
    return 0


def _given(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--amqconf {file}: {getattr(error, 'strerror', None) or error}") from error


def _made(name: str) -> str:
    """Return a configuration with a pair of ports without a present listener. Raises `ConfigurationError`."""
    for step in range(MOST_BROKERS):
        openwire, stomp = OPENWIRE_PORT + step * PORT_STEP, STOMP_PORT + step * PORT_STEP
        if _is_free(openwire) and _is_free(stomp):
            return CONFIGURATION.format(name=quoteattr(name), openwire=openwire, stomp=stomp)
    raise ConfigurationError(f"no ports are free from {OPENWIRE_PORT} on; give a configuration with --amqconf")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
