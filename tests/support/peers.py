"""The programs that tests talk to and that this project does not bring along: are they here, and where?

`require("java")` at the start of a test skips it, with the reason, where the peer is missing; under `REQUIRE_PEERS=1`
the test fails instead, so that a build server cannot lose a peer unnoticed. `make peers` installs what apt has.

Knows where Debian and Ubuntu put things. Uses nothing of Spanwire and, apart from `require`, nothing of pytest.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

JARS: Final = Path("/usr/share/java")
BROKER_JAR: Final = Path("/usr/share/activemq/bin/activemq.jar")
RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # /usr/sbin has a script that changes the user
MOSQUITTO: Final = "/usr/sbin/mosquitto"
NATS: Final = "/usr/sbin/nats-server"
REDIS: Final = "/usr/bin/redis-server"
# What a JMS client of ActiveMQ Classic needs; names without a version are links that Debian keeps.
CLIENT_JARS: Final = (
    "activemq-client.jar",
    "activemq-openwire-legacy.jar",
    "geronimo-jms_1.1_spec.jar",
    "geronimo-j2ee-management-1.1-spec.jar",
    "hawtbuf.jar",
    "slf4j-api.jar",
    "slf4j-nop.jar",
)
FETCHED: Final = Path(__file__).parents[2] / "build" / "peers"  # by `make peers-maven`
HTTP_JARS: Final = FETCHED / "activemq-http"
JAKARTA_JARS: Final = FETCHED / "activemq-jakarta"
HELM: Final = FETCHED.parent / "helm" / "helm"  # by `make helm`
PROBE_TIMEOUT_S: Final = 30


def _program(*names: str) -> str | None:
    absent = [name for name in names if shutil.which(name) is None]
    return f"no {' and no '.join(absent)} on the path" if absent else None


def _runs(*command: str) -> bool:
    """Does the command exist and end with 0?"""
    try:
        return subprocess.run(command, capture_output=True, timeout=PROBE_TIMEOUT_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _java() -> str | None:
    return _program("java", "javac")


def _activemq_client() -> str | None:
    absent = [name for name in CLIENT_JARS if not (JARS / name).exists()]
    return f"no {', '.join(absent)} in {JARS}" if absent else _java()


def _activemq_broker() -> str | None:
    return _java() if BROKER_JAR.exists() else f"no {BROKER_JAR}"


def _activemq_http() -> str | None:
    return _java() if next(HTTP_JARS.glob("activemq-http-*.jar"), None) else f"no activemq-http in {HTTP_JARS}"


def _activemq_jakarta() -> str | None:
    found = next(JAKARTA_JARS.glob("activemq-client-6.*.jar"), None)
    return _java() if found else f"no activemq-client of ActiveMQ 6 in {JAKARTA_JARS}"


def _zookeeper() -> str | None:
    return _java() if (JARS / "zookeeper.jar").exists() else f"no zookeeper.jar in {JARS}"


def _jpype() -> str | None:
    return _program("java") or (None if importlib.util.find_spec("jpype") else "this Python has no package JPype1")


def _openldap() -> str | None:
    return _program("slapd", "slapadd")


def _ruby_stomp() -> str | None:
    return _program("ruby") or (None if _runs("ruby", "-e", "require 'stomp'") else "ruby has no library stomp")


def _net_stomp() -> str | None:
    return _program("perl") or (None if _runs("perl", "-MNet::Stomp", "-e", "1") else "perl has no module Net::Stomp")


def _stomp_py() -> str | None:
    return None if importlib.util.find_spec("stomp") else "this Python has no package stomp.py"


def _slixmpp() -> str | None:
    return None if importlib.util.find_spec("slixmpp") else "this Python has no package slixmpp"


def _systemd() -> str | None:
    return _program("systemd-analyze")


def _promtool() -> str | None:
    return _program("promtool")


def _s3() -> str | None:
    absent = [name for name in ("moto", "flask", "flask_cors", "pyarrow") if importlib.util.find_spec(name) is None]
    return f"this Python has no package {', '.join(absent)}" if absent else None


def _strace() -> str | None:
    return _program("strace") or (None if _runs("strace", "-o", os.devnull, "true") else "strace may not trace here")


def _cc() -> str | None:
    header = Path(sysconfig.get_path("include")) / "Python.h"
    return _program("cc") or (None if header.exists() else f"no {header}")


def _helm() -> str | None:
    return None if HELM.is_file() else f"no {HELM}"


def _network_namespace() -> str | None:
    pair = ("ip", "link", "add", "near", "type", "veth", "peer", "name", "far")
    return _program("unshare", "ip") or (None if _runs("unshare", "-rn", *pair) else "no namespace may be made here")


def _rabbitmq() -> str | None:
    return _program("epmd") if RABBITMQ.exists() else f"no {RABBITMQ}"


def _mosquitto() -> str | None:
    return _program("mosquitto_passwd") if shutil.which(MOSQUITTO) else f"no {MOSQUITTO}"


def _nats() -> str | None:
    return None if shutil.which(NATS) else f"no {NATS}"


def _redis() -> str | None:
    return None if shutil.which(REDIS) else f"no {REDIS}"


# name -> (says what is missing or None, what brings it)
_PEERS: Final[dict[str, tuple[Callable[[], str | None], str]]] = {
    "java": (_java, "apt package default-jdk-headless"),
    "activemq-client": (_activemq_client, "apt package libactivemq-java"),
    "activemq-broker": (_activemq_broker, "apt package activemq"),
    "activemq-http": (_activemq_http, "make peers-maven, which needs mvn and Maven Central"),
    "activemq-jakarta": (_activemq_jakarta, "make peers-maven, which needs mvn and Maven Central"),
    "zookeeper": (_zookeeper, "apt package libzookeeper-java"),
    "jpype": (_jpype, "requirements/test.txt and apt package default-jre-headless"),
    "openldap": (_openldap, "apt packages slapd and ldap-utils"),
    "mosquitto": (_mosquitto, "apt package mosquitto"),
    "nats": (_nats, "apt package nats-server"),
    "redis": (_redis, "apt package redis-server"),
    "rabbitmq": (_rabbitmq, "apt package rabbitmq-server"),
    "ruby-stomp": (_ruby_stomp, "apt package ruby-stomp"),
    "net-stomp": (_net_stomp, "apt package libnet-stomp-perl"),
    "stomp.py": (_stomp_py, "requirements/test.txt"),
    "slixmpp": (_slixmpp, "requirements/test.txt"),
    "systemd": (_systemd, "apt package systemd"),
    "promtool": (_promtool, "apt package prometheus"),
    "s3": (_s3, "requirements/test.txt and spark.txt"),
    "strace": (_strace, "apt package strace"),
    "cc": (_cc, "apt packages gcc and python3-dev"),
    "helm": (_helm, "make helm, which needs go"),
    "network-namespace": (_network_namespace, "apt packages util-linux and iproute2, and a kernel that lets users"),
}
PEERS: Final = tuple(_PEERS)
# Not asked for by `make peers`: the first four come with the environments, which it does not need, the next two with
# `make peers-maven`, the last with `make helm`.
OF_ENVIRONMENT: Final = frozenset({"jpype", "slixmpp", "stomp.py", "s3", "activemq-http", "activemq-jakarta", "helm"})
# Libraries that `requirements/test.txt` leaves out, because a bare machine may be unable to build them.
LIBRARIES: Final = {"proton": "make amqp, with the apt packages gcc, python3-dev and pkg-config"}
_answers: dict[str, str | None] = {}


def missing(peer: str) -> str | None:
    """Why `peer` cannot be used here and what would bring it, in one line; None if it can. Looks once per process."""
    if peer not in _answers:
        look, source = _PEERS[peer]
        reason = look()
        _answers[peer] = None if reason is None else f"peer {peer} is missing: {reason} ({source})"
    return _answers[peer]


def require(*peers: str, answers: Mapping[str, str | None] | None = None) -> None:
    """Go on only if all the peers are here: else skip the test with the reason, or fail it under REQUIRE_PEERS=1.

    `answers` stands in for what a look at the machine would tell.
    """
    import pytest  # noqa: PLC0415 -- `make peers` runs this module before pytest is installed

    for peer in peers:
        reason = missing(peer) if answers is None else answers[peer]
        if reason is None:
            continue
        if os.environ.get("REQUIRE_PEERS") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


def require_library(name: str) -> None:
    """Skip the test, with the reason, if this Python has no library that `requirements` leaves out.

    Such a library is built from C, so REQUIRE_PEERS does not ask for it.
    """
    import pytest  # noqa: PLC0415 -- `make peers` runs this module before pytest is installed

    if importlib.util.find_spec(name) is None:
        pytest.skip(f"this Python has no package {name} ({LIBRARIES[name]})")


def activemq_classpath(*extra: Path) -> str:
    """The class path for a Java program that uses ActiveMQ's JMS client; `extra` folders or jars come first."""
    return os.pathsep.join(str(path) for path in (*extra, *(JARS / name for name in CLIENT_JARS)))


def jakarta_classpath(*extra: Path) -> str:
    """The same with the client of ActiveMQ 6, which has the packages of Jakarta Messaging."""
    return os.pathsep.join(str(path) for path in (*extra, JAKARTA_JARS / "*"))


def main(arguments: list[str]) -> int:
    """Print one line per peer, or with --missing only those that cannot be had; never fails unless REQUIRE_PEERS=1."""
    absent = [(peer, reason) for peer in PEERS if (reason := missing(peer)) is not None]
    if "--missing" in arguments:
        absent = [(peer, reason) for peer, reason in absent if peer not in OF_ENVIRONMENT]
        for _, reason in absent:
            sys.stdout.write(f"{reason}; its tests are skipped\n")
        return 1 if absent and os.environ.get("REQUIRE_PEERS") == "1" else 0
    for peer in PEERS:
        sys.stdout.write(f"{peer}: {missing(peer) or 'here'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
