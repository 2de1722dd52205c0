"""Hook of the build: hatchling compiles the hot packages into the wheel if the environment asks for it.

    SPANWIRE_COMPILE=1 pip install .

Without the variable, and for an editable install, the wheel is pure and needs no compiler. `pyproject.toml` lists the
packages and what the compilation needs. `SPANWIRE_OPTIMIZE` is the C compiler's level of optimisation, 3 by default.
`CC` chooses the compiler, as for other packages. Nothing is written beside the sources: an editable install would load
a compiled module instead of the `.py` file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE: Final = "SPANWIRE_COMPILE"
LEVEL_VARIABLE: Final = "SPANWIRE_OPTIMIZE"
LEVELS: Final = ("0", "1", "2", "3")
VALUES: Final = {"": False, "0": False, "1": True}


def setting(name: str, values: Any, default: str) -> str:
    """Return the value of a variable of the environment.

    Ends the build in one line if it is not one of `values`.
    """
    value = os.environ.get(name, default)
    if value not in values:
        raise SystemExit(f"{name}={value!r} means nothing: set it to one of {', '.join(filter(None, values))}")
    return value


class CompileHook(BuildHookInterface[Any]):
    """Compiles the modules that the hook's table in pyproject.toml lists, if `SPANWIRE_COMPILE` is 1."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what the build needs beside hatchling; nothing for a pure wheel."""
        wanted: list[str] = self.config["compile-dependencies"]
        return wanted if VALUES[setting(VARIABLE, VALUES, "")] else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the extension modules to the wheel.

        Ends the build with the output of the compiler if it fails.
        """
        if not VALUES[setting(VARIABLE, VALUES, "")] or version == "editable":
            return
        self.built = tempfile.TemporaryDirectory()
        target = Path(self.built.name)
        level = setting(LEVEL_VARIABLE, LEVELS, "3")
        script = Path(self.root, "tools/compile_modules.py")
        command = [sys.executable, str(script), str(target), level, *self.modules()]
        done = subprocess.run(
            command, cwd=Path(self.root, "src"), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode:
            raise SystemExit(
                f"{done.stdout}\nthe hot packages could not be compiled; without {VARIABLE} the build is pure"
            )
        sys.stdout.write(done.stdout.splitlines()[-1] + "\n")
        found = {str(path): str(path.relative_to(target / "lib")) for path in (target / "lib").rglob("*.so")}
        build_data["force_include"].update(found)
        build_data["infer_tag"] = True
        build_data["pure_python"] = False

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, which is in the wheel now."""
        if hasattr(self, "built"):
            self.built.cleanup()

    def modules(self) -> list[str]:
        """Return the files to compile, relative to `src`; the name of the shared library depends on their order."""
        source = Path(self.root, "src")
        found = {path for pattern in self.config["include"] for path in Path(self.root).glob(pattern.lstrip("/"))}
        return sorted(str(path.relative_to(source)) for path in found if path.name != "__init__.py")
