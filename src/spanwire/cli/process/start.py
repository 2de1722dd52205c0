"""``spanwire start``: runs a broker in the foreground until SIGTERM, SIGINT or ``spanwire stop``."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn

from spanwire._build import COMPILED
from spanwire.cli.arguments import Parser, log_options, placement, start_options
from spanwire.cli.running import named_configuration
from spanwire.logs.lines import START, begin_log
from spanwire.management.running_brokers import ListedBroker, RunningEntry, announce
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.loading import Inspection, load_configuration
from spanwire.service.config.model import BrokerConfiguration, CodeDirectories, WebConfiguration
from spanwire.service.config.reference import configuration_file
from spanwire.service.data_directory import data_directory
from spanwire.service.machine.allocator import FreeMemory, keep_freed_memory
from spanwire.service.machine.event_loop import loop_factory
from spanwire.service.machine.file_limit import raise_file_limit
from spanwire.service.machine.interpreter import DepartedCollector, settle_interpreter
from spanwire.service.machine.processors import machine_polling
from spanwire.service.machine.service_manager import ServiceManager, take_service_manager
from spanwire.service.readiness import inspection, start_warnings
from spanwire.service.service import BrokerService
from spanwire.service.standby import StandbyEndError
from spanwire.stores.lock_file import holder_of

logger = logging.getLogger(__name__)

FAILURE: Final = 1
NS_PER_MS: Final = 1_000_000
PURE: Final = (
    "pure Python, 1.3 to 12 times the processor time of the compiled build; a compiled wheel, or "
    "SPANWIRE_COMPILE=1 pip install . in the sources, changes that (docs/operations/install.md)"
)


def start_parser() -> Parser:
    """Return the parser of the command's arguments."""
    parser = Parser(prog="spanwire start", description="Start a broker in the foreground.")
    placement(parser, starts=True)
    start_options(parser)
    log_options(parser)
    parser.add_argument(
        "--web", action="store_true", help="serve metrics, health and an HTTP API as <web> says, else on 127.0.0.1:8161"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Start a broker and wait for the end; return 0 after an orderly stop."""
    options = start_parser().parse(arguments)
    reopen_log = begin_log(str(options.log_level), str(options.log_format), options.log_file)
    manager = take_service_manager(os.environ, os.getpid())
    reference = named_configuration(options, os.environ)
    definitions = dict(options.definitions)

    def read(inspect: Inspection | None = None) -> BrokerConfiguration:
        configuration = load_configuration(
            reference, definitions, skip_unsupported=bool(options.skip_unsupported), inspect=inspect
        )
        if options.web and configuration.web is None:
            return replace(configuration, web=WebConfiguration())
        return configuration

    code = CodeDirectories(options.convertors, options.jars)

    def read_for_start() -> BrokerConfiguration:
        return read(
            inspection(
                options.data_directory,
                os.environ,
                allow_anonymous=bool(options.allow_anonymous),
                code=code,
            )
        )

    configuration = read_for_start()
    unusual = start_warnings(configuration, options.data_directory, os.environ)
    for line in (*configuration.warnings, *configuration.skipped, *unusual):
        logger.warning("%s", line)
    directory = data_directory(configuration, options.data_directory, os.environ)
    raise_file_limit()
    keep_freed_memory()
    waiting = WaitingStandby(configuration.broker_name, directory, reference, manager)
    restart = Restart(read_for_start, manager)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        status = runner.run(
            _serve(
                lambda: BrokerService(
                    configuration,
                    directory,
                    allow_anonymous=bool(options.allow_anonymous),
                    reread=None if reference is None else read,
                    polling=machine_polling(),
                    code=code,
                    deploy=options.deploy,
                    on_wait=waiting.begin,
                    operations={"restart": restart.request},
                    reloading=manager.reloading,
                ),
                waiting,
                reference,
                reopen_log,
                restart,
                manager,
            )
        )
    if restart.is_due and status == 0:
        restart.begin()
    return status


class Restart:
    """The restart of the process: the broker stops in order, and the process runs the command line again.

    The process id stays the same, so a service manager sees a reload, and a standby takes over meanwhile.
    """

    def __init__(self, read: Callable[[], BrokerConfiguration], manager: ServiceManager) -> None:
        """``read`` reads the configuration as a start does; ``manager`` is told of the restart."""
        self._read: Final = read
        self._manager: Final = manager
        self.service: BrokerService | None = None
        self.is_requested = False

    async def request(self, _: Mapping[str, object]) -> None:
        """Stop the broker for a restart.

        Raises:
            ConfigurationError: a start would refuse the configuration, or the broker stops already.
        """
        await asyncio.to_thread(self._read)
        if self.service is None or self.service.stop_requests:
            raise ConfigurationError("the broker stops already")
        self.is_requested = True
        self._manager.restarting()
        self.service.request_stop()

    @property
    def is_due(self) -> bool:
        """True after `request`, unless a stop was requested later."""
        return self.is_requested and self.service is not None and self.service.stop_requests == 1

    def begin(self) -> NoReturn:
        """Replace the process by a new process with the same command line."""
        logging.getLogger(START).info("Restart: process %d runs its command line again", os.getpid())
        logging.shutdown()
        self._manager.return_variables(os.environ)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


class WaitingStandby:
    """The entry of a standby for ``spanwire list``, from begin to end of the wait."""

    def __init__(self, name: str, directory: Path, reference: str | None, manager: ServiceManager) -> None:
        self._name: Final = name
        self._directory: Final = directory
        self._reference: Final = reference
        self._manager: Final = manager
        self._entry: RunningEntry | None = None
        self.status = f"broker {name}: starts"  # for the service manager, "" when the broker runs

    def begin(self, directory: Path) -> None:
        """Make the entry, and report the wait for the lock of ``directory``."""
        file = None if self._reference is None else configuration_file(self._reference)
        self._entry = announce(
            ListedBroker(
                self._name,
                os.getpid(),
                str(self._directory),
                "" if file is None else str(file),
                (),
                time.time_ns() // NS_PER_MS,
                str(directory),
            ),
            os.environ,
        )
        logging.getLogger(START).info(
            "Standby: waits for the lock of %s, which %s holds; process %d, stop it with SIGTERM",
            directory,
            holder_of(directory),
            os.getpid(),
        )
        self.status = f"broker {self._name}: standby: waits for the lock of {directory}"
        self._manager.standby(self.status)

    def end(self) -> None:
        """Remove the entry. May be called without `begin`."""
        if self._entry is not None:
            self._entry.withdraw()
            self._entry = None


async def _serve(
    make_service: Callable[[], BrokerService],
    waiting: WaitingStandby,
    reference: str | None,
    reopen_log: Callable[[], None],
    restart: Restart,
    manager: ServiceManager,
) -> int:
    """Run a service from start to stop."""
    service = restart.service = make_service()
    manager.beat(lambda: waiting.status or _status(service))
    loop = asyncio.get_running_loop()

    def hang_up() -> None:
        reopen_log()
        service.request_reload()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.request_stop)
    if not sys.stdin.isatty():  # without a terminal SIGHUP means reload; with one it ends the process
        loop.add_signal_handler(signal.SIGHUP, hang_up)
    try:
        await service.start()
    except StandbyEndError:
        return 0
    finally:
        waiting.end()
    waiting.status = ""
    settle_interpreter()
    collector = DepartedCollector(lambda: service.broker.assembly.context.departed)
    collector.start()
    free_memory = FreeMemory()
    free_memory.start()
    entry = announce(listed(service, reference), os.environ)
    _announce(service)
    manager.ready()
    try:
        await service.finished()
        if not restart.is_requested:
            manager.stopping()
        await service.stop()
    finally:
        collector.stop()
        free_memory.stop()
        if entry is not None:
            entry.withdraw()
    if service.failure is not None:
        sys.stderr.write(f"spanwire start: {service.failure}\n")
        return FAILURE
    return 0


def _status(service: BrokerService) -> str:
    """Return a line about the running broker for the service manager."""
    connections = sum(connector.connection_count for connector in service.connectors)
    return f"broker {service.broker.name}: {connections} connection{'' if connections == 1 else 's'}"


def listed(service: BrokerService, reference: str | None) -> ListedBroker:
    """Return the broker's entry for `spanwire list`."""
    file = None if reference is None else configuration_file(reference)
    return ListedBroker(
        service.broker.name,
        os.getpid(),
        str(service.directory),
        "" if file is None else str(file),
        tuple(connector.uri for connector in service.connectors if connector.is_started),
        service.environment.now().wall_ms,
    )


def _announce(service: BrokerService) -> None:
    lines = [
        f"Build: {'compiled' if COMPILED else PURE}",
        f"Configuration: {service.configuration.source}",
        f"Data directory: {service.directory}",
    ]
    lines += [
        f"Listening for connections at: {connector.uri}"
        if connector.is_started
        else f"Connector {connector.name} is closed, because of autoStart: spanwire connector start {connector.name}"
        for connector in service.connectors
    ]
    lines.append(f"Spanwire (broker {service.broker.name}, id {service.broker.broker_id}) started")
    for line in lines:
        logging.getLogger(START).info("%s", line)
