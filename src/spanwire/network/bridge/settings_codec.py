"""Settings of a network connector as text in a BrokerInfo, for the other end of a duplex link.

The text is in Java's properties format, with the names of ActiveMQ's ``networkConnector``. Lists of destinations look
like ``[queue://A, topic://T?forceDurable=true]``. Passwords are left out.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.subscription import MAX_PREFETCH
from spanwire.broker.security.audit_log import printable
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import InvalidDestinationError, JmsError
from spanwire.model.routing import DEFAULT_PRIORITY_BASE, MAX_PATH, MIN_CONSUMER_PRIORITY
from spanwire.network.demand.bridge_settings import DEFAULT_NAME, DEFAULT_PREFETCH, DEFAULT_TTL, BridgeSettings

MAX_TEXT: Final = 64 * 1024  # characters of a peer's settings; before its login a peer may send 16 KiB in all
MAX_NAME: Final = 255  # characters of a peer's connector name
MAX_LISTED: Final = 1_000  # destinations in one list
FORCE_DURABLE: Final = "?forceDurable=true"
TRUE: Final = "true"
MAX_DIGITS: Final = 19  # digits of the largest Java long
SHOWN: Final = 20  # characters of a value in a note


def properties_of(settings: BridgeSettings, broker_name: str) -> str:
    """Return the settings as text for the remote broker."""
    entries = {
        "brokerName": broker_name,
        "name": settings.name,
        "conduitSubscriptions": _flag(settings.conduit),
        "consumerTTL": str(settings.consumer_ttl),
        "messageTTL": str(settings.message_ttl),
        "prefetchSize": str(settings.prefetch_size),
        "syncDurableSubs": _flag(settings.sync_durable),
        "duplex": _flag(settings.duplex),
    }
    if settings.duplex:
        entries.update(
            {
                "decreaseNetworkConsumerPriority": _flag(settings.decrease_priority),
                "consumerPriorityBase": str(settings.priority_base),
                "alwaysSyncSend": _flag(settings.always_sync_send),
                "bridgeTempDestinations": _flag(settings.bridge_temporary),
                "staticBridge": _flag(settings.static_bridge),
                "conduitNetworkQueueSubscriptions": _flag(settings.conduit_network_queues),
                "suppressDuplicateQueueSubscriptions": _flag(settings.suppress_queue_duplicates),
                "suppressDuplicateTopicSubscriptions": _flag(settings.suppress_topic_duplicates),
                "useVirtualDestSubs": _flag(settings.virtual_demand),
                "dynamicOnly": _flag(settings.dynamic_only),
                "clientIdToken": settings.client_id_token,
                "advisoryForFailedForward": _flag(settings.tells_failures),
                "useCompression": _flag(settings.compresses),
            }
        )
        if settings.advisory_filter is not None:
            entries["destinationFilter"] = settings.advisory_filter
        _add_list(entries, "excludedDestinations", settings.excluded, ())
        _add_list(entries, "dynamicallyIncludedDestinations", settings.included, settings.forced_durable)
        _add_list(entries, "staticallyIncludedDestinations", settings.static, ())
    return "#\n" + "".join([f"{name}={_escaped(value)}\n" for name, value in entries.items()])


def settings_of(text: str, notes: list[str]) -> BridgeSettings:
    """Return the settings in the text of a remote broker's connector.

    A number out of bounds becomes the nearest bound, and an unreadable number the default. ``notes`` get a line for
    each.

    Raises:
        JmsError: a name or a list of destinations is invalid
    """
    entries = _entries(text)
    forced: list[Destination] = []
    included = _list(entries, "dynamicallyIncludedDestinations", forced)
    name = entries.get("name", "") or DEFAULT_NAME
    if len(name) > MAX_NAME:
        raise JmsError(f"the name of a network connector has at most {MAX_NAME} characters")
    return BridgeSettings(
        name=name,
        message_ttl=_number(entries, notes, "messageTTL", DEFAULT_TTL, -1, MAX_PATH),
        consumer_ttl=_number(entries, notes, "consumerTTL", DEFAULT_TTL, -1, MAX_PATH),
        conduit=_is_set(entries, "conduitSubscriptions", True),
        decrease_priority=_is_set(entries, "decreaseNetworkConsumerPriority", False),
        priority_base=_number(
            entries, notes, "consumerPriorityBase", DEFAULT_PRIORITY_BASE, MIN_CONSUMER_PRIORITY, 127
        ),
        prefetch_size=_number(entries, notes, "prefetchSize", DEFAULT_PREFETCH, 1, MAX_PREFETCH),
        always_sync_send=_is_set(entries, "alwaysSyncSend", True),
        bridge_temporary=_is_set(entries, "bridgeTempDestinations", True),
        excluded=_list(entries, "excludedDestinations", None),
        included=included,
        static=_list(entries, "staticallyIncludedDestinations", None),
        forced_durable=tuple(forced),
        static_bridge=_is_set(entries, "staticBridge", False),
        advisory_filter=entries.get("destinationFilter") or None,
        conduit_network_queues=_is_set(entries, "conduitNetworkQueueSubscriptions", False),
        suppress_queue_duplicates=_is_set(entries, "suppressDuplicateQueueSubscriptions", False),
        suppress_topic_duplicates=_is_set(entries, "suppressDuplicateTopicSubscriptions", True),
        virtual_demand=_is_set(entries, "useVirtualDestSubs", False),
        sync_durable=_is_set(entries, "syncDurableSubs", False),
        dynamic_only=_is_set(entries, "dynamicOnly", False),
        client_id_token=entries.get("clientIdToken") or "_",
        tells_failures=_is_set(entries, "advisoryForFailedForward", False),
        compresses=_is_set(entries, "useCompression", False),
        duplex=True,
    )


def syncs_durable(text: str) -> bool:
    """Return True if the remote broker's connector asks to be told of durable subscriptions."""
    return _is_set(_entries(text), "syncDurableSubs", False)


def _add_list(
    entries: dict[str, str], name: str, destinations: tuple[Destination, ...], forced: tuple[Destination, ...]
) -> None:
    if destinations:
        shown = [one.qualified_name + (FORCE_DURABLE if one in forced else "") for one in destinations]
        entries[name] = f"[{', '.join(shown)}]"


def _list(entries: dict[str, str], name: str, forced: list[Destination] | None) -> tuple[Destination, ...]:
    text = entries.get(name, "").strip().removeprefix("[").removesuffix("]")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) > MAX_LISTED:
        raise JmsError(f"{name} of a network connector has {len(parts)} entries; at most {MAX_LISTED} are allowed")
    destinations: list[Destination] = []
    for part in parts:
        named, _, options = part.partition("?")
        try:
            destination = parse_destination(named)
        except InvalidDestinationError as error:
            raise JmsError(f"{name} of a network connector: {error}") from None
        destinations.append(destination)
        if forced is not None and FORCE_DURABLE[1:] in options.split("&"):
            forced.append(destination)
    return tuple(destinations)


def _number(entries: dict[str, str], notes: list[str], name: str, default: int, lowest: int, highest: int) -> int:
    """Return a whole number; ``notes`` get a line if another value is used instead."""
    text = entries.get(name, "").strip()
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS):
        notes.append(f"{name} {printable(text[:SHOWN])} is no number, {default} is taken")
        return default
    asked = int(text)
    value = min(max(asked, lowest), highest)
    if value != asked:
        notes.append(f"{name} {asked} is taken as {value}")
    return value


def _is_set(entries: dict[str, str], name: str, default: bool) -> bool:
    text = entries.get(name)
    return default if text is None else text.strip().lower() == TRUE


def _flag(value: bool) -> str:
    return TRUE if value else "false"


def _escaped(text: str) -> str:
    characters: list[str] = []
    for character in text:
        if character in "\\:=#!":
            characters.append("\\" + character)
        elif " " < character <= "~" or (character == " " and characters):
            characters.append(character)
        else:
            characters.append(f"\\u{ord(character) & 0xFFFF:04x}")
    return "".join(characters)


def _entries(text: str) -> dict[str, str]:
    """Return names and values; lines with a leading # or ! are comments. Raises `JmsError` for long texts."""
    if len(text) > MAX_TEXT:
        raise JmsError(
            f"the settings of a network connector have {len(text)} characters; at most {MAX_TEXT} are allowed"
        )
    entries: dict[str, str] = {}
    for line in text.replace("\r", "\n").split("\n"):
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            name, _, value = stripped.partition("=")
            entries[_unescaped(name.strip())] = _unescaped(value.strip())
    return entries


def _unescaped(text: str) -> str:
    characters: list[str] = []
    index = 0
    while index < len(text):
        character = text[index]
        index += 1
        if character == "\\" and index < len(text):
            character = text[index]
            index += 1
            if character == "u":
                code = text[index : index + 4]
                index += 4
                character = chr(int(code, 16)) if len(code) == 4 and _is_hexadecimal(code) else "?"
        characters.append(character)
    return "".join(characters)


def _is_hexadecimal(text: str) -> bool:
    return all(character in "0123456789abcdefABCDEF" for character in text)
