"""Parameters of a JMS bridge under their own names, as of ActiveMQ Artemis and HornetQ.

sourceConnectionFactory = "berlin"        a name of connectionFactories, or a URL
sourceDestination = "queue://ORDERS"
targetConnectionFactory = "tcp://paris:61616"
targetDestination = "queue://ORDERS"
qualityOfServiceMode = "DUPLICATES_OK"
"""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from dataclasses import replace
from typing import Final

from spanwire.bridges.model.definition import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_INTERVAL_MS,
    FOREVER,
    OPENWIRE,
    BatchLimits,
    BridgeDefinition,
    ConnectionFactory,
    Quality,
    RetryPolicy,
    Source,
    Target,
)
from spanwire.bridges.model.qualities import is_same_broker
from spanwire.bridges.model.steps import AppendMessageId, DropTemporaryReplyTo, Step
from spanwire.model.destination import Destination
from spanwire.model.errors import InvalidDestinationError
from spanwire.model.secret import Secret
from spanwire.model.written_destination import written_destination
from spanwire.registry import BRIDGE_PROVIDERS
from spanwire.routes.nodes import Location, Mapping

FACTORY_WORDS: Final = (
    "url",
    "userName",
    "password",
    "trustStore",
    "trustStorePassword",
    "keyStore",
    "keyStorePassword",
    "provider",
)
WORDS: Final = (
    "sourceConnectionFactory",
    "sourceDestination",
    "targetConnectionFactory",
    "targetDestination",
    "sourceUsername",
    "sourcePassword",
    "targetUsername",
    "targetPassword",
    "selector",
    "failureRetryInterval",
    "maxRetries",
    "qualityOfServiceMode",
    "maxBatchSize",
    "maxBatchTime",
    "subscriptionName",
    "clientID",
    "addMessageIDInHeader",
)
# Parameters that need a Java server, with what to do without them.
REFUSED: Final[dict[str, str]] = {
    "sourceConnectionFactoryFactory": "write sourceConnectionFactory with a URL or a name of connectionFactories",
    "targetConnectionFactoryFactory": "write targetConnectionFactory with a URL or a name of connectionFactories",
    "sourceDestinationFactory": 'write sourceDestination = "queue://NAME" or "topic://NAME"',
    "targetDestinationFactory": 'write targetDestination = "queue://NAME" or "topic://NAME"',
    "mBeanServer": "there is no JMX here; remove it",
    "mbeanServer": "there is no JMX here; remove it",
    "objectName": "there is no JMX here; remove it",
    "transactionManager": "distributed transactions are not supported yet; remove it and use DUPLICATES_OK",
    "failoverTimeout": "a lost broker is tried again after failureRetryInterval; remove it",
}
BOOLEANS: Final = {"true": True, "false": False}
MAX_BATCH_SIZE: Final = 100_000  # messages; in the broker's memory until the commit
MAX_MS: Final = 3_600_000  # milliseconds; an hour, beyond which a mistake in the unit is likely
MAX_RETRIES: Final = 1_000_000
IN_PROCESS: Final = ("vm:", "peer:")


def factory_of(words: Mapping, name: str) -> ConnectionFactory:
    """Return a connection factory of the file.

    Raises:
        ConfigurationError: a word is unknown, or ``url`` is missing.
    """
    words.check("word of a connection factory", FACTORY_WORDS)
    provider = words.text("provider") or OPENWIRE
    if provider not in BRIDGE_PROVIDERS:
        raise words.entries["provider"].location.unknown("provider", provider, BRIDGE_PROVIDERS)
    for store in ("trustStore", "keyStore"):
        if words.text(f"{store}Password") is not None and words.text(store) is None:
            raise words.entries[f"{store}Password"].location.error(f"{store}Password needs {store}")
    return ConnectionFactory(
        _checked_url(words.require("url", f"the connection factory {name}"), words.location),
        words.text("userName"),
        _secret(words, "password"),
        words.text("trustStore"),
        _secret(words, "trustStorePassword"),
        words.text("keyStore"),
        _secret(words, "keyStorePassword"),
        provider,
    )


def bridge_of(words: Mapping, name: str, factories: AnyMapping[str, ConnectionFactory]) -> BridgeDefinition:
    """Return the bridge with these parameters.

    Raises:
        ConfigurationError: a parameter is unknown, missing, invalid or refused.
    """
    for word, entry in words.entries.items():
        if word in REFUSED:
            raise entry.location.error(f"{word} is not supported: {REFUSED[word]}")
    words.check("parameter of a bridge", WORDS)
    source = Source(
        _side(words, name, "source", factories),
        _destination(words, "sourceDestination", name),
        words.text("selector"),
        words.text("subscriptionName"),
        words.text("clientID"),
    )
    target = Target(_side(words, name, "target", factories), _destination(words, "targetDestination", name))
    definition = BridgeDefinition(
        name,
        source,
        target,
        quality=_quality(words),
        batch=BatchLimits(_number(words, "maxBatchSize", DEFAULT_BATCH_SIZE, 1, MAX_BATCH_SIZE), _quiet_time(words)),
        retry=_retry_policy(words),
    )
    return replace(definition, steps=_steps(words, definition))


def _steps(words: Mapping, definition: BridgeDefinition) -> tuple[Step, ...]:
    steps: list[Step] = []
    if _flag(words, "addMessageIDInHeader"):
        steps.append(AppendMessageId())
    if not is_same_broker(definition):
        steps.append(DropTemporaryReplyTo())
    return tuple(steps)


def _side(words: Mapping, bridge: str, role: str, factories: AnyMapping[str, ConnectionFactory]) -> ConnectionFactory:
    """Return the factory of one side, with the credentials of the bridge if the bridge has any."""
    word = f"{role}ConnectionFactory"
    text = words.require(word, f"the bridge {bridge}")
    factory = factories.get(text)
    if factory is None:
        location = words.entries[word].location
        if ":" not in text:
            raise location.unknown("connection factory", text, factories)
        factory = ConnectionFactory(_checked_url(text, location))
    user, password = words.text(f"{role}Username"), _secret(words, f"{role}Password")
    if user is not None:
        factory = replace(factory, user_name=user)
    return factory if password is None else replace(factory, password=password)


def _checked_url(url: str, location: Location) -> str:
    if url.lower().startswith(IN_PROCESS):
        raise location.error(
            f"{url.partition(':')[0]}: is a broker inside another process; write the address where the broker listens, "
            "such as tcp://localhost:61616"
        )
    return url


def _destination(words: Mapping, word: str, bridge: str) -> Destination:
    text = words.require(word, f"the bridge {bridge}")
    location = words.entries[word].location
    try:
        destination = written_destination(text)
    except InvalidDestinationError as error:
        raise location.error(f"{word}: {error}") from None
    if destination.is_temporary:
        raise location.error(f"{word}: {destination} is a temporary destination, which belongs to another connection")
    return destination


def _quality(words: Mapping) -> Quality:
    text = words.text("qualityOfServiceMode")
    if text is None:
        return Quality.DUPLICATES_OK
    names = [quality.value for quality in Quality]
    if text not in names:
        raise words.entries["qualityOfServiceMode"].location.unknown("qualityOfServiceMode", text, names)
    return Quality(text)


def _quiet_time(words: Mapping) -> int | None:
    if words.text("maxBatchTime") is None:
        return None
    millis = _number(words, "maxBatchTime", FOREVER, FOREVER, MAX_MS)
    if millis == 0:
        raise words.entries["maxBatchTime"].location.error("maxBatchTime is 0; it must be -1 or at least 1")
    return millis


def _retry_policy(words: Mapping) -> RetryPolicy:
    retries = _number(words, "maxRetries", FOREVER, FOREVER, MAX_RETRIES)
    interval = _number(words, "failureRetryInterval", DEFAULT_INTERVAL_MS, FOREVER, MAX_MS)
    if interval == 0:
        raise words.entries["failureRetryInterval"].location.error(
            "failureRetryInterval is 0; it must be at least 1, or -1 for pauses that grow from 1 s to 60 s"
        )
    return RetryPolicy(retries, interval)


def _number(words: Mapping, name: str, default: int, low: int, high: int) -> int:
    text = words.text(name)
    if text is None:
        return default
    location = words.entries[name].location
    try:
        value = int(text)
    except ValueError:
        raise location.error(f"{name} is {text[:60]!r}, not a whole number") from None
    if not low <= value <= high:
        raise location.error(f"{name} is {value}; it must lie between {low} and {high}")
    return value


def _flag(words: Mapping, name: str) -> bool:
    text = words.text(name)
    if text is None:
        return False
    value = BOOLEANS.get(text.lower())
    if value is None:
        raise words.entries[name].location.error(f"{name} is {text[:60]!r}, neither true nor false")
    return value


def _secret(words: Mapping, name: str) -> Secret | None:
    text = words.text(name)
    return None if text is None else Secret(text)
