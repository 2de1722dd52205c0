"""The words of random scenarios: destinations, options, selectors, and how often each kind of step is tried."""

from __future__ import annotations

from typing import Any, Final

Step = tuple[Any, ...]  # a word and what it is about, as JSON has it
Scenario = list[Step]

OWN: Final = "{s}"  # stands for the name of the scenario
ONE_OF: Final = "{k}"  # stands for the number of one of the composites
QUEUES: Final = ("queue://{s}.Q", "queue://{s}.R")
TOPIC: Final = "topic://{s}.T"
QUEUE_POLICIES: Final = (
    "PRIO", "STRICT", "EXCLUSIVE", "FEW", "OWNDLQ", "NODLQ", "TOPICDLQ", "PULLED", "CLOSED", "BROWSEDFEW", "TOLD",
    "KEEPVOLATILE", "BROWSED",
)  # fmt: skip
TOPIC_POLICIES: Final = (
    "LASTTWO", "IMAGE", "PENDING", "PULLED", "OWNDLQ", "EACHDLQ", "DURABLEFEW", "FEWOUT", "TOLD", "KEPTBYTES", "UNIQUE",
    "LOWFIRST", "NOLIMIT", "RANKED", "CLOSED",
)  # fmt: skip
TOGETHER: Final = {  # destinations of which one leads to the others
    "virtual topic": (
        "topic://VirtualTopic.{s}", "queue://Consumer.A.VirtualTopic.{s}", "queue://Consumer.B.VirtualTopic.{s}",
    ),
    "picky topic": ("topic://Picky.{s}", "queue://Group.A.Picky.{s}"),
    "composite queue": ("queue://CQ.{k}", "queue://CQA.{k}", "topic://CQT.{k}"),
    "forwarding queue": ("queue://FQ.{k}", "queue://FQA.{k}", "topic://FQT.{k}"),
    "composite topic": ("topic://CT.{k}", "queue://CTR.{k}", "topic://CTB.{k}"),
}  # fmt: skip
MODES: Final = ("auto", "auto", "client", "client", "dups_ok", "individual", "individual", *["transacted"] * 3)
SELECTORS: Final = (
    "n > 2", "colour = 'red'", "colour IS NULL OR colour <> 'blue'", "JMSPriority > 4", "n BETWEEN 1 AND 4",
    "JMSXGroupID IS NULL", "colour LIKE 'r%'", "n IN (1, 3, 5)", "NOT (colour = 'red')", "JMSType = 't'",
)  # fmt: skip
REDELIVERY: Final = (
    "jms.redeliveryPolicy.initialRedeliveryDelay=10&jms.redeliveryPolicy.redeliveryDelay=10"
    "&jms.redeliveryPolicy.maximumRedeliveries="
)
CLIENT_OPTIONS: Final = (
    "jms.dispatchAsync=false", "jms.alwaysSessionAsync=false", "jms.useCompression=true",
    "jms.watchTopicAdvisories=false", "jms.optimizeAcknowledge=true", "jms.alwaysSyncSend=true",
    "jms.useRetroactiveConsumer=true", "jms.transactedIndividualAck=true", "jms.sendAcksAsync=false",
    "jms.messagePrioritySupported=true", "jms.nonBlockingRedelivery=true",
)  # fmt: skip
AGAIN: Final = (
    "queue://REDELIVER.{s}"  # `redeliveryPlugin` brings its failed messages back, and those of temporary queues
)
AGAIN_MS: Final = 1_800  # until it has; it waits a second, and the scheduler of Classic looks twice a second
LIFE_MS: Final = 40  # of a message that is to expire
EXPIRED_MS: Final = 120  # after which it has
STOMP_MODES: Final = ("auto", "client", "client", "client-individual", "client-individual")
STOMP_VERSIONS: Final = ("1.0", "1.1", "1.2", "1.2")
# How often a kind of step is tried, and how often in the first half of a scenario.
WEIGHTS: Final = {
    "session": (1.5, 1.5), "consumer": (3, 5), "subscriber": (1.5, 2), "send": (14, 14), "receive": (12, 9),
    "acknowledge": (4, 3), "commit": (3, 3), "rollback": (3, 2), "recover": (1.5, 1), "close_consumer": (1.5, 0.3),
    "close_session": (0.7, 0.1), "close_connection": (0.4, 0.05), "die": (0.5, 0.1), "browse": (1.5, 1),
    "counts": (2, 2), "unsubscribe": (0.6, 0.2), "listen": (0.7, 0.7), "stop": (0.3, 0.05), "start": (0.3, 0.3),
    "destroy": (0.2, 0.05), "connection": (0.2, 0.4), "expire": (1, 1), "temporary": (0.3, 0.8), "delete": (1, 0.5),
}  # fmt: skip
STOMP_WEIGHTS: Final = {  # the same for the steps of STOMP clients, in scenarios that have some
    "stomp": (0.3, 2), "stomp_subscribe": (2, 4), "stomp_send": (12, 12), "stomp_receive": (14, 10),
    "stomp_ack": (10, 5), "stomp_nack": (3, 1), "stomp_begin": (2, 2), "stomp_commit": (2, 2), "stomp_abort": (2, 1),
    "stomp_unsubscribe": (1.5, 0.5), "stomp_disconnect": (0.7, 0), "stomp_breaks": (0.7, 0),
}  # fmt: skip
