"""The activemq.xml that ActiveMQ Classic ships: every obstacle at once, and the rest starts.

The archives come from Maven Central, of which only ``conf`` is kept, in a cache outside this tree
(``$XDG_CACHE_HOME/spanwire-tests``). Where one cannot be had, its tests say so in one line.
"""

from __future__ import annotations

import http.client
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import PendingLimit, TopicPolicy
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration
from tests.service.started import Started, spanwire
from tests.support.peers import require

MIB: Final = 1024 * 1024
CENTRAL: Final = "https://repo1.maven.org/maven2/org/apache/activemq/apache-activemq"
VERSIONS: Final = ("5.15.16", "5.18.3", "6.1.8")
TIMEOUT_S: Final = 20.0  # for each read of the network
MAX_READ_BYTES: Final = 256 * MIB  # unpacked; a whole archive has less than 100
MAX_FILE_BYTES: Final = MIB  # of one configuration file
NEEDED: Final = ("activemq.xml", "credentials.properties")
DEBIAN: Final = Path("/etc/activemq/instances-available/main/activemq.xml")
EXAMPLES: Final = Path("/usr/share/doc/activemq/examples/conf")

SKIP: Final = "or start with --skip-unsupported"
STORES: Final = f"(it asks for other stores); the journal of Spanwire keeps the messages; remove it {SKIP}"
DATABASES: Final = (
    f"(later feature: stores in a database); the journal of Spanwire keeps the messages; remove it {SKIP}"
)
ENCRYPTED: Final = (
    "password of <authenticationUser>: ENC(…) needs a password; set the environment variable "
    "ACTIVEMQ_ENCRYPTION_PASSWORD"
)


def transport(scheme: str, address: str, feature: str) -> str:
    return (
        f"the transport {scheme}:// of {scheme}://{address} is not yet supported (later feature: {feature}); "
        f"use tcp:// or stomp://, remove it {SKIP}"
    )


def bean(class_name: str) -> str:
    advice = f"remove it, use the corresponding element, {SKIP}"
    return f"the bean of class {class_name} is not built: Spanwire runs no Java classes; {advice}"


def shipped(shift: int) -> list[str]:
    """What stands in the way of the activemq.xml of 5.18 and 6.1; that of 5.15 has six lines more at its front."""
    return [
        f"{108 + shift}: {transport('amqp', '0.0.0.0:5672?…', 'AMQP')}",
        f"{110 + shift}: {transport('mqtt', '0.0.0.0:1883?…', 'MQTT')}",
    ]


def told(shift: int) -> list[str]:
    """What its owner is told although it means nothing here."""
    heap = "percentOfJvmHeap is taken as 70 % of 1 gb, ActiveMQ's usual heap; write limit instead"
    hook = "org.apache.activemq.hooks.SpringContextHook"
    log = "io.fabric8.insight.log.log4j.Log4jLogQuery has no effect: the broker logs to standard error"
    return [
        *([f"32: the bean of class {log}"] if shift else []),
        f"{88 + shift}: {heap}",
        f"{116 + shift}: the bean of class {hook} has no effect: there is no Spring context here to close",
    ]


def configuration_directory(version: str) -> Path:
    """The ``conf`` of a version; the test ends here, with the reason, where it cannot be had."""
    found = fetched(version)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@cache
def fetched(version: str) -> Path | str:
    """``conf`` in the cache, fetched if it is not there, or why it cannot be had."""
    cached = cache_directory() / f"apache-activemq-{version}"
    if all((cached / name).is_file() for name in NEEDED):
        return cached
    url = f"{CENTRAL}/{version}/apache-activemq-{version}-bin.tar.gz"
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent) as directory:
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
                files = configuration_files(response)
        except (OSError, EOFError, http.client.HTTPException, tarfile.TarError) as error:
            reason = f"HTTP {error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__
            return f"apache-activemq {version} cannot be fetched from Maven Central: {reason}"
        if any(name not in files for name in NEEDED):
            return f"apache-activemq {version} of Maven Central holds no conf/activemq.xml"
        complete = Path(directory) / "conf"
        complete.mkdir()
        for name, content in files.items():
            (complete / name).write_bytes(content)
        if not cached.exists():
            complete.rename(cached)
    return cached


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spanwire-tests"


def configuration_files(response: http.client.HTTPResponse) -> dict[str, bytes]:
    """The plain files right in ``conf`` of a streamed archive; reads no further than it must."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=response, mode="r|gz") as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            inside = len(path.parts) == 3 and path.parts[1] == "conf" and path.name not in ("..", ".")
            if member.offset > MAX_READ_BYTES or (not inside and found.keys() >= set(NEEDED)):
                break
            file = archive.extractfile(member) if inside and member.isfile() else None
            if file is not None and member.size <= MAX_FILE_BYTES:
                found[path.name] = file.read()
    return found


def load(path: Path, skip_unsupported: bool = False, environment: dict[str, str] | None = None) -> BrokerConfiguration:
    return load_configuration(str(path), environment=environment or {}, skip_unsupported=skip_unsupported)


def refusal(path: Path, skip_unsupported: bool = False) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        load(path, skip_unsupported)
    return [line.removeprefix(f"{path}:") for line in str(raised.value).splitlines()]


def left_out(obstacle: str) -> str:
    """What the log says when the obstacle is passed by."""
    line, _, text = obstacle.partition(": ")
    word, _, rest = text.replace(" not yet ", " not ").partition(" is not supported ")
    return f"{line}: skipped: {word} {rest.partition(';')[0]}" if rest else f"{line}: skipped: {text.partition(';')[0]}"


def shift_of(version: str) -> int:
    return 6 if version.startswith("5.15") else 0


@pytest.mark.parametrize("version", VERSIONS)
def test_what_classic_ships_is_refused_with_every_obstacle_at_once(version: str) -> None:
    path = configuration_directory(version) / "activemq.xml"
    assert refusal(path) == shipped(shift_of(version))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_rest_of_what_classic_ships_loads_and_each_thing_left_out_is_one_line(version: str) -> None:
    path = configuration_directory(version) / "activemq.xml"
    configuration = load(path, skip_unsupported=True)
    place = f"{path}:"
    expected = [left_out(obstacle) for obstacle in shipped(shift_of(version))]
    assert [line.removeprefix(place) for line in configuration.skipped] == expected
    assert [line.removeprefix(place) for line in configuration.warnings] == told(shift_of(version))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_classic_ships_means_the_same_here(version: str) -> None:
    path = configuration_directory(version) / "activemq.xml"
    places = {"ACTIVEMQ_BASE": "/srv/b", "ACTIVEMQ_CONF": str(path.parent)}
    configuration = load(path, skip_unsupported=True, environment=places)
    assert configuration.broker_name == "localhost"
    assert configuration.data_directory == Path("/srv/b/data")
    assert configuration.persistence.directory == Path("/srv/b/data/kahadb")
    assert configuration.policies == (
        PolicyEntry(Destination(TOPIC, ">"), topic=TopicPolicy(pending_limit=PendingLimit(1000))),
    )
    assert configuration.usage.memory_limit_bytes == 1024 * MIB * 70 // 100
    assert [(connector.name, connector.uri()) for connector in configuration.connectors] == [
        ("openwire", "tcp://0.0.0.0:61616"),
        ("stomp", "stomp://0.0.0.0:61613"),
        ("ws", "ws://0.0.0.0:61614"),
    ]
    assert {connector.maximum_connections for connector in configuration.connectors} == {1000}
    assert {connector.max_frame_size for connector in configuration.connectors} == {100 * MIB}


class Shipped(Started):
    """A broker from what Classic ships, but for the ports, which the system chooses."""

    def __init__(self, directory: Path, conf: Path) -> None:
        super().__init__(directory, arguments=("--skip-unsupported", "--allow-anonymous"))
        self._conf: Final = conf

    def text(self) -> str:
        text = (self._conf / "activemq.xml").read_text("utf-8")
        for port in ("61616", "61613", "61614"):
            assert f"0.0.0.0:{port}" in text
            text = text.replace(f"0.0.0.0:{port}", "127.0.0.1:0")
        (self.directory / "credentials.properties").write_bytes((self._conf / "credentials.properties").read_bytes())
        return text.replace("{", "{{").replace("}", "}}")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_starts_from_what_classic_ships_and_passes_a_message_on(version: str, tmp_path: Path) -> None:
    with Shipped(tmp_path / "broker", configuration_directory(version)) as broker:
        assert sorted(path.name for path in broker.data.iterdir() if path.is_dir()) == ["kahadb"]
        with broker.stomp() as client:
            client.transact("SEND\ndestination:/queue/a\npersistent:true\nreceipt:1\n\nhello", "1")
            client.send("SUBSCRIBE\ndestination:/queue/a\nid:1\n\n")
            assert client.receive().endswith("hello")
        status = spanwire("status", str(broker.configuration))
        assert (status.returncode, status.stderr) == (0, "")
        assert broker.stop() == 0
        skipped = [line for line in broker.errors if "skipped:" in line]
        assert len(skipped) == len(shipped(0))


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_opens_what_classic_ships_to_other_machines_without_a_login(version: str) -> None:
    done = spanwire("start", str(configuration_directory(version) / "activemq.xml"), "--skip-unsupported")
    assert done.returncode == 1
    assert "would open tcp://0.0.0.0:61616 to other machines without authentication" in done.stderr
    assert "Traceback" not in done.stderr


# example of Debian's package → what stands in its way
EXAMPLE_OBSTACLES: Final[dict[str, list[str]]] = {
    "activemq.xml": [f"29: <persistenceFactory> is not supported {STORES}"],
    "activemq-demo.xml": [],
    "activemq-dynamic-network-broker1.xml": [],
    "activemq-dynamic-network-broker2.xml": [],
    "activemq-jdbc-performance.xml": [
        f"62: <jdbcPersistenceAdapter> is not yet supported {DATABASES}",
        f"73: {bean('org.apache.commons.dbcp2.BasicDataSource')}",
    ],
    "activemq-jdbc.xml": [
        f"50: <jdbcPersistenceAdapter> is not yet supported {DATABASES}",
        f"59: {bean('org.apache.derby.jdbc.EmbeddedDataSource')}",
    ],
    "activemq-mqtt.xml": [f"88: {transport('mqtt+nio', '0.0.0.0:1883?…', 'MQTT')}"],
    "activemq-scalability.xml": [],
    "activemq-security.xml": [f"85: {ENCRYPTED}", f"87: {ENCRYPTED}", f"89: {ENCRYPTED}"],
    "activemq-specjms.xml": [],
    "activemq-static-network-broker1.xml": [],
    "activemq-static-network-broker2.xml": [],
    "activemq-stomp.xml": [],
    "activemq-throughput.xml": [],
}


def test_what_debian_installs_loads_as_it_is() -> None:
    require("activemq-broker")
    configuration = load(DEBIAN)
    assert configuration.warnings == ()
    assert [connector.uri() for connector in configuration.connectors] == ["tcp://127.0.0.1:61616"]


def test_debian_has_no_other_examples() -> None:
    require("activemq-broker")
    assert {path.name for path in EXAMPLES.glob("activemq*.xml")} == EXAMPLE_OBSTACLES.keys()


@pytest.mark.parametrize("name", EXAMPLE_OBSTACLES)
def test_an_example_of_debian_loads_or_is_refused_with_every_obstacle_at_once(name: str) -> None:
    require("activemq-broker")
    if EXAMPLE_OBSTACLES[name]:
        assert refusal(EXAMPLES / name) == EXAMPLE_OBSTACLES[name]
    else:
        assert load(EXAMPLES / name).connectors


@pytest.mark.parametrize("name", EXAMPLE_OBSTACLES)
def test_the_rest_of_an_example_of_debian_starts_unless_its_users_cannot_be_read(name: str) -> None:
    require("activemq-broker")
    if name == "activemq-security.xml":
        assert refusal(EXAMPLES / name, skip_unsupported=True) == EXAMPLE_OBSTACLES[name]
        return
    configuration = load(EXAMPLES / name, skip_unsupported=True)
    place = f"{EXAMPLES / name}:"
    expected = [left_out(obstacle) for obstacle in EXAMPLE_OBSTACLES[name]]
    assert [line.removeprefix(place) for line in configuration.skipped] == expected


def test_the_secured_example_of_debian_loads_with_the_password_it_was_encrypted_with() -> None:
    require("activemq-broker")
    configuration = load(EXAMPLES / "activemq-security.xml", environment={"ACTIVEMQ_ENCRYPTION_PASSWORD": "activemq"})
    assert configuration.authentication is not None
    users = [user.name for module in configuration.authentication.modules for user in module.users]
    assert users == ["system", "user", "guest"]
    assert configuration.authorization is not None
    assert len(configuration.authorization.entries) == 8
