"""Builds a broker from a configuration, starts it, and stops it in order.

    service = BrokerService(configuration, directory)
    await service.start()          # raises SpanwireError in one line per obstacle, with nothing left behind
    await service.finished()       # until request_stop() or a failure of the store
    await service.stop()

The whole broker runs in the loop's thread; the store's threads call the loop through `loop.call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final, cast

from spanwire import registry
from spanwire.broker.assembly import BrokerSettings
from spanwire.broker.broker import Broker
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.ports import AdvisoryFormat
from spanwire.discovery.addresses.address import read_address
from spanwire.logs.levels import log_level
from spanwire.management.commands import broker_operations, pipelines
from spanwire.management.control import Command, ControlServer, Operation
from spanwire.management.destination_feed import DestinationFeed
from spanwire.management.handles import Handles
from spanwire.management.histograms import STATUS_PART
from spanwire.management.tasks import Tasks
from spanwire.management.views import BrokerView
from spanwire.model.destination import Destination
from spanwire.model.environment import IdGenerator
from spanwire.model.errors import ConfigurationError, StoreError
from spanwire.model.message import Message
from spanwire.service.administration.connector_operations import ConnectorOperations, connector_maker
from spanwire.service.administration.stored_reads import StoredReads
from spanwire.service.administration.usage import usage_limits
from spanwire.service.children.broker_bridges import BrokerBridges
from spanwire.service.children.web_process import WebProcess, shown_wait
from spanwire.service.config.model import NO_CODE, BrokerConfiguration, CodeDirectories
from spanwire.service.connection_factories import connection_factories, connection_factory
from spanwire.service.machine.environment import RealEnvironment
from spanwire.service.machine.loop_probe import LoopProbe
from spanwire.service.message_formats import message_formats
from spanwire.service.networking.networking import Networking
from spanwire.service.persistence import Persistence, loop_poster
from spanwire.service.plugins import addresses, broker_class, broker_traces, install_plugins
from spanwire.service.published_addresses import announced_uri
from spanwire.service.readiness import open_connectors, web_connectors
from spanwire.service.runtime_configuration import Reread, RunningBroker, RuntimeConfiguration
from spanwire.service.security import Security
from spanwire.service.standby import Standby, Waits
from spanwire.service.web_keys import console_settings, read_keys, shows_bodies, web_keys
from spanwire.service.web_realm import web_realm
from spanwire.transports.admission import Admission, ReceiveBudget
from spanwire.transports.base import CLOSE_LINGER, RECEIVE_SHARE
from spanwire.transports.connector import TransportConnector
from spanwire.transports.loop.polling import Polling
from spanwire.transports.loop.turn import Turn
from spanwire.transports.vm import VmConnector

logger = logging.getLogger(__name__)

IN_PROCESS_PROTOCOL: Final = "openwire"  # the protocol of vm: clients
STOP_POLL: Final = 0.02  # seconds between two checks for unsent responses or open sockets
STOP_ANSWERS: Final = 10.0  # seconds to write 64 MiB (`MAX_UNSYNCED_BYTES`) at 6 MiB/s

Rows = Callable[..., object]
AdvisoryFormatClass = Callable[[str, str, str, str, MessageFormats], AdvisoryFormat]


class BrokerService:
    """A broker with connectors, store and control socket; started once.

    ``directory`` is None without persistence; the broker then has neither lock nor control socket.
    """

    def __init__(
        self,
        configuration: BrokerConfiguration,
        directory: Path | None,
        *,
        allow_anonymous: bool = False,
        environment: RealEnvironment | None = None,
        reread: Reread | None = None,
        polling: Polling | None = None,
        on_wait: Waits = lambda directory: None,
        code: CodeDirectories = NO_CODE,
        deploy: Path | None = None,
        operations: Mapping[str, Operation] | None = None,
        reloading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """``reread`` reads the configuration again; without ``reread`` the configuration never changes.

        ``polling`` lets the loop poll for input; without ``polling`` the loop sleeps during every lack of input.
        ``on_wait`` gets the directory of the lock during a wait of the start. ``code`` has the directories with message
        convertors and jars of bridges, ``deploy`` is the directory with routes. ``operations`` are operations of the
        surrounding process, such as a restart. A reload runs inside of ``reloading()``.
        """
        self.configuration: Final = configuration
        self.directory: Final = directory
        self.environment: Final = environment if environment is not None else RealEnvironment()
        self.failure: StoreError | None = None
        self.stop_requests = 0
        admission = self._admission = Admission()
        self.connectors: Final = [TransportConnector(settings, admission) for settings in configuration.connectors]
        self.in_process: Final = VmConnector(configuration.broker_name, admission)
        self._allow_anonymous: Final = allow_anonymous
        web = configuration.web
        self._web: Final = None if web is None else WebProcess(web, directory, allow_anonymous=allow_anonymous)
        self._traces: Final = broker_traces(configuration, os.environ)
        self._plugins: Final = self._traces.plugins(configuration.plugins)
        self._bridges: Final = BrokerBridges(configuration, directory, code, deploy, self.wake)
        self._finished: Final = asyncio.Event()
        self._security: Final = Security(configuration, self.wake)
        self._probe: Final = LoopProbe()
        self._persistence: Final = Persistence(directory, configuration.persistence, configuration.broker_name)
        waits = shown_wait(on_wait, self._web, configuration.broker_name)
        self._standby: Final = Standby(self._persistence, configuration.persistence.lock, waits, self._lock_lost)
        self._networking: Final = Networking(configuration.network_connectors, configuration.stores)
        self._broker: Broker | None = None
        self._turn: Turn | None = None
        self._control: ControlServer | None = None
        self._reread: Final = reread
        self._reloading: Final = reloading
        self._polling: Final = polling
        self._operations: Final = operations or {}
        self._runtime: RuntimeConfiguration | None = None
        self._reads: Final = StoredReads(self.wake)

    @property
    def broker(self) -> Broker:
        """Return the running broker."""
        assert self._broker is not None
        return self._broker

    async def start(self) -> None:
        """Bind the ports, lock the directory, recover the store, then accept connections.

        Waits while another broker has the lock. After an error all resources are released.

        Raises:
            StandbyEndError: `request_stop` was called during the wait.
            ConfigurationError: the configuration is refused.
            TransportError: a port cannot be bound.
            StoreError: the store cannot be opened.
            ControlError: the control socket cannot be opened.
        """
        try:
            await self._refuse_open_binds(self._security)
            opening = self._opening()
            await self._standby.enter(opening, self._finished)
            with self._standby.starting():
                broker = self._open_broker()
            self._bridges.read_paused(broker)
            turn = self._begin_turns(broker)
            await self._open_control(broker)
            self._standby.watch()
            await self._standby.standby_arrived(self._finished)
            await self._security.begin(broker.reconfiguration.use_authorizer)
            self._probe.start()
            self._traces.start()
            self._watch_configuration(broker)
            acceptor = self._networking.acceptor(broker)
            for connector in opening:
                await self._accept(connector)
            self.in_process.start(connection_factory(IN_PROCESS_PROTOCOL, broker, acceptor), turn)
            await self._networking.start(broker, self._address(), turn, self.connectors, self.read_stored)
            broker.became_master(self.environment.now())
            self.wake()
            await self._bridges.start(opening, broker)
            if self._web is not None:
                self._web.start()
        except BaseException:
            await self._release()
            raise

    def request_stop(self) -> None:
        """Let `finished` return; may be called twice and from a signal handler of the loop."""
        self.stop_requests += 1
        self._finished.set()

    async def finished(self) -> None:
        """Wait for a stop request or a failure of the store (`failure`)."""
        await self._finished.wait()

    async def stop(self) -> None:
        """Stop accepting, answer received messages, close connections, write the journal, free the directory.

        Afterwards `failure` has the error if the journal could not be written.
        """
        await self._bridges.stop()  # while the broker still answers
        for connector in self.connectors:
            connector.stop()
        self._networking.stop()
        self.in_process.stop()
        turn = self._turn
        if turn is not None:
            await self._answer_all(turn)
            self.broker.stop(self.environment.now())
            turn.wake()
            await asyncio.sleep(0)
            turn.close_all()
            await self._sockets_closed(turn)
        await self._release()

    async def _answer_all(self, turn: Turn) -> None:
        """Stop reading and wait until all received messages are stored and answered.

        A client without an answer would send again, or another consumer would get the message: a duplicate.
        """
        turn.stop_reading()
        self.broker.begin_stop(self.environment.now())
        turn.wake()
        waited = 0.0
        while self.failure is None and self.broker.awaits_disk() and waited < STOP_ANSWERS:
            await asyncio.sleep(STOP_POLL)
            waited += STOP_POLL

    async def _sockets_closed(self, turn: Turn) -> None:
        """Wait for sockets with unsent output; the pump aborts such sockets after `CLOSE_LINGER`."""
        waited = 0.0
        while turn.connection_count and waited < CLOSE_LINGER + 1.0:
            await asyncio.sleep(STOP_POLL)
            waited += STOP_POLL

    async def _release(self) -> None:
        await self._bridges.stop()
        if self._web is not None:
            await self._web.stop()
        self._standby.stop()
        self._security.stop()
        self._probe.stop()
        await self._traces.stop()
        if self._runtime is not None:
            self._runtime.stop()
        self._networking.stop()
        for connector in self.connectors:
            connector.stop()
        self.in_process.stop()
        if self._turn is not None:
            self._turn.stop()
        if self._control is not None:
            self._control.withdraw()  # before the lock of the directory is released
        try:
            self._persistence.stop()
        except StoreError as error:
            if self.failure is None:
                self.failure = error
        self._persistence.release()
        if self._control is not None:
            self._control.stop()
            await asyncio.sleep(0)

    async def _accept(self, connector: TransportConnector) -> None:
        """Let a bound connector accept connections. Raises `TransportError`."""
        assert self._turn is not None
        broker = self.broker
        acceptor = self._networking.acceptor(broker)
        await connector.start(connection_factories(connector.settings.spoken(), broker, acceptor), self._turn)

    async def _start_connector(self, connector: TransportConnector) -> None:
        """Bind, start and announce a closed connector for an operator. Raises `SpanwireError`."""
        obstacle = None if self._allow_anonymous else self._security.obstacle()
        lines = await open_connectors([connector], obstacle)
        if lines:
            raise ConfigurationError("\n".join(lines))
        await connector.bind()
        await self._accept(connector)
        try:
            await self._networking.announce(connector)
        except ConfigurationError:
            connector.stop()
            raise

    def _opening(self) -> list[TransportConnector]:
        """Return the open connectors, and the connectors to open with the broker."""
        return [one for one in self.connectors if one.settings.auto_start or one.is_started]

    async def _refuse_open_binds(self, security: Security) -> None:
        """Raise `ConfigurationError` for unprotected connectors open to the network."""
        obstacle = None if self._allow_anonymous else security.obstacle()
        lines = await open_connectors([*self._opening(), *web_connectors(self.configuration)], obstacle)
        if lines:
            raise ConfigurationError("\n".join(lines))

    def _open_broker(self) -> Broker:
        """Lock the directory, recover the store and build the broker."""
        configuration, environment = self.configuration, self.environment
        formats = message_formats()
        self._persistence.open(
            formats,
            (self._stored, self._fetched, self._store_failed, loop_poster(asyncio.get_running_loop())),
            self._room_changed,
        )
        broker_id = configuration.broker_id or IdGenerator(environment).next_id()
        limits = usage_limits(configuration.usage, self._persistence.journal_directory)
        broker = broker_class(self._plugins)(
            configuration.broker_name,
            broker_id,
            environment,
            self._persistence.store,
            formats,
            BrokerSettings(
                advisory_format=self._advisory_format(broker_id, formats),
                anonymous_producer_advisories=configuration.anonymous_producer_advisories,
                authenticator=self._security.authenticator(),
                authorizer=self._security.authorizer(),
                policies=PolicyMap(list(configuration.policies)),
                limits=limits,
                max_uncommitted=configuration.max_uncommitted,
                departures=configuration.departures,
                producer_audit=self._persistence.audit,
                virtual=configuration.virtual,
                scheduler=configuration.scheduler,
                upkeep=configuration.upkeep,
                temporary_by_send=configuration.temporary_by_send,
            ),
        )
        self._broker = broker
        statistics_addresses = addresses(self._opening(), configuration.broker_name, self.directory)
        install_plugins(broker, self._plugins, formats, limits, statistics_addresses)
        recovered = self._persistence.take_recovered(configuration.delete_all_messages_on_startup)
        broker.recover(recovered.destinations, recovered.clean, environment.now(), recovered.metadata)
        for destination in configuration.destinations:
            broker.configure_destination(destination)
        return broker

    def _advisory_format(self, broker_id: str, formats: MessageFormats) -> AdvisoryFormat | None:
        """Return the builder of advisories, with the first connector as the broker's address."""
        if not self.configuration.advisory_support:
            return None
        format_class = cast(AdvisoryFormatClass, registry.load(registry.ADVISORY_FORMAT))
        uri = self._address()
        producer_connection_id = IdGenerator(self.environment).next_id()
        return format_class(broker_id, self.configuration.broker_name, uri, producer_connection_id, formats)

    def _address(self) -> str:
        """Return the broker's address for other brokers."""
        uris = [announced_uri(connector, self.environment.host_name) for connector in self._opening()]
        spoken = [uri for uri in uris if read_address(uri) is not None]  # usable for links and clients
        return (spoken or uris or [f"vm://{self.configuration.broker_name}"])[0]

    def _begin_turns(self, broker: Broker) -> Turn:
        journal = self._persistence.journal
        budget = ReceiveBudget(self.configuration.usage.memory_limit_bytes * RECEIVE_SHARE // 100)
        turn = Turn(asyncio.get_running_loop(), broker, self.environment.clock, journal, budget, self._polling)
        self._turn = turn
        if journal is not None:
            journal.start()
        turn.start()
        return turn

    def _watch_configuration(self, broker: Broker) -> None:
        if self._reread is not None:
            keys, links = partial(read_keys, self.connectors, self._web), self._networking.connectors
            running = RunningBroker(broker, self._security, links, self._refuse_open_binds, self.wake, keys)
            self._runtime = RuntimeConfiguration(self.configuration, self._reread, running, self._reloading)
            self._runtime.start()
        elif self.configuration.runtime is not None:
            logger.warning("runtimeConfigurationPlugin has no effect in this process: its file is never reloaded")

    @property
    def runtime(self) -> RuntimeConfiguration | None:
        """Return the reloader of the configuration, or None."""
        return self._runtime

    def request_reload(self) -> None:
        """Reload the configuration soon; the log has the outcome. May be called from a signal handler."""
        if self._runtime is not None:
            self._runtime.request()

    async def reload(self, arguments: Mapping[str, object]) -> list[str]:
        """Reload the configuration now; return one line for each change. Raises `SpanwireError`."""
        if self._runtime is None:
            raise ConfigurationError("this broker was started without a file that could be read again")
        return await self._runtime.reload(arguments)

    def _facts(self) -> dict[str, object]:
        """Return the parts of the status that the broker core does not know."""
        return {
            "data_directory": str(self.directory),
            "persistent": self.configuration.persistence.persistent,
            "configuration": self.configuration.source,
            "stores": self._persistence.views(),
            "standby": self._standby.has_standby(),
            "bridges": self._bridges.rows(),
            "traces": self._traces.row(),
            **self._networking.status(),
            STATUS_PART: self._probe.histograms(self._persistence.sync_times()),
        }

    async def _open_control(self, broker: Broker) -> None:
        if self.directory is None:
            return
        clock, persistence = self.environment.clock, self._persistence
        view = BrokerView(broker, broker.overview, self.connectors, clock, self._facts, persistence.journal_directory)
        tasks, listening, network, bridges = Tasks(clock), self.connectors, self._networking, self._bridges
        links = network.connectors
        realm = web_realm(self.configuration.web)
        commands: dict[str, Command] = {
            **view.commands(),
            "pipelines": lambda: pipelines(broker),
            "tasks": tasks.views,
            "link-destinations": self._networking.count_rows,
            "definitions": lambda: cast(Rows, registry.load(registry.DEFINITIONS))(broker, listening, links, bridges),
            "ping": lambda: {"name": broker.name, "pid": os.getpid()},
            "exposure": lambda: self._security.exposure(has_realm=realm is not None),
            "console": lambda: console_settings(self.configuration),
            "web-keys": lambda: web_keys(self.configuration),
            "stop": self.request_stop,
        }
        connectors = ConnectorOperations(
            self.connectors,
            self._start_connector,
            self._networking.withdraw,
            connector_maker(self.configuration.stores, self._admission),
        )
        handles = Handles(broker.administration, clock, lambda: self._security.is_open, realm=realm)
        bodies = shows_bodies(self.configuration)
        operations: dict[str, Operation] = {
            **broker_operations(broker, clock, self.wake, self.read_stored, tasks, network, viewers_see_bodies=bodies),
            "login": handles.login,
            "destination": view.destination,
            "changes": DestinationFeed(broker.overview.destination_changes, clock).changes,
            "connector-start": connectors.start,
            "connector-stop": connectors.stop,
            "connector-add": connectors.add,
            "connector-remove": connectors.remove,
            "connector-reset": connectors.reset,
            **self._networking.operations(tasks.kept),
            **self._bridges.operations(),
            "reload": self.reload,
            "log-level": log_level,
            **self._operations,
        }
        self._control = ControlServer(self.directory, commands, operations, handles)
        self._persistence.check_owner()  # its socket must stay
        await self._control.start()

    def links(self) -> list[dict[str, object]]:
        """Return the links of the network connectors as plain values."""
        return self._networking.views()

    async def read_stored(self, destination: Destination, sequences: list[int]) -> list[Message | None]:
        """Read messages of a queue from the store for an operator; None for a message removed meanwhile."""
        return await self._reads.read(self._persistence.store, destination, sequences)

    def _stored(self, position: int) -> None:
        if self._broker is None:  # a start that has failed closes the journal, and nobody waits for an answer
            return
        self.broker.stored(position, self.environment.now())
        self.wake()

    def _fetched(self, request: int, messages: list[Message | None]) -> None:
        if self._reads.take(request, messages):
            return
        self.broker.on_fetched(request, messages, self.environment.now())
        self.wake()

    def _room_changed(self, has_room: bool) -> None:
        self.broker.room_changed(self.environment.now())
        self.wake()

    def _lock_lost(self, error: StoreError) -> None:
        if self._persistence.journal is not None:
            self._persistence.journal.fail(error)

    def _store_failed(self, error: StoreError) -> None:
        self.failure = error
        self.broker.store_failed(error, self.environment.now())
        self.wake()
        self.request_stop()

    def time_moved(self) -> None:
        """Adapt timers after the environment's clock was set forward."""
        if self._turn is not None:
            self._turn.time_moved()

    def break_connections(self, reason: str) -> None:
        """Close all connections at once, without a last command."""
        if self._turn is not None:
            self._turn.give_up_all(reason)

    def wake(self) -> None:
        """Flush the broker's output after a change from outside of a turn."""
        if self._turn is not None:
            self._turn.wake()
