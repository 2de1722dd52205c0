"""The address of a collector, as written by a person."""

from __future__ import annotations

from urllib.parse import urlsplit

from spanwire.model.errors import ConfigurationError


def check_endpoint(endpoint: str) -> None:
    """Check a collector's address.

    Raises:
        ConfigurationError: the text is no URL of http or https, or has a password, which logs might show.
    """
    try:
        parts = urlsplit(endpoint)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    else:
        if is_url and (parts.username is not None or parts.password is not None):
            raise ConfigurationError(
                "has no place for a user: set the environment variable OTEL_EXPORTER_OTLP_HEADERS instead"
            )
    if not is_url:
        raise ConfigurationError("is no URL such as http://localhost:4318")
