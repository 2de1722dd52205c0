"""The two brokers on which scenarios are played, with one configuration for both.

What Spanwire does not support of it yet is left out at its start, with a line in its log; `not_yet.py` lists the
scenarios that need it.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Final

from spanwire.management.control_client import ControlClient
from tests.conformance.differential.stage import PATIENCE_MS, Counters, Stage
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_broker

ATTRIBUTES: Final = (
    'schedulerSupport="true" schedulePeriodForDestinationPurge="100" anonymousProducerAdvisorySupport="true"'
)
COUNTERS: Final = {
    "size": "pending",
    "enqueueCount": "enqueued",
    "dequeueCount": "dequeued",
    "expiredCount": "expired",
    "inflightCount": "in_flight",
    "consumerCount": "consumers",
}
UNTIL_QUIET_MS: Final = 40
QUIET_LOOKS: Final = 50
INSIDE: Final = """\
    <destinationInterceptors>
      <virtualDestinationInterceptor>
        <virtualDestinations>
          <virtualTopic name="VirtualTopic.&gt;" prefix="Consumer.*." selectorAware="false"/>
          <virtualTopic name="Picky.&gt;" prefix="Group.*." selectorAware="true"/>
          <compositeQueue name="COMPOSITE.ONLY">
            <forwardTo><queue physicalName="COMPOSITE.ONLY.A"/><topic physicalName="COMPOSITE.ONLY.T"/></forwardTo>
          </compositeQueue>
          <compositeQueue name="COMPOSITE.BOTH" forwardOnly="false">
            <forwardTo><queue physicalName="COMPOSITE.BOTH.A"/></forwardTo>
          </compositeQueue>
          <compositeTopic name="COMPOSITE.TOPIC">
            <forwardTo>
              <filteredDestination selector="colour = 'red'" queue="COMPOSITE.TOPIC.RED"/>
              <filteredDestination selector="colour = 'blue'" topic="COMPOSITE.TOPIC.BLUE"/>
            </forwardTo>
          </compositeTopic>
        </virtualDestinations>
      </virtualDestinationInterceptor>
    </destinationInterceptors>
    <destinationPolicy>
      <policyMap>
        <policyEntries>
          <policyEntry queue="PRIO.&gt;" prioritizedMessages="true"/>
          <policyEntry queue="STRICT.&gt;" strictOrderDispatch="true"/>
          <policyEntry queue="EXCLUSIVE.&gt;" allConsumersExclusiveByDefault="true"/>
          <policyEntry queue="AWAIT.&gt;" consumersBeforeDispatchStarts="2" timeBeforeDispatchStarts="10000"/>
          <policyEntry queue="LATE.&gt;" timeBeforeDispatchStarts="1500"/>
          <policyEntry queue="FEW.&gt;" queuePrefetch="2"/>
          <policyEntry queue="GONE.&gt;" gcInactiveDestinations="true" inactiveTimeoutBeforeGC="200"/>
          <policyEntry topic="GONE.&gt;" gcInactiveDestinations="true" inactiveTimeoutBeforeGC="200"/>
          <policyEntry queue="SWEPT.&gt;" expireMessagesPeriod="100"/>
          <policyEntry queue="OWNDLQ.&gt;">
            <deadLetterStrategy>
              <individualDeadLetterStrategy queuePrefix="DLQ." useQueueForQueueMessages="true"/>
            </deadLetterStrategy>
          </policyEntry>
          <policyEntry queue="TOPICDLQ.&gt;">
            <deadLetterStrategy>
              <individualDeadLetterStrategy queuePrefix="DLT." useQueueForQueueMessages="false"/>
            </deadLetterStrategy>
          </policyEntry>
          <policyEntry queue="SHORTDLQ.&gt;">
            <deadLetterStrategy>
              <sharedDeadLetterStrategy expiration="3600000">
                <deadLetterQueue><queue physicalName="SHORT.DLQ"/></deadLetterQueue>
              </sharedDeadLetterStrategy>
            </deadLetterStrategy>
          </policyEntry>
          <policyEntry topic="EACHDLQ.&gt;">
            <deadLetterStrategy>
              <individualDeadLetterStrategy topicPrefix="DLQ." destinationPerDurableSubscriber="true"/>
            </deadLetterStrategy>
          </policyEntry>
          <policyEntry queue="NODLQ.&gt;"><deadLetterStrategy><discarding/></deadLetterStrategy></policyEntry>
          <policyEntry queue="KEEPVOLATILE.&gt;">
            <deadLetterStrategy>
              <sharedDeadLetterStrategy processNonPersistent="true" processExpired="false">
                <deadLetterQueue><queue physicalName="KEPT.DLQ"/></deadLetterQueue>
              </sharedDeadLetterStrategy>
            </deadLetterStrategy>
          </policyEntry>
          <policyEntry topic="OWNDLQ.&gt;">
            <deadLetterStrategy>
              <individualDeadLetterStrategy topicPrefix="DLQ." useQueueForTopicMessages="true"/>
            </deadLetterStrategy>
          </policyEntry>
          <policyEntry topic="LASTTWO.&gt;">
            <subscriptionRecoveryPolicy>
              <fixedCountSubscriptionRecoveryPolicy maximumSize="2"/>
            </subscriptionRecoveryPolicy>
          </policyEntry>
          <policyEntry topic="IMAGE.&gt;" alwaysRetroactive="true">
            <subscriptionRecoveryPolicy><lastImageSubscriptionRecoveryPolicy/></subscriptionRecoveryPolicy>
          </policyEntry>
          <policyEntry topic="PENDING.&gt;">
            <messageEvictionStrategy><oldestMessageEvictionStrategy/></messageEvictionStrategy>
            <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="2"/></pendingMessageLimitStrategy>
          </policyEntry>
          <policyEntry topic="KEPTBYTES.&gt;">
            <subscriptionRecoveryPolicy>
              <fixedSizedSubscriptionRecoveryPolicy maximumSize="3300"/>
            </subscriptionRecoveryPolicy>
          </policyEntry>
          <policyEntry topic="KEPTFOR.&gt;">
            <subscriptionRecoveryPolicy>
              <timedSubscriptionRecoveryPolicy recoverDuration="500"/>
            </subscriptionRecoveryPolicy>
          </policyEntry>
          <policyEntry topic="RATE.&gt;">
            <pendingMessageLimitStrategy>
              <prefetchRatePendingMessageLimitStrategy multiplier="1.5"/>
            </pendingMessageLimitStrategy>
          </policyEntry>
          <policyEntry topic="OWNLIMIT.&gt;">
            <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="-1"/></pendingMessageLimitStrategy>
          </policyEntry>
          <policyEntry topic="NOLIMIT.&gt;">
            <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="0"/></pendingMessageLimitStrategy>
          </policyEntry>
          <policyEntry topic="LOWFIRST.&gt;">
            <messageEvictionStrategy><oldestMessageWithLowestPriorityEvictionStrategy/></messageEvictionStrategy>
            <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="2"/></pendingMessageLimitStrategy>
          </policyEntry>
          <policyEntry topic="UNIQUE.&gt;">
            <messageEvictionStrategy>
              <uniquePropertyMessageEvictionStrategy propertyName="stock"/>
            </messageEvictionStrategy>
            <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="3"/></pendingMessageLimitStrategy>
          </policyEntry>
          <policyEntry topic="LETTERS.&gt;">
            <deadLetterStrategy><individualDeadLetterStrategy topicPrefix="DLQ."/></deadLetterStrategy>
            <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="1"/></pendingMessageLimitStrategy>
          </policyEntry>
          <policyEntry topic="SLOW.&gt;">
            <slowConsumerStrategy>
              <abortSlowConsumerStrategy checkPeriod="200" maxSlowDuration="400"/>
            </slowConsumerStrategy>
          </policyEntry>
          <policyEntry queue="SLOW.&gt;">
            <slowConsumerStrategy>
              <abortSlowConsumerStrategy checkPeriod="200" maxSlowDuration="400"/>
            </slowConsumerStrategy>
          </policyEntry>
          <policyEntry topic="SLOWCONNECTION.&gt;">
            <slowConsumerStrategy>
              <abortSlowConsumerStrategy checkPeriod="200" maxSlowDuration="400" abortConnection="true"/>
            </slowConsumerStrategy>
          </policyEntry>
          <policyEntry queue="SILENT.&gt;">
            <slowConsumerStrategy>
              <abortSlowAckConsumerStrategy checkPeriod="200" maxSlowDuration="200" maxTimeSinceLastAck="800"/>
            </slowConsumerStrategy>
          </policyEntry>
          <policyEntry topic="SILENT.&gt;">
            <slowConsumerStrategy>
              <abortSlowAckConsumerStrategy checkPeriod="200" maxSlowDuration="200" maxTimeSinceLastAck="800"/>
            </slowConsumerStrategy>
          </policyEntry>
          <policyEntry topic="FEWOUT.&gt;" topicPrefetch="2">
            <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="0"/></pendingMessageLimitStrategy>
          </policyEntry>
          <policyEntry topic="NOFLOW.&gt;" memoryLimit="64 kb" producerFlowControl="false">
            <pendingMessageLimitStrategy>
              <constantPendingMessageLimitStrategy limit="1000"/>
            </pendingMessageLimitStrategy>
          </policyEntry>
          <policyEntry topic="NEVERFULL.&gt;" memoryLimit="64 kb">
            <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="2"/></pendingMessageLimitStrategy>
          </policyEntry>
          <policyEntry queue="PULLED.&gt;" queuePrefetch="0"/>
          <policyEntry topic="PULLED.&gt;" topicPrefetch="0"/>
          <policyEntry queue="BROWSED.&gt;" queueBrowserPrefetch="0"/>
          <policyEntry queue="BROWSEDFEW.&gt;" queueBrowserPrefetch="2"/>
          <policyEntry queue="CLOSED.&gt;" usePrefetchExtension="false"/>
          <policyEntry topic="CLOSED.&gt;" usePrefetchExtension="false"/>
          <policyEntry topic="FORONE.&gt;">
            <dispatchPolicy><clientIdFilterDispatchPolicy/></dispatchPolicy>
          </policyEntry>
          <policyEntry topic="RANKED.&gt;">
            <dispatchPolicy><priorityDispatchPolicy/></dispatchPolicy>
          </policyEntry>
          <policyEntry topic="ROUTED.&gt;">
            <dispatchPolicy><priorityNetworkDispatchPolicy/></dispatchPolicy>
          </policyEntry>
          <policyEntry topic="DURABLEFEW.&gt;" durableTopicPrefetch="2"/>
          <policyEntry queue="TOLD.&gt;" advisoryForDelivery="true" advisoryForConsumed="true"
                       sendAdvisoryIfNoConsumers="true"/>
          <policyEntry topic="TOLD.&gt;" advisoryForDelivery="true" advisoryForConsumed="true"
                       sendAdvisoryIfNoConsumers="true"/>
          <policyEntry queue="WHOLE.&gt;" advisoryForDelivery="true" advisoryForConsumed="true"
                       includeBodyForAdvisory="true"/>
          <policyEntry topic="TARDY.&gt;" advisoryForSlowConsumers="true"/>
          <policyEntry queue="TARDY.&gt;" advisoryForSlowConsumers="true"/>
          <policyEntry topic="DROPPED.&gt;" advisoryForDiscardingMessages="true">
            <messageEvictionStrategy><oldestMessageEvictionStrategy/></messageEvictionStrategy>
            <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="2"/></pendingMessageLimitStrategy>
          </policyEntry>
          <policyEntry queue="FULL.&gt;" advisoryWhenFull="true" advisoryForFastProducers="true" memoryLimit="24 kb">
            <pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy>
          </policyEntry>
          <policyEntry topic="FULL.&gt;" advisoryWhenFull="true" advisoryForFastProducers="true" memoryLimit="24 kb">
            <pendingSubscriberPolicy><vmCursor/></pendingSubscriberPolicy>
          </policyEntry>
        </policyEntries>
      </policyMap>
    </destinationPolicy>
    <plugins>
      <statisticsBrokerPlugin/>
      <redeliveryPlugin fallbackToDeadLetter="true" sendToDlqIfMaxRetriesExceeded="true">
        <redeliveryPolicyMap>
          <redeliveryPolicyMap>
            <redeliveryPolicyEntries>
              <redeliveryPolicy queue="REDELIVER.&gt;" maximumRedeliveries="2" initialRedeliveryDelay="1000"
                                redeliveryDelay="1000"/>
              <redeliveryPolicy queue="KILLED.&gt;" maximumRedeliveries="2" initialRedeliveryDelay="6000"
                                redeliveryDelay="6000"/>
              <redeliveryPolicy tempQueue="true" maximumRedeliveries="1" initialRedeliveryDelay="1000"
                                redeliveryDelay="1000"/>
            </redeliveryPolicyEntries>
          </redeliveryPolicyMap>
        </redeliveryPolicyMap>
      </redeliveryPlugin>
    </plugins>
"""


class ClassicBroker:
    """ActiveMQ Classic, whose statistics plugin counts."""

    name: Final = "Classic"

    def __init__(self, process: BrokerProcess, counters_ms: int = PATIENCE_MS) -> None:
        """``counters_ms`` is how long counters may take; of a destination that is not there no answer comes."""
        self._process: Final = process
        self._counters_ms: Final = counters_ms

    @property
    def stomp_port(self) -> int:
        """The port of its STOMP connector."""
        return self._process.stomp_port

    def uri(self, options: str) -> str:
        """Its address for a Java client."""
        return self._process.openwire_uri() + (f"?{options}" if options else "")

    def counters(self, stage: Stage, queue: str) -> Counters:
        """What the statistics plugin says; its question opens no destination of the scenario."""
        name = queue.partition("://")[2]
        stage.ask(do="connect", uri=self.uri(""), **{"as": "counting"})
        answer = stage.ask(do="counters", connection="counting", name=name, timeout=self._counters_ms)
        stage.ask(do="close", on="counting")
        counted: dict[str, Any] = answer["result"]
        return {name: int(value) for name, value in counted.items()}

    def restart(self, away_s: float) -> None:
        """Kill it, and start it again after so many seconds."""
        self._process.kill()
        threading.Event().wait(away_s)
        self._process.start()


class SpanwireBroker:
    """Spanwire, whose control socket counts."""

    name: Final = "Spanwire"

    def __init__(self, process: BrokerProcess, data: Path) -> None:
        self._process: Final = process
        self._data: Final = data

    @property
    def log(self) -> list[str]:
        """Every line it has printed."""
        return self._process.log

    @property
    def stomp_port(self) -> int:
        """The port of its STOMP connector."""
        return self._process.stomp_port

    def uri(self, options: str) -> str:
        """Its address for a Java client."""
        return self._process.openwire_uri() + (f"?{options}" if options else "")

    def counters(self, stage: Stage, queue: str) -> Counters:
        """The counters of one destination, once two looks agree: acknowledgements come late."""
        last: Counters = {}
        for _ in range(QUIET_LOOKS):
            found = self._look(queue)
            if found == last:
                break
            last = found
            stage.passes(UNTIL_QUIET_MS)
        return last

    def restart(self, away_s: float) -> None:
        """Kill it, and start it again after so many seconds."""
        self._process.kill()
        threading.Event().wait(away_s)
        self._process.start()

    def _look(self, queue: str) -> Counters:
        rows: Any = ControlClient(self._data).ask("destinations")
        for row in rows:
            if row["destination"] == queue:
                return {name: int(row[ours]) for name, ours in COUNTERS.items()}
        return {}


def played_classic(directory: Path) -> BrokerProcess:
    """Classic with the configuration of the suite; not started yet."""
    return classic_broker(directory, name="differential", inside=INSIDE, attributes=ATTRIBUTES)


def played_spanwire(directory: Path) -> BrokerProcess:
    """Spanwire with the same configuration; not started yet."""
    return BrokerProcess(
        spanwire_command("--skip-unsupported", "--data-directory", str(directory / "own")),
        directory,
        name="differential",
        inside=INSIDE,
        attributes=ATTRIBUTES,
    )
