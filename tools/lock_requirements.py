"""Write `requirements/*.txt`: dependencies with hashes, for Python 3.11 to 3.14 on every platform.

The wishes stand in `pyproject.toml` alone: the run-time dependencies, the optional ones and what the build needs. All
of them are resolved once together, then one file per purpose is cut out of that solution, so that any two files can be
installed side by side. The resolver is uv, installed into a temporary environment by pip with the user's own settings;
nothing of those settings (index, paths, commands) reaches the files.

    python tools/lock_requirements.py            # keep the pins that still satisfy pyproject.toml
    python tools/lock_requirements.py --upgrade  # newest versions
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "requirements"
OLDEST_PYTHON: Final = "3.11"
# Not named by hatchling as a requirement of the project, yet asked for when it builds an editable install.
EDITABLE_BUILD: Final = ["editables>=0.5,<1"]
INSTALLER: Final = ["pip>=24"]
# What users install beside the package, for a list of what an installation consists of. Proton is built from source.
USERS_EXTRAS: Final = (
    "completion", "speed", "report", "security", "web", "http", "websocket", "ldap", "tracing", "amqp091", "kafka",
    "mqtt", "nats", "redis", "sqs", "jvm", "yaml", "xpath", "zeroconf", "fabric", "spark", "pipelines", "protobuf",
    "jsonschema",
)  # fmt: skip


def wishes() -> dict[str, list[str]]:
    """Name of each lock file -> the requirements it must satisfy."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, extras = document["project"], document["project"]["optional-dependencies"]
    runtime = project["dependencies"]
    compiler = document["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["compile-dependencies"]
    return {
        "pip": INSTALLER,
        "build": document["build-system"]["requires"] + compiler + EDITABLE_BUILD,
        "runtime": runtime + extras["speed"],
        "test": extras["test"],
        "lint": extras["lint"],
        "docs": extras["docs"],
        "demo": extras["demo"],
        "bench": extras["bench"],
        "amqp": extras["amqp"],
        "faststream": runtime + extras["faststream-suite"],
        "fuzz": extras["fuzz"],
        "dist": extras["dist"],
        "audit": extras["audit"],
        "extras": runtime + [wish for name in USERS_EXTRAS for wish in extras[name]],
        "spark": extras["spark"] + extras["protobuf"] + extras["jsonschema"],  # all that runs in Spark's workers
        "pipelines": extras["pipelines"],
        "java": extras["java"],
    }


def index_settings() -> dict[str, str]:
    """The environment for uv: pip's index and certificates, as the user set them, under the names uv knows."""
    environment = dict(os.environ)
    for option, name in (("index-url", "UV_DEFAULT_INDEX"), ("extra-index-url", "UV_INDEX")):
        command = [sys.executable, "-m", "pip", "config", "get", f"global.{option}"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        value = os.environ.get(f"PIP_{option.upper().replace('-', '_')}") or answer.stdout.strip()
        if value:
            environment.setdefault(name, value)
    if "PIP_CERT" in environment:
        environment.setdefault("SSL_CERT_FILE", environment["PIP_CERT"])
    return environment


def compile_lock(uv: Path, wanted: list[str], output: Path, pins: Path | None, upgrade: bool, work: Path) -> None:
    """Resolve `wanted` into `output`; with `pins`, only versions that stand there."""
    source = work / f"{output.stem}.in"
    source.write_text("\n".join(wanted) + "\n", encoding="utf-8")
    command = [str(uv), "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST_PYTHON]
    command += ["--generate-hashes", "--no-header", "--no-annotate", "--fork-strategy", "fewest"]
    if pins is not None:
        command += ["--constraints", str(pins)]
    if upgrade:
        command += ["--upgrade"]
    subprocess.run([*command, "--output-file", str(output), str(source)], check=True, env=index_settings())


def pinned(folder: Path) -> str:
    """The pins of all lock files in `folder`, without hashes."""
    lines = {line for path in folder.glob("*.txt") for line in path.read_text(encoding="utf-8").splitlines()}
    return "\n".join(line.removesuffix(" \\") for line in sorted(lines) if "==" in line) + "\n"


def strip(text: str) -> str:
    """Only requirements and their hashes: no comment, no index, no path."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("#", "--", "-i "))]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write requirements/*.txt from pyproject.toml.")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions instead of keeping pins")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        venv.create(work / "venv", with_pip=True)
        subprocess.run([str(work / "venv/bin/pip"), "install", "--quiet", "uv"], check=True)
        uv = work / "venv/bin/uv"
        wanted = wishes()
        everything = work / "everything.txt"
        if not arguments.upgrade:
            everything.write_text(pinned(FOLDER), encoding="utf-8")
        compile_lock(uv, [w for group in wanted.values() for w in group], everything, None, arguments.upgrade, work)
        FOLDER.mkdir(exist_ok=True)
        for name, group in wanted.items():
            part = work / f"{name}.txt"
            compile_lock(uv, group, part, everything, False, work)
            target = FOLDER / f"{name}.txt"
            target.write_text(strip(part.read_text(encoding="utf-8")), encoding="utf-8")
            sys.stdout.write(f"{target.relative_to(ROOT)}: {target.read_text(encoding='utf-8').count('==')} packages\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
