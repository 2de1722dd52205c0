"""Operations of beans: commands of the broker with arguments, and functions of a bean's attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

DATE: Final = "%Y-%m-%d %H:%M:%S"  # as ActiveMQ shows times of jobs, in the zone of this process
MEASURED: Final = "AdvancedMessageStatisticsEnabled"

# kinds of beans
BROKER: Final = "broker"
QUEUE: Final = "queue"
TOPIC: Final = "topic"
CONNECTOR: Final = "connector"
CONNECTION: Final = "connection"
CONSUMER: Final = "consumer"
PRODUCER: Final = "producer"
NETWORK_CONNECTOR: Final = "network connector"
LINK: Final = "link"
JMS_BRIDGE: Final = "JMS bridge"
SUBSCRIPTION: Final = "durable subscription"
BRANCH: Final = "prepared branch"
SCHEDULER: Final = "scheduler"
STRATEGY: Final = "strategy for slow consumers"
HEALTH: Final = "health"
LOGGING: Final = "logging"

Node = dict[str, object]
Arguments = Callable[[Node, list[str]], Node]  # of the subject of a bean and the words of a request
Answer = Callable[[Node, list[str]], object]  # of the attributes of a bean and the words of a request


@dataclass(frozen=True, slots=True)
class Execution:
    """An operation of a bean: command, arguments, and the key of the value in the result's first row.

    An ``is_flag`` value is true unless 0. ``shown`` returns the value from the broker's whole answer, the name of the
    broker's bean and the words instead. With ``takes_objects`` a word may be an object, as JSON.
    """

    command: str
    arguments: Arguments
    value: str = ""
    is_flag: bool = False
    shown: Callable[[object, str, list[str]], object] | None = None
    takes_objects: bool = False
