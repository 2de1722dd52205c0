"""OpenLDAP's slapd on free loopback ports, with the schemas for Java objects (RFC 2713) and for persons, and one empty
organization.
"""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.ports import free_port

START_S: Final = 20.0
COMMAND_S: Final = 20
SCHEMA: Final = Path("/etc/ldap/schema")
MODULES: Final = Path("/usr/lib/ldap")
BASE: Final = "o=company"
ADMIN: Final = f"cn=admin,{BASE}"
PASSWORD: Final = "secret"
CONFIGURATION: Final = """\
include {schema}/core.schema
include {schema}/cosine.schema
include {schema}/inetorgperson.schema
include {schema}/java.schema
{tls}pidfile {directory}/slapd.pid
modulepath {modules}
moduleload back_mdb
database mdb
suffix "{base}"
rootdn "{admin}"
rootpw {password}
directory {data}
access to attrs=userPassword by anonymous auth by * none
access to * by {readers} read by * none
"""
ROOT: Final = f"dn: {BASE}\nobjectClass: organization\no: company\n"


def reference(name: str, class_name: str, addresses: dict[str, str], more: str = "") -> str:
    """The entry of a reference."""
    lines = [f"javaReferenceAddress: #{index}#{key}#{value}" for index, (key, value) in enumerate(addresses.items())]
    return "\n".join(
        [
            f"dn: {name},{BASE}",
            "objectClass: javaContainer",
            "objectClass: javaNamingReference",
            name.replace("=", ": ", 1),
            f"javaClassName: {class_name}",
            *lines,
            *more.splitlines(),
            "",
        ]
    )


def factory_entry(name: str, url: str) -> str:
    """The entry of a connection factory."""
    return reference(name, "org.apache.activemq.ActiveMQConnectionFactory", {"brokerURL": url})


class DirectoryServer:
    """A running directory; ``readers`` is what slapd.access(5) calls who may read.

    With ``key``, a file with a key and its certificate, it also speaks TLS.
    """

    def __init__(self, directory: Path, *entries: str, readers: str = "*", key: Path | None = None) -> None:
        self._key: Final = key
        self.secure_port: Final = free_port()
        self._directory: Final = directory
        self._entries: Final = (ROOT, *entries)
        self._readers: Final = readers
        self.port: Final = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}/{BASE}"

    def __enter__(self) -> Self:
        data = self._directory / "data"
        data.mkdir(parents=True)
        configuration = self._directory / "slapd.conf"
        configuration.write_text(
            CONFIGURATION.format(
                schema=SCHEMA,
                directory=self._directory,
                modules=MODULES,
                base=BASE,
                admin=ADMIN,
                password=PASSWORD,
                data=data,
                readers=self._readers,
                tls="" if self._key is None else f"TLSCertificateFile {self._key}\nTLSCertificateKeyFile {self._key}\n",
            ),
            "utf-8",
        )
        subprocess.run(
            ["slapadd", "-f", str(configuration), "-q"],
            input="\n".join(self._entries),
            text=True,
            check=True,
            capture_output=True,
            timeout=COMMAND_S,
        )
        self.start()
        return self

    def start(self) -> None:
        configuration = self._directory / "slapd.conf"
        urls = f"ldap://127.0.0.1:{self.port}"
        if self._key is not None:
            urls += f" ldaps://127.0.0.1:{self.secure_port}"
        command = ["slapd", "-f", str(configuration), "-h", urls, "-d", "0"]
        self._process = subprocess.Popen(command)
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def change(self, text: str) -> None:
        """Apply changes in LDIF, as the administrator."""
        subprocess.run(
            ["ldapmodify", "-x", "-H", f"ldap://127.0.0.1:{self.port}", "-D", ADMIN, "-w", PASSWORD],
            input=text,
            text=True,
            check=True,
            capture_output=True,
            timeout=COMMAND_S,
        )

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(COMMAND_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop()
