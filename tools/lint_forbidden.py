"""Checks that no general linter makes: constructs that must not stand in this project.

| where | what |
|---|---|
| src, tools, examples | what turns data into code or objects: pickle and its kin, eval, exec, yaml.load, a shell |
| src, tools, examples | importing a module by name, except in `src/spanwire/registry.py` |
| src, tools, examples | a handler for all exceptions that does nothing |
| src | words that mark unfinished work; modules over 500 lines, generated ones over 8,000 |
| src | an identifier with a word that another one has replaced (`tools/retired_words.py`) |
| pyproject.toml | a module that stands by itself in a list of packages, but for `SINGLE_MODULES` |
| src | abc.ABC: compiled subclasses share its cache, so that isinstance lies about them; abstractmethod alone will do |
| compiled packages | one name for exceptions of two types in a function: the variable gets the first type |
| src, tools | a docstring that begins with a question word (`tools/prose.py`) |
| everywhere | a comment that only separates chapters: a class or module that needs chapters is to be divided |
| tests | marks that skip a test or expect it to fail |
| tests | a verdict that nobody looks at: a statement that only compares, or calls what returns a bool |
| tests | an assertion that holds whatever happens: of a constant, a generator, a thing compared with itself |
| tests | an assertion whose failure is caught and dropped |
| tests | a test that pytest does not collect: inside of a function, in a module or a class of another name |

A verdict is looked at in an assertion or a condition; `_ = ready()` says that it is of no interest. Inside
`pytest.raises` a call may stand for its exception alone.

    python tools/lint_forbidden.py      # prints one line per fault, exit 1 if there is one
"""

from __future__ import annotations

import ast
import gc
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.prose import begins_with_riddle, docstrings  # noqa: E402 -- runs as a script, too
from tools.retired_words import retired_in  # noqa: E402

MAX_MODULE_LINES: Final = 500
SINGLE_MODULES: Final = frozenset(
    {
        "src/spanwire/_build.py",  # the version of the build, in no package
        *(
            f"src/spanwire/{module}.py"
            for module in (
                "protocols/octet_errors",
                "protocols/octets",
                "protocols/primitive_map",
            )
        ),
    }
)  # fmt: skip -- modules that pyproject.toml lists beside packages; the list only gets shorter
SEPARATOR: Final = re.compile(r"\s*#( ?[-=]{2,}( .*)?| .*[-=]{4,})$")
MAX_GENERATED_LINES: Final = 8000  # all generated modules together
GENERATED: Final = ("_marshallers.py", "_fields.py")
REGISTRY: Final = "src/spanwire/registry.py"


def compiled_folders() -> tuple[str, ...]:
    """Return the folders of the packages that mypyc compiles, from pyproject.toml."""
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]
    listed: list[str] = targets["wheel"]["hooks"]["custom"]["include"]
    return tuple(entry.strip("/").removesuffix("**/*.py") for entry in listed)


COMPILED: Final = compiled_folders()
FORBIDDEN_MODULES: Final = frozenset({"cloudpickle", "dill", "jsonpickle", "marshal", "pickle", "shelve"})
FORBIDDEN_NAMES: Final = frozenset(
    {
        "__import__", "eval", "exec", "os.popen", "os.system", "runpy.run_module", "runpy.run_path", "yaml.full_load",
        "yaml.load", "yaml.unsafe_load",
    }
)  # fmt: skip
IMPORT_BY_NAME: Final = frozenset({"importlib.__import__", "importlib.import_module"})
ABSTRACT_BASES: Final = frozenset({"abc.ABC", "abc.ABCMeta"})
FORBIDDEN_MARKS: Final = frozenset({"pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail"})
UNFINISHED: Final = re.compile(r"\b(T[O]DO|FIX[M]E|X[X]X|NotImplemented[E]rror)\b")
ASKING: Final = re.compile(r"(is|has|can)_")  # beginnings of methods that ask; others return a bool beside what they do
BOOL_BUILTINS: Final = frozenset({"all", "any", "callable", "hasattr", "isinstance", "issubclass"})
EXPECTING: Final = frozenset({"pytest.raises", "pytest.warns"})
BROAD: Final = frozenset({"BaseException", "Exception", "builtins.BaseException", "builtins.Exception"})
OF_ASSERTIONS: Final = BROAD | {"AssertionError", "builtins.AssertionError"}  # what catches a failed assertion
SUPPRESSING: Final = "contextlib.suppress"
MIXINS: Final = "tests/conformance/"  # classes of tests there run under the names of their subclasses


class Faults(ast.NodeVisitor):
    """Walks one module and keeps a list of (line, what is wrong).

    Follows `import … as` names, not assignments.
    """

    def __init__(self, path: str, verdicts: frozenset[str] = frozenset()) -> None:
        """``verdicts`` are functions and methods whose results are to be looked at, as `verdicts` gives them."""
        self.found: list[tuple[int, str]] = []
        self._verdicts = verdicts
        self._expects = 0  # blocks around the statement that are to raise
        self._path = path
        self._aliases: dict[str, str] = {}
        self._is_test = path.startswith("tests/")

    def _name(self, node: ast.expr) -> str:
        """The dotted name an expression stands for, with import aliases resolved; "" if it is not a name."""
        if isinstance(node, ast.Name):
            return self._aliases.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self._name(node.value)
            return f"{base}.{node.attr}" if base else ""
        return ""

    def _module(self, node: ast.stmt, module: str) -> None:
        if not self._is_test and module.split(".")[0] in FORBIDDEN_MODULES:
            self.found.append((node.lineno, f"import of {module}: it builds objects out of data"))

    def _use(self, line: int, name: str) -> None:
        if self._is_test:
            if name in FORBIDDEN_MARKS:
                self.found.append((line, f"{name}: call tests.support.peers.require, or mend the test"))
            return
        if name.removeprefix("builtins.") in FORBIDDEN_NAMES:
            self.found.append((line, f"{name}: it runs or builds what the data says"))
        if name in ABSTRACT_BASES and self._path.startswith("src/"):
            self.found.append(
                (line, f"{name}: isinstance lies about its compiled subclasses; use abstractmethod alone")
            )
        if name in IMPORT_BY_NAME and self._path != REGISTRY:
            self.found.append((line, f"{name}: only {REGISTRY} imports by name"))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._module(node, alias.name)
            self._aliases[alias.asname or alias.name.split(".")[0]] = (
                alias.name if alias.asname else alias.name.split(".")[0]
            )

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self._module(node, module)
        for alias in node.names:
            self._aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
            self._use(node.lineno, f"{module}.{alias.name}")

    def visit_Name(self, node: ast.Name) -> None:
        # An imported name is reported where it is imported.
        if node.id not in self._aliases:
            self._use(node.lineno, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._use(node.lineno, self._name(node))
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        calls = [item.context_expr.func for item in node.items if isinstance(item.context_expr, ast.Call)]
        expects = any(self._name(call) in EXPECTING for call in calls)
        if self._is_test:
            dropping = [item for item in node.items if self._suppresses_assertions(item.context_expr)]
            self._report_dropped_assertion(node.body if dropping else [])
        self._expects += expects
        self.generic_visit(node)
        self._expects -= expects

    def _suppresses_assertions(self, value: ast.expr) -> bool:
        return (
            isinstance(value, ast.Call)
            and self._name(value.func) == SUPPRESSING
            and any(self._name(kind) in OF_ASSERTIONS for kind in value.args)
        )

    def visit_Try(self, node: ast.Try) -> None:
        if self._is_test and any(self._drops_assertions(handler) for handler in node.handlers):
            self._report_dropped_assertion(node.body)
        self.generic_visit(node)

    def _drops_assertions(self, handler: ast.ExceptHandler) -> bool:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if not any(kind is None or self._name(kind) in OF_ASSERTIONS for kind in kinds):
            return False
        inside = [node for statement in handler.body for node in ast.walk(statement)]
        return not any(
            isinstance(node, ast.Raise | ast.Assert) or (isinstance(node, ast.Name) and node.id == handler.name)
            for node in inside
        )

    def _report_dropped_assertion(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            for node in ast.walk(statement):
                if isinstance(node, ast.Assert):
                    self.found.append((node.lineno, "an assertion whose failure is caught and dropped"))

    def visit_Assert(self, node: ast.Assert) -> None:
        if self._is_test and is_always_true(node.test):
            self.found.append((node.lineno, f"{ast.unparse(node.test)[:60]}: it holds whatever happens"))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        what = self._dropped(node.value) if self._is_test and not self._expects else ""
        if what:
            self.found.append((node.lineno, f"{what}: assert it, or write _ = …"))
        self.generic_visit(node)

    def _dropped(self, value: ast.expr) -> str:
        """The verdict that a statement of this value drops; "" for none."""
        if isinstance(value, ast.Await):
            value = value.value
        if isinstance(value, ast.Compare | ast.BoolOp) or (
            isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)
        ):
            return "nobody looks at what this compares"
        if not isinstance(value, ast.Call):
            return ""
        name = self._name(value.func)
        local = f"{module_name(self._path)}.{name}"
        method = value.func.attr if isinstance(value.func, ast.Attribute) else ""
        if name in BOOL_BUILTINS or name in self._verdicts or local in self._verdicts or f".{method}" in self._verdicts:
            return f"nobody looks at what {name or method} returns"
        return ""

    def visit_Call(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            constant = keyword.value
            if keyword.arg == "shell" and not (isinstance(constant, ast.Constant) and constant.value is False):
                self.found.append((node.lineno, "shell=: give the program and its arguments as a list"))
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if self._path.startswith(COMPILED):
            types: dict[str, str] = {}
            for handler in ast.walk(node):
                if isinstance(handler, ast.ExceptHandler) and handler.name and handler.type:
                    kind = ast.unparse(handler.type)
                    if types.setdefault(handler.name, kind) != kind:
                        self.found.append((handler.lineno, f"{handler.name} names exceptions of two types: rename one"))
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        broad = any(kind is None or self._name(kind) in BROAD for kind in kinds)
        if broad and not self._is_test and all(does_nothing(statement) for statement in node.body):
            self.found.append((node.lineno, "a handler for every exception that does nothing"))
        self.generic_visit(node)


def is_always_true(value: ast.expr) -> bool:
    """Return True for an expression that is true whatever happens: a display with members, a generator, `x == x`."""
    if isinstance(value, ast.BoolOp):
        members = [is_always_true(member) for member in value.values]
        return any(members) if isinstance(value.op, ast.Or) else all(members)
    if isinstance(value, ast.Compare):
        sides = [value.left, *value.comparators]
        return len(sides) == 2 and is_own_equal(sides[0], value.ops[0], sides[1])
    if isinstance(value, ast.Constant):
        return bool(value.value)
    if isinstance(value, ast.Tuple | ast.List | ast.Set):
        return any(not isinstance(member, ast.Starred) for member in value.elts)
    if isinstance(value, ast.Dict):
        return any(key is not None for key in value.keys)
    return isinstance(value, ast.GeneratorExp | ast.Lambda)


def is_own_equal(one: ast.expr, operator: ast.cmpop, other: ast.expr) -> bool:
    """Return True for one expression on both sides, unless it calls something, which may differ from time to time."""
    equal = isinstance(operator, ast.Eq | ast.Is | ast.LtE | ast.GtE) and ast.dump(one) == ast.dump(other)
    return equal and not any(isinstance(node, ast.Call | ast.Await) for node in ast.walk(one))


def uncollected(path: str, tree: ast.Module) -> list[tuple[int, str]]:
    """Lines of the tests of a module that pytest does not find."""
    if path.startswith(MIXINS) or not path.startswith("tests/"):
        return []
    statements: list[ast.stmt] = list(tree.body) if path.rpartition("/")[2].startswith("test_") else []
    for statement in statements:  # grows by what stands below a condition, or in a class of tests
        if isinstance(statement, ast.If):
            statements += [*statement.body, *statement.orelse]
        elif isinstance(statement, ast.ClassDef) and statement.name.startswith("Test"):
            statements += statement.body
    collected = {id(statement) for statement in statements}
    return [
        (node.lineno, f"{node.name}: pytest does not collect it")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and id(node) not in collected
    ]


def does_nothing(statement: ast.stmt) -> bool:
    """Is it `pass`, `continue` or a bare constant such as `...`?"""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass | ast.Continue)


def module_name(path: str) -> str:
    """The dotted name of the module at `path`."""
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def verdicts(trees: dict[str, ast.Module]) -> frozenset[str]:
    """The dotted names of all functions that return a bool, and ``.name`` of methods that ask something and do so in
    every class that has them.
    """
    found: set[str] = set()
    others: set[str] = set()
    for path, tree in trees.items():
        homes: list[ast.Module | ast.ClassDef] = [tree]
        homes += [node for node in tree.body if isinstance(node, ast.ClassDef)]
        for home in homes:
            is_class = isinstance(home, ast.ClassDef)
            prefix = "." if is_class else f"{module_name(path)}."
            for node in home.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
                    not is_class or ASKING.match(node.name)
                ):
                    (found if returns_bool(node) else others).add(prefix + node.name)
    return frozenset(found - others)


def returns_bool(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Does its annotation say so?"""
    return isinstance(node.returns, ast.Name) and node.returns.id == "bool"


def check_source(path: str, text: str) -> list[str]:
    """All faults of one module as `path:line: what`.

    `path`, relative to the project, decides which rules apply.
    """
    tree = ast.parse(text, filename=path)
    return check_module(path, text, tree, verdicts({path: tree}))


def check_module(path: str, text: str, tree: ast.Module, known: frozenset[str]) -> list[str]:
    """Return the faults of a parsed module; ``known`` are the `verdicts` of the whole project."""
    faults = Faults(path, known)
    faults.visit(tree)
    found = faults.found + uncollected(path, tree) + list(retired_in(path, tree))
    lines = text.splitlines()
    found += [
        (number, "a separator of chapters: divide the class or the module, or leave it out")
        for number, line in enumerate(lines, start=1)
        if SEPARATOR.match(line)
    ]
    if path.startswith(("src/", "tools/")):
        found += [
            (
                docstring.line,
                f"the docstring of {docstring.name} begins with a question word: begin with the noun or a verb",
            )
            for docstring in docstrings(path, tree)
            if begins_with_riddle(docstring.text)
        ]
    if path.startswith("src/"):
        for number, line in enumerate(lines, start=1):
            word = UNFINISHED.search(line)
            if word:
                found.append((number, f"unfinished: {word.group()}"))
        if len(lines) > MAX_MODULE_LINES and not path.endswith(GENERATED):
            found.append((len(lines), f"{len(lines)} lines: split the module ({MAX_MODULE_LINES} at most)"))
    return [f"{path}:{line}: {what}" for line, what in sorted(found)]


def generated_lines(root: Path) -> int:
    """Lines of all generated modules of the package together."""
    modules = [path for path in (root / "src").rglob("*.py") if path.name in GENERATED]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in modules)


def single_modules(document: dict[str, Any]) -> list[str]:
    """Return the modules that the lists of pyproject.toml name by themselves.

    A module that shares the rules of a package belongs into that package: a list of modules is out of date with the
    next module.
    """
    tool = document["tool"]
    patterns = tool["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["include"]
    single = [pattern.lstrip("/") for pattern in patterns if not pattern.endswith("*.py")]
    for contract in tool["importlinter"]["contracts"]:
        for key in ("source_modules", "forbidden_modules", "modules"):
            for name in contract.get(key, []):
                path = f"src/{name.replace('.', '/')}.py"
                if (ROOT / path).is_file():
                    single.append(path)
    return single


def check_project(document: dict[str, Any]) -> list[str]:
    """Return the faults of pyproject.toml."""
    return [
        f"pyproject.toml: {path} stands by itself: move it to the package whose rules it shares"
        for path in single_modules(document)
        if path not in SINGLE_MODULES
    ]


def check_tree(root: Path) -> list[str]:
    """All faults of the project under `root`."""
    project = root / "pyproject.toml"
    faults = check_project(tomllib.loads(project.read_text("utf-8"))) if project.exists() else []
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for folder in ("src", "tools", "examples", "tests")
        for path in sorted((root / folder).rglob("*.py"))
    }
    trees = {path: ast.parse(text, filename=path) for path, text in texts.items()}
    known = verdicts(trees)
    for path, text in texts.items():
        faults += check_module(path, text, trees[path], known)
    lines = generated_lines(root)
    if lines > MAX_GENERATED_LINES:
        faults.append(f"src: {lines} generated lines ({MAX_GENERATED_LINES} at most)")
    return faults


def main() -> int:
    gc.disable()  # it would search millions of syntax nodes again and again, which all stay until the end
    faults = check_tree(ROOT)
    for fault in faults:
        sys.stdout.write(fault + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
