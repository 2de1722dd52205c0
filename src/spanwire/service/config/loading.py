"""Loads the configuration for the start of a broker.

A reference names the configuration; without a reference the built-in default applies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, cast

from spanwire import registry
from spanwire.service.config.model import BrokerConfiguration, default_configuration

if TYPE_CHECKING:
    from spanwire.service.config.reading import ConfigurationReader

Inspection = Callable[[BrokerConfiguration], Iterable[str]]
ReaderFactory = Callable[[Mapping[str, str], Mapping[str, str], bool, Inspection | None], "ConfigurationReader"]


def load_configuration(
    reference: str | None,
    placeholders: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    skip_unsupported: bool = False,
    inspect: Inspection | None = None,
) -> BrokerConfiguration:
    """Load the configuration of a reference.

    ``reference`` is ``xbean:PATH``, the path of an XML or TOML file, ``broker:(…)`` or ``properties:PATH``; None means
    the built-in default. ``placeholders`` come from the command line; ``environment`` has the values of last resort.
    With ``skip_unsupported``, unsupported settings are left out and listed in ``skipped``. ``inspect`` returns further
    obstacles of the configuration, for a single error with all obstacles.

    Raises:
        ConfigurationError: the configuration is refused; one line per obstacle.
    """
    if reference is None:
        return default_configuration()
    process_environment = os.environ if environment is None else environment
    reader = cast(ReaderFactory, registry.load(registry.CONFIGURATION_READER))
    return reader(placeholders or {}, process_environment, skip_unsupported, inspect).reference(reference)
