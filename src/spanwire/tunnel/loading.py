"""Loads the client's end of OpenWire over HTTP, which needs the extra ``http``."""

from __future__ import annotations

from collections.abc import Callable

from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError
from spanwire.registry import load


def tunnel_function(reference: str, uri: str) -> Callable[..., object]:
    """Return a function of `spanwire.tunnel.client` for the address ``uri``.

    Raises:
        ConfigurationError: the extra is not installed
    """
    try:
        function = load(reference)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{uri}: needs the extra http; run: {install_command('http')}") from error
    assert callable(function)
    return function
