"""Reads and changes the parameters of a bridge that exists, under the names of ActiveMQ Artemis.

The names, meanings and limits are those of `spanwire.routes.readers.bridge_parameters`. Operators read and write them
while the bridge runs; source, target and message convertors belong to the definition alone.
"""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from dataclasses import replace
from typing import Final

from spanwire.bridges.files.parameters import DUPLICATE_DETECTION, WORDS, steps_before_others
from spanwire.bridges.files.selectors import checked_selector
from spanwire.bridges.model.definition import (
    DEFAULT_BATCH_SIZE,
    BatchLimits,
    BridgeDefinition,
    ConnectionFactory,
    Quality,
    RetryPolicy,
)
from spanwire.bridges.model.diagram import place
from spanwire.bridges.model.qualities import adds_duplicate_ids, is_same_broker
from spanwire.bridges.model.steps import (
    AddDuplicateId,
    AppendMessageId,
    ClearReplyTo,
    DropTemporaryReplyTo,
    ProxyReplyTo,
)
from spanwire.documents.spelling import suggestion
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.routes.readers.bridge_parameters import WORDS as CHANGEABLE_WORDS
from spanwire.routes.readers.bridge_parameters import read_parameters
from spanwire.routes.readers.nodes import Entry, Location, Mapping, Word

HIDDEN: Final = "****"  # stands for a password
CHANGEABLE: Final = (*CHANGEABLE_WORDS, DUPLICATE_DETECTION)
FIXED: Final = tuple(word for word in WORDS if word not in CHANGEABLE)
MAX_TEXT: Final = 32 * 1024  # characters of a value; a selector may be long
SQS: Final = "sqs"  # the provider that logs in as the machine where no key is written
COMMON_STEPS: Final = (AppendMessageId, AddDuplicateId, DropTemporaryReplyTo)

Value = str | int | bool | None


def parameters_of(definition: BridgeDefinition) -> dict[str, Value]:
    """Return all parameters of a bridge by name, with `HIDDEN` in place of passwords."""
    source, target = definition.source, definition.target
    return {
        "sourceConnectionFactory": place(source.factory),
        "sourceDestination": str(source.destination),
        "targetConnectionFactory": place(target.factory),
        "targetDestination": str(target.destination),
        **_login("source", source.factory),
        **_login("target", target.factory),
        "selector": source.selector,
        "failureRetryInterval": definition.retry.interval_ms,
        "maxRetries": definition.retry.max_retries,
        "qualityOfServiceMode": definition.quality.value,
        "maxBatchSize": definition.batch.size,
        "maxBatchTime": definition.batch.quiet_ms,
        "subscriptionName": source.subscription,
        "clientID": source.client_id,
        "addMessageIDInHeader": _appended(definition) is not None,
        "messageIDHeader": _appended(definition),
        "failoverTimeout": definition.retry.failover_ms,
        DUPLICATE_DETECTION: adds_duplicate_ids(definition),
    }


def with_parameters(definition: BridgeDefinition, changes: AnyMapping[str, object]) -> BridgeDefinition:
    """Return a bridge with other parameters.

    Args:
        definition: the bridge.
        changes: values by name, each a text, number or truth value; None or an empty text takes a parameter away.

    Raises:
        ConfigurationError: a name is unknown or belongs to the definition, a value is outside the limits, or it does
            not fit another parameter.
    """
    location = Location(f"bridge {definition.name}", 1)
    present = {name: value for name, value in parameters_of(definition).items() if name in CHANGEABLE}
    if present["addMessageIDInHeader"] is False or changes.get("addMessageIDInHeader") in (False, "false"):
        del present["messageIDHeader"]
    written = {**present, **{name: _value(definition.name, name, value) for name, value in changes.items()}}
    words = Mapping(location, {name: Entry(location, Word(location, _text(one))) for name, one in written.items()})
    try:
        return _changed(definition, words)
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace(f"{location.file}:1:", f"{location.file}:", 1)) from None


def _changed(definition: BridgeDefinition, words: Mapping) -> BridgeDefinition:
    parameters = read_parameters(words)
    mode = words.text("qualityOfServiceMode") or Quality.DUPLICATES_OK.value
    modes = [quality.value for quality in Quality]
    if mode not in modes:
        raise words.location.unknown("qualityOfServiceMode", mode, modes)
    source, target, retry = definition.source, definition.target, definition.retry
    found = replace(
        definition,
        source=replace(
            source,
            factory=_with_login(source.factory, "source", words),
            selector=checked_selector(words.text("selector"), source.factory.provider, words.location),
            subscription=words.text("subscriptionName"),
            client_id=words.text("clientID"),
        ),
        target=replace(target, factory=_with_login(target.factory, "target", words)),
        quality=Quality(mode),
        batch=BatchLimits(parameters.batch_size or DEFAULT_BATCH_SIZE, parameters.quiet_ms),
        retry=RetryPolicy(
            parameters.max_retries, parameters.interval_ms, retry.multiplier, retry.longest_ms, parameters.failover_ms
        ),
    )
    others = tuple(step for step in definition.steps if not isinstance(step, COMMON_STEPS))
    answers = any(isinstance(step, (ClearReplyTo, ProxyReplyTo)) for step in others)
    dropping = () if answers or is_same_broker(found) else (DropTemporaryReplyTo(),)
    return replace(found, steps=(*steps_before_others(words, parameters, found), *dropping, *others))


def _login(side: str, factory: ConnectionFactory) -> dict[str, Value]:
    return {
        f"{side}Username": factory.user_name,
        f"{side}Password": None if factory.password is None else HIDDEN,
    }


def _with_login(factory: ConnectionFactory, side: str, words: Mapping) -> ConnectionFactory:
    password = words.text(f"{side}Password")
    secret = factory.password if password == HIDDEN else None if password is None else Secret(password)
    if factory.provider == SQS and factory.password is not None and secret is None:
        raise ConfigurationError(
            f"{words.location.file}: {side}Password cannot be removed at SQS: the machine's own rights would count"
        )
    return replace(factory, user_name=words.text(f"{side}Username"), password=secret)


def _appended(definition: BridgeDefinition) -> str | None:
    return next((step.name for step in definition.steps if isinstance(step, AppendMessageId)), None)


def _value(bridge: str, name: str, value: object) -> Value:
    if name in FIXED:
        raise ConfigurationError(
            f"bridge {bridge}: {name} cannot be changed while the bridge exists; write it into the bridge's definition"
        )
    if name not in CHANGEABLE:
        raise ConfigurationError(
            f"bridge {bridge}: there is no parameter {name[:60]!r}{suggestion(name[:60], CHANGEABLE)}"
        )
    if value is not None and not isinstance(value, (str, int)):
        raise ConfigurationError(f"bridge {bridge}: {name} must be a text, a number, true, false or null")
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise ConfigurationError(f"bridge {bridge}: {name} is longer than {MAX_TEXT} characters")
    return value


def _text(value: Value) -> str | None:
    if value is None or value == "":
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
