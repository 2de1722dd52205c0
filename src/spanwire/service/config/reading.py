"""Reads the configuration of a reference: file, reader and placeholders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

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

if TYPE_CHECKING:
    from spanwire.bridges.model.definition import BridgeDefinition
    from spanwire.bridges.model.route_definition import Definition

BROKER_SOURCE: Final = "the broker: uri"  # the name in errors, because the URI may contain secrets
# Debian's package has the configuration of each instance below /etc and its base directory below /var/lib.
DEBIAN_INSTANCE: Final = re.compile(r"/etc/activemq/instances-(?:available|enabled)/([^/]+)")
DEBIAN_HOME: Final = "/usr/share/activemq"
DEBIAN_BASES: Final = "/var/lib/activemq"

TomlReader = Callable[[bytes, str], Element]
# The broker, the documents with routes of Camel, and the JMS bridges beside the broker.
Document = tuple[Element | None, list[tuple[Element, str]], tuple["BridgeDefinition", ...]]
BrokerReader = Callable[[Findings, Variables, Decryption], Document]
RouteReader = Callable[[list[tuple[Element, str]], Findings, Variables, list[str], list[str]], tuple["Definition", ...]]


@dataclass(frozen=True, slots=True)
class ConfigurationReader:
    """Reads configurations.

    The parameters are those of `spanwire.service.config.loading.load_configuration`.
    """

    placeholders: Mapping[str, str]
    environment: Mapping[str, str]
    skip_unsupported: bool = False
    inspect: Inspection | None = None

    def reference(self, reference: str) -> BrokerConfiguration:
        """Read the configuration of a reference. Raises `ConfigurationError`."""
        if reference.startswith(BROKER):
            broker = broker_element(reference)
            return self._interpreted(Path.cwd() / "broker", BROKER_SOURCE, lambda *_: (broker, [], ()))
        if reference.startswith(PROPERTIES):
            path = reference_file(reference, PROPERTIES)
            broker = properties_element(path)
            return self._interpreted(path, str(path), lambda *_: (broker, [], ()))
        path = reference_path(reference)
        return self.file(read_text_file(path), path)

    def file(self, content: bytes, path: Path) -> BrokerConfiguration:
        """Read the configuration in ``content`` of the file ``path``: TOML by the suffix, else XML."""

        def broker(findings: Findings, variables: Variables, decryption: Decryption) -> Document:
            if path.suffix.lower() == ".toml":
                read_toml = cast(TomlReader, registry.load(registry.TOML_READER))
                return read_toml(content, findings.source), [], ()
            root = read_xml(content, findings.source)
            document = SpringDocument(root, findings, variables, path.parent, decryption)
            return document.broker(), document.camel_documents(), document.jms_bridges()

        return self._interpreted(path, str(path), broker)

    def _interpreted(self, path: Path, source: str, read: BrokerReader) -> BrokerConfiguration:
        """Interpret the element that ``read`` returns; ``path`` is the location of the configuration."""
        findings = Findings(source, self.skip_unsupported)
        decryption = Decryption(self.environment)
        defined = {**definitions(self.environment), **self.placeholders}
        directories = StartDirectories(path, defined, self.environment)
        variables = Variables({**directories.placeholders(), **defined}, self.environment, decryption)
        broker, camel, bridges = read(findings, variables, decryption)
        if broker is None:
            findings.raise_if_any()
            raise ConfigurationError(f"{path}: it contains no broker")
        replace_placeholders(broker, variables, findings)
        configuration = Interpreter(findings, Path.cwd(), variables, decryption).broker(broker)
        configuration = replace(
            configuration,
            presumed_base=directories.presumed_base(),
            bridges=(*configuration.bridges, *bridges),
        )
        if camel:
            routes = self._routes(camel, findings, variables, configuration)
            warnings = findings.warnings
            configuration = replace(configuration, routes=routes, warnings=warnings)
        for obstacle in () if self.inspect is None else self.inspect(configuration):
            findings.add_obstacle(obstacle)
        findings.raise_if_any()
        return configuration

    def _routes(
        self,
        camel: list[tuple[Element, str]],
        findings: Findings,
        variables: Variables,
        configuration: BrokerConfiguration,
    ) -> tuple[Definition, ...]:
        """Return the routes of Camel; ``vm://`` with the broker's name is the broker."""
        read = cast(RouteReader, registry.load(registry.ROUTE_INTERPRETER))
        taken = [bridge.name for bridge in configuration.bridges]
        return read(camel, findings, variables, [configuration.broker_name], taken)


def read_configuration(
    content: bytes,
    path: Path,
    placeholders: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    skip_unsupported: bool = False,
) -> BrokerConfiguration:
    """Read the configuration in ``content`` of the file ``path``; see `ConfigurationReader`."""
    return ConfigurationReader(placeholders, environment, skip_unsupported).file(content, path)


@dataclass(frozen=True, slots=True)
class StartDirectories:
    """The directories of ActiveMQ's start script.

    Sources are definitions, the environment, and the location of the file ``path``.

    By default the base is the home, and ``conf`` and ``data`` are in the base. The base of an instance of Debian's
    package is below ``/var/lib``.
    """

    path: Path
    defined: Mapping[str, str]
    environment: Mapping[str, str]

    def placeholders(self) -> dict[str, str]:
        """Return the directories by the names of placeholders."""
        directory = self.path.absolute().parent
        inferred = str(directory.parent if directory.name == "conf" else directory)
        debian = DEBIAN_INSTANCE.fullmatch(str(directory))
        home = self._configured("home") or (inferred if debian is None else DEBIAN_HOME)
        base = self._configured("base") or (home if debian is None else f"{DEBIAN_BASES}/{debian.group(1)}")
        beside = base == inferred or debian is not None
        return {
            "activemq.home": home,
            "activemq.base": base,
            "activemq.conf": self._configured("conf") or (str(directory) if beside else str(Path(base) / "conf")),
            "activemq.data": self._configured("data") or str(Path(base) / "data"),
        }

    def presumed_base(self) -> Path | None:
        """Return the base directory if it is only derived from the location of the file."""
        configured = self._configured("home") or self._configured("base")
        if configured or DEBIAN_INSTANCE.fullmatch(str(self.path.absolute().parent)):
            return None
        return Path(self.placeholders()["activemq.base"])

    def _configured(self, name: str) -> str | None:
        """Return the directory ``activemq.NAME`` of the command line or the environment."""
        return self.defined.get(f"activemq.{name}") or self.environment.get(f"ACTIVEMQ_{name.upper()}") or None
