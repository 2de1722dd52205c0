"""Network connectors that an operator added, kept in the store until an operator removes them.

The configuration is the authority for the named connectors: a configured connector takes the place of an added
connector of the same name. A password in clear is never kept: the connector lasts until the next start of the broker.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.broker.metadata import MAX_KEY_BYTES
from spanwire.model.errors import ConfigurationError
from spanwire.service.administration.connector_definitions import without_secrets
from spanwire.service.administration.connector_views import REMOVED, View, is_setting
from spanwire.service.administration.disk_wait import is_on_disk
from spanwire.service.config.values.decryption import PREFIX

if TYPE_CHECKING:
    from spanwire.network.connector.link import NetworkConnectorSettings
    from spanwire.service.config.security.tls import Stores

    ReadConnector = Callable[["Attributes", Stores | None], NetworkConnectorSettings]

Attributes = Mapping[str, str | list[str]]
"""Attributes of ``<networkConnector>``, ``name`` and ``uri`` among them, and its lists of destinations."""

MAX_RECORD_BYTES: Final = 64 * 1024  # bytes of a connector's record: 1,000 names of destinations in its lists
MAX_KEPT: Final = 100  # connectors, as many as operators may add to; each is read at the start
SECRETS: Final = ("password", "passphrase", "secret", "token")  # in names of attributes whose values are secret
IN_FILE: Final = "the configuration has a connector of this name, which takes its place"

logger = logging.getLogger(__name__)


class AddedConnectors:
    """The added network connectors of one broker."""

    def __init__(self, broker: Broker, stores: Stores | None, wake: Callable[[], None]) -> None:
        """Keep the connectors in the broker's store.

        ``stores`` are the broker's key and trust store, for links with TLS. ``wake`` ends a turn of the broker soon.
        """
        self._wake: Final = wake
        self._broker: Final = broker
        self._stores: Final = stores
        self._kept: Final = broker.assembly.added_connectors

    def names(self) -> list[str]:
        """Return the names of the kept connectors, with the names of unreadable records."""
        return [_shown(name) for name in self._kept.values]

    def recovered(self) -> Iterator[NetworkConnectorSettings]:
        """Yield the connectors of the last run. One that cannot be read is a line in the log, and stays kept."""
        read = cast("ReadConnector", registry.load(registry.READ_CONNECTOR))
        for name, value in list(self._kept.values.items()):
            shown = _shown(name)
            try:
                attributes = _decoded(value)
                if _key(str(attributes.get("name"))) != name:
                    raise ConfigurationError("its record in the store has another name")
                yield read(attributes, self._stores)
            except ConfigurationError as error:
                self.report(shown, error)

    def report(self, name: str, error: ConfigurationError) -> None:
        """Log why a connector of the last run is not started."""
        why = "; ".join(str(error).splitlines())
        logger.warning("network connector %s, which an operator added, is not started: %s", name, why)

    async def keep(self, name: str, attributes: Attributes, configured: Sequence[str]) -> str:
        """Keep a connector; return "", or a sentence that it lasts until the next start only, and why.

        Args:
            name: the name of the connector.
            attributes: the attributes at the addition.
            configured: the names of the connectors in the configuration.
        """
        value = json.dumps({**attributes, "name": name}, separators=(",", ":")).encode("ascii")
        why = self._obstacle(name, attributes, configured, len(value))
        if not why:
            self._kept.put(_key(name), value)
            return "" if await self._is_on_disk() else "is kept as soon as the disk takes it, which is full or slow"
        await self.forget([name])  # a former one that could not be read
        logger.warning("network connector %s lasts until the next start only: %s", name, why)
        return f"lasts until the next start only: {why}"

    def _obstacle(self, name: str, attributes: Attributes, configured: Sequence[str], size: int) -> str:
        """Return why a connector cannot be kept, "" if it can."""
        secrets = [one for one, value in attributes.items() if _is_secret(one) and not _is_encrypted(value)]
        secrets += without_secrets(str(attributes["uri"]))[1]
        if name in configured:
            return IN_FILE
        if self._broker.assembly.context.store is None:
            return "the broker keeps nothing, it has no store"
        if secrets:
            return f"its {' and '.join(secrets)} is not kept in clear: give ENC(…), or write it into the configuration"
        if len(self._kept.values) >= MAX_KEPT and _key(name) not in self._kept.values:
            return f"{MAX_KEPT} are kept already"
        if size > MAX_RECORD_BYTES or len(_key(name)) > MAX_KEY_BYTES:
            return f"it has {size} bytes, at most {MAX_RECORD_BYTES} are kept, and {MAX_KEY_BYTES} of its name"
        return ""

    async def forget(self, names: Sequence[str], unread: Sequence[str] = ()) -> list[View]:
        """Forget removed connectors, where kept; return a row for each ``unread`` name."""
        if sum(self._kept.discard(_key(name)) for name in names):
            await self._is_on_disk()
        return [{"name": name, "uri": "", "state": REMOVED} for name in dict.fromkeys(names) if name in unread]

    async def _is_on_disk(self) -> bool:
        self._wake()
        return await is_on_disk(self._broker)

    def give_way(self, configured: Sequence[str]) -> None:
        """Forget the connectors whose names the configuration has."""
        for name in configured:
            if self._kept.discard(_key(name)):
                logger.warning("network connector %s of the configuration takes the place of an added one", name)


def asked_for(arguments: Mapping[str, object], free_name: str) -> Attributes:
    """Return the attributes of a connector in a request.

    Args:
        arguments: ``uri``, and optionally ``name`` and ``settings``.
        free_name: the name of a connector without one.

    Raises:
        ConfigurationError: an argument is no text, or no list of texts.
    """
    uri, name, others = arguments.get("uri"), arguments.get("name"), arguments.get("settings", {})
    if not isinstance(uri, str) or not (name is None or (isinstance(name, str) and name)):
        raise ConfigurationError("uri and name are texts")
    if not isinstance(others, dict) or not all(map(is_setting, others.values())):
        raise ConfigurationError("settings is an object of texts, or of lists of them: attributes and inner lists")
    return {**others, "uri": uri, "name": free_name if name is None else name}


def _key(name: str) -> bytes:
    return name.encode("utf-8", "backslashreplace")


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _decoded(value: bytes) -> dict[str, str | list[str]]:
    """Return the attributes of a record. Raises `ConfigurationError`."""
    try:
        attributes = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError("its record in the store cannot be read; remove it, and add it anew") from error
    if not isinstance(attributes, dict) or not all(map(is_setting, attributes.values())):
        raise ConfigurationError("its record in the store is of another version; remove it, and add it anew")
    return attributes


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in SECRETS)


def _is_encrypted(value: str | list[str]) -> bool:
    return isinstance(value, str) and value.strip().startswith(PREFIX) and value.strip().endswith(")")
