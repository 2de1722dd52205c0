"""A PostgreSQL of a test's own: a cluster in a folder, on loopback, whose one user needs no password."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final

import pytest

from tests.support.await_start import await_start
from tests.support.ports import free_port

PROGRAMS: Final = Path("/usr/lib/postgresql")  # where Debian keeps each version
DRIVER: Final = Path("/usr/share/java/postgresql.jar")
USER: Final = "mover"
START_S: Final = 60.0
SETTINGS: Final = ("listen_addresses=127.0.0.1", "fsync=off", "max_connections=20", "shared_buffers=16MB")


def programs() -> Path | None:
    """The folder with the programs of the newest version."""
    found = sorted(PROGRAMS.glob("*/bin/initdb"))
    return found[-1].parent if found else None


def driver() -> Path:
    """The JDBC driver; SPANWIRE_POSTGRESQL_JAR names another one than Debian's."""
    return Path(os.environ.get("SPANWIRE_POSTGRESQL_JAR", DRIVER))


def require_postgres() -> None:
    """Go on only where there are PostgreSQL and its driver; it is no peer that every machine with tests must have."""
    if programs() is None or not driver().exists():
        pytest.skip(f"no initdb in {PROGRAMS} or no {driver()} (apt packages postgresql, libpostgresql-jdbc-java)")


class PostgresProcess:
    """Runs while the block does. Root may not run it, so it is then user nobody's, whom no folder of a test lets in."""

    def __init__(self, log: Path) -> None:
        found = programs()
        assert found is not None
        self._programs: Final = found
        self._log: Final = log
        self._folder: Final = Path(tempfile.mkdtemp(prefix="spanwire-postgres-"))
        self._user: Final = "nobody" if os.geteuid() == 0 else None
        self._port: Final = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self._port}/postgres?user={USER}"

    def __enter__(self) -> PostgresProcess:
        if self._user is not None:
            shutil.chown(self._folder, pwd.getpwnam(self._user).pw_uid)
        data = self._folder / "data"
        words = ["-D", str(data), "-U", USER, "-A", "trust", "-N", "-E", "UTF8", "--no-locale"]
        with self._log.open("ab") as log:
            subprocess.run(
                [self._programs / "initdb", *words], check=True, stdout=log, stderr=log, user=self._user, cwd="/"
            )
            settings: list[str] = [word for setting in SETTINGS for word in ("-c", setting)]
            start = [str(self._programs / "postgres"), "-D", str(data), "-p", str(self._port), "-k", str(self._folder)]
            self._process = subprocess.Popen(
                [*start, *settings], stdout=log, stderr=log, user=self._user, cwd="/", start_new_session=True
            )
        await_start(
            self._process,
            lambda: self._asks("SELECT 1").returncode == 0,
            lambda: self.__exit__(None, None, None),
            self._log,
            START_S,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(START_S)
        shutil.rmtree(self._folder)

    def answer(self, query: str) -> list[str]:
        """The rows of an answer, a line each."""
        asked = self._asks(query)
        assert asked.returncode == 0, asked.stderr
        return asked.stdout.splitlines()

    def _asks(self, query: str) -> subprocess.CompletedProcess[str]:
        place = ["-h", "127.0.0.1", "-p", str(self._port), "-U", USER, "-d", "postgres"]
        return subprocess.run(
            [self._programs / "psql", *place, "-XAtc", query], check=False, capture_output=True, text=True, cwd="/"
        )
