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

from spanwire.pipeline.options import AT_MOST_ONCE, DUPLICATES_OK, MAX_BATCH_MS, WRITE_QUALITIES
from spanwire.routes.endpoints import EndpointReader
from spanwire.routes.model import SQL, Expression, Patience, Route, SetHeader, Step, To, appended_ids
from spanwire.routes.readers.bridge_parameters import FOREVER, BridgeParameters, read_parameters
from spanwire.routes.readers.bridge_parameters import WORDS as SHARED_WORDS
from spanwire.routes.readers.nodes import Mapping, Word, mapping_of, text_of
from spanwire.routes.steps import ENDPOINT_WORDS, REMARKS, parameters_of

MODE: Final = "qualityOfServiceMode"  # parameter of the bridge and option of the data source
WORDS: Final = (
    "name",
    "engine",
    "source",
    "target",
    *SHARED_WORDS,
    "errorHandler",
    "deadLetter",
    *REMARKS,
)


def bridge_route(words: Mapping, endpoints: EndpointReader, default_name: str) -> Route:
    """Return the route of a bridge.

    Raises:
        ConfigurationError: a parameter is unknown or invalid.
    """
    words.check("parameter of jmsBridge", WORDS)
    location = words.location
    mode = _mode(words)
    parameters = read_parameters(words)
    name = words.text("name") or words.text("id") or default_name
    source_uri, source = _side(words, "source")
    target_uri, target = _side(words, "target")
    options = {
        "selector": words.text("selector"),
        "subscription": words.text("subscriptionName"),
        "clientId": words.text("clientID"),
        "maxRowsPerBatch": None if parameters.batch_size is None else str(parameters.batch_size),
        "maxBatchMs": None if parameters.quiet_ms is None else str(_batch_ms(parameters.quiet_ms)),
    }
    source |= {option: value for option, value in options.items() if value is not None}
    target[MODE] = mode
    if mode == AT_MOST_ONCE:
        source[MODE] = mode
    steps: list[Step] = []
    if parameters.appends_id:
        steps.append(
            SetHeader(location, parameters.id_list, Expression(location, SQL, appended_ids(parameters.id_list)))
        )
    steps.append(To(endpoints.target(target_uri, target, location)))
    source_endpoint = endpoints.source(source_uri, source, location, name, is_durable=False)
    return Route(location, name, source_endpoint, steps, None, _patience(parameters), bridge=parameters)


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


def _batch_ms(quiet_ms: int) -> int:
    """Return the length of a batch of Spark, which has no quiet time, for the parameter maxBatchTime."""
    return MAX_BATCH_MS if quiet_ms == FOREVER else min(quiet_ms, MAX_BATCH_MS)


def _patience(parameters: BridgeParameters) -> Patience:
    """Return the restarts of a route. Growing pauses begin with the default of the interval."""
    if parameters.interval_ms == FOREVER:
        return Patience(parameters.max_retries)
    return Patience(parameters.max_retries, parameters.interval_ms, is_growing=False)
