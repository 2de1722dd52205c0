"""Checks of a configuration with I/O: read key stores, resolve host names, examine directories.

`spanwire start` and `spanwire config check` run the checks together with the checks of the file, so that one run shows
all obstacles. The checks bind, lock and write nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.discovery.groups.gossip_settings import GossipSettings
from spanwire.model.errors import ConfigurationError, SpanwireError
from spanwire.service.config.loading import Inspection
from spanwire.service.config.model import NO_CODE, BrokerConfiguration, CodeDirectories
from spanwire.service.data_directory import data_directory, foreign_store
from spanwire.service.security import Security
from spanwire.transports.admission import Admission
from spanwire.transports.base import ConnectorSettings
from spanwire.transports.connector import TransportConnector
from spanwire.tunnel.loading import tunnel_function

if TYPE_CHECKING:
    from spanwire.bridges.model.route_definition import Definition
    from spanwire.discovery.groups.agent_settings import AgentSettings

# Directories of programs and configurations. A journal there would fill a partition and backups meant for other data.
SYSTEM_DIRECTORIES: Final = (Path("/etc"), Path("/usr"))
LOG_SETTINGS: Final = ("log4j2.properties", "log4j2.xml", "log4j.properties", "logging.properties")
DATA_ALLOWED: Final = (Path("/usr/local/var"), Path("/usr/home"))  # used by Homebrew and FreeBSD


CodeCheck = Callable[[Iterable["Definition"], Path | None], list[str]]


def inspection(
    override: Path | None, environment: Mapping[str, str], *, allow_anonymous: bool, code: CodeDirectories = NO_CODE
) -> Inspection:
    """Return the further checks for `load_configuration`, for a program without a running event loop."""
    return lambda configuration: asyncio.run(
        start_obstacles(configuration, override, environment, allow_anonymous=allow_anonymous, code=code)
    )


async def start_obstacles(
    configuration: BrokerConfiguration,
    override: Path | None,
    environment: Mapping[str, str],
    *,
    allow_anonymous: bool,
    code: CodeDirectories = NO_CODE,
) -> list[str]:
    """Return one line for each obstacle to a start of a broker with the configuration.

    ``override`` is the data directory of the command line, if present, and ``code`` has the command line's directories
    with code of the operator.
    """
    connectors = [
        TransportConnector(settings, Admission()) for settings in configuration.connectors if settings.auto_start
    ]
    connectors += web_connectors(configuration)
    lines = list(_misplaced_data(configuration, override, environment))
    if configuration.persistence.persistent:
        journal = configuration.persistence.directory or data_directory(configuration, override, environment)
        lines += filter(None, [foreign_store(journal.absolute())])
    lines += [reason for connector in connectors if (reason := connector.missing_extra()) is not None]
    try:
        lines += await open_connectors(connectors, None if allow_anonymous else Security(configuration).obstacle())
    except SpanwireError as error:
        lines.append(str(error))
    lines += _unusable_stores(configuration)
    lines += _missing_extras(configuration)
    bridges = (*configuration.bridges, *configuration.routes)
    if bridges:
        for name, directory in ((registry.CONVERTOR_OBSTACLES, code.convertors), (registry.JAR_OBSTACLES, code.jars)):
            check = cast(CodeCheck, registry.load(name))
            lines += check(bridges, directory)
    return list(dict.fromkeys(lines))


def start_warnings(
    configuration: BrokerConfiguration, override: Path | None, environment: Mapping[str, str]
) -> list[str]:
    """Return one line for each valid setting with a surprising effect."""
    lines = [
        f"{configuration.source}: the broker keeps its data in {directory}, below {system}, where only programs and "
        "configurations are expected"
        for directory, system in _system_places(configuration, override, environment)
        if not _is_presumed(configuration, directory)
    ]
    return lines + _unread_log_settings(configuration)


def _unread_log_settings(configuration: BrokerConfiguration) -> list[str]:
    """Return a line for each file with ActiveMQ's log settings beside the configuration."""
    directory = Path(configuration.source).absolute().parent
    return [
        f"{directory / name} is not read: the log goes to standard error or to --log-file, --log-level sets its level, "
        "and spanwire log-level those of single loggers"
        for name in LOG_SETTINGS
        if Path(configuration.source).is_file() and (directory / name).is_file()
    ]


def web_connectors(configuration: BrokerConfiguration) -> list[TransportConnector]:
    """Return the address of the web process as a never bound connector, for `open_connectors`.

    The list is empty for a web port guarded by the users of a realm.
    """
    web = configuration.web
    if web is None or (web.realm is not None and configuration.authentication is None):
        return []  # the users of the realm guard the port of a broker without users
    scheme = "http" if web.tls is None else "https"
    settings = ConnectorSettings(name="web", scheme=scheme, host=web.host, port=web.port, protocol="http")
    return [TransportConnector(settings, Admission())]


async def open_connectors(connectors: Iterable[TransportConnector], obstacle: str | None) -> list[str]:
    """Return one line for each unprotected connector reachable from other machines.

    ``obstacle`` is the reason for the missing protection (`Security.obstacle`); None returns no lines.

    Raises:
        TransportError: a host name is unknown.
    """
    if obstacle is None:
        return []
    advice = f"{obstacle}, or start with --allow-anonymous"
    return [
        f"connector {connector.name} would open {connector.uri} to other machines {advice}"
        for connector in connectors
        if not await connector.binds_loopback()
    ]


def _unusable_stores(configuration: BrokerConfiguration) -> Iterable[str]:
    """Yield a line for each key or trust store unusable for the broker's connectors."""
    web = () if configuration.web is None else (configuration.web.tls,)
    for tls in (*(connector.tls for connector in configuration.connectors), *web):
        try:
            if tls is not None:
                _check_store(registry.SERVER_CONTEXT, tls)
        except ConfigurationError as error:
            yield str(error)
    for link in configuration.network_connectors:
        try:
            for remote in link.remotes:
                if remote.tls is not None:
                    _check_store(registry.CLIENT_CONTEXT, remote.tls)
        except ConfigurationError as error:
            yield str(error)


def _check_store(context: str, settings: object) -> None:
    """Make a TLS context as a test. Raises `ConfigurationError`."""
    cast(Callable[[object], object], registry.load(context))(settings)


def _missing_extras(configuration: BrokerConfiguration) -> Iterable[str]:
    """Yield a line for each discovery agent without an installed extra."""
    agents: list[AgentSettings | str] = [
        link.discovery.agent
        for link in configuration.network_connectors
        if link.discovery is not None and not isinstance(link.discovery.agent, GossipSettings)
    ]
    agents += [connector.discovery_uri for connector in configuration.connectors if connector.discovery_uri]
    yield from _unusable_tunnels(configuration)
    yield from _missing_directories(configuration)
    if not agents:
        return
    obstacle = cast("Callable[[AgentSettings | str], str | None]", registry.load(registry.AGENT_OBSTACLE))
    for agent in agents:
        reason = obstacle(agent)
        if reason is not None:
            yield reason


def _missing_directories(configuration: BrokerConfiguration) -> Iterable[str]:
    """Yield a line for logins and rights in a directory without the needed extra."""
    authentication, authorization = configuration.authentication, configuration.authorization
    modules = () if authentication is None else authentication.all_modules
    needs_logins = any(module.directory is not None for module in modules)
    needs_rights = authorization is not None and authorization.directory is not None
    if needs_logins or needs_rights:
        check = cast("Callable[..., None]", registry.load(registry.CHECK_DIRECTORIES))
        try:
            check(logins=needs_logins, rights=needs_rights)
        except ConfigurationError as error:
            yield str(error)


def _unusable_tunnels(configuration: BrokerConfiguration) -> Iterable[str]:
    """Yield a line for a link over HTTP without the needed extra."""
    for link in configuration.network_connectors:
        for remote in link.remotes:
            if remote.is_tunnelled:
                try:
                    tunnel_function(registry.OPEN_TUNNEL, remote.uri)
                except ConfigurationError as error:
                    yield f"network connector {link.bridge.name}: {error}"


def _misplaced_data(
    configuration: BrokerConfiguration, override: Path | None, environment: Mapping[str, str]
) -> Iterable[str]:
    """Yield a line for each directory in `SYSTEM_DIRECTORIES` implied only by the file's location."""
    directory = Path(configuration.source).absolute().parent
    for path, system in _system_places(configuration, override, environment):
        if _is_presumed(configuration, path):
            yield (
                f"{configuration.source}: the broker would keep its data in {path}, below {system}, because nothing "
                f"names its base directory; start with -D activemq.base=DIRECTORY -D activemq.conf={directory}, or "
                "set ACTIVEMQ_BASE and ACTIVEMQ_CONF"
            )


def _system_places(
    configuration: BrokerConfiguration, override: Path | None, environment: Mapping[str, str]
) -> list[tuple[Path, Path]]:
    """Return the broker's directories below a system directory, each with the system directory."""
    persistence = configuration.persistence
    directories = {data_directory(configuration, override, environment)}
    if persistence.persistent and persistence.directory is not None:
        directories.add(persistence.directory.absolute())
    return [
        (directory, system)
        for directory in sorted(directories)
        for system in SYSTEM_DIRECTORIES
        if directory.is_relative_to(system) and not any(directory.is_relative_to(allowed) for allowed in DATA_ALLOWED)
    ]


def _is_presumed(configuration: BrokerConfiguration, directory: Path) -> bool:
    base = configuration.presumed_base
    return base is not None and directory.is_relative_to(base)
