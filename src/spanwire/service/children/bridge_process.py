"""The bridges of a broker as a child of the broker.

The child is ``spanwire bridge serve``, a client of the broker's OpenWire connector. Its definitions and the commands of
operators go through standard input, and the states of the bridges come back through standard output. The child ends at
the end of standard input, so it does not outlive a killed broker. The broker logs the lines of its log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from spanwire.bridges.files.changed_parameters import parameters_of, with_parameters
from spanwire.bridges.files.definition_json import plain_definition
from spanwire.bridges.jars import with_jars
from spanwire.bridges.model.definition import BridgeDefinition
from spanwire.bridges.model.diagram import place
from spanwire.bridges.model.route_definition import Definition, RouteDefinition
from spanwire.bridges.model.route_diagram import source_text, targets_text
from spanwire.bridges.model.this_broker import reached_at, uses_this_broker
from spanwire.broker.dispatch.broker_context import BrokerContext, StepReceiver
from spanwire.logs.children import ChildLines
from spanwire.management.questions.bridged_marks import BridgeTarget
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.children.bridge_targets import targets_of
from spanwire.service.children.deployments import Deployment, Deployments
from spanwire.service.children.paused_bridges import PausedBridges
from spanwire.service.children.supervision import Supervision, end_process
from spanwire.service.config.interpretation.camel_routes import check_in_broker
from spanwire.service.config.model import NO_CODE, CodeDirectories, TracingConfiguration
from spanwire.transports.connector import TransportConnector

COMMAND: Final = (sys.executable, "-P", "-m", "spanwire", "bridge", "serve")
STOP_S: Final = 11.0  # seconds for the batches under way at the end, a second more than the child takes at most
MAX_LINE: Final = 16 * 1024 * 1024  # bytes of one report; 1,000 bridges with long errors need 2 MiB
MAX_NAMES: Final = 1_000  # bridges in one request of an operator
PROTOCOL: Final = "openwire"
ANY_HOSTS: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}  # a host to connect to, not to listen on
NO_CONNECTOR: Final = (
    "this broker has no OpenWire connector without TLS, through which its bridges reach it; add "
    '<transportConnector name="bridges" uri="tcp://127.0.0.1:61616"/>'
)
MAX_NAMED: Final = 20  # bridges that do not start, in the log
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
PACKAGE: Final = "spanwire.bridges"  # of the child's loggers
MAX_CHUNK: Final = 16 * 1024  # bytes of the child's log that are read at once
MAX_WORDS: Final = 500  # characters of the child's last words in the log
STATES: Final = "routes"  # directory of the groups and keys of routes
STOPPED: Final = "stopped"
PAUSED: Final = "paused"
STARTING: Final = "starting"
RUNNING: Final = "running"
FAILED: Final = "failed"
COUNTERS: Final = ("received", "forwarded", "batches", "dead_letters", "redelivered", "perhaps_lost", "aborted")

logger = logging.getLogger(__name__)


def own_address(connectors: Iterable[TransportConnector]) -> str | None:
    """Return the URL of the broker for a process of the same machine; None without a suitable connector."""
    for connector in connectors:
        settings = connector.settings
        if PROTOCOL in settings.spoken() and settings.tls is None:
            host = ANY_HOSTS.get(settings.host, settings.host)
            return f"tcp://{f'[{host}]' if ':' in host and host[0] != '[' else host}:{connector.port}"
    return None


class BridgeChildProcess:
    """The child with the bridges of one broker."""

    def __init__(
        self,
        definitions: Sequence[Definition],
        directory: Path | None,
        *,
        code: CodeDirectories = NO_CODE,
        deployment: Deployment | None = None,
        tracing: TracingConfiguration | None = None,
        command: Sequence[str] = COMMAND,
        stop_s: float = STOP_S,
        wall_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        """``directory`` is the broker's data directory, with the names of paused bridges.

        ``code`` has the directories of message convertors and jars, ``deployment`` the deploy directory with the reader
        of deployed files, ``tracing`` the settings of a broker with traces.
        """
        self._code: Final = code
        self._tracing: Final = None if tracing is None else {"endpoint": tracing.endpoint}
        self._definitions: Final = list(definitions)
        self._taken: Final = [definition.name for definition in definitions]  # not free for deployed files
        self._deploying: asyncio.Task[None] | None = None
        self._deployments: Final = None if deployment is None else self._deployments_of(deployment)
        self._paused: Final = PausedBridges(directory)
        level = logging.getLevelName(logging.getLogger().getEffectiveLevel())
        self._command: Final = [*command, "--log-level", level.lower() if level in LEVELS else "info"]
        self._stop_s: Final[float] = stop_s
        self._wall_ms: Final = wall_ms
        self._states: Final = None if directory is None else directory.absolute() / STATES
        self._waiting: Final = {definition.name for definition in definitions if not definition.auto_start}
        self._reports: Final[dict[str, dict[str, Any]]] = {}  # the last status of each bridge
        self._url: str | None = None
        self._obstacle: str | None = None
        self._since_ms = wall_ms()
        self._receiver: StepReceiver | None = None  # of the steps of messages, while the broker follows any
        self._named: list[str] = []  # messages that the child is to follow, from this turn of the loop
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_expected = False  # a child is being started, or runs
        self._is_stopping = False

    def start(self, connectors: Iterable[TransportConnector], context: BrokerContext | None = None) -> None:
        """Start the child; without a connector log which bridges do not start, and start those that need none.

        The broker of ``context`` follows messages through the bridges. Raises `ConfigurationError` as `read_paused`.
        """
        if context is not None:
            context.step_source = self
        self.read_paused()
        self._url = own_address(connectors)
        able = self._able()
        left = [one.name for one in self._definitions if one not in able]
        if left:
            self._obstacle = NO_CONNECTOR
            more = f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
            logger.error("bridges do not start: %s%s: %s", ", ".join(left[:MAX_NAMED]), more, NO_CONNECTOR)
        if able:
            self._supervise()
        if self._deployments is not None:
            self._deploying = asyncio.get_running_loop().create_task(self._deployments.watch())

    def read_paused(self) -> None:
        """Read the names of paused bridges. Raises `ConfigurationError` for a file of a newer Spanwire."""
        self._paused.read()

    def _supervise(self) -> None:
        self._is_expected = True  # rows of this turn say so
        supervision = Supervision("the process of the bridges", self._run)
        self._task = asyncio.get_running_loop().create_task(supervision.supervise())

    def _deployments_of(self, deployment: Deployment) -> Deployments:
        return Deployments(deployment.directory, self._taken, deployment.read, self._replace)

    def names(self) -> list[str]:
        """Return the names of all bridges."""
        return [definition.name for definition in self._definitions]

    def take(self, definition: Definition) -> dict[str, object]:
        """Start a bridge that an operator created, in place of a created one of the name; return its row.

        Raises:
            ConfigurationError: the bridge cannot run here; nothing is changed.
        """
        self._change([definition.name] if definition.name in self.names() else [], [definition])
        if definition.name not in self._taken:
            self._taken.append(definition.name)
        return self._row(definition)

    async def give_up(self, names: Sequence[str]) -> list[dict[str, object]]:
        """Let created bridges complete their batches and end, and forget them; return the rows from before."""
        rows = [self._row(definition) for definition in self._definitions if definition.name in names]
        try:
            await asyncio.to_thread(self._paused.change, names, False)  # waits for the disk
        except OSError as error:
            raise ConfigurationError(f"the disk does not take the names of paused bridges: {error.strerror}") from None
        self._change(list(names), [])
        self._taken[:] = [name for name in self._taken if name not in names]
        return rows

    async def _replace(self, names: list[str], definitions: list[Definition]) -> bool:
        """Stop the routes of some names, and start others. Returns False after an error in the log."""
        try:
            self._change(names, definitions)
        except ConfigurationError as error:
            logger.error("%s", error)
            return False
        return True

    def _change(self, names: list[str], definitions: list[Definition]) -> None:
        """Stop the bridges of some names, and start others; the first ones start the child.

        Raises:
            ConfigurationError: one cannot run here; nothing is changed.
        """
        if self._url is None and any(uses_this_broker(definition) for definition in definitions):
            raise ConfigurationError(NO_CONNECTOR)
        if self._is_stopping:
            raise ConfigurationError("the broker is being stopped; create and delete bridges after its next start")
        plain = [plain_definition(definition) for definition in self._reached(definitions)]
        self._definitions[:] = _with_places(self._definitions, names, definitions)
        for name in names:
            self._reports.pop(name, None)
        self._waiting.difference_update(names)
        self._waiting.update(definition.name for definition in definitions if not definition.auto_start)
        if self._task is None:
            if self._able():
                self._supervise()
        else:
            self._send({"remove": names, "bridges": plain, "paused": sorted(self._resting())})

    def _able(self) -> list[Definition]:
        """Return the definitions that can run: without a connector those that do not need this broker."""
        return [one for one in self._definitions if self._url is not None or not uses_this_broker(one)]

    def _reached(self, definitions: Iterable[Definition]) -> list[Definition]:
        """Return definitions with the address of the broker and the paths of the jars.

        Raises:
            ConfigurationError: a jar is missing, or other users can change a jar.
        """
        url, found = self._url, with_jars(definitions, self._code.jars)
        return found if url is None else [reached_at(definition, url) for definition in found]

    async def stop(self) -> None:
        """Let the bridges complete their batches, and end the child; may be called twice."""
        self._is_stopping = True
        deploying, self._deploying = self._deploying, None
        if deploying is not None:
            deploying.cancel()
            await asyncio.gather(deploying, return_exceptions=True)
        task, self._task = self._task, None
        self._is_expected = False
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        process = self._process
        if process is not None and process.returncode is None:
            assert process.stdin is not None
            process.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), self._stop_s)
            await end_process(process, 0.0)

    def rows(self) -> list[dict[str, object]]:
        """Return a row for each bridge: source, target, state and counters."""
        return [self._row(definition) for definition in self._definitions]

    def _row(self, definition: Definition) -> dict[str, object]:
        report = self._reports.get(definition.name, {})
        state = report.get("state") or self._unreported_state(definition)
        source, target = _ends(definition)
        return {
            "name": definition.name,
            "source": source,
            "target": target,
            "quality": definition.quality.value,
            "state": state,
            "up": state == RUNNING,
            "gave_up": state == FAILED,
            "since_s": max(0, self._wall_ms() - (report.get("since_ms") or self._since_ms)) // 1000,
            **{name: report.get(name, 0) for name in COUNTERS},
            "retries": report.get("failures", 0),
            "lag_s": report.get("lag_ms", 0) / 1000,
            "last_error": report.get("last_error", self._obstacle if uses_this_broker(definition) else None),
        }

    def _unreported_state(self, definition: Definition) -> str:
        """Return the state of a bridge of which the child has said nothing so far."""
        if definition.name in self._resting():
            return PAUSED
        is_able = self._url is not None or not uses_this_broker(definition)
        return STARTING if self._is_expected and is_able else STOPPED

    async def command(self, action: str, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Pause, resume or restart bridges; return the rows from before.

        Raises:
            ConfigurationError: a name is unknown, or the bridges cannot run.
        """
        names = arguments.get("bridges")
        if not isinstance(names, list) or not 0 < len(names) <= MAX_NAMES:
            raise ConfigurationError(f"bridges must be a list of 1 to {MAX_NAMES} names of bridges")
        known = self.names()
        for name in names:
            if name not in known:
                raise ConfigurationError(self._unknown(name))
        named = [definition for definition in self._definitions if definition.name in names]
        if self._obstacle is not None and any(map(uses_this_broker, named)):
            raise ConfigurationError(self._obstacle)
        await asyncio.to_thread(self._paused.change, names, action == "pause")  # waits for the disk
        self._waiting.difference_update(names)
        self._send({action: names})
        return [self._row(definition) for definition in self._definitions if definition.name in names]

    def parameters(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return the parameters of the bridge ``name``; a route has none. Raises `ConfigurationError`."""
        definition = self._named_definition(arguments.get("name"))
        parameters = parameters_of(definition) if isinstance(definition, BridgeDefinition) else {}
        return {"bridge": definition.name, "parameters": parameters}

    async def change(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Set parameters of the bridge ``name`` until the next start; return its row from before.

        The bridge completes its batch and starts anew.

        Raises:
            ConfigurationError: a parameter is unknown or invalid, or the bridge could not run; nothing is changed.
        """
        definition, settings = self._named_definition(arguments.get("name")), arguments.get("settings")
        if not isinstance(settings, dict) or not settings:
            raise ConfigurationError("settings must be an object with parameters of the bridge")
        if not isinstance(definition, BridgeDefinition):
            raise ConfigurationError(f"{definition.name} is a route, which has no parameters; change its definition")
        changed = with_parameters(definition, settings)
        await asyncio.to_thread(check_in_broker, changed)  # loads the packages of its providers
        if not any(one is definition for one in self._definitions):
            raise ConfigurationError(f"bridge {definition.name} was replaced or deleted meanwhile; look, and try again")
        row = self._row(definition)
        # One that an operator has started goes on, although its definition says that it waits.
        self._change([definition.name], [replace(changed, auto_start=definition.name not in self._waiting)])
        return [row]

    def _named_definition(self, name: object) -> Definition:
        found = next((one for one in self._definitions if one.name == name), None)
        if found is None:
            raise ConfigurationError(self._unknown(name))
        return found

    def _unknown(self, name: object) -> str:
        return f"unknown bridge {str(name)[:100]}; known are {', '.join(self.names()[:20]) or 'none'}"

    def _resting(self) -> set[str]:
        """Return the names of the bridges paused by an operator, or not yet started by an operator."""
        return self._waiting.union(self._paused.names)

    def follow(self, receiver: StepReceiver | None) -> None:
        """Let the child keep the steps of messages for ``receiver``, or forget all."""
        self._receiver = receiver
        self._send({"follow": receiver is not None})

    def name(self, message_id: str) -> None:
        """Let the child report the steps of a message."""
        self._named.append(message_id)
        if len(self._named) == 1:
            asyncio.get_running_loop().call_soon(self._send_named)

    def forget(self, message_ids: list[str]) -> None:
        """Let the child report no more steps of these messages."""
        self._send({"forget": message_ids})

    def targets(self, source: Destination) -> list[BridgeTarget]:
        """Return the targets of the bridges that take messages from a destination of this broker."""
        return targets_of(self._able(), source, self._url)

    def _send_named(self) -> None:
        named, self._named = self._named, []
        self._send({"name": named})

    def _send(self, command: dict[str, Any]) -> None:
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(json.dumps(command).encode() + b"\n")

    async def _run(self) -> str:
        """Run the child to the end. Returns the exit status as a text."""
        self._is_expected = True
        try:
            return await self._run_child()
        finally:
            self._is_expected = False

    async def _run_child(self) -> str:
        try:
            self._reached(self._able())
        except ConfigurationError as error:
            return str(error)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=MAX_LINE,
                start_new_session=True,  # Ctrl-C is for the broker, which stops the child
            )
        except OSError as error:
            return str(error.strerror or error)
        # Not before: routes may have been deployed or removed while the process was started.
        try:
            definitions = self._reached(self._able())
        except ConfigurationError as error:
            await end_process(process, 0.0)
            return str(error)
        self._process = process
        names = self._resting()
        self._send(
            {
                "bridges": [plain_definition(definition) for definition in definitions],
                "paused": sorted(names),
                "tracing": self._tracing,
                "convertors": None if self._code.convertors is None else str(self._code.convertors.absolute()),
                "states": None if self._states is None else str(self._states),
                "follow": self._receiver is not None,
            }
        )
        assert process.stdout is not None
        assert process.stderr is not None
        _, words = await asyncio.gather(self._take_reports(process.stdout), relay(process.stderr))
        status = await process.wait()
        self._since_ms = self._wall_ms()
        reason = words or f"exit status {status}"
        for name, report in self._reports.items():
            self._reports[name] = {**report, "state": STOPPED, "since_ms": self._since_ms, "last_error": reason}
        return reason

    async def _take_reports(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            names = {definition.name for definition in self._definitions}
            reported = json.loads(line)
            for report in reported.get("bridges", ()):
                if report["name"] in names:  # not of a route that was removed meanwhile
                    self._reports[report["name"]] = report
            if self._receiver is not None:
                for message_id, step, location, cause, there, wall_ms in reported.get("steps", ()):
                    self._receiver.step_outside(message_id, step, location, cause, there, wall_ms)


def _with_places(
    before: Sequence[Definition], names: Sequence[str], definitions: Sequence[Definition]
) -> list[Definition]:
    """Return definitions without those of some names; a new one of such a name has the place of the old one."""
    new = {definition.name: definition for definition in definitions}
    kept = [new.pop(one.name, None) if one.name in names else one for one in before]
    return [*(one for one in kept if one is not None), *new.values()]


def _ends(definition: Definition) -> tuple[str, str]:
    """Return source and target of a bridge, or all targets of a route."""
    if isinstance(definition, RouteDefinition):
        return source_text(definition.source), targets_text(definition)
    source, target = definition.source, definition.target
    return f"{source.destination} at {place(source.factory)}", f"{target.destination} at {place(target.factory)}"


async def relay(stream: asyncio.StreamReader) -> str:
    """Log the records of the child's log. Returns the last other line, such as the end of a traceback."""
    lines, last = ChildLines(PACKAGE), ""
    while True:
        chunk = await stream.read(MAX_CHUNK)
        for line in lines.feed(chunk):
            last = line[:MAX_WORDS]
            logger.error("the process of the bridges: %s", last)
        if not chunk:
            return last
