"""The table of event names: one name for each fault in a log, independent of the values in the text.

The logger and the text before the arguments are filled in identify a record, so a call of a logger needs no name of its
own. `tools/generate_log_reference.py` compares the table with the calls in the sources, and `make lint` fails for a
call without a row and for a row without a call. Names never change; texts may.
"""

from __future__ import annotations

import logging
from typing import Final

PACKAGE: Final = "spanwire."

# Logger without "spanwire.", then text, then event.
# fmt: off
EVENTS: Final[dict[str, dict[str, str]]] = {
    "bridges.endpoints.timer_source": {
        "timer %s: a tick is lost: %s": "timer-tick-lost",
    },
    "bridges.engine.machine": {
        "bridge %s: %s; the message is lost": "bridge-message-lost",
        "bridge %s: %s; the message becomes a dead letter": "bridge-message-dead",
        "bridge %s: heuristic outcome, messages may be lost or doubled: %s; compare both sides": (
            "bridge-heuristic-outcome"
        ),
    },
    "bridges.providers.amqp091.parties": {
        "%s: a dead letter of %s has no room for its headers %s: %s": "bridge-dead-letter-shortened",
    },
    "bridges.providers.kafka.parties": {
        "%s: a dead letter of %s has no room for its cause: %s": "bridge-dead-letter-without-cause",
    },
    "bridges.providers.mqtt.connection": {
        "%s: messages of quality of service 0 come too fast, and some are lost": "bridge-messages-dropped",
    },
    "bridges.providers.nats.core_nats": {
        "%s: messages come too fast, and some are lost": "bridge-messages-dropped",
    },
    "bridges.providers.nats.jetstream": {
        "%s: a dead letter of %s has no room for its cause: %s": "bridge-dead-letter-without-cause",
    },
    "bridges.providers.redis.parties": {
        "%s stores messages in snapshots alone, so a crash loses those since the last one; set appendonly": (
            "bridge-target-without-log"
        ),
    },
    "bridges.providers.sqs.parties": {
        "%s: a dead letter of %s has no room for its cause: %s": "bridge-dead-letter-without-cause",
    },
    "bridges.running.announcing": {
        "bridge %s: retrying after a failure: %s": "bridge-retry",
        "bridge %s: failed, %s: %s": "bridge-failed",
        "bridge %s: stopped by an unexpected error, see above; restart it when the cause is gone": "bridge-broken",
    },
    "bridges.running.process": {
        "some bridges do not end within %g s; their links are closed": "bridge-slow-end",
    },
    "bridges.running.replies": {
        "the reply %s to %s is lost: %s": "bridge-reply-lost",
    },
    "bridges.running.runner": {
        "bridge %s: unexpected error in %s: %s (%s:%d); please report it": "bridge-unexpected-error",
    },
    "broker.advisories.advisory_topics": {
        "connection %s is ended: %s": "connection-ended",
    },
    "broker.connections.connections": {
        "client id %s: taken over by the connection from %s, that from %s is closed": "client-id-taken-over",
    },
    "broker.destinations.destinations": {
        "connection %s is ended: %s": "connection-ended",
    },
    "broker.dispatch.slow_consumer_strategy": {
        "connection %s is ended: %s": "connection-ended",
        "slow consumer is ended: %s": "slow-consumer-ended",
    },
    "broker.exactly_once.cursor_table": {
        "cursor %s: message %d of %s is missing in the store, and is left out": "cursor-message-missing",
        "cursor %s: %s is missing in the store, so the cursor is ended: stop the broker and run spanwire store "
        "check, then start the query with another checkpointLocation":
            "cursor-lost",
    },
    "broker.exactly_once.sinks": {
        "part %s of a batch is damaged in the store, and a commit of it is refused: stop the broker and run "
        "spanwire store check, then start the query again, which stages the batch anew":
            "sink-part-damaged",
        "part %s of a batch has lost its messages in the store: stage it again": "sink-part-lost",
        "%s holds %d staged messages that nothing describes; they stay in the store: stop the broker and "
        "run spanwire store check":
            "sink-undescribed-messages",
    },
    "broker.plugins.redelivery_plugin": {
        "message %s of %s is not redelivered, and the dead letter policy decides: %s": "redelivery-refused",
    },
    "broker.queue.pending_messages": {
        "message %d of %s is missing in the store; it is skipped": "message-missing",
    },
    "broker.routing.dead_letters": {
        "the disk of the store has no room for dead letters: messages that expired or were given up stay "
        "in their queues until there is; make room":
            "dead-letters-no-room",
        "%d messages wait to become dead letters; further ones stay in the store until the next start":
            "dead-letters-waiting",
    },
    "broker.routing.parked_sends": {
        "producer flow control: sends to %s wait: %s; waiting sends of connection %s from %s: %d; "
        "connections with waiting sends: %d; consume messages or make room":
            "producer-blocked",
    },
    "broker.routing.unscheduled": {
        "producer %s sends messages to %s that ask for a delay, and this broker has no scheduler: they "
        'are delivered at once; write schedulerSupport="true" at <broker>':
            "no-scheduler",
    },
    "broker.scheduler.scheduler": {
        "scheduled job %s is tried again in %d ms: %s": "scheduled-job-retry",
        "the message of scheduled job %s cannot be read: it is not delivered": "scheduled-job-unreadable",
        "scheduled job %s to %s is not delivered: %s": "scheduled-job-not-delivered",
        "scheduled job %s skips one time of its cron entry: %s": "scheduled-job-no-series",
        "scheduled job %s has no message in the store: it is forgotten": "scheduled-job-lost",
        "%d scheduled messages wait in the store and are not delivered: set schedulerSupport of <broker> "
        "to true":
            "scheduled-messages-waiting",
    },
    "audit": {
        "%d more refusals were not written": "access-refused-more",
        "refused: user %s at %s (%s) may not %s": "access-refused",
        "control socket, %s: %s refused: %s": "operation-refused",
    },
    "broker.security.unfinished_logins": {
        "%s connection of %s closed: %s%s": "login-timeout",
    },
    "broker.topic.policy_topic": {
        "%s: more messages wait for a slow consumer than its policy allows; some are discarded, as it "
        "says":
            "slow-consumer-discards",
    },
    "broker.topic.subscription_recovery": {
        "what topics keep for consumers to come takes %d %% of memoryUsage: %s gives up its oldest "
        "messages; raise memoryUsage or keep less (subscriptionRecoveryPolicy)":
            "topic-recovery-shortened",
    },
    "broker.transactions.xa_recovery": {
        "%s holds %d messages of a prepared transaction that nothing describes; they stay in the store: "
        "stop the broker and run spanwire store check":
            "xa-undescribed-messages",
        "message %d of %s is missing in the store; it is skipped": "message-missing",
    },
    "client.addressing.reconnect_policy": {
        "%s: backup has no effect: no connection is kept in reserve": "client-backup-unsupported",
    },
    "client.aio.listener": {
        "the listener for %s gets no more messages: %s": "client-listener-stopped",
        "the listener for %s failed at message %s": "client-listener-failed",
    },
    "client.aio.shared.fanout_transport": {
        "fanout ended unexpectedly": "client-fanout-failed",
        "connection to %s lost: %s; reconnecting": "client-connection-lost",
        "fanout: %s refuses the login: %s": "client-login-refused",
        "fanout: no further attempt to connect to %s: %s": "client-fanout-given-up",
    },
    "client.blocking.listener": {
        "the listener for %s gets no more messages: %s": "client-listener-stopped",
        "the listener for %s failed at message %s": "client-listener-failed",
    },
    "client.protocol.connection": {
        "connection to %s lost: %s; reconnecting": "client-connection-lost",
    },
    "client.protocol.error_mapping": {
        "the broker at %s reports: %s": "client-broker-error",
    },
    "client.protocol.transport.failover": {
        "no broker answers, retrying: %s": "client-reconnecting",
        "no connection after %d attempts: %s; retrying": "client-reconnecting",
    },
    "client.protocol.transport.fanout": {
        "the broker at %s reports: %s": "client-broker-error",
    },
    "cli.process.start": {
        "%s": "configuration-warning",
    },
    "discovery.agents.fabric": {
        "fabric: no connection to the registry at %s; is ZooKeeper running? Connecting is repeated":
            "discovery-registry-unreachable",
        "fabric: a connector cannot be registered: %s": "discovery-registration-failed",
        "fabric: %s cannot be removed: %s": "discovery-withdrawal-failed",
        "fabric: %s cannot be watched: %s": "discovery-group-unwatched",
        "fabric: %s/%s cannot be read: %s": "discovery-entry-unreadable",
    },
    "discovery.agents.http_registry": {
        "discovery: %s; it is asked again every %g s": "discovery-registry-unreachable",
    },
    "discovery.agents.multicast": {
        "discovery: %s:%d cannot be reached: %s": "discovery-unreachable",
    },
    "discovery.agents.zeroconf": {
        "zeroconf: %s cannot be announced": "discovery-announcement-failed",
        "zeroconf: the announcement of %s cannot be withdrawn": "discovery-withdrawal-failed",
    },
    "discovery.groups.sightings": {
        "%d brokers were discovered, the limit; others are ignored": "discovery-limit",
    },
    "management.control": {
        "the control command %s failed": "control-command-failed",
    },
    "management.tasks": {
        "the task %s failed": "task-failed",
    },
    "management.running_brokers": {
        "%s: %s; spanwire list does not show this broker: name it with --data-directory": "broker-not-listed",
    },
    "network.bridge.bridge": {
        "network connector %s: broker %s has announced no consumer in %g s: it has none, or it has "
        'advisorySupport="false"; then only static destinations are forwarded':
            "link-no-demand",
    },
    "network.bridge.duplex_bridge": {
        "network connector %s of broker %s: %s": "duplex-link-failed",
        "duplex link %s is replaced by a newer one": "duplex-link-replaced",
    },
    "network.bridge.forwarder": {
        "broker %s refused message %s, which is tried again: %s%s": "forward-retry",
        "message %s cannot be forwarded to %s: %s; it becomes a dead letter": "forward-failed",
    },
    "network.bridge.inbound_bridge": {
        "a request of broker %s is refused: %s": "link-request-refused",
    },
    "network.bridge.local_demand": {
        "network connector %s: %s is static and excluded, so it is not forwarded": "static-destination-excluded",
        "a subscription for broker %s is refused, so its messages are not forwarded: %s": "demand-not-served",
    },
    "network.connector.discovered_links": {
        "network connector %s: discovered %s: %s": "discovered-broker-unusable",
        "network connector %s: discovered %s is not used: %s%s": "discovered-broker-unusable",
    },
    "network.connector.link": {
        "network connector %s: %s: %s; next try in %g s": "link-failed",
        "network connector %s: %s: %s; gave up after %d tries": "link-given-up",
    },
    "network.connector.network_connector": {
        'network connector %s: this broker has advisorySupport="false", so other brokers learn of no '
        "consumers here; remove the attribute, or set staticBridge":
            "link-no-advisories",
    },
    "network.demand.heralds": {
        "network connector %s: %s; some brokers may send messages of topics to one of these consumers alone: "
        "raise networkTTL of the network connectors":
            "consumer-not-announced",
    },
    "network.demand.remote_registry": {
        "the broker of brokerId %s has no brokerName, like another one that is linked, and is called %s "
        "here: after a restart their durable subscriptions may be mixed up; give each broker a "
        "brokerName of its own":
            "remote-broker-unnamed",
    },
    "network.gossip.gossip": {
        "gossip: unexpected error; the next look is in %g s": "unexpected-error",
    },
    "network.gossip.kept_members": {
        "gossip: the kept addresses of members cannot be read: only the seeds are asked": "kept-members-unreadable",
    },
    "network.gossip.link_plan": {
        "gossip: the broker at %s is called %s, and not %s: it is not linked there": "discovered-broker-unusable",
    },
    "network.gossip.namesakes": {
        "gossip: two brokers are called %s: the one at %s and the one at %s; no other broker links to "
        "both, so messages do not reach all consumers: give one of them another brokerName":
            "broker-name-taken-twice",
    },
    "network.reports.message_questions": {
        "the question about message %r failed": "message-not-explained",
    },
    "network.reports.network_reports": {
        "broker %r cannot be asked for its links: %r": "broker-not-asked",
    },
    "pipeline.source.ended_link": {
        "%s: the cursor %s, which the query has no more, cannot be ended: %s": "pipeline-cursor-not-ended",
    },
    "pipeline.source.prefetch": {
        "reading ahead has failed, so the next batch reads by itself: %s": "pipeline-prefetch-failed",
    },
    "pipeline.source.retry_window": {
        "%s; trying again for %d s": "pipeline-retry",
    },
    "pipeline.source.source_group": {
        "%s is back": "pipeline-source-back",
        "%s is away: %s": "pipeline-source-away",
    },
    "pipeline.source.staging": {
        "segment %d is stored, but its acknowledgement has failed: %s; messages that come again are "
        "recognised":
            "pipeline-segment-unacknowledged",
        "segment %d: its acknowledgement failed, and the broker has not sent all of its messages again; "
        "any that still come are taken for new":
            "pipeline-segment-not-redelivered",
        "%s has messages, and none came within %g s; waiting for them": "pipeline-messages-late",
    },
    "pipeline.storage.arrow_files": {
        "%s is not %s (%s); again in %g s": "pipeline-storage-retry",
    },
    "pipeline.watch.lineage": {
        "an OpenLineage event was not sent, and further ones may follow: %s": "pipeline-lineage-not-sent",
    },
    "pipeline.watch.publisher": {
        "the status of the pipeline is not published: %s": "pipeline-status-not-published",
    },
    "protocols.openwire.acknowledgements": {
        "message %s could not become a dead letter, and stays with its consumer: %s": "dead-letter-failed",
    },
    "protocols.openwire.broker_connection": {
        "OpenWire connection of %s closed: %s": "connection-protocol-error",
    },
    "protocols.openwire.consumer": {
        "message %s cannot be written for consumer %s: %s; it becomes a dead letter": "message-unwritable",
    },
    "protocols.openwire.refusals": {
        "%s of %s refused: %s": "request-refused",
    },
    "protocols.xmpp.consumer": {
        "message %s cannot be written for %s: %s; it becomes a dead letter": "message-unwritable",
    },
    "protocols.xmpp.session": {
        "message %s could not become a dead letter, and stays with its consumer: %s": "dead-letter-failed",
    },
    "service.administration.added_bridges": {
        "bridge %s: %s": "created-bridge-warning",
        "bridge %s lasts until the next start only: %s": "created-bridge-not-kept",
        "bridge %s, which an operator created, is not started: %s": "created-bridge-unusable",
    },
    "service.administration.added_connectors": {
        "network connector %s lasts until the next start only: %s": "added-connector-not-kept",
        "network connector %s of the configuration takes the place of an added one": "added-connector-replaced",
        "network connector %s, which an operator added, is not started: %s": "added-connector-unusable",
    },
    "service.administration.drains": {
        "the drain %s failed": "drain-failed",
    },
    "service.children.bridge_process": {
        "%s": "bridges-without-connector",
        "bridges do not start: %s%s: %s": "bridges-without-connector",
        "the process of the bridges: %s": "bridge-process-error",
    },
    "service.children.deployments": {
        "%s": "deployed-file-warning",
        "not deployed: %s%s": "file-not-deployed",
        "nothing is deployed: %s": "deploy-directory-unusable",
    },
    "service.children.paused_bridges": {
    },
    "service.children.supervision": {
        "%s has ended: %s; it is started again in %g s, then after growing pauses without a further line":
            "child-process-ended",
    },
    "service.directories.questions": {
        "logins are refused: %s (%d since the last line)": "directory-without-answer",
        "%s: unexpected error in a login": "unexpected-error",
    },
    "service.directories.refreshed_rights": {
        "nobody has rights yet: the directory has not answered within %g s": "directory-rights-missing",
        "nobody has rights: %s": "directory-rights-missing",
        "rights stay as they were: %s": "directory-rights-unreadable",
        "an entry of the directory gives no rights: %s": "directory-entry-unusable",
        "%d more entries of the directory give no rights": "directory-entry-unusable",
    },
    "service.embedding.broker_thread": {
        "broker %s ended unexpectedly": "embedded-broker-failed",
        "broker %s cannot start: %s": "embedded-broker-not-started",
    },
    "service.embedding.vm_url": {
        "%s": "embedded-broker-warning",
    },
    "service.lease": {
        "the lease in %s cannot be renewed: %s; a standby takes over unless this ends within %g s": "lease-not-renewed",
    },
    "service.machine.service_manager": {
        "%s=%s is neither a path nor an abstract name with @; the service manager is not told anything": (
            "service-manager-refused"
        ),
        "%s=%s is no number of microseconds; there is no watchdog": "watchdog-refused",
        "%s=%s: %s; the service manager is not told the state of this broker until that ends": (
            "service-manager-unreachable"
        ),
    },
    "service.published_addresses": {
        "the host %s cannot be looked up, and is announced as it is: %s": "published-host-unknown",
    },
    "service.runtime_configuration": {
        "the configuration stays as it was: %s": "reload-refused",
        "%s": "configuration-warning",
    },
    "service.security": {
        "users stay as they were: %s": "users-unreadable",
    },
    "service.service": {
        "runtimeConfigurationPlugin has no effect in this process: its file is never reloaded": "reload-impossible",
    },
    "service.standby": {
        "standby: waits for the lock of %s, which %s holds; it takes over when that broker ends": "standby-waits",
        "the lease of %s in %s has not been renewed for %g s: that broker hangs or has lost the store": "lease-expired",
        "standby: the master has not renewed its lease for %g s, and this broker cannot take over: %s; it tries again"
        " and again": "lease-not-taken",
        "this broker takes over from %s, after it has waited for %d s": "standby-takes-over",
    },
    "service.tracing": {
        "the environment names a collector, and nothing is traced: %s": "trace-extra-missing",
    },
    "service.administration.usage": {
        "%s is %d bytes, but the file system of %s has %d; sends wait when it is full": "usage-above-disk",
    },
    "service.children.web_process": {
        "nothing is served over HTTP: the extra web is not installed: %s": "web-extra-missing",
        "nothing is served over HTTP: this broker has no data directory, so no control socket":
            "web-no-control-socket",
        "the web process: %s": "web-process-error",
    },
    "service.web_realm": {
        "the password of %s is well known, so it counts on this machine alone: change it in the realm's file":
            "web-password-well-known",
        "the users of the web port stay as they were: %s": "web-users-unreadable",
    },
    "stores.directory": {
        "the data directory %s cannot be locked: %s; nothing keeps a second broker out of it": "directory-unlocked",
        "%s cannot be written: %s; nobody can tell who uses the directory": "lock-file-unwritable",
        "%s %s belongs to user %d; what this broker makes there belongs to root: run it as that user or "
        "change the owner":
            "directory-of-another-user",
        "%s %s can be written by its group (mode %o): run chmod g-w %s": "directory-group-writable",
    },
    "stores.driver.answers": {
        "%s": "message-damaged",
    },
    "stores.driver.journal_store": {
        "journal %s: %s": "journal-damage-found",
        "journal %s: the disk is nearly full, make room": "disk-nearly-full",
        "journal %s: disk syncs are off, a power cut loses %s that were acknowledged": "journal-without-syncs",
        "the disk is full: sends and acknowledgements without an answer are not kept": "disk-full-lost-messages",
        "%s": "journal-warning",
        "there is room on the disk again: messages are taken": "disk-has-room",
        "the disk is full: no message is taken until there is room, consumers go on": "disk-full",
        "%s is damaged at byte %d: what lies behind it stays there; stop the broker and run `spanwire "
        "store repair DIRECTORY`":
            "journal-damaged",
    },
    "stores.driver.writer": {
        "%s": "journal-warning",
    },
    "tracing.export": {
        "the collector does not take spans, which are dropped until it does: %s": "trace-export-failed",
    },
    "transports.connector": {
        "connection of %s refused: unexpected error": "connection-refused-fault",
        "%d connection(s) refused, the last one from %s: %s": "connection-refused",
    },
    "transports.loop.pump": {
        "connection of %s closed: unexpected error": "connection-fault",
        "connection of %s closed: %s": "connection-closed",
        "a closed connection could not be removed": "connection-fault",
    },
    "transports.loop.system_clock": {
        "the system clock jumped %.1f s forward; message times and expiry follow it": "clock-forward",
        "the system clock was set back %.1f s; message times and expiry follow it": "clock-back",
    },
    "transports.loop.turn": {
        "the broker's timers failed; they run again in %s s": "timers-failed",
    },
    "transports.http.tunnel": {
        "a session of %s is refused: %s": "connection-refused",
        "a session of %s is refused: unexpected error": "connection-refused-fault",
    },
    "transports.vm": {
        "a connection to %s is refused: %s": "connection-refused",
        "a connection to %s is refused: unexpected error": "connection-refused-fault",
    },
    "web.console.figures.recorder": {
        "the figures of the console were not recorded": "web-figures-failed",
    },
    "web.events.changes": {
        "the stream of changes failed": "web-events-failed",
    },
    "web.serving.listening": {
        "the keys of the web port stay as they were: %s": "web-keys-unreadable",
    },
}
# fmt: on


def event_of(record: logging.LogRecord) -> str:
    """Return the event of a record, or "" for a record without a fault of the table.

    Records from another process bring the event as an attribute.
    """
    event = getattr(record, "event", None)
    if isinstance(event, str):
        return event
    rows = EVENTS.get(record.name.removeprefix(PACKAGE))
    if rows is None or record.levelno < logging.WARNING or not isinstance(record.msg, str):
        return ""
    return rows.get(record.msg, "")
