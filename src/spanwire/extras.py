"""The extras of the package, and the commands for installing them.

A command names the required packages, read from the metadata of the installed distribution. The command therefore works
for an index, a clone and a wheel file.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable
from typing import Final

from spanwire.registry import load

DISTRIBUTION: Final = "spanwire"
METADATA: Final = "importlib.metadata:requires"  # loaded on demand, because it imports many modules
EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([A-Za-z0-9._-]+)['\"]")


def install_command(*extras: str) -> str:
    """Return the command that installs the packages of ``extras`` for the running interpreter.

    A source tree without installation has no metadata; then the command names the extras.
    """
    requires = load(METADATA)
    assert callable(requires)
    try:
        packages = required_packages(requires(DISTRIBUTION) or (), extras)
    except ModuleNotFoundError:
        packages = [f"{DISTRIBUTION}[{','.join(extras)}]"]
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", *packages])


def required_packages(requirements: Iterable[str], extras: Iterable[str]) -> list[str]:
    """Return the ``requirements`` (PEP 508) of any of ``extras``, without their markers, each once."""
    names = set(extras)
    packages: list[str] = []
    for requirement in requirements:
        package, _, marker = requirement.partition(";")
        if names.intersection(EXTRA.findall(marker)) and package.strip() not in packages:
            packages.append(package.strip())
    return packages
