"""The JMS bridge of HornetQ and ActiveMQ Artemis as a route, with its own parameter names.

    - jmsBridge:
        source: {uri: activemq:queue:A}
        target: {uri: remote:queue:B}
        qualityOfServiceMode: DUPLICATES_OK
        maxBatchSize: 500
        maxBatchTime: 5000

Every message is forwarded unchanged, with its remaining time to live. DUPLICATES_OK acknowledges a batch once it is on
disk, and sends it until the target has stored it. ONCE_AND_ONLY_ONCE has the target commit the batch once. AT_MOST_ONCE
acknowledges the batch first. A topic is read by the durable subscription ``subscriptionName``, or by a non-durable one.
"""

from __future__ import annotations

from typing import Final

from spanwire.pipeline.options import AT_MOST_ONCE, DUPLICATES_OK, MAX_BATCH_MS, MAX_ROWS, WRITE_QUALITIES
from spanwire.routes.endpoints import EndpointReader
from spanwire.routes.model import APPENDED_IDS, ID_LIST, SQL, Expression, Patience, Route, SetHeader, Step, To
from spanwire.routes.nodes import Location, Mapping, Word, mapping_of, text_of
from spanwire.routes.steps import ENDPOINT_WORDS, REMARKS, parameters_of

MODE: Final = "qualityOfServiceMode"  # parameter of the bridge and option of the data source
WORDS: Final = (
    "name",
    "engine",
    "source",
    "target",
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
    "errorHandler",
    "deadLetter",
    *REMARKS,
)
FOREVER: Final = -1
MAX_INTERVAL_MS: Final = 3_600_000


def bridge_route(words: Mapping, endpoints: EndpointReader, default_name: str) -> Route:
    """Return the route of a bridge.

    Raises:
        ConfigurationError: a parameter is unknown or invalid.
    """
    words.check("parameter of jmsBridge", WORDS)
    location = words.location
    mode = _mode(words)
    name = words.text("name") or words.text("id") or default_name
    source_uri, source = _side(words, "source")
    target_uri, target = _side(words, "target")
    options = {
        "selector": words.text("selector"),
        "subscription": words.text("subscriptionName"),
        "clientId": words.text("clientID"),
        "maxRowsPerBatch": _batch_size(words),
        "maxBatchMs": _batch_time(words),
    }
    source |= {option: value for option, value in options.items() if value is not None}
    target[MODE] = mode
    if mode == AT_MOST_ONCE:
        source[MODE] = mode
    steps: list[Step] = []
    if (words.text("addMessageIDInHeader") or "false").lower() == "true":
        steps.append(SetHeader(location, ID_LIST, Expression(location, SQL, APPENDED_IDS)))
    steps.append(To(endpoints.target(target_uri, target, location)))
    source_endpoint = endpoints.source(source_uri, source, location, name, is_durable=False)
    return Route(location, name, source_endpoint, steps, None, _patience(words))


def _mode(words: Mapping) -> str:
    mode = words.text(MODE) or DUPLICATES_OK
    if mode not in WRITE_QUALITIES:
        raise words.entries[MODE].location.unknown(MODE, mode, WRITE_QUALITIES)
    return mode


def _side(words: Mapping, role: str) -> tuple[str, dict[str, str]]:
    node = words.node(role)
    if node is None:
        raise words.location.error(f"jmsBridge needs {role}")
    if isinstance(node, Word):
        uri, parameters = text_of(node, role), dict[str, str]()
    else:
        mapping = mapping_of(node, role)
        mapping.check("word of an endpoint", ENDPOINT_WORDS)
        uri, parameters = mapping.require("uri", role), parameters_of(mapping)
    for option, name in (("user", f"{role}Username"), ("password", f"{role}Password")):
        value = words.text(name)
        if value is not None:
            parameters[option] = value
    return uri, parameters


def _batch_size(words: Mapping) -> str | None:
    size = _number(words, "maxBatchSize", None, 1, MAX_ROWS)
    return None if size is None else str(size)


def _batch_time(words: Mapping) -> str | None:
    """Return maxBatchTime in milliseconds; -1 means the maximum."""
    millis = _number(words, "maxBatchTime", None, FOREVER, MAX_BATCH_MS)
    if millis is None:
        return None
    if millis == 0:
        raise words.entries["maxBatchTime"].location.error("maxBatchTime is 0; it must be -1 or at least 1")
    return str(MAX_BATCH_MS if millis == FOREVER else millis)


def _patience(words: Mapping) -> Patience:
    retries = _number(words, "maxRetries", Patience().retries, FOREVER, 1_000_000)
    interval = _number(words, "failureRetryInterval", Patience().interval_ms, FOREVER, MAX_INTERVAL_MS)
    assert retries is not None and interval is not None
    if interval == 0 or (interval == FOREVER and retries not in (FOREVER, 0)):
        raise words.location.error("failureRetryInterval must be above 0, or -1 with maxRetries -1 or 0")
    return Patience(retries, Patience().interval_ms if interval == FOREVER else interval, is_growing=False)


def _number(words: Mapping, name: str, default: int | None, low: int, high: int) -> int | None:
    text = words.text(name)
    if text is None:
        return default
    location: Location = words.entries[name].location
    try:
        value = int(text)
    except ValueError:
        raise location.error(f"{name} is {text[:60]!r}, not a whole number") from None
    if not low <= value <= high:
        raise location.error(f"{name} is {value}; it must lie between {low} and {high}")
    return value
