"""Key stores of a running broker: read again, and named to the web process over the control socket.

The web process opens the key store itself. So the passwords are in the answer, which the control socket gives to the
broker's own user alone, and to no holder of a handle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spanwire.service.children.web_process import WebProcess
from spanwire.service.config.model import BrokerConfiguration
from spanwire.transports.connector import TransportConnector

if TYPE_CHECKING:
    from spanwire.tls.settings import TlsSettings

NO_CLIENT_CERTIFICATE = 0


def read_keys(connectors: Sequence[TransportConnector], web: WebProcess | None) -> Callable[[], None]:
    """Read all key stores again. Returns a function to use the keys. Raises `ConfigurationError`."""
    contexts = [connector.read_keys() for connector in connectors]
    if web is not None:
        web.check_keys()

    def use() -> None:
        for connector, context in zip(connectors, contexts, strict=True):
            connector.use_keys(context)
        if web is not None:
            web.reload()

    return use


def web_keys(configuration: BrokerConfiguration) -> dict[str, object] | None:
    """Return the settings of the web port, else of the first connector with TLS; None without TLS."""
    tls = configuration.web.tls if configuration.web is not None else None
    if tls is None:
        others = [connector.tls for connector in configuration.connectors if connector.tls is not None]
        tls = replace(others[0], client_certificate=NO_CLIENT_CERTIFICATE) if others else None
    return None if tls is None else _values(tls)


def _values(tls: TlsSettings) -> dict[str, object]:
    key, trust = tls.key_store, tls.trust_store
    return {
        "key_store": {
            "path": str(key.path.absolute()),
            "password": key.password.reveal(),
            "key_path": None if key.key_path is None else str(key.key_path.absolute()),
            "key_password": key.key_password.reveal(),
        },
        "trust_store": None
        if trust is None
        else {"path": str(trust.path.absolute()), "password": trust.password.reveal()},
        "client_certificate": tls.client_certificate,
        "protocols": list(tls.protocols),
        "cipher_suites": list(tls.cipher_suites),
    }


def shows_bodies(configuration: BrokerConfiguration) -> bool:
    """Return True if users with the role of viewers only see the bodies of messages."""
    return configuration.web is not None and configuration.web.viewers_see_bodies


def console_settings(configuration: BrokerConfiguration) -> dict[str, object]:
    """Return the settings of the console: the files of the network, the broker's own first."""
    source = configuration.source
    if not source or not Path(source).is_file():
        return {"network_files": []}
    own, names = Path(source).absolute(), "" if configuration.web is None else configuration.web.network_files
    others = [own.parent / name.strip() for name in names.split(",") if name.strip()]
    return {"network_files": [str(name) for name in dict.fromkeys([own, *others])]}
