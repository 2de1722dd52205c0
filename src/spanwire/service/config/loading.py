"""Loads the configuration that ``spanwire start`` names: file, reader and placeholders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from spanwire.documents.element import Element
from spanwire.documents.xml import read_xml
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.interpretation.interpretation import Interpreter, replace_placeholders
from spanwire.service.config.model import BrokerConfiguration, default_configuration
from spanwire.service.config.readers.broker_uri import BROKER, PROPERTIES, broker_element, properties_element
from spanwire.service.config.readers.java_options import definitions
from spanwire.service.config.readers.properties import Variables
from spanwire.service.config.readers.spring import SpringDocument
from spanwire.service.config.toml import read_toml
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import Findings, read_text_file

LATER_REFERENCES: Final = ("fabric:", "http:", "https:")
BROKER_SOURCE: Final = "the broker: uri"  # the name in errors, because the URI may contain secrets
CONFIGURATION_FILE: Final = "activemq.xml"
BASE_VARIABLE: Final = "ACTIVEMQ_BASE"
CONF_VARIABLE: Final = "ACTIVEMQ_CONF"
# Debian's package has the configuration of each instance below /etc and its base directory below /var/lib.
DEBIAN_INSTANCE: Final = re.compile(r"/etc/activemq/instances-(?:available|enabled)/([^/]+)")
DEBIAN_HOME: Final = "/usr/share/activemq"
DEBIAN_BASES: Final = "/var/lib/activemq"

Inspection = Callable[[BrokerConfiguration], Iterable[str]]


def load_configuration(
    reference: str | None,
    placeholders: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    skip_unsupported: bool = False,
    inspect: Inspection | None = None,
) -> BrokerConfiguration:
    """Load the configuration that ``reference`` names.

    ``reference`` is ``xbean:PATH``, the path of an XML or TOML file, ``broker:(…)`` or ``properties:PATH``; None means
    the built-in default. ``placeholders`` come from the command line; ``environment`` has the values of last resort.
    With ``skip_unsupported``, unsupported settings are left out and listed in ``skipped``. ``inspect`` returns further
    obstacles of the configuration, so that one error shows all obstacles.

    Raises:
        ConfigurationError: the configuration is refused; one line per obstacle.
    """
    if reference is None:
        return default_configuration()
    process_environment = os.environ if environment is None else environment
    if reference.startswith((BROKER, PROPERTIES)):
        return _described(reference, placeholders or {}, process_environment, skip_unsupported, inspect)
    path = _path(reference)
    return read_configuration(
        read_text_file(path),
        path,
        placeholders or {},
        process_environment,
        skip_unsupported=skip_unsupported,
        inspect=inspect,
    )


def configuration_file(reference: str) -> Path | None:
    """Return the absolute path of the file of ``reference`` with links resolved; None if it names no file."""
    if reference.startswith((BROKER, *LATER_REFERENCES)):
        return None
    return _file(reference, PROPERTIES if reference.startswith(PROPERTIES) else "xbean:").resolve()


def default_reference(environment: Mapping[str, str]) -> str | None:
    """Return ``activemq.xml`` in ``$ACTIVEMQ_CONF`` or ``$ACTIVEMQ_BASE/conf``, as its start script.

    Returns:
        None if neither variable is set.

    Raises:
        ConfigurationError: the file is missing.
    """
    conf, base = environment.get(CONF_VARIABLE), environment.get(BASE_VARIABLE)
    if not conf and not base:
        return None
    path = (Path(conf) if conf else Path(base or "") / "conf") / CONFIGURATION_FILE
    if not path.exists():
        variable = CONF_VARIABLE if conf else BASE_VARIABLE
        raise ConfigurationError(
            f"{variable} is set, but there is no {path}; name a configuration, or unset {variable}"
        )
    return str(path)


def read_configuration(
    content: bytes,
    path: Path,
    placeholders: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    skip_unsupported: bool = False,
    inspect: Inspection | None = None,
) -> BrokerConfiguration:
    """Read the configuration in ``content`` of the file ``path``: TOML by the suffix, else XML."""
    findings = Findings(str(path), skip_unsupported)
    decryption = Decryption(environment)
    defined = {**definitions(environment), **placeholders}
    variables = Variables({**_directories(path, defined, environment), **defined}, environment, decryption)
    if path.suffix.lower() == ".toml":
        broker: Element | None = read_toml(content, findings.source)
    else:
        broker = SpringDocument(
            read_xml(content, findings.source), findings, variables, path.parent, decryption
        ).broker()
    if broker is None:
        findings.raise_if_any()
        raise ConfigurationError(f"{path}: it contains no broker")
    presumed = _presumed_base(path, defined, environment)
    return _interpreted(broker, findings, variables, decryption, inspect, presumed)


def _described(
    reference: str,
    placeholders: Mapping[str, str],
    environment: Mapping[str, str],
    skip_unsupported: bool,
    inspect: Inspection | None,
) -> BrokerConfiguration:
    """Return the configuration of ``broker:(…)`` or ``properties:PATH``. Raises `ConfigurationError`."""
    if reference.startswith(BROKER):
        path, source = Path.cwd() / "broker", BROKER_SOURCE
        broker = broker_element(reference)
    else:
        path = _file(reference, PROPERTIES)
        source, broker = str(path), properties_element(path)
    findings = Findings(source, skip_unsupported)
    decryption = Decryption(environment)
    defined = {**definitions(environment), **placeholders}
    variables = Variables({**_directories(path, defined, environment), **defined}, environment, decryption)
    presumed = _presumed_base(path, defined, environment)
    return _interpreted(broker, findings, variables, decryption, inspect, presumed)


def _interpreted(
    broker: Element,
    findings: Findings,
    variables: Variables,
    decryption: Decryption,
    inspect: Inspection | None,
    presumed_base: Path | None,
) -> BrokerConfiguration:
    replace_placeholders(broker, variables, findings)
    configuration = replace(
        Interpreter(findings, Path.cwd(), variables, decryption).broker(broker), presumed_base=presumed_base
    )
    for obstacle in () if inspect is None else inspect(configuration):
        findings.add_obstacle(obstacle)
    findings.raise_if_any()
    return configuration


def _path(reference: str) -> Path:
    """Return the file of ``reference``."""
    if reference.startswith(LATER_REFERENCES):
        scheme = reference.partition(":")[0]
        raise ConfigurationError(f"a configuration from {scheme}: is not yet supported; name an XML or TOML file")
    path = _file(reference, "xbean:")
    if path.suffix.lower() not in (".xml", ".toml"):
        raise ConfigurationError(f"{path}: is neither .xml nor .toml; name an activemq.xml or a TOML file")
    return path


def _file(reference: str, prefix: str) -> Path:
    name = reference.removeprefix(prefix).removeprefix("file:")
    if not name:
        raise ConfigurationError(f"{reference!r} names no file; write {prefix}PATH")
    return Path(name[2:] if name.startswith("///") else name)


def _directories(path: Path, defined: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the directories of ActiveMQ's start script: defined, in the environment, or beside the file.

    By default the base is the home, and ``conf`` and ``data`` are in the base. An instance of Debian's package has its
    base below ``/var/lib``.
    """
    directory = path.absolute().parent
    inferred = str(directory.parent if directory.name == "conf" else directory)
    debian = DEBIAN_INSTANCE.fullmatch(str(directory))

    def directory_of(name: str, default: str) -> str:
        return _configured(name, defined, environment) or default

    home = directory_of("home", inferred if debian is None else DEBIAN_HOME)
    base = directory_of("base", home if debian is None else f"{DEBIAN_BASES}/{debian.group(1)}")
    beside = base == inferred or debian is not None
    return {
        "activemq.home": home,
        "activemq.base": base,
        "activemq.conf": directory_of("conf", str(directory) if beside else str(Path(base) / "conf")),
        "activemq.data": directory_of("data", str(Path(base) / "data")),
    }


def _presumed_base(path: Path, defined: Mapping[str, str], environment: Mapping[str, str]) -> Path | None:
    """Return the base directory if it is only derived from the location of the file."""
    configured = _configured("home", defined, environment) or _configured("base", defined, environment)
    if configured or DEBIAN_INSTANCE.fullmatch(str(path.absolute().parent)):
        return None
    return Path(_directories(path, defined, environment)["activemq.base"])


def _configured(name: str, defined: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Return the directory ``activemq.NAME`` of the command line or the environment."""
    return defined.get(f"activemq.{name}") or environment.get(f"ACTIVEMQ_{name.upper()}") or None
