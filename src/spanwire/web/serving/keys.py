"""The TLS context of the web port, from the key store of the broker."""

from __future__ import annotations

import ssl
from pathlib import Path

from spanwire.management.control_client import ControlClient
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.tls.context import server_context
from spanwire.tls.settings import KeyStore, TlsSettings, TrustStore


def web_context(directory: Path) -> ssl.SSLContext:
    """Return a context with the present keys. Blocks.

    Raises:
        ConfigurationError: the broker has no key store, or the store cannot be used
        ControlError: no broker runs in the directory
    """
    answer = ControlClient(directory).ask("web-keys")
    if not isinstance(answer, dict):
        raise ConfigurationError(
            'the broker has no key store for the web port: write <web tls="true"> and <sslContext keyStore="…"> into '
            "its configuration, or leave out --tls"
        )
    return server_context(settings_of(answer))


def settings_of(answer: dict[str, object]) -> TlsSettings:
    """Return the settings in the broker's answer.

    Raises `ConfigurationError` for a broker of another version.
    """
    try:
        key, trust = _part(answer["key_store"]), answer["trust_store"]
        key_path = key["key_path"]
        number = answer["client_certificate"]
        return TlsSettings(
            KeyStore(
                Path(str(key["path"])),
                Secret(str(key["password"])),
                None if key_path is None else Path(str(key_path)),
                Secret(str(key["key_password"])),
            ),
            None
            if trust is None
            else TrustStore(Path(str(_part(trust)["path"])), Secret(str(_part(trust)["password"]))),
            number if isinstance(number, int) else 0,
            _texts(answer["protocols"]),
            _texts(answer["cipher_suites"]),
        )
    except (KeyError, TypeError) as error:
        raise ConfigurationError("the broker's answer about keys has another form than expected") from error


def _part(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(str(one) for one in value)
