"""A bridge as text for ``--dry-run``, without passwords."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.definition import BridgeDefinition, ConnectionFactory
from spanwire.bridges.model.qualities import BatchStep, is_distributed, steps_of
from spanwire.bridges.model.steps import (
    DUPLICATE_ID,
    AddDuplicateId,
    AppendMessageId,
    ClearReplyTo,
    Convert,
    ProxyReplyTo,
)
from spanwire.client.addressing.redaction import redacted
from spanwire.routes.consumers import Consumers
from spanwire.routes.readers.bridge_parameters import FOREVER

STEP_TEXTS: Final[dict[BatchStep, str]] = {
    BatchStep.SEND: "send to the target",
    BatchStep.ACKNOWLEDGE: "acknowledge at the source",
    BatchStep.PREPARE: "prepare both brokers",
    BatchStep.DECIDE: "store the decision",
    BatchStep.COMMIT: "commit both",
}
ONE_TRANSACTION: Final = "send to the target, then commit both in one transaction"


def diagram(definition: BridgeDefinition) -> str:
    """Return the diagram of a bridge."""
    source, target = definition.source, definition.target
    lines = [f"bridge {definition.name}", f"  {source.destination} at {place(source.factory)}"]
    if source.subscription is not None:
        client = "" if source.client_id is None else f" of the client {source.client_id}"
        lines.append(f"    |  durable subscription {source.subscription}{client}")
    if source.selector is not None:
        lines.append(f"    |  only {source.selector}")
    for step in definition.steps:
        if isinstance(step, AppendMessageId):
            lines.append(f"    |  append JMSMessageID to {step.name}")
        elif isinstance(step, AddDuplicateId):
            lines.append(f"    |  add {DUPLICATE_ID}, by which the target knows messages that come again")
        elif isinstance(step, ClearReplyTo):
            lines.append("    |  remove JMSReplyTo")
        elif isinstance(step, Convert):
            lines.append(f"    |  convert by {step.name}")
        elif isinstance(step, ProxyReplyTo):
            lines.append("    |  put a temporary queue in place of JMSReplyTo, whose messages return")
        else:
            lines.append("    |  remove a temporary JMSReplyTo")
    lines += ["    v", f"  {target.destination} at {place(target.factory)}"]
    order = ", then ".join(STEP_TEXTS[step] for step in steps_of(definition))
    if BatchStep.COMMIT in steps_of(definition) and not is_distributed(definition):
        order = ONE_TRANSACTION
    lines += [f"  {definition.quality.value}: {order}", f"  {_batch(definition)}"]
    lines += [*receiver_lines(definition.consumers), f"  {_retries(definition)}"]
    return "\n".join(lines) + "\n"


def receiver_lines(consumers: Consumers) -> list[str]:
    """Return a line about several receivers, or none."""
    if consumers.most == 1:
        return []
    more = "" if consumers.most == consumers.least else f", up to {consumers.most} under load"
    return [f"  receivers: {consumers.least}{more}"]


def place(factory: ConnectionFactory) -> str:
    """Return the address of a broker without secrets."""
    return redacted(factory.url)


def _batch(definition: BridgeDefinition) -> str:
    size, quiet_ms = definition.batch.size, definition.batch.quiet_ms
    if size == 1:
        return "batch: each message alone"
    if quiet_ms is None:
        return f"batch: up to {size} messages, as many as the source has at hand"
    if quiet_ms == FOREVER:
        return f"batch: {size} messages, however long that takes"
    return f"batch: {size} messages, or fewer after {quiet_ms} ms without a new one"


def _retries(definition: BridgeDefinition) -> str:
    retries, interval_ms = definition.retry.max_retries, definition.retry.interval_ms
    if retries == 0:
        return "after a failure: no retry"
    pause = "after pauses that grow from 1 s to 60 s" if interval_ms == FOREVER else f"every {interval_ms} ms"
    if retries != 0 and definition.retry.multiplier != 1.0:
        pause = f"after pauses that grow from {interval_ms} ms to {definition.retry.longest_ms} ms"
    count = "without limit" if retries == FOREVER else f"{retries} times in a row at most"
    return f"after a failure: retry {pause}, {count}"
