"""Attributes of virtual destinations.

The elements are ``broker`` and the elements inside of ``destinationInterceptors``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from spanwire.broker.policy.virtual_settings import (
    CompositeDestination,
    ForwardTo,
    MirroredQueues,
    VirtualSettings,
    VirtualTopic,
)
from spanwire.model.destination import QUEUE, TOPIC
from spanwire.model.errors import InvalidSelectorError
from spanwire.selector.parser import parse_selector
from spanwire.service.config.tables.attributes import FLAG, Attribute, AttributeTable, Kind, affix_of
from spanwire.service.config.values.values import Settings


@dataclass(frozen=True, slots=True)
class VirtualSwitches:
    """The kinds of virtual destinations without an XML element."""

    topics: bool = True
    mirrored_queues: bool = False


def read_topics(settings: Settings, name: str, default: Any) -> object:
    """Interpret the name or pattern of virtual topics."""
    return settings.destination(name, TOPIC, pattern=True) or default


def read_selector(settings: Settings, name: str, default: Any) -> object:
    """Interpret a selector; an empty one matches every message."""
    selector = settings.text(name) or ""
    if selector:
        try:
            parse_selector(selector)
        except InvalidSelectorError as error:
            settings.error_of(name, f": {error}")
    return selector


QUEUE_AFFIX: Final = affix_of(QUEUE, pattern=True)
TOPIC_AFFIX: Final = affix_of(TOPIC, pattern=False)
SELECTOR: Final = Kind("a selector", read_selector)

SWITCHES: Final = AttributeTable(
    VirtualSwitches,
    Attribute("useVirtualTopics", FLAG, "topics"),
    Attribute("useMirroredQueues", FLAG, "mirrored_queues"),
)
DEMAND: Final = AttributeTable(
    VirtualSettings,
    Attribute("useVirtualDestSubs", FLAG, "counts_as_demand"),
    Attribute("useVirtualDestSubsOnCreation", FLAG, "announced_on_creation"),
)
TEMPORARY: Final = AttributeTable(MirroredQueues, Attribute("useTempMirroredQueues", FLAG, "temporary"))
VIRTUAL_TOPIC: Final = AttributeTable(
    VirtualTopic,
    Attribute("name", Kind("name or pattern of topics", read_topics), "destination", "`>`"),
    Attribute("prefix", QUEUE_AFFIX, "prefix"),
    Attribute("postfix", QUEUE_AFFIX, "postfix", "empty"),
    Attribute("selectorAware", FLAG, "selector_aware"),
    Attribute("local", FLAG, "local"),
    Attribute("dropOnResourceLimit", FLAG, "drop_on_resource_limit"),
    Attribute("setOriginalDestination", FLAG, "set_original_destination"),
)
COMPOSITE: Final = AttributeTable(
    CompositeDestination,
    Attribute("forwardOnly", FLAG, "forward_only"),
    Attribute("copyMessage", FLAG, "copy_message"),
    Attribute("sendWhenNotMatched", FLAG, "send_when_not_matched"),
)
FILTERED: Final = AttributeTable(ForwardTo, Attribute("selector", SELECTOR, "selector", "every message"))
MIRRORED: Final = AttributeTable(
    MirroredQueues,
    Attribute("prefix", TOPIC_AFFIX, "prefix"),
    Attribute("postfix", TOPIC_AFFIX, "postfix", "empty"),
    Attribute("copyMessage", FLAG, "copy_message"),
)
