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
from types import MappingProxyType
from typing import Final

from spanwire.bridges.files.java_parameters import JVM, java_factory_of
from spanwire.bridges.files.java_parameters import WORDS as JAVA_WORDS
from spanwire.bridges.files.jndi_parameters import JNDI, JNDI_NAME, PREFIX, found_destination, found_factory
from spanwire.bridges.files.selectors import checked_selector
from spanwire.bridges.jndi.environment import Context
from spanwire.bridges.model.definition import (
    DEFAULT_BATCH_SIZE,
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
from spanwire.bridges.model.steps import AddDuplicateId, AppendMessageId, DropTemporaryReplyTo, Step
from spanwire.model.destination import Destination
from spanwire.model.errors import InvalidDestinationError
from spanwire.model.secret import Secret
from spanwire.model.written_destination import written_destination
from spanwire.registry import BRIDGE_PROVIDERS
from spanwire.routes.providers import SCHEMES
from spanwire.routes.readers.bridge_parameters import BOOLEANS, BridgeParameters, read_parameters
from spanwire.routes.readers.bridge_parameters import WORDS as SHARED_WORDS
from spanwire.routes.readers.nodes import Location, Mapping

DUPLICATE_DETECTION: Final = "duplicateDetection"
FACTORY_WORDS: Final = (
    "url",
    "userName",
    "password",
    "trustStore",
    "trustStorePassword",
    "keyStore",
    "keyStorePassword",
    "provider",
    JNDI,
    JNDI_NAME,
    *JAVA_WORDS,
)
WORDS: Final = (
    "sourceConnectionFactory",
    "sourceDestination",
    "targetConnectionFactory",
    "targetDestination",
    DUPLICATE_DETECTION,
    *SHARED_WORDS,
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
    "transactionManager": "a bridge is its own transaction manager; remove it",
}
IN_PROCESS: Final = ("vm:", "peer:")


def factory_of(words: Mapping, name: str, context: Context | None = None) -> ConnectionFactory:
    """Return a connection factory of the file, by URL or from the context of the table ``jndi``.

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
    written = ConnectionFactory(
        "",
        words.text("userName"),
        _secret(words, "password"),
        words.text("trustStore"),
        _secret(words, "trustStorePassword"),
        words.text("keyStore"),
        _secret(words, "keyStorePassword"),
        provider,
    )
    if provider == JVM:
        shown, java = java_factory_of(words, name)
        return replace(written, url=shown, java=java)
    for word in JAVA_WORDS:
        if word in words.entries:
            raise words.entries[word].location.error(f'{word} is for provider = "{JVM}"')
    if context is None:
        url = words.require("url", f"the connection factory {name}")
        _check_scheme(url, provider, words.entries["url"].location)
        return replace(written, url=_checked_url(url, words.location))
    found = found_factory(context, words, name)
    return replace(
        found,
        url=_checked_url(found.url, words.location),
        user_name=written.user_name or found.user_name,
        password=written.password or found.password,
        trust_store=written.trust_store or found.trust_store,
        trust_store_password=written.trust_store_password or found.trust_store_password,
        key_store=written.key_store or found.key_store,
        key_store_password=written.key_store_password or found.key_store_password,
    )


def bridge_of(
    words: Mapping,
    name: str,
    factories: AnyMapping[str, ConnectionFactory],
    contexts: AnyMapping[str, Context] = MappingProxyType({}),
) -> BridgeDefinition:
    """Return the bridge with these parameters. ``contexts`` are those of factories with a table ``jndi``.

    Raises:
        ConfigurationError: a parameter is unknown, missing, invalid or refused.
    """
    for word, entry in words.entries.items():
        if word in REFUSED:
            raise entry.location.error(f"{word} is not supported: {REFUSED[word]}")
    words.check("parameter of a bridge", WORDS)
    source_factory, source_destination = _end(words, name, "source", factories, contexts)
    selector = words.entries.get("selector", words)
    source = Source(
        source_factory,
        source_destination,
        checked_selector(words.text("selector"), source_factory.provider, selector.location),
        words.text("subscriptionName"),
        words.text("clientID"),
    )
    target = Target(*_end(words, name, "target", factories, contexts))
    parameters = read_parameters(words)
    definition = BridgeDefinition(
        name,
        source,
        target,
        quality=_quality(words),
        batch=BatchLimits(parameters.batch_size or DEFAULT_BATCH_SIZE, parameters.quiet_ms),
        retry=RetryPolicy(parameters.max_retries, parameters.interval_ms, failover_ms=parameters.failover_ms),
    )
    dropping = () if is_same_broker(definition) else (DropTemporaryReplyTo(),)
    return replace(definition, steps=(*steps_before_others(words, parameters, definition), *dropping))


def steps_before_others(words: Mapping, parameters: BridgeParameters, definition: BridgeDefinition) -> tuple[Step, ...]:
    """Return the steps that name a message, for the list of ids and for detection of duplicates at the target."""
    steps: list[Step] = []
    if parameters.appends_id:
        steps.append(AppendMessageId(parameters.id_list))
    if _detects(words, definition):
        steps.append(AddDuplicateId(definition.name))
    return tuple(steps)


def _detects(words: Mapping, definition: BridgeDefinition) -> bool:
    """Return True if the target is to know the messages that come again."""
    text = words.text(DUPLICATE_DETECTION)
    if text is None:
        return False
    location = words.entries[DUPLICATE_DETECTION].location
    value = BOOLEANS.get(text.lower())
    if value is None:
        raise location.error(f"{DUPLICATE_DETECTION} is {text[:60]!r}, neither true nor false")
    if value and definition.quality is not Quality.DUPLICATES_OK:
        raise location.error(
            f"{DUPLICATE_DETECTION} is for DUPLICATES_OK, because {definition.quality.value} sends no message twice; "
            "remove it"
        )
    return value


def _end(
    words: Mapping,
    bridge: str,
    role: str,
    factories: AnyMapping[str, ConnectionFactory],
    contexts: AnyMapping[str, Context],
) -> tuple[ConnectionFactory, Destination]:
    """Return factory and destination of one side."""
    factory = _side(words, bridge, role, factories)
    word = f"{role}Destination"
    text = words.require(word, f"the bridge {bridge}")
    if not text.startswith(PREFIX):
        return factory, _destination(words, word, bridge)
    context = contexts.get(words.text(f"{role}ConnectionFactory") or "")
    return found_destination(text, words.entries[word].location, factory, context)


def _side(words: Mapping, bridge: str, role: str, factories: AnyMapping[str, ConnectionFactory]) -> ConnectionFactory:
    """Return the factory of one side, with the credentials of the bridge if the bridge has any."""
    word = f"{role}ConnectionFactory"
    text = words.require(word, f"the bridge {bridge}")
    factory = factories.get(text)
    if factory is None:
        location = words.entries[word].location
        if ":" not in text:
            raise location.unknown("connection factory", text, factories)
        _check_scheme(text, OPENWIRE, location)
        factory = ConnectionFactory(_checked_url(text, location))
    user, password = words.text(f"{role}Username"), _secret(words, f"{role}Password")
    if user is not None:
        factory = replace(factory, user_name=user)
    return factory if password is None else replace(factory, password=password)


def _check_scheme(url: str, provider: str, location: Location) -> None:
    """Raise `ConfigurationError` for a URL of another provider."""
    scheme = url.partition(":")[0].lower()
    other = SCHEMES.get(scheme)
    if provider == OPENWIRE and other is not None:
        raise location.error(
            f"a URL with the scheme {scheme} is for the provider {other}; write a connection factory with "
            f'provider = "{other}"'
        )


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


def _secret(words: Mapping, name: str) -> Secret | None:
    text = words.text(name)
    return None if text is None else Secret(text)
