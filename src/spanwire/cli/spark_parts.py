"""Loads parts of the pipeline at the use by a command: the parts need packages of the extra ``spark``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from spanwire import registry
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError

EXTRA: Final = "spark"
OWN: Final = "spanwire"


def load(reference: str) -> Callable[..., object]:
    """Import the attribute of a ``"module:attribute"`` string.

    Raises:
        ConfigurationError: a package is missing; the text has the command to install the package.
    """
    try:
        return cast(Callable[..., object], registry.load(reference))
    except ModuleNotFoundError as error:
        package, _, _ = (error.name or OWN).partition(".")
        if package == OWN:
            raise
        raise ConfigurationError(f"{package} is not installed; run: {install_command(EXTRA)}") from None
