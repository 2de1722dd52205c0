"""From what stands behind ``spanwire start`` to a configuration: which file, which reader, which placeholders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spanwire.documents.element import Element
from spanwire.documents.xml import read_xml
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.broker_uri import BROKER, PROPERTIES, broker_element, properties_element
from spanwire.service.config.decryption import Decryption
from spanwire.service.config.document import Findings, read_text_file
from spanwire.service.config.interpretation import Interpreter, replace_placeholders
from spanwire.service.config.java_options import definitions
from spanwire.service.config.model import BrokerConfiguration, default_configuration
from spanwire.service.config.properties import Variables
from spanwire.service.config.spring import SpringDocument
from spanwire.service.config.toml import read_toml

LATER_REFERENCES: Final = ("fabric:", "http:", "https:")
BROKER_SOURCE: Final = "the broker: uri"  # as errors name it, for it may hold secrets


def load_configuration(
    reference: str | None,
    given: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    skip_unsupported: bool = False,
) -> BrokerConfiguration:
    """The configuration behind ``xbean:PATH``, a path of an XML or TOML file, ``broker:(…)``, ``properties:PATH``, or
    None for the built-in default.

    ``given`` are placeholders from the command line, ``environment`` those of last resort. With ``skip_unsupported``
    what a later version brings is left out and listed in ``skipped``. Raises `ConfigurationError` with one line per
    obstacle.
    """
    if reference is None:
        return default_configuration()
    places = os.environ if environment is None else environment
    if reference.startswith((BROKER, PROPERTIES)):
        return described_configuration(reference, given or {}, places, skip_unsupported=skip_unsupported)
    path = _path(reference)
    return read_configuration(
        read_text_file(path),
        path,
        given or {},
        places,
        skip_unsupported=skip_unsupported,
    )


def configuration_file(reference: str) -> Path | None:
    """The absolute path of the file that ``reference`` names, links followed; None when it names no file."""
    if reference.startswith((BROKER, *LATER_REFERENCES)):
        return None
    return _file(reference, PROPERTIES if reference.startswith(PROPERTIES) else "xbean:").resolve()


def read_configuration(
    content: bytes,
    path: Path,
    given: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    skip_unsupported: bool = False,
) -> BrokerConfiguration:
    """The configuration in ``content``, which was read from ``path``: TOML if that ends so, else XML."""
    findings = Findings(str(path), skip_unsupported)
    decryption = Decryption(environment)
    defined = {**definitions(environment), **given}
    variables = Variables({**_places(path, defined, environment), **defined}, environment, decryption)
    if path.suffix.lower() == ".toml":
        broker: Element | None = read_toml(content, findings.source)
    else:
        broker = SpringDocument(
            read_xml(content, findings.source), findings, variables, path.parent, decryption
        ).broker()
    if broker is None:
        findings.raise_if_any()
        raise ConfigurationError(f"{path}: there is no broker in it")
    return _interpreted(broker, findings, variables, decryption)


def described_configuration(
    reference: str, given: Mapping[str, str], environment: Mapping[str, str], *, skip_unsupported: bool = False
) -> BrokerConfiguration:
    """The configuration behind ``broker:(…)`` or ``properties:PATH``. Raises `ConfigurationError`."""
    if reference.startswith(BROKER):
        path, source = Path.cwd() / "broker", BROKER_SOURCE
        broker = broker_element(reference)
    else:
        path = _file(reference, PROPERTIES)
        source, broker = str(path), properties_element(path)
    findings = Findings(source, skip_unsupported)
    decryption = Decryption(environment)
    defined = {**definitions(environment), **given}
    variables = Variables({**_places(path, defined, environment), **defined}, environment, decryption)
    return _interpreted(broker, findings, variables, decryption)


def _interpreted(
    broker: Element, findings: Findings, variables: Variables, decryption: Decryption
) -> BrokerConfiguration:
    replace_placeholders(broker, variables, findings)
    configuration = Interpreter(findings, Path.cwd(), variables, decryption).broker(broker)
    findings.raise_if_any()
    return configuration


def _path(reference: str) -> Path:
    """The file that ``reference`` means."""
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


def _places(path: Path, defined: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The directories ActiveMQ's start script tells: as defined, from the environment, else from where the file lies.

    Without a word about them, the base is the home, and ``conf`` and ``data`` lie in the base.
    """
    directory = path.absolute().parent
    inferred = str(directory.parent if directory.name == "conf" else directory)

    def place(name: str, default: str) -> str:
        return defined.get(f"activemq.{name}") or environment.get(f"ACTIVEMQ_{name.upper()}") or default

    home = place("home", inferred)
    base = place("base", home)
    conf = place("conf", str(directory) if base == inferred else str(Path(base) / "conf"))
    return {
        "activemq.home": home,
        "activemq.base": base,
        "activemq.conf": conf,
        "activemq.data": place("data", str(Path(base) / "data")),
    }
