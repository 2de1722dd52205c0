"""Reads the configuration that a reference names: file, reader and placeholders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from spanwire import registry
from spanwire.documents.element import Element
from spanwire.documents.xml import read_xml
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.interpretation.interpretation import Interpreter, replace_placeholders
from spanwire.service.config.loading import Inspection
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.readers.broker_uri import broker_element, properties_element
from spanwire.service.config.readers.java_options import definitions
from spanwire.service.config.readers.properties import Variables
from spanwire.service.config.readers.spring import SpringDocument
from spanwire.service.config.reference import BROKER, PROPERTIES, reference_file, reference_path
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import Findings, read_text_file

BROKER_SOURCE: Final = "the broker: uri"  # the name in errors, because the URI may contain secrets
# Debian's package has the configuration of each instance below /etc and its base directory below /var/lib.
DEBIAN_INSTANCE: Final = re.compile(r"/etc/activemq/instances-(?:available|enabled)/([^/]+)")
DEBIAN_HOME: Final = "/usr/share/activemq"
DEBIAN_BASES: Final = "/var/lib/activemq"

TomlReader = Callable[[bytes, str], Element]


def read_reference(
    reference: str,
    placeholders: Mapping[str, str],
    environment: Mapping[str, str],
    skip_unsupported: bool,
    inspect: Inspection | None,
) -> BrokerConfiguration:
    """Read the configuration that ``reference`` names; see `spanwire.service.config.loading.load_configuration`."""
    if reference.startswith((BROKER, PROPERTIES)):
        return _described(reference, placeholders, environment, skip_unsupported, inspect)
    path = reference_path(reference)
    content = read_text_file(path)
    return read_configuration(
        content, path, placeholders, environment, skip_unsupported=skip_unsupported, inspect=inspect
    )


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
        read_toml = cast(TomlReader, registry.load(registry.TOML_READER))
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
        path = reference_file(reference, PROPERTIES)
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
