"""Loads the Python functions of routes, only from the directory named by the operator.

    def normalise(text: str | None, properties: dict[str, object]) -> str | None: ...

A route file alone can load no code, and no other user may write to the directory or a module. Modules are sent to
workers by value, without an installation there; only the imports must be installed.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, cast

from pyspark import cloudpickle

from spanwire.bridges.owned_files import check_directory, check_file
from spanwire.model.errors import ConfigurationError
from spanwire.routes.model import CallFunction

TextFunction = Callable[[str | None, dict[str, object]], str | None]
PREFIX: Final = "spanwire_route_functions_"  # distinguishes a module such as json from the library's


def load_functions(calls: Sequence[CallFunction], directory: Path | None) -> dict[tuple[str, str], TextFunction]:
    """Return the functions by module and name.

    Raises:
        ConfigurationError: a step calls a missing or unloadable function.
    """
    modules: dict[str, ModuleType] = {}
    functions: dict[tuple[str, str], TextFunction] = {}
    for call in calls:
        if directory is None:
            raise call.location.error(
                f"{call.module}.{call.name} is a Python function; name its directory with --functions DIRECTORY"
            )
        if call.module not in modules:
            modules[call.module] = _load(call, directory)
        function = getattr(modules[call.module], call.name, None)
        if not callable(function):
            known = [name for name, value in vars(modules[call.module]).items() if callable(value) and name[0] != "_"]
            raise call.location.unknown(f"function of {call.module}", call.name, known)
        functions[call.module, call.name] = cast(TextFunction, function)
    return functions


def _load(call: CallFunction, directory: Path) -> ModuleType:
    root = directory.resolve()
    path = (root / f"{call.module}.py").resolve()
    if path.parent != root or not path.is_file():
        raise call.location.error(f"there is no {call.module}.py in {directory}")
    try:
        check_directory(root, "the directory of functions")
        check_file(path, "the module")
    except ConfigurationError as error:
        raise call.location.error(str(error)) from None
    specification = importlib.util.spec_from_file_location(PREFIX + call.module, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    try:
        specification.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - a module of the operator may raise anything
        raise call.location.error(f"{path.name} cannot be loaded: {type(error).__name__}: {error}") from None
    sys.modules[module.__name__] = module  # cloudpickle looks for the module there
    cloudpickle.register_pickle_by_value(module)
    return module
