"""Packages of npm that tests talk to: fetched once into a cache outside of this tree, and compared with a checksum."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.distributions import cache_directory
from tests.support.tar_archives import unpack

TIMEOUT_S: Final = 60


@dataclass(frozen=True)
class NpmPackage:
    """One package: which, and the checksum that its archive has to have."""

    name: str
    version: str
    sha512: str


STOMP_JS: Final = NpmPackage(
    "@stomp/stompjs",
    "7.5.0",
    (
        "c61dec7731181fc33e92b40604e823f94d012c11ddedc7138fc60cde65716942"
        "cc4d6ff0c7640159fe38f298a54625992a382584398d20bc4cdd6fa3fc287dbb"
    ),
)
WS: Final = NpmPackage(
    "ws",
    "8.18.3",
    (
        "3c4206098e6d4a552de7472ac8c5df0b35fea0e3ea374bee1aa5b36dc276c6f9"
        "e4ce4ab8ea83a9cfb7506930c175f2026f8375e3e1804540f0d97576378b6fce"
    ),
)


def require_package(package: NpmPackage) -> Path:
    """Return the unpacked package; the test ends here, with the reason, where it cannot be had."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on the path (apt packages nodejs, npm)")
    found = _fetched(package)
    if isinstance(found, str):
        pytest.skip(found)
    return found


def require_project(project: Path) -> Path:
    """Return a directory with the modules of ``project``, a directory with a package-lock.json.

    The lock has the checksum of each archive. The test ends here, with the reason, where they cannot be had.
    """
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on the path (apt packages nodejs, npm)")
    found = _installed(project)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@cache
def _installed(project: Path) -> Path | str:
    """The modules in the cache, fetched if they are not there, or why they cannot be had."""
    files = [project / "package.json", project / "package-lock.json"]
    digest = hashlib.sha256(b"".join([file.read_bytes() for file in files])).hexdigest()
    where = cache_directory() / f"npm-{project.name}-{digest[:16]}"
    if where.is_dir():
        return where
    where.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=where.parent) as directory:
        made = Path(directory) / "project"
        made.mkdir()
        for file in files:
            shutil.copy(file, made)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=True, cwd=made)
        except (OSError, subprocess.SubprocessError) as error:
            return f"npm cannot fetch what {project.name} needs: {type(error).__name__}"
        if not where.exists():
            made.rename(where)
    return where


@cache
def _fetched(package: NpmPackage) -> Path | str:
    """The package in the cache, fetched if it is not there, or why it cannot be had."""
    where = cache_directory() / f"npm-{package.name.replace('/', '-')}-{package.version}"
    if where.is_dir():
        return where / "package"
    where.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=where.parent) as directory:
        command = ["npm", "pack", f"{package.name}@{package.version}", "--pack-destination", directory]
        try:
            subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=True, cwd=directory)
        except (OSError, subprocess.SubprocessError) as error:
            return f"npm cannot fetch {package.name} {package.version}: {type(error).__name__}"
        (archive,) = Path(directory).glob("*.tgz")
        if hashlib.sha512(archive.read_bytes()).hexdigest() != package.sha512:
            return f"{package.name} {package.version} of npm has another checksum than it had"
        unpacked = Path(directory) / "unpacked"
        with tarfile.open(archive) as packed:
            unpack(packed, unpacked)
        if not where.exists():
            unpacked.rename(where)
    return where / "package"
