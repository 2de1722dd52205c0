"""Create a virtual environment with pip in it, on machines where `python -m venv` alone cannot.

Debian and Ubuntu ship Python without ensurepip. Root gets the package python3-venv; everybody else gets an environment
without pip, and pip from its own wheel: the version and the hash stand in `requirements/pip.txt`, the file comes from
the index that pip itself would use (PIP_INDEX_URL, then pip's configuration files, then pip's default).

    python tools/make_environment.py FOLDER      # does nothing if FOLDER already holds one with pip

Uses the standard library alone.
"""

from __future__ import annotations

import base64
import configparser
import hashlib
import importlib.util
import os
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
DEFAULT_INDEX: Final = "https://pypi.org/simple"  # pip's own
MAX_WHEEL_BYTES: Final = 32 * 1024 * 1024  # pip's wheel has about 2 MB
MAX_PAGE_BYTES: Final = 8 * 1024 * 1024  # the page that lists all releases of pip
TIMEOUT_S: Final = 60


class SetupError(Exception):
    """A failed step of the set-up: the fault and its remedy in one line."""


class Links(HTMLParser):
    """Collects the targets of all links of a page of the simple index."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value for name, value in attrs if tag == "a" and name == "href" and value]


def index_url() -> str:
    """The index that pip would use for this user."""
    from_environment = os.environ.get("PIP_INDEX_URL")
    if from_environment:
        return from_environment
    home = Path.home()
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf", settings / "pip/pip.conf"]
    files.append(Path(os.environ.get("PIP_CONFIG_FILE", os.devnull)))
    parser = configparser.RawConfigParser()
    parser.read(files)
    configured = [parser.get(section, "index-url", fallback="") for section in ("install", "global")]
    return next((url for url in configured if url), DEFAULT_INDEX)


def fetch(url: str, limit: int) -> bytes:
    """The bytes behind `url`, at most `limit`.

    A user name and password in it are sent as basic authentication.
    """
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(urllib.parse.urlunsplit(parts._replace(netloc=host, fragment="")))
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:
            data: bytes = answer.read(limit + 1)
    except (urllib.error.URLError, TimeoutError) as error:
        raise SetupError(f"cannot read {host}: {error}; set PIP_INDEX_URL to an index that can be reached") from error
    if len(data) > limit:
        raise SetupError(f"{host} sent more than {limit} bytes for {parts.path}")
    return data


def locked_pip(lock: str) -> tuple[str, frozenset[str]]:
    """Version and accepted SHA-256 sums of pip, from the text of its lock file."""
    version = re.search(r"^pip==([^\s;\\]+)", lock, re.MULTILINE)
    if version is None:
        raise SetupError("requirements/pip.txt names no version of pip; run make lock")
    return version.group(1), frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", lock))


def install_pip(python: Path) -> None:
    """Put the locked pip into the environment of `python`, from its wheel."""
    version, hashes = locked_pip((ROOT / "requirements/pip.txt").read_text(encoding="utf-8"))
    name = f"pip-{version}-py3-none-any.whl"
    page = index_url().rstrip("/") + "/pip/"
    links = Links()
    links.feed(fetch(page, MAX_PAGE_BYTES).decode("utf-8", "replace"))
    for target in links.targets:
        address = urllib.parse.urljoin(page, target)
        if urllib.parse.urlsplit(address).path.endswith("/" + name):
            break
    else:
        raise SetupError(f"the index lists no {name}; install python3-venv or set PIP_INDEX_URL to another index")
    wheel = fetch(address, MAX_WHEEL_BYTES)
    if hashlib.sha256(wheel).hexdigest() not in hashes:
        raise SetupError(f"{name} from the index does not have the hash that requirements/pip.txt asks for")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(wheel)
        command = [str(python), f"{path}/pip", "install", "--quiet", "--no-deps", "--no-index", str(path)]
        subprocess.run(command, check=True)


def has_pip(python: Path) -> bool:
    return python.exists() and subprocess.run([str(python), "-c", "import pip"], capture_output=True).returncode == 0


def has_ensurepip() -> bool:
    importlib.invalidate_caches()
    return importlib.util.find_spec("ensurepip") is not None


def make_environment(folder: Path) -> None:
    """An environment of the running interpreter in `folder`, with pip."""
    python = folder / "bin/python"
    if has_pip(python):
        return
    if not has_ensurepip():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        packages = ["python3-venv", f"python{version}-venv"]
        subprocess.run(["bash", str(ROOT / "tools/apt_install.sh"), *packages], check=False)
    command = [sys.executable, "-m", "venv", "--clear"]
    if has_ensurepip():
        subprocess.run([*command, str(folder)], check=True)
    else:
        subprocess.run([*command, "--without-pip", str(folder)], check=True)
        install_pip(python)


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python tools/make_environment.py FOLDER\n")
        return 2
    try:
        make_environment(Path(sys.argv[1]))
    except (SetupError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"cannot make the environment {sys.argv[1]}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
