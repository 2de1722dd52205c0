"""References to configurations: the file of a reference, and the reference in the environment.

The module reads no configuration, so that the commands for running brokers need not load the readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError

BROKER: Final = "broker:"
PROPERTIES: Final = "properties:"
LATER_REFERENCES: Final = ("fabric:", "http:", "https:")
CONFIGURATION_FILE: Final = "activemq.xml"
BASE_VARIABLE: Final = "ACTIVEMQ_BASE"
CONF_VARIABLE: Final = "ACTIVEMQ_CONF"
DEFAULT_BROKER_NAME: Final = "localhost"  # ActiveMQ's own default


def configuration_file(reference: str) -> Path | None:
    """Return the absolute path of a reference's file with links resolved, or None without a file."""
    if reference.startswith((BROKER, *LATER_REFERENCES)):
        return None
    return reference_file(reference, PROPERTIES if reference.startswith(PROPERTIES) else "xbean:").resolve()


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


def reference_path(reference: str) -> Path:
    """Return the file of ``reference``."""
    if reference.startswith(LATER_REFERENCES):
        scheme = reference.partition(":")[0]
        raise ConfigurationError(f"a configuration from {scheme}: is not yet supported; name an XML or TOML file")
    path = reference_file(reference, "xbean:")
    if path.suffix.lower() not in (".xml", ".toml"):
        raise ConfigurationError(f"{path}: is neither .xml nor .toml; name an activemq.xml or a TOML file")
    return path


def reference_file(reference: str, prefix: str) -> Path:
    name = reference.removeprefix(prefix).removeprefix("file:")
    if not name:
        raise ConfigurationError(f"{reference!r} names no file; write {prefix}PATH")
    return Path(name[2:] if name.startswith("///") else name)
