"""Promises about the tree and the two builds that no import contract can state."""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

from spanwire._build import COMPILED, version_text

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src/spanwire"
FORBIDDEN_NAMES = {"base_impl", "common", "core", "helper", "helpers", "impl", "manager", "misc", "util", "utils"}


def compiled_by_configuration() -> set[str]:
    """The modules that the build configuration hands to mypyc."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hook = document["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    found: set[str] = set()
    for pattern in hook["include"]:
        found |= {module_name(path) for path in ROOT.glob(pattern.lstrip("/")) if path.name != "__init__.py"}
    return found


def all_modules() -> set[str]:
    return {module_name(path) for path in PACKAGE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py")}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)


def hot_classes() -> set[type]:
    """The classes that the compiled modules define, in either build; without protocols, which refuse to be asked."""
    found: set[type] = set()
    for name in compiled_by_configuration():
        importlib.import_module(name)
        members = vars(sys.modules[name]).values()
        found |= {member for member in members if isinstance(member, type) and member.__module__ == name}
    return {hot for hot in found if not vars(hot).get("_is_protocol", False)}


def hot_protocols() -> set[tuple[str, str]]:
    """Module and name of each protocol that the compiled modules define."""
    found: set[tuple[str, str]] = set()
    for module in compiled_by_configuration():
        tree = ast.parse((ROOT / "src" / f"{module.replace('.', '/')}.py").read_text("utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in node.bases):
                found.add((module, node.name))
    return found


def is_extension(module: str) -> bool:
    specification = importlib.util.find_spec(module)
    assert specification is not None and specification.origin is not None, f"{module} is not installed"
    return specification.origin.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))


def test_no_compiled_module_lies_beside_the_sources() -> None:
    assert [str(path) for path in (ROOT / "src").rglob("*") if path.suffix in (".so", ".pyd")] == []


def test_the_build_loads_exactly_its_own_kind_of_module() -> None:
    hot = compiled_by_configuration()
    assert "spanwire._build" in hot and len(hot) > 1
    extensions = {module for module in all_modules() if is_extension(module)}
    assert extensions == (hot if COMPILED else set())


def test_subclass_checks_tell_the_truth_about_every_class_of_the_hot_packages() -> None:
    # Compiled classes below abc.ABC or a Protocol share one cache of answers, and lie as soon as it is filled.
    classes = sorted(hot_classes(), key=lambda hot: (hot.__module__, hot.__qualname__))
    assert len(classes) > 100
    # Only a class with compiled subclasses of its own fills it: isinstance does not ask the cache about the very class.
    for _ in range(2):
        for one in classes:
            others = [other for other in classes if other is not one]
            lies = [other for other in others if issubclass(one, other) != (other in one.__mro__)]
            assert lies == [], f"{one} is no subclass of {lies}, or is one"


def test_no_interpreted_class_inherits_from_a_compiled_protocol() -> None:
    # mypyc makes a trait of the protocol, and the first instance of such a class raises TypeError there.
    faults = []
    protocols = hot_protocols()
    assert len(protocols) > 10
    compiled = compiled_by_configuration()
    for path in PACKAGE.rglob("*.py"):
        if module_name(path) in compiled:
            continue
        tree = ast.parse(path.read_text("utf-8"))
        imported = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            bases = (
                [base.id for base in node.bases if isinstance(base, ast.Name)] if isinstance(node, ast.ClassDef) else []
            )
            if "Protocol" not in bases:
                faults += [f"{path}: {base}" for base in bases if imported.get(base) in protocols]
    assert faults == []


def test_the_version_says_which_build_runs() -> None:
    assert f"compiled: {'yes' if is_extension('spanwire._build') else 'no'}" in version_text()


def test_importing_the_package_imports_nothing_of_it() -> None:
    program = "import sys, spanwire; print([name for name in sys.modules if name.startswith('spanwire.')])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_importing_the_broker_brings_no_socket_thread_pool_or_event_loop() -> None:
    program = (
        "import sys, spanwire.broker.broker; "
        "print(sorted({'asyncio', 'socket', 'ssl', 'subprocess', 'concurrent.futures'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_an_inner_package_file_holds_a_docstring_and_nothing_else() -> None:
    # These offer names to programs; client, testing and bridges import none of them before it is used.
    open_ones = (
        PACKAGE,
        *(
            PACKAGE / name
            for name in (
                "adapters/faststream",
                "adapters/kombu",
                "bridges",
                "client",
                "client/aio",
                "client/blocking",
                "testing",
            )
        ),
    )
    inner = [path for path in PACKAGE.rglob("__init__.py") if path.parent not in open_ones]
    assert len(inner) > 10
    for path in inner:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        kinds = [type(statement).__name__ for statement in body]
        assert kinds == ["Expr"], f"{path.relative_to(ROOT)} holds {kinds}"


def test_a_module_is_named_for_what_it_is() -> None:
    modules = all_modules()
    assert "spanwire.broker.broker" in modules
    for module in modules:
        assert not FORBIDDEN_NAMES & set(module.split(".")), f"{module} says nothing about its content"
