"""Newer brokers of the ActiveMQ family than a distribution packages: Classic and Artemis as Maven Central has them.

An archive is fetched once into a cache outside of this tree, and compared with the checksum here, before anything of it
runs. ``SPANWIRE_CLASSIC_HOME`` and ``SPANWIRE_ARTEMIS_HOME`` name unpacked ones instead, of any version. Where neither
is to be had the reason is said.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.broker_process import BrokerProcess
from tests.support.classic import JVM_OPTIONS
from tests.support.ports import free_port
from tests.support.tar_archives import unpack

CENTRAL: Final = "https://repo1.maven.org/maven2/org/apache"
TIMEOUT_S: Final = 60
MAX_ARCHIVE: Final = 256 * 1024 * 1024  # bytes; the largest has less than a hundred million
CREATE_TIMEOUT_S: Final = 120


@dataclass(frozen=True)
class Distribution:
    """One archive: which, the checksum that it has to have, and the variable that names another one's directory."""

    name: str
    version: str
    sha512: str
    variable: str
    group: str = "activemq"

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def url(self) -> str:
        return f"{CENTRAL}/{self.group}/{self.name}/{self.version}/{self.folder}-bin.tar.gz"


CLASSIC: Final = Distribution(
    "apache-activemq",
    "5.18.3",
    (
        "61abc4a08b9e1db6a5b1062bb1c839171e93bcb571817fd81744dd19874d7138"
        "40bba99c7979d45bcb832d13ea01986b76fb11720f5ec63a0283e7d1934a33cc"
    ),
    "SPANWIRE_CLASSIC_HOME",
)
ARTEMIS: Final = Distribution(
    "apache-artemis",
    "2.56.0",
    (
        "441ad38aa1b0526e5709edf43542039f016669d24134056613e4cbafdf6b101e"
        "5351f79f7ee190b43fc8031f6ec596a5fd075490dcee4d3eb3a88d8ed2cfc01b"
    ),
    "SPANWIRE_ARTEMIS_HOME",
    "artemis",
)


@cache
def find_destination(distribution: Distribution) -> Path | str:
    """The directory of an unpacked archive, fetched if it is not there; or why it cannot be had, in one line."""
    given = os.environ.get(distribution.variable)
    if given:
        return Path(given) if Path(given).is_dir() else f"{distribution.variable}={given} is no directory"
    place = cache_directory() / "distributions"
    home = place / distribution.folder
    if home.is_dir():
        return home
    if shutil.which("java") is None:
        return "there is no java on the path"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as directory:
        archive = Path(directory) / "archive"
        try:
            fetch(distribution, archive)
            with tarfile.open(archive) as found:
                unpack(found, Path(directory))
        except (OSError, http.client.HTTPException, tarfile.TarError, ValueError) as error:
            reason = f"HTTP {error.code}" if isinstance(error, urllib.error.HTTPError) else f"{error}"
            return f"{distribution.folder} cannot be fetched from Maven Central: {reason}"
        if not home.exists():
            (Path(directory) / distribution.folder).rename(home)
    return home


def fetch(distribution: Distribution, archive: Path) -> None:
    """Raises ValueError for an archive that is another one than it should be."""
    digest = hashlib.sha512()
    size = 0
    with urllib.request.urlopen(distribution.url, timeout=TIMEOUT_S) as response, archive.open("wb") as file:
        while block := response.read(1024 * 1024):
            size += len(block)
            if size > MAX_ARCHIVE:
                raise ValueError(f"the archive is larger than {MAX_ARCHIVE} bytes")
            digest.update(block)
            file.write(block)
    if digest.hexdigest() != distribution.sha512:
        raise ValueError("the archive is not the one whose checksum is known")


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spanwire-tests"


def newest_classic(home: Path, directory: Path) -> BrokerProcess:
    """A broker of this Classic that is not started yet."""

    def command(place: Path) -> list[str]:
        properties = place / "log4j2.properties"
        properties.write_text(
            "appender.out.type=Console\nappender.out.name=out\nappender.out.layout.type=PatternLayout\n"
            "appender.out.layout.pattern=%p %m%n\nrootLogger.level=INFO\nrootLogger.appenderRef.out.ref=out\n",
            encoding="utf-8",
        )
        return [
            "java", *JVM_OPTIONS, f"-Dlog4j2.configurationFile={properties}", f"-Dactivemq.home={home}",
            f"-Dactivemq.base={place}", f"-Dactivemq.conf={place}", f"-Dactivemq.data={place / 'data'}",
            "-jar", str(home / "bin" / "activemq.jar"), "start", f"xbean:file:{place / 'activemq.xml'}",
        ]  # fmt: skip

    return BrokerProcess(command, directory)


class ArtemisProcess(BrokerProcess):
    """An Artemis with one connector that speaks OpenWire, and the queues' names as ActiveMQ's clients know them."""

    started = re.compile("AMQ221007")
    dead_letters = "queue://DLQ"
    expired_letters = "queue://ExpiryQueue"
    lacks = frozenset(
        {
            "every character in properties",
            "lists inside of maps",
            "noLocal",
            "a refusal to send to a temporary destination that is gone",
            "durable subscriptions that only an unsubscribe without a consumer ends",
            "the first destination of a dead letter",
        }
    )

    def __init__(self, home: Path, directory: Path, key_store: tuple[Path, str] | None = None) -> None:
        """With a key store in PKCS #12 and its password there is an acceptor with TLS, too."""
        self.largest_disk_usage = 100  # percent; as Artemis is made, it lets producers wait where the disk is 90 % full
        self._port: Final = free_port()
        self.secure_port: Final = free_port()
        self._key_store: Final = key_store
        super().__init__(lambda place: [str(place / "instance" / "bin" / "artemis"), "run"], directory)
        self._home: Final = home

    @property
    def openwire_port(self) -> int:
        return self._port

    def start(self) -> None:
        instance = self.directory / "instance"
        if not instance.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                [
                    str(self._home / "bin" / "artemis"), "create", str(instance), "--silent", "--user", "admin",
                    "--password", "admin", "--allow-anonymous", "--host", "127.0.0.1", "--default-port",
                    str(self._port), "--no-amqp-acceptor", "--no-hornetq-acceptor", "--no-mqtt-acceptor",
                    "--no-stomp-acceptor", "--no-web", "--no-autotune", "--nio", "--java-options",
                    "-XX:TieredStopAtLevel=1",
                ],
                check=True, capture_output=True, timeout=CREATE_TIMEOUT_S,
            )  # fmt: skip
        configuration = instance / "etc" / "broker.xml"
        text = configuration.read_text(encoding="utf-8")
        usage = f"<max-disk-usage>{self.largest_disk_usage}</max-disk-usage>"
        configuration.write_text(re.sub(r"<max-disk-usage>\d+</max-disk-usage>", usage, text), encoding="utf-8")
        if self._key_store is not None and 'name="secure"' not in text:
            self._add_secure_acceptor(configuration, *self._key_store)
        super().start()

    def _add_secure_acceptor(self, configuration: Path, key_store: Path, password: str) -> None:
        options = f"sslEnabled=true;keyStorePath={key_store};keyStorePassword={password};keyStoreType=PKCS12"
        acceptor = f'<acceptor name="secure">tcp://127.0.0.1:{self.secure_port}?{options}</acceptor></acceptors>'
        text = configuration.read_text(encoding="utf-8")
        configuration.write_text(text.replace("</acceptors>", acceptor, 1), encoding="utf-8")
