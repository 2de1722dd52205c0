"""Message convertors: Python functions of the operator for the messages of a native bridge or a route.

    convertors/orders.py        the convertor orders
        def convert(message):   a `Convertible`; an exception makes the message a dead letter

A convertor is a file of the directory of ``--convertors``, and loads when a bridge with the convertor connects. No file
outside the directory loads, and no compiled form of the file is read or written.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, Final, TypeVar

from spanwire.bridges.model.convertible import Convertible
from spanwire.bridges.model.definition import BridgeDefinition
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import Definition, RouteDefinition, error_about, functions_of
from spanwire.bridges.model.steps import Convert
from spanwire.bridges.owned_files import check_directory, check_file, read_file
from spanwire.bridges.ports import MessageRefusedError
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.model.units import MIB

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}", re.ASCII)
FUNCTION: Final = "convert"
PACKAGE: Final = "spanwire_convertors"  # prefix of the names of the modules, which nothing imports
MAX_FILE_BYTES: Final = MIB  # bytes of one convertor; a large program has some hundred kilobytes
CONVERT_S: Final = 60.0  # seconds for the messages of one batch; longer is a loop without end
MAX_REASON: Final = 500  # characters of an exception in a dead letter
DIRECTORY: Final = "the directory of convertors"

Result = TypeVar("Result")
Function = Callable[[Convertible], object]


class ConvertorError(Exception):
    """A convertor has failed for the message ``index`` of a batch."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index: Final = index


class Convertors:
    """The convertors of a directory, by the names of the files; None stands for no directory."""

    def __init__(self, directory: Path | None) -> None:
        self._directory: Final = directory
        self._functions: Final[dict[str, Function]] = {}
        self._hanging: Final[set[str]] = set()  # convertors with a thread that does not end

    def check(self, name: str) -> None:
        """Refuse a convertor with a missing file, or a file writable for other users; no file is loaded.

        Raises:
            ConfigurationError: the text has the remedy.
        """
        path = self._path(name)
        if not path.is_file() and not path.is_symlink():
            known = ", ".join(sorted(file.stem for file in path.parent.glob("*.py"))[:20]) or "none"
            raise ConfigurationError(f"the convertor {name} has no file {path}; known are {known}")
        check_file(path, "the convertor")

    def conversion(self, definition: BridgeDefinition) -> Conversion | None:
        """Return the conversion of a bridge, or None for a bridge without a convertor.

        Raises:
            ConfigurationError: the convertor cannot be loaded.
        """
        for step in definition.steps:
            if isinstance(step, Convert):
                return self.conversion_by(step.name)
        return None

    def conversion_by(self, name: str) -> Conversion:
        """Return the conversion by a convertor.

        Raises:
            ConfigurationError: the convertor cannot be loaded, or hangs.
        """
        if name in self._hanging:
            raise ConfigurationError(
                f"the convertor {name} has still not returned from an earlier message; end its wait or loop, and start "
                "the broker again"
            )
        return Conversion(name, self._function(name), self._hanging)

    def _path(self, name: str) -> Path:
        if self._directory is None:
            raise ConfigurationError(f"the convertor {name} needs --convertors DIRECTORY with the file {name}.py")
        if NAME.fullmatch(name) is None:
            raise ConfigurationError(f"{name[:60]!r} is no name of a convertor; write letters, digits, - and _")
        check_directory(self._directory, DIRECTORY)
        return self._directory / f"{name}.py"

    def _function(self, name: str) -> Function:
        function = self._functions.get(name)
        if function is None:
            self.check(name)
            function = self._functions[name] = _load(name, self._path(name))
        return function


def convertor_obstacles(definitions: Iterable[Definition], directory: Path | None) -> list[str]:
    """Return one line for each convertor that is missing, or can be changed by other users."""
    convertors = Convertors(directory)
    lines: list[str] = []
    for definition in definitions:
        word = "route" if isinstance(definition, RouteDefinition) else "bridge"
        for name in _names(definition):
            try:
                convertors.check(name)
            except ConfigurationError as error:
                lines.append(str(error_about(definition, f"{word} {definition.name}: {error}")))
    return lines


def _names(definition: Definition) -> list[str]:
    if isinstance(definition, RouteDefinition):
        return functions_of(definition.steps)
    return [step.name for step in definition.steps if isinstance(step, Convert)]


NO_CONVERTORS: Final = Convertors(None)


class Conversion:
    """One convertor on the messages of one link, in a thread.

    A slow convertor holds up one bridge alone.
    """

    def __init__(self, name: str, function: Function, hanging: set[str], limit_s: float = CONVERT_S) -> None:
        """``hanging`` has the name of the convertor from the time limit until the function returns."""
        self._name: Final = name
        self._hanging: Final = hanging
        self._function: Final = function
        self._limit_s: Final = limit_s

    async def convert(self, messages: list[BridgeMessage]) -> list[BridgeMessage]:
        """Return the changed messages.

        Raises:
            MessageRefusedError: the convertor has failed for a message.
            JmsError: the convertor does not return.
        """
        try:
            return await self._in_thread(self._convert_all, messages)
        except ConvertorError as error:
            raise MessageRefusedError(error.index, str(error)) from None

    async def answers(self, messages: list[BridgeMessage]) -> list[BridgeMessage | str]:
        """Return the changed messages, and for a message for which the convertor has failed the reason.

        Raises:
            JmsError: the convertor does not return.
        """
        return await self._in_thread(self._answer_all, messages)

    async def _in_thread(
        self, function: Callable[[list[BridgeMessage]], list[Result]], messages: list[BridgeMessage]
    ) -> list[Result]:
        try:
            async with asyncio.timeout(self._limit_s):
                return await asyncio.to_thread(function, messages)
        except TimeoutError:
            self._hanging.add(self._name)
            raise JmsError(
                f"the convertor {self._name} has not returned for {self._limit_s:g} s; end its wait or loop"
            ) from None

    def _convert_all(self, messages: list[BridgeMessage]) -> list[BridgeMessage]:
        try:
            return [self._convert(index, message) for index, message in enumerate(messages)]
        finally:
            self._hanging.discard(self._name)

    def _answer_all(self, messages: list[BridgeMessage]) -> list[BridgeMessage | str]:
        answers: list[BridgeMessage | str] = []
        try:
            for index, message in enumerate(messages):
                try:
                    answers.append(self._convert(index, message))
                except ConvertorError as error:
                    answers.append(str(error))
        finally:
            self._hanging.discard(self._name)
        return answers

    def _convert(self, index: int, message: BridgeMessage) -> BridgeMessage:
        try:
            convertible = Convertible(message)
            answer = self._function(convertible)
            if answer is not None and answer is not convertible:
                raise TypeError(
                    f"convert returns {type(answer).__name__}; it must change the message, and return nothing"
                )
            return convertible.converted()
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- code of the operator
            reason = f"the convertor {self._name} has failed{_place(error, self._name)}: {_text(error)}"
            raise ConvertorError(index, reason) from None


class OwnedFileLoader(SourceFileLoader):
    """Reads the source alone, after a check of the owner; a compiled form could be somebody else's."""

    def get_data(self, path: Any) -> bytes:
        """Return the source."""
        return read_file(Path(path), "the convertor", MAX_FILE_BYTES)

    def path_stats(self, path: Any) -> Any:
        """Fail, so that Python neither looks for a compiled form nor writes such a form."""
        raise OSError("a convertor has no compiled form")


def _load(name: str, path: Path) -> Function:
    """Run a file and return the file's function. Raises `ConfigurationError`."""
    module_name = f"{PACKAGE}.{name}"
    spec = importlib.util.spec_from_file_location(module_name, path, loader=OwnedFileLoader(module_name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses of the file look it up
    try:
        spec.loader.exec_module(module)
    except ConfigurationError:
        raise
    except SyntaxError as error:
        raise ConfigurationError(f"the convertor {path}:{error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- code of the operator
        raise ConfigurationError(f"the convertor {name} does not load{_place(error, name)}: {_text(error)}") from None
    function: object = getattr(module, FUNCTION, None)
    if not callable(function) or asyncio.iscoroutinefunction(function):
        raise ConfigurationError(f"the convertor {path} has no function {FUNCTION}; write def {FUNCTION}(message): …")
    return function


def _place(error: BaseException, name: str) -> str:
    """Return the line of an exception in the convertor's file."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).name == f"{name}.py":
            return f" at {name}.py:{frame.lineno}"
    return ""


def _text(error: BaseException) -> str:
    text = " ".join(str(error).split())[:MAX_REASON]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
