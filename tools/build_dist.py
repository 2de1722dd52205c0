"""Builds what a release consists of into `dist`, and tries each file in a fresh environment.

    python tools/build_dist.py [--python PATH ...] [--no-smoke]

`dist` gets the source distribution, the pure wheel and a compiled wheel for each CPython from 3.11 to 3.14 with
`Python.h` that is found on the path or under `~/.pyenv/versions`; or for those that `--python` names. All wheels are
built from the source distribution, so that it is complete. auditwheel checks that a compiled wheel runs on every Linux
with glibc 2.28 or later; where this machine has a later one, `ziglang` compiles with the headers of 2.28.
A row for each file says what it took; a wheel over `MAX_WHEEL_BYTES` and a failed smoke of the suite are errors. The
machine decides how long a build takes, so its budget is printed beside it.

`make dist` runs it in an environment with the extra `dist`. `tool.cibuildwheel` in pyproject.toml has the same for
other machines.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
VERSIONS: Final = ((3, 11), (3, 12), (3, 13), (3, 14))
GLIBC: Final = (2, 28)  # that of RHEL 8, and of Python's image manylinux_2_28
MAX_WHEEL_BYTES: Final = 15_000_000
BUILD_BUDGET_S: Final = 120  # on 2 processors that do nothing else
SMOKE_S: Final = 1_800
# A minute of the suite: values, selectors, the journal, sockets, and a broker that is killed.
SMOKE: Final = (
    "tests/unit/test_architecture.py", "tests/unit/model", "tests/unit/selector",
    "tests/conformance/test_journal_store.py", "tests/conformance/test_tcp_transport.py",
    "tests/service/test_start_and_stop.py",
)  # fmt: skip
FACTS: Final = """
import json, os, platform, sys, sysconfig
print(json.dumps([
    sys.implementation.name, sys.version_info[:2], sysconfig.get_path("include"), sysconfig.get_config_var("MULTIARCH"),
]))
"""


class Interpreter(NamedTuple):
    """A CPython that can compile extension modules."""

    path: Path
    version: tuple[int, int]
    include: Path
    multiarch: str


class Built(NamedTuple):
    """A file of a release."""

    path: Path
    figures: str


def asked(path: Path) -> Interpreter | None:
    """Return what an interpreter says of itself, or nothing if it is none that a wheel is built for."""
    done = subprocess.run([str(path), "-c", FACTS], capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    name, version, include, multiarch = json.loads(done.stdout)
    fits = name == "cpython" and tuple(version) in VERSIONS and Path(include, "Python.h").is_file()
    return Interpreter(path, (version[0], version[1]), Path(include), multiarch or "") if fits else None


def interpreters(candidates: Iterable[Path]) -> list[Interpreter]:
    """Return the first interpreter of each version."""
    found: dict[tuple[int, int], Interpreter] = {}
    for path in candidates:
        interpreter = asked(path) if path.is_file() else None
        if interpreter is not None:
            found.setdefault(interpreter.version, interpreter)
    return [found[version] for version in sorted(found)]


def candidates() -> list[Path]:
    """Return where interpreters may be: on the path, the distribution's first, and pyenv's."""
    folders = [Path("/usr/bin"), *map(Path, os.environ.get("PATH", "").split(os.pathsep))]
    names = [f"python{major}.{minor}" for major, minor in VERSIONS]
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.1[1-4].*/bin/python3"))
    return [folder / name for name in names for folder in folders] + pyenv


def compiler(interpreter: Interpreter, work: Path) -> dict[str, str]:
    """Return the variables that choose the C compiler: none where this machine's glibc is old enough."""
    libc, version = platform.libc_ver()
    if libc != "glibc" or tuple(map(int, version.split(".")[:2])) <= GLIBC:
        return {}
    import ziglang  # type: ignore[import-not-found]  # noqa: PLC0415 -- only where it is needed

    zig = Path(ziglang.__file__).with_name("zig")
    target = f"{platform.machine()}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    # Zig's check for undefined behaviour would need its library in each extension.
    cc = f"{zig} cc -target {target} -fno-sanitize=undefined"
    # Debian keeps pyconfig.h apart, in a folder of the machine's own glibc.
    apart = interpreter.include.parent / interpreter.multiarch / interpreter.include.name
    if interpreter.multiarch and apart.is_dir():
        folder = work / "include" / interpreter.multiarch
        folder.mkdir(parents=True, exist_ok=True)
        link = folder / interpreter.include.name
        if not link.exists():
            link.symlink_to(apart)
        cc += f" -isystem {folder.parent}"
    cache = str(ROOT / "build" / "zig")
    # Python's own linker options may name the folder of its installation.
    return {
        "CC": cc, "LDSHARED": f"{cc} -shared", "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": str(work / "zig"),
    }  # fmt: skip


def environment(folder: Path, interpreter: Path, locks: Iterable[str]) -> Path:
    """Make an environment with the packages of lock files, and return its interpreter."""
    subprocess.run([str(interpreter), str(ROOT / "tools/make_environment.py"), str(folder)], check=True)
    python = folder / "bin/python"
    files = [word for lock in locks for word in ("-r", str(ROOT / f"requirements/{lock}.txt"))]
    pip_install(python, "--require-hashes", *files)
    return python


def pip_install(python: Path, *words: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words]
    subprocess.run(command, check=True)


def source_distribution(target: Path) -> Path:
    """Build the source distribution, and return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (made,) = target.glob("spanwire-*.tar.gz")
    return made


def wheel(python: Path, source: Path, work: Path, variables: dict[str, str]) -> tuple[Path, str]:
    """Build a wheel of unpacked sources; return its path and the last line of the build."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        command = [str(python), "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
        started = time.monotonic()
        done = subprocess.run(
            command, cwd=source, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            raise SystemExit(f"{done.stdout}\n{' '.join(command)} failed")
        (made,) = Path(folder).glob("*.whl")
        seconds = time.monotonic() - started
        compiled = re.search(r"^compiled .*$", done.stdout, re.MULTILINE)
        return made.replace(work / made.name), f"{seconds:.0f} s" + (f" ({compiled.group()})" if compiled else "")


def for_other_machines(path: Path, target: Path) -> Path:
    """Check with auditwheel which machines a compiled wheel runs on, write that into its name, and return its path.

    Ends the program with auditwheel's reason if the wheel needs a later glibc than `GLIBC`.
    """
    if sys.platform != "linux":
        return path.replace(target / path.name)
    plat = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{platform.machine()}"
    tools = str(Path(sys.executable).parent)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        done = subprocess.run(
            [sys.executable, "-m", "auditwheel", "repair", "--plat", plat, "--wheel-dir", folder, str(path)],
            env=os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{done.stdout}\n{path.name} does not run on {plat}")
        (made,) = Path(folder).glob("*.whl")
        return made.replace(target / made.name)


def smoke(path: Path, interpreter: Path, work: Path, runs: bool) -> str:
    """Install a wheel into a fresh environment and run a smoke of the suite on it; return its outcome."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        python = environment(Path(folder) / "venv", interpreter, ["pip", "runtime", "test"])
        pip_install(python, "--no-deps", "--no-index", str(path))
        version = subprocess.run(
            [str(python.parent / "spanwire"), "--version"], capture_output=True, text=True, check=True
        )
        if not runs:
            return version.stdout.strip()
        done = subprocess.run(
            [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *SMOKE],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SMOKE_S, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{done.stdout}\n{path.name} fails the smoke of the suite")
        return f"{version.stdout.strip()}: {done.stdout.splitlines()[-1].strip('= ')}"


def release(pythons: list[Interpreter], target: Path, work: Path, with_smoke: bool) -> Iterable[Built]:
    """Build and try each file; yields it as soon as it is ready."""
    sdist = source_distribution(target)
    yield Built(sdist, "")
    subprocess.run(["tar", "-xzf", str(sdist), "-C", str(work)], check=True)
    source = work / sdist.name.removesuffix(".tar.gz")
    for index, interpreter in enumerate(pythons):
        name = f"{interpreter.version[0]}.{interpreter.version[1]}"
        python = environment(work / f"build-{name}", interpreter.path, ["pip", "build"])
        if index == 0:
            pure, figures = wheel(python, source, work, {"SPANWIRE_COMPILE": ""})
            pure = pure.replace(target / pure.name)
            yield Built(pure, f"built in {figures}; {smoke(pure, interpreter.path, work, with_smoke)}")
        variables = {"SPANWIRE_COMPILE": "1"} | compiler(interpreter, work)
        made, figures = wheel(python, source, work, variables)
        made = for_other_machines(made, target)
        if made.stat().st_size > MAX_WHEEL_BYTES:
            raise SystemExit(f"{made.name} has {made.stat().st_size} bytes, more than {MAX_WHEEL_BYTES}")
        outcome = smoke(made, interpreter.path, work, with_smoke)
        yield Built(made, f"built in {figures}, budget {BUILD_BUDGET_S} s on 2 idle processors; {outcome}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build a release into dist, and try each file of it.")
    parser.add_argument("--python", type=Path, action="append", default=[], help="an interpreter, instead of all found")
    parser.add_argument("--no-smoke", action="store_true", help="install each wheel, but run no tests on it")
    arguments = parser.parse_args()
    pythons = interpreters(arguments.python or candidates())
    if not pythons:
        raise SystemExit(
            "no CPython from 3.11 to 3.14 with Python.h was found: install python3-dev or name one (--python)"
        )
    missing = [version for version in VERSIONS if version not in {one.version for one in pythons}]
    for one in pythons:
        sys.stdout.write(f"Python {one.version[0]}.{one.version[1]}: {one.path}\n")
    for major, minor in missing:
        sys.stdout.write(f"Python {major}.{minor}: not here, so no compiled wheel for it\n")
    target = ROOT / "dist"
    target.mkdir(exist_ok=True)
    for old in (*target.glob("spanwire-*.whl"), *target.glob("spanwire-*.tar.gz")):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        for built in release(pythons, target, Path(folder), not arguments.no_smoke):
            digest = hashlib.sha256(built.path.read_bytes()).hexdigest()
            sys.stdout.write(f"{built.path.name}: {built.path.stat().st_size / 1e6:.1f} MB, sha256 {digest}\n")
            sys.stdout.write(f"    {built.figures}\n" if built.figures else "")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
