"""Let the running environment import what another one of the same Python has: Spark is installed once and used by the
pure and the compiled build.

    .venv/bin/python tools/link_environment.py .venv-spark

Writes one .pth file. The other environment's packages come last, so they replace nothing.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path


def packages_of(environment: Path) -> Path:
    """Return the folder of packages of an environment that this Python made."""
    variables = {"base": str(environment), "platbase": str(environment)}
    return Path(sysconfig.get_path("purelib", "venv", variables))


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python tools/link_environment.py ENVIRONMENT\n")
        return 2
    other = Path(sys.argv[1]).absolute()
    packages = packages_of(other)
    if not packages.is_dir():
        sys.stderr.write(f"{other} is no environment of Python {sys.version_info.major}.{sys.version_info.minor}\n")
        return 1
    link = packages_of(Path(sys.prefix)) / f"{other.name.lstrip('.')}.pth"
    link.write_text(f"{packages}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
