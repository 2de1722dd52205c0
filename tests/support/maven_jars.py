"""Jars of Maven Central for programs of tests: fetched once into a cache outside of this tree, compared by checksum."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import tempfile
import urllib.request
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.distributions import TIMEOUT_S, cache_directory

CENTRAL: Final = "https://repo1.maven.org/maven2"
MAX_JAR: Final = 16 * 1024 * 1024  # bytes; the largest has less than one million


@dataclass(frozen=True)
class Jar:
    """One jar, and the checksum that it has to have."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def url(self) -> str:
        return f"{CENTRAL}/{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.name}-{self.version}.jar"


# Jolokia's client for Java 11 and later, and what it needs.
JOLOKIA: Final = (
    Jar("org.jolokia", "jolokia-client-java", "2.1.2",
        "0df877b934149791a2a414592cb379020155cb37e4cfef4288bddce386f8be93"),
    Jar("org.jolokia", "jolokia-json", "2.1.2", "cd2761ffa004382d42af8260b85edd72b543477a591c7ac0915a8ea7a2c43a73"),
    Jar("org.apache.httpcomponents", "httpclient", "4.5.14",
        "c8bc7e1c51a6d4ce72f40d2ebbabf1c4b68bfe76e732104b04381b493478e9d6"),
    Jar("org.apache.httpcomponents", "httpcore", "4.4.16",
        "6c9b3dd142a09dc468e23ad39aad6f75a0f2b85125104469f026e52a474e464f"),
    Jar("commons-logging", "commons-logging", "1.2",
        "daddea1ea0be0f56978ab3006b8ac92834afeefbd9b7e4e6316fca57df0fa636"),
    Jar("commons-codec", "commons-codec", "1.17.1", "f9f6cb103f2ddc3c99a9d80ada2ae7bf0685111fd6bffccb72033d1da4e6ff23"),
)  # fmt: skip


@cache
def find_jars(jars: tuple[Jar, ...]) -> tuple[Path, ...] | str:
    """The files of some jars, fetched if they are not there; or why they cannot be had, in one line."""
    if shutil.which("javac") is None:
        return "there is no javac on the path"
    place = cache_directory() / "jars"
    place.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for jar in jars:
        file = place / f"{jar.name}-{jar.version}.jar"
        if not file.exists():
            try:
                _fetch(jar, file)
            except (OSError, http.client.HTTPException, ValueError) as error:
                return f"{file.name} cannot be fetched from Maven Central: {error}"
        files.append(file)
    return tuple(files)


def _fetch(jar: Jar, file: Path) -> None:
    """Raises ValueError for a jar that is another one than it should be."""
    with urllib.request.urlopen(jar.url, timeout=TIMEOUT_S) as response:
        content = response.read(MAX_JAR)
    if hashlib.sha256(content).hexdigest() != jar.sha256:
        raise ValueError("the jar is not the one whose checksum is known")
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as part:
        part.write(content)
    Path(part.name).rename(file)
