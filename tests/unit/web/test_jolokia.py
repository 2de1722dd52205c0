"""Jolokia: ActiveMQ's beans by name, and a closed list of operations."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from spanwire.management.beans.executions import DATE
from spanwire.management.beans.operations import ANSWERS, EXECUTABLE
from spanwire.management.tables.operation_table import READING
from spanwire.web.jolokia.protocol import MAX_REQUESTS, split_path
from spanwire.web.routes import application
from tests.support.fake_broker_link import LINK, SUMMARY, FakeBrokerLink, destination

ANNA, OTTO, VERA = ("anna", "a-word"), ("otto", "o-word"), ("vera", "v-word")
BROKER = "org.apache.activemq:type=Broker,brokerName=orders"
QUEUE = f"{BROKER},destinationType=Queue,destinationName=A"


def client_of(link: FakeBrokerLink) -> TestClient:
    return TestClient(application(link, is_loopback=True), base_url="http://127.0.0.1:8161")


def posted(request: object, user: tuple[str, str] = VERA, link: FakeBrokerLink | None = None) -> dict[str, object]:
    answer = client_of(link or FakeBrokerLink()).post("/api/jolokia", json=request, auth=user)
    assert answer.status_code == 200
    content: dict[str, object] = answer.json()
    return content


def fetched(path: str) -> dict[str, object]:
    answer = client_of(FakeBrokerLink()).get(f"/api/jolokia/{path}", auth=VERA)
    assert answer.status_code == 200
    content: dict[str, object] = answer.json()
    return content


def peopled() -> FakeBrokerLink:
    """A broker with an object of each kind."""
    link = FakeBrokerLink()
    consumer: dict[str, object] = {
        "consumer_id": "ID:c:1:1", "client_id": "c", "user_name": "u", "destination": "queue://A", "selector": None,
        "durable": None, "in_flight": 2, "dispatched": 5, "dequeued": 3, "pending": 0, "connection_id": "ID:c",
        "session": 1, "number": 1, "slow": True, "prefetch_size": 10,
    }  # fmt: skip
    link.answers["consumers"] = [
        consumer,
        {**consumer, "consumer_id": "ID:c:1:2", "destination": "topic://T", "durable": "s", "prefetch_size": 7},
    ]
    subscription: dict[str, object] = {
        "client_id": "c", "name": "s", "topic": "topic://T", "selector": None, "active": True, "pending": 4,
        "in_flight": 1,
    }  # fmt: skip
    link.answers["subscriptions"] = [subscription, {**subscription, "name": "away", "active": False, "pending": 9}]
    producer: dict[str, object] = {
        "producer_id": "ID:c:1:1", "client_id": "c", "destination": "queue://A", "connection_id": "ID:c",
        "waiting_sends": 1,
    }  # fmt: skip
    link.answers["producers"] = [producer, {**producer, "producer_id": "ID:c:1:2", "destination": None}]
    connection: dict[str, object] = {
        "connection_id": "ID:c", "client_id": "c", "remote_address": "tcp://10.0.0.1:5", "connector": "openwire",
        "consumers": 2, "producers": 2, "slow": False,
    }  # fmt: skip
    link.answers["connections"] = [connection, {**connection, "connection_id": "ID:d", "client_id": None}]
    link.answers["branches"] = [
        {"xid": "XID:1", "format_id": 7, "global_id": "ff01", "branch_qualifier": "", "user_name": "u"}
    ]
    job: dict[str, object] = {
        "job_id": "ID:j:1", "due_ms": 0, "cron": "", "delay_ms": 5, "period_ms": 0, "repeat": 0,
    }  # fmt: skip
    link.answers["jobs"] = [job, {**job, "job_id": "ID:j:2", "due_ms": 9_000, "cron": "* * * * *"}]
    link.answers["link-destinations"] = [
        {"name": "to-billing", "uri": "tcp://billing:61616", "accepted": False, "direction": "outbound",
         "destination": "queue://A", "messages": 7, "rate": 0.5}
    ]  # fmt: skip
    link.answers["slow-consumer-strategies"] = [
        {"name": "queue://A", "max_slow_count": -1, "max_slow_ms": 30_000, "check_period_ms": 30_000,
         "max_since_ack_ms": None, "ignores_idle": True, "ignores_network": True,
         "slow": [{"consumer_id": "ID:c:1:1", "slow_count": 2, "mark_count": 1},
                  {"consumer_id": "ID:gone", "slow_count": 1, "mark_count": 0}]}
    ]  # fmt: skip
    link.answers["summary"] = {
        **SUMMARY,
        "network_connectors": [LINK, {**LINK, "name": "from-depot", "uri": "tcp://h:9", "accepted": True}],
        "network_settings": [
            {"name": "to-billing", "uri": "static:(tcp://billing:61616)", "autoStart": True, "prefetchSize": 1000},
            {"name": "from-depot", "uri": "tcp://h:9", "autoStart": None},
        ],
        "bridges": [
            {"name": "j", "state": "running", "up": True, "gave_up": False, "forwarded": 3, "quality": "AT",
             "aborted": 1}
        ],
        "stores": [{"name": "KahaDB[/d]", "directory": "/d", "size_bytes": 5}],
    }  # fmt: skip
    link.answers["bridge-parameters"] = {"broker": "orders", "bridge": "j", "parameters": PARAMETERS}
    return link


PARAMETERS = {"maxBatchSize": 500, "selector": "a = 1", "sourcePassword": "****", "clientID": None}


def all_names(link: FakeBrokerLink) -> list[str]:
    value = posted({"type": "search", "mbean": "*:*"}, VERA, link)["value"]
    assert isinstance(value, list)
    return [str(name).removeprefix(f"{BROKER},") for name in value]


def test_every_kind_of_object_has_activemqs_name() -> None:
    connector = "connector=clientConnectors,connectorName=openwire"
    assert all_names(peopled()) == [
        BROKER,
        connector,
        f"{connector},connectionViewType=clientId,connectionName=c",
        f"{connector},connectionViewType=remoteAddress,connectionName=tcp_//10.0.0.1_5",
        f"{connector},connectionViewType=remoteAddress,connectionName=tcp_//10.0.0.1_5",
        "destinationType=Queue,destinationName=A",
        "destinationType=Topic,destinationName=T",
        "destinationType=Queue,destinationName=A,endpoint=Consumer,clientId=c,consumerId=ID_c_1_1",
        "destinationType=Topic,destinationName=T,endpoint=Consumer,clientId=c,consumerId=Durable(c_s)",
        "destinationType=Topic,destinationName=T,endpoint=Consumer,clientId=c,consumerId=Durable(c_away)",
        "destinationType=Queue,destinationName=A,endpoint=Producer,clientId=c,producerId=ID_c_1_1",
        "endpoint=dynamicProducer,clientId=c,producerId=ID_c_1_2",
        "connector=networkConnectors,networkConnectorName=to-billing",
        "connector=networkConnectors,networkConnectorName=to-billing,networkBridge=tcp_//billing_61616",
        "connector=duplexNetworkConnectors,networkConnectorName=from-depot,networkBridge=tcp_//h_9",
        "connector=jmsConnectors,jmsConnectors=j",
        "transactionType=RecoveredXaTransaction,xid=XID_1",
        "service=JobScheduler,name=JMS",
        "service=Health",
        "service=PersistenceAdapter,instanceName=KahaDB[/d]",
        "service=SlowConsumerStrategy,instanceName=queue_//A",
    ]


A_CONSUMER = f"{QUEUE},endpoint=Consumer,clientId=c,consumerId=ID_c_1_1"
AWAY = f"{BROKER},destinationType=Topic,destinationName=T,endpoint=Consumer,clientId=c,consumerId=Durable(c_away)"
SUBSCRIBED = AWAY.replace("c_away", "c_s")
CONNECTION = f"{BROKER},connector=clientConnectors,connectorName=openwire,connectionViewType=clientId,connectionName=c"
BRANCH = f"{BROKER},transactionType=RecoveredXaTransaction,xid=XID_1"
SCHEDULER = f"{BROKER},service=JobScheduler,name=JMS"
BILLING = f"{BROKER},connector=networkConnectors,networkConnectorName=to-billing"
CONNECTOR = f"{BROKER},connector=clientConnectors,connectorName=openwire"
A_LINK = f"{BILLING},networkBridge=tcp_//billing_61616"
A_PRODUCER = f"{QUEUE},endpoint=Producer,clientId=c,producerId=ID_c_1_1"
STRATEGY = f"{BROKER},service=SlowConsumerStrategy,instanceName=queue_//A"
JMS = f"{BROKER},connector=jmsConnectors,jmsConnectors=j"


@pytest.mark.parametrize(
    ("mbean", "attributes"),
    [
        (A_CONSUMER, {"DestinationName": "A", "DestinationQueue": True, "DestinationTopic": False, "Active": True,
                      "SlowConsumer": True, "DispatchedQueueSize": 2, "ConsumedCount": 3, "Durable": False,
                      "Connection": {"objectName": CONNECTION}}),
        (AWAY, {"Active": False, "Durable": True, "PendingQueueSize": 9, "SubscriptionName": "away"}),
        (SUBSCRIBED, {"Active": True, "PendingQueueSize": 4, "PrefetchSize": 7, "DestinationTopic": True}),
        (f"{QUEUE},endpoint=Producer,clientId=c,producerId=ID_c_1_1", {"ProducerBlocked": True, "ClientId": "c"}),
        (f"{BROKER},endpoint=dynamicProducer,clientId=c,producerId=ID_c_1_2", {"DestinationName": None}),
        (CONNECTION, {"Active": True, "RemoteAddress": "tcp://10.0.0.1:5",
                      "Consumers": [{"objectName": A_CONSUMER}, {"objectName": SUBSCRIBED}]}),
        (QUEUE, {"Subscriptions": [{"objectName": A_CONSUMER}]}),
        (BILLING, {"Name": "to-billing", "PrefetchSize": 1000, "AutoStart": True}),
        (f"{BILLING},networkBridge=tcp_//billing_61616",
         {"RemoteBrokerName": "billing", "LocalBrokerName": "orders", "EnqueueCounter": 5, "DequeueCounter": 4}),
        (f"{BROKER},connector=duplexNetworkConnectors,networkConnectorName=from-depot,networkBridge=tcp_//h_9",
         {"CreatedByDuplex": True, "ReceivedCounter": 0}),
        (JMS, {"Started": True, "Failed": False, "Paused": False, "MessageCount": 3, "AbortedMessageCount": 1,
               "MaxBatchSize": 500, "Selector": "a = 1", "SourcePassword": "****", "ClientID": None}),
        (BRANCH, {"FormatId": 7, "GlobalTransactionId": [-1, 1], "BranchQualifier": []}),
        (SCHEDULER, {"ScheduledMessageCount": 2, "DelayedMessageCount": 1}),
        (f"{BROKER},service=Health", {"CurrentStatus": "Good"}),
        (BROKER, {"TotalQueuesCount": 1, "TotalConsumerCount": 2, "UptimeMillis": 12_500,
                  "TransportConnectors": {"openwire": "tcp://127.0.0.1:61616"},
                  "Queues": [{"objectName": QUEUE}], "QueueSubscribers": [{"objectName": A_CONSUMER}],
                  "DurableTopicSubscribers": [{"objectName": SUBSCRIBED}], "TopicSubscribers": [],
                  "InactiveDurableTopicSubscribers": [{"objectName": AWAY}], "TemporaryQueues": []}),
    ],
)  # fmt: skip
def test_an_object_has_activemqs_attributes(mbean: str, attributes: dict[str, object]) -> None:
    request = {"type": "read", "mbean": mbean, "attribute": list(attributes)}
    assert posted(request, VERA, peopled()).get("value") == attributes


def test_the_jobs_of_the_scheduler_are_a_table_by_id() -> None:
    value = posted({"type": "read", "mbean": SCHEDULER, "attribute": "AllJobs"}, VERA, peopled())["value"]
    assert isinstance(value, dict)
    assert value["ID:j:2"]["cronEntry"] == "* * * * *"
    first = posted({"type": "read", "mbean": SCHEDULER, "attribute": "NextScheduleJobs"}, VERA, peopled())["value"]
    assert isinstance(first, dict)
    assert list(first) == ["ID:j:1"]


def test_a_request_for_one_kind_of_object_asks_the_broker_for_no_other() -> None:
    link = peopled()
    posted({"type": "read", "mbean": f"{BROKER},service=Health"}, VERA, link)
    assert {command for command, _ in link.asked} == {"login", "summary", "changes", "subscriptions"}


def test_a_queue_that_is_younger_than_the_view_is_read_and_operated_at_once() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    link.answers["destinations"] = [destination("queue://B")]
    requests = [
        {"type": "read", "mbean": QUEUE, "attribute": "QueueSize"},
        {"type": "read", "mbean": BROKER, "attribute": "TotalQueuesCount"},
    ]
    assert [one["status"] for one in client.post("/api/jolokia", json=requests, auth=ANNA).json()] == [404, 200]
    link.answers["destinations"] = [destination("queue://A"), destination("queue://B")]
    operation = {"type": "exec", "mbean": QUEUE, "operation": "purge"}
    answers = client.post("/api/jolokia", json=[operation, requests[0]], auth=ANNA).json()
    assert [one["status"] for one in answers] == [200, 200]


def test_many_names_that_are_not_there_cost_the_broker_one_answer_for_each_list() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    missing = [{"type": "read", "mbean": f"{QUEUE}{number}"} for number in range(MAX_REQUESTS)]
    client.post("/api/jolokia", json=missing[:1], auth=VERA)
    before = link.count("changes")
    answers = client.post("/api/jolokia", json=missing, auth=VERA).json()
    assert {one["status"] for one in answers} == {404}
    assert link.count("changes") == before + 1


SOON, LATER = (time.strftime(DATE, time.localtime(seconds)) for seconds in (9, 99))


@pytest.mark.parametrize(
    ("mbean", "operation", "arguments", "command", "passed"),
    [
        (CONNECTOR, "stop", [], "connector-stop", {"connectors": ["openwire"]}),
        (CONNECTOR, "start", [], "connector-start", {"connectors": ["openwire"]}),
        (CONNECTION, "stop", [], "disconnect", {"client": "ID:c"}),
        (BILLING, "stop", [], "network-stop", {"connectors": ["to-billing"]}),
        (BILLING, "start", [], "network-start", {"connectors": ["to-billing"]}),
        (JMS, "stop", [], "bridge-pause", {"bridges": ["j"]}),
        (JMS, "start", [], "bridge-resume", {"bridges": ["j"]}),
        (JMS, "pause", [], "bridge-pause", {"bridges": ["j"]}),
        (JMS, "resume", [], "bridge-resume", {"bridges": ["j"]}),
        (JMS, "restart", [], "bridge-restart", {"bridges": ["j"]}),
        (AWAY, "browse", [], "browse-subscription", {"client_id": "c", "name": "away"}),
        (AWAY, "browseAsTable", [], "browse-subscription", {"client_id": "c", "name": "away"}),
        (AWAY, "destroy", [], "remove-subscription", {"client_id": "c", "name": "away"}),
        (BRANCH, "heuristicCommit", [], "commit-branch", {"xid": "XID:1"}),
        (BRANCH, "heuristicRollback", [], "roll-back-branch", {"xid": "XID:1"}),
        (SCHEDULER, "removeJob", ["ID:j:1"], "job-remove", {"job_id": "ID:j:1"}),
        (SCHEDULER, "removeAllJobs", [], "jobs-remove", {}),
        (SCHEDULER, "removeAllJobs", [SOON, LATER], "jobs-remove", {"from_ms": 9_000, "to_ms": 99_000}),
        (SCHEDULER, "removeAllJobsAtScheduledTime", [SOON], "jobs-remove", {"from_ms": 9_000, "to_ms": 9_999}),
        (BROKER, "addNetworkConnector", ["static:(tcp://h:1)"], "network-add", {"uri": "static:(tcp://h:1)"}),
        (BROKER, "removeNetworkConnector", ["NC"], "network-remove", {"connectors": ["NC"]}),
        (BROKER, "addConnector", ["stomp://h:1"], "connector-add", {"uri": "stomp://h:1"}),
        (BROKER, "removeConnector", ["stomp"], "connector-remove", {"connectors": ["stomp"]}),
        (CONNECTOR, "resetStatistics", [], "connector-reset", {"connectors": ["openwire"]}),
        (A_CONSUMER, "resetStatistics", [], "reset-consumer", {"consumer_id": "ID:c:1:1"}),
        (SUBSCRIBED, "resetStatistics", [], "reset-consumer", {"consumer_id": "ID:c:1:2"}),
        (A_PRODUCER, "resetStatistics", [], "reset-producer", {"producer_id": "ID:c:1:1"}),
        (A_PRODUCER, "resetFlowControlStats", [], "reset-producer", {"producer_id": "ID:c:1:1", "only_waits": True}),
        (A_LINK, "resetStats", [], "network-reset", {"name": "to-billing", "uri": "tcp://billing:61616"}),
        (
            f"{A_LINK},direction=outbound,destinationType=Queue,destinationName=A",
            "resetStats",
            [],
            "network-reset",
            {"name": "to-billing", "uri": "tcp://billing:61616", "direction": "outbound", "destination": "queue://A"},
        ),
        (STRATEGY, "abortConsumer", [A_CONSUMER], "end-consumer", {"consumer_id": "ID:c:1:1"}),
        (STRATEGY, "abortConsumer", [{"objectName": A_CONSUMER}], "end-consumer", {"consumer_id": "ID:c:1:1"}),
        (STRATEGY, "abortConnection", [A_CONSUMER], "disconnect", {"client": "ID:c"}),
    ],
)
def test_other_objects_have_activemqs_operations(
    mbean: str, operation: str, arguments: list[object], command: str, passed: dict[str, object]
) -> None:
    link = peopled()
    request = {"type": "exec", "mbean": mbean, "operation": operation, "arguments": arguments}
    assert posted(request, VERA, link)["status"] == 403
    assert posted(request, ANNA, link)["status"] == 200
    asked, given = link.asked[-1]
    assert (asked, {name: value for name, value in given.items() if name != "handle"}) == (command, passed)


@pytest.mark.parametrize(
    ("mbean", "operation", "arguments", "value"),
    [
        (CONNECTOR, "connectionCount", [], 3),
        (QUEUE, "cursorSize()", [], 3),
        (QUEUE, "doesCursorHaveMessagesBuffered", [], True),
        (QUEUE, "doesCursorHaveSpace", [], True),
        (AWAY, "cursorSize", [], 9),
        (AWAY, "doesCursorHaveSpace", [], True),
        (A_CONSUMER, "isMatchingQueue", ["A"], True),
        (A_CONSUMER, "isMatchingQueue", ["B"], False),
        (A_CONSUMER, "isMatchingTopic", ["A"], False),
        (SUBSCRIBED, "isMatchingTopic", ["T"], True),
        (BROKER, "getTransportConnectorByType", ["tcp"], "tcp://127.0.0.1:61616"),
        (BROKER, "getTransportConnectorByType", ["stomp"], None),
        (f"{BROKER},service=Health", "healthStatus", [], "Good"),
        (f"{BROKER},service=Health", "healthList", [], []),
    ],
)
def test_operations_that_only_show_something_ask_the_broker_for_nothing_else(
    mbean: str, operation: str, arguments: list[object], value: object
) -> None:
    link = peopled()
    request = {"type": "exec", "mbean": mbean, "operation": operation, "arguments": arguments}
    assert posted(request, VERA, link).get("value") == value
    assert {command for command, _ in link.asked} <= {"login", *READING}


def test_jobs_of_a_time_are_shown() -> None:
    request = {"type": "exec", "mbean": SCHEDULER, "operation": "getAllJobs", "arguments": [SOON, LATER]}
    value = posted(request, VERA, peopled())["value"]
    assert isinstance(value, dict)
    assert list(value) == ["ID:j:2"]
    wrong = posted({**request, "arguments": ["soon", LATER]}, VERA, peopled())
    assert (wrong["status"], "2026-01-31" in str(wrong["error"])) == (400, True)


LOGGING = f"{BROKER},service=Log4JConfiguration"


def logging_link() -> FakeBrokerLink:
    link = peopled()
    link.answers["log-level"] = [{"logger": "root", "level": "info"}, {"logger": "spanwire.network", "level": "debug"}]
    return link


def test_levels_of_loggers_are_read_and_set_by_an_administrator() -> None:
    link = logging_link()
    value = posted({"type": "read", "mbean": LOGGING}, ANNA, link)["value"]
    assert value == {
        "RootLogLevel": "INFO",
        "Loggers": [{"name": "root", "level": "INFO"}, {"name": "spanwire.network", "level": "DEBUG"}],
    }
    request = {"type": "exec", "mbean": LOGGING, "operation": "setLogLevel", "arguments": ["spanwire.web", "WARN"]}
    assert posted(request, ANNA, link)["status"] == 200
    assert {key: link.asked[-1][1][key] for key in ("logger", "level")} == {
        "logger": "spanwire.web",
        "level": "warning",
    }
    assert posted({"type": "read", "mbean": LOGGING}, OTTO, link)["status"] == 404


def test_listed_attributes_are_written_and_answered_with_their_value_before() -> None:
    link = logging_link()
    written = posted({"type": "write", "mbean": LOGGING, "attribute": "RootLogLevel", "value": "DEBUG"}, ANNA, link)
    assert (written["status"], written["value"]) == (200, "INFO")
    assert {key: link.asked[-1][1][key] for key in ("logger", "level")} == {"logger": "root", "level": "debug"}
    measure = {"type": "write", "mbean": QUEUE, "attribute": "AdvancedMessageStatisticsEnabled", "value": True}
    assert posted(measure, VERA, link)["status"] == 403
    assert link.count("statistics") == 0
    assert posted(measure, OTTO, link)["status"] == 200
    assert posted({**measure, "value": "yes"}, OTTO, link)["status"] == 400
    given = next(arguments for command, arguments in link.asked if command == "statistics")
    assert (given["destinations"], given["enabled"]) == (["queue://A"], True)


@pytest.mark.parametrize(
    ("mbean", "attribute", "value", "command", "passed"),
    [
        (BROKER, "MemoryLimit", 5_000, "limits", {"memory_limit_bytes": 5_000}),
        (BROKER, "StoreLimit", 0, "limits", {"store_limit_bytes": 0}),
        (BROKER, "TempLimit", "7", "limits", {"temporary_limit_bytes": 7}),
        (BROKER, "MaxUncommittedCount", 9, "limits", {"maximum_uncommitted": 9}),
        (QUEUE, "MemoryLimit", 5, "settings", {"destinations": ["queue://A"], "memory_limit_bytes": 5}),
        (QUEUE, "ProducerFlowControl", False, "settings",
         {"destinations": ["queue://A"], "producer_flow_control": False}),
        (STRATEGY, "MaxSlowCount", -1, "strategy-change", {"name": "queue://A", "max_slow_count": -1}),
        (STRATEGY, "IgnoreNetworkConsumers", False, "strategy-change",
         {"name": "queue://A", "ignores_network": False}),
    ],
)  # fmt: skip
def test_limits_are_written_by_an_administrator(
    mbean: str, attribute: str, value: object, command: str, passed: dict[str, object]
) -> None:
    link = peopled()
    link.answers["summary"] = {**as_object(link.answers["summary"]), "maximum_uncommitted": 1}
    request = {"type": "write", "mbean": mbean, "attribute": attribute, "value": value}
    assert posted(request, OTTO, link)["status"] == 403
    assert posted({**request, "value": "much"}, ANNA, link)["status"] == 400
    assert link.count(command) == 0
    assert posted(request, ANNA, link)["status"] == 200
    given = next(arguments for asked, arguments in link.asked if asked == command)
    assert {name: one for name, one in given.items() if name != "handle"} == passed


@pytest.mark.parametrize(
    ("attribute", "value", "before", "settings"),
    [
        ("MaxBatchSize", 7, 500, {"maxBatchSize": "7"}),
        ("Selector", "", "a = 1", {"selector": None}),
        ("SourcePassword", "x", "****", {"sourcePassword": "x"}),
    ],
)
def test_parameters_of_a_bridge_are_written_by_an_administrator(
    attribute: str, value: object, before: object, settings: dict[str, object]
) -> None:
    link = peopled()
    request = {"type": "write", "mbean": JMS, "attribute": attribute, "value": value}
    assert posted(request, OTTO, link)["status"] == 403
    assert link.count("bridge-change") == 0
    written = posted(request, ANNA, link)
    assert (written["status"], written["value"]) == (200, before)
    given = next(arguments for asked, arguments in link.asked if asked == "bridge-change")
    assert {name: one for name, one in given.items() if name != "handle"} == {"name": "j", "settings": settings}


def as_object(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def test_a_strategy_lists_slow_consumers_that_are_there() -> None:
    value = posted({"type": "read", "mbean": STRATEGY}, VERA, peopled())["value"]
    assert value == {
        "MaxSlowCount": -1, "MaxSlowDuration": 30_000, "CheckPeriod": 30_000, "IgnoreIdleConsumers": True,
        "IgnoreNetworkConsumers": True,
        "SlowConsumers": [{"Consumer": {"objectName": A_CONSUMER}, "SlowCount": 2, "MarkCount": 1}],
    }  # fmt: skip


def test_a_consumer_that_is_not_there_is_not_aborted() -> None:
    link = peopled()
    request = {"type": "exec", "mbean": STRATEGY, "operation": "abortConsumer", "arguments": [f"{A_CONSUMER}9"]}
    assert posted(request, ANNA, link)["status"] == 400
    assert link.count("end-consumer") == 0


def test_a_subscription_without_a_subscriber_has_no_counters_to_reset() -> None:
    link = peopled()
    request = {"type": "exec", "mbean": AWAY, "operation": "resetStatistics"}
    assert posted(request, ANNA, link)["status"] == 500
    assert link.count("reset-consumer") == 0


def browsed(operation: str, *arguments: object) -> tuple[object, dict[str, object]]:
    link = FakeBrokerLink()
    link.answers["browse"] = {
        "messages": [
            {"message_id": "ID:m:1", "kind": "TextMessage", "destination": "queue://A", "persistent": True,
             "priority": 4, "timestamp_ms": 1_793_000_000_123, "redelivery_count": 1, "body": "x",
             "properties": {"a": "b", "n": 7, "t": True, "d": 0.5}, "broker_path": ["ID:1", "ID:2"]},
            {"message_id": "ID:m:2", "kind": "BytesMessage", "destination": "queue://A", "persistent": False,
             "priority": 4, "timestamp_ms": 1 << 62, "redelivery_count": 0, "body": {"base64": "/wE="}},
        ]
    }  # fmt: skip
    mbean = BROKER if operation == "browseQueue" else QUEUE
    request = {"type": "exec", "mbean": mbean, "operation": operation, "arguments": list(arguments)}
    assert posted(request, VERA, link)["status"] == 403
    value = posted(request, OTTO, link)["value"]
    given = link.asked[-1][1]
    return value, {name: one for name, one in given.items() if name not in ("handle", "limit")}


def test_messages_have_the_names_of_activemqs_composite_data() -> None:
    value, given = browsed("browse")
    assert given == {"destination": "queue://A"}
    assert isinstance(value, list)
    first, second = value
    assert first["JMSTimestamp"] == "2026-10-26T07:33:20Z"
    assert (first["JMSMessageID"], first["JMSDeliveryMode"], first["JMSRedelivered"]) == ("ID:m:1", "PERSISTENT", True)
    assert (first["Text"], first["BrokerPath"]) == ("x", "ID:1, ID:2")
    assert first["StringProperties"] == {"a": {"key": "a", "value": "b"}}
    assert first["LongProperties"] == {"n": {"key": "n", "value": 7}}
    assert (list(first["BooleanProperties"]), list(first["DoubleProperties"])) == (["t"], ["d"])
    assert (second["JMSDeliveryMode"], second["BodyLength"], second["BodyPreview"]) == ("NON-PERSISTENT", 2, [-1, 1])
    assert second["JMSTimestamp"] == str(1 << 62)


@pytest.mark.parametrize(
    ("operation", "arguments", "given"),
    [
        ("browse", ["a = 1"], {"destination": "queue://A", "selector": "a = 1"}),
        ("browseMessages", [], {"destination": "queue://A"}),
        ("browseAsTable", ["a = 1"], {"destination": "queue://A", "selector": "a = 1"}),
        ("getMessage", ["ID:'m"], {"destination": "queue://A", "selector": "JMSMessageID = 'ID:''m'"}),
        ("browseQueue", ["B"], {"destination": "queue://B"}),
    ],
)
def test_a_queue_is_browsed_in_activemqs_ways(
    operation: str, arguments: list[object], given: dict[str, object]
) -> None:
    value, passed = browsed(operation, *arguments)
    assert passed == given
    assert isinstance(value, dict if operation == "getMessage" else list)


def test_a_text_is_sent_with_headers() -> None:
    link = FakeBrokerLink()
    headers = {"JMSPriority": 7, "timeToLive": "500", "JMSDeliveryMode": 1, "JMSXGroupID": "g", "own": True}
    request = {"type": "exec", "mbean": QUEUE, "operation": "sendTextMessage", "arguments": [headers, "x"]}
    assert posted(request, OTTO, link)["status"] == 200
    given = link.asked[-1][1]
    assert {name: given[name] for name in given if name != "handle"} == {
        "destination": "queue://A", "body": "x", "priority": 7, "lifetime_ms": 500, "persistent": False, "group": "g",
        "properties": {"own": True},
    }  # fmt: skip
    assert posted({**request, "arguments": ["no object", "x"]}, OTTO, link)["status"] == 400
    for number in ("9" * 5_000, "9" * 20, "-1", "high"):
        assert posted({**request, "arguments": [{"JMSPriority": number}, "x"]}, OTTO, link)["status"] == 400


def queried(filter_: object, page: object = 1, size: object = 10, operation: str = "queryQueues") -> dict[str, object]:
    link = FakeBrokerLink()
    names = ("queue://C.EMPTY", "queue://B.FULL", "queue://A.FULL", "topic://T", "topic://ActiveMQ.Advisory.X")
    link.answers["destinations"] = [
        destination(name, pending=index if "FULL" in name else 0) for index, name in enumerate(names, 1)
    ]
    text = filter_ if isinstance(filter_, str) else json.dumps(filter_)
    request = {"type": "exec", "mbean": BROKER, "operation": operation, "arguments": [text, page, size]}
    answer = posted(request, VERA, link)
    return json.loads(str(answer["value"])) if answer["status"] == 200 else answer


@pytest.mark.parametrize(
    ("filter_", "names"),
    [
        ("", ["A.FULL", "B.FULL", "C.EMPTY"]),
        ({"name": "FULL"}, ["A.FULL", "B.FULL"]),
        ({"filter": "nonEmpty", "sortColumn": "queueSize", "sortOrder": "desc"}, ["A.FULL", "B.FULL"]),
        ({"filter": "nonEmpty", "sortColumn": "queueSize"}, ["B.FULL", "A.FULL"]),
        ({"filter": "empty"}, ["C.EMPTY"]),
        ({"filter": "noConsumer"}, []),
    ],
)
def test_queues_are_queried_with_a_filter(filter_: object, names: list[str]) -> None:
    found = queried(filter_)
    rows = found["data"]
    assert isinstance(rows, dict)
    assert [row["name"] for row in rows.values()] == names
    assert found["count"] == len(names)


def test_a_query_has_pages_and_small_first_letters() -> None:
    found = queried({}, 2, 2)
    rows = found["data"]
    assert isinstance(rows, dict)
    assert list(rows) == [f"{BROKER},destinationType=Queue,destinationName=C.EMPTY"]
    assert (found["count"], next(iter(rows.values()))["queueSize"]) == (3, 0)
    topics = queried({"filter": "nonAdvisory"}, operation="queryTopics")["data"]
    assert isinstance(topics, dict)
    assert [row["name"] for row in topics.values()] == ["T"]


@pytest.mark.parametrize(
    ("filter_", "page", "size"), [("[", 1, 1), ("[1]", 1, 1), ({"filter": "odd"}, 1, 1), ("", 0, 1), ("", 1, "many")]
)
def test_s24_a_wrong_query_is_refused(filter_: object, page: object, size: object) -> None:
    assert queried(filter_, page, size)["status"] == 400


def test_a_link_shows_its_messages_by_destination() -> None:
    link = peopled()
    row = {"name": "to-billing", "uri": "tcp://billing:61616", "accepted": False, "direction": "outbound"}
    link.answers["link-destinations"] = [
        {**row, "destination": "queue://A", "messages": 7, "rate": 0.5},
        {**row, "destination": None, "messages": 1, "rate": 0.1},
    ]
    place = f"{BILLING},networkBridge=tcp_//billing_61616,direction=outbound"
    name = f"{place},destinationType=Queue,destinationName=A"
    assert posted({"type": "read", "mbean": name}, VERA, link)["value"] == {"Name": "A", "Count": 7, "Rate": 0.5}
    assert posted({"type": "search", "mbean": f"{place},*"}, VERA, link)["value"] == [name]


def test_a_pattern_finds_the_destinations_of_links_only_if_it_has_their_direction() -> None:
    link = peopled()
    link.answers["link-destinations"] = []
    for mbean in ("*:*", "org.apache.activemq:type=Broker,*"):
        assert posted({"type": "search", "mbean": mbean}, VERA, link)["status"] == 200
    assert link.count("link-destinations") == 0
    posted({"type": "search", "mbean": "org.apache.activemq:type=Broker,direction=*,*"}, VERA, link)
    assert link.count("link-destinations") == 1


def test_an_added_network_connector_is_answered_with_its_name() -> None:
    link = peopled()
    link.answers["network-add"] = [{"name": "NC", "uri": "tcp://h:1", "state": "connecting"}]
    link.answers["network-remove"] = [{"name": "NC", "uri": "tcp://h:1", "state": "removed"}]
    request = {"type": "exec", "mbean": BROKER, "operation": "addNetworkConnector", "arguments": ["static:(tcp://h:1)"]}
    assert posted(request, ANNA, link)["value"] == "NC"
    removal = {**request, "operation": "removeNetworkConnector(java.lang.String)", "arguments": ["NC"]}
    assert posted(removal, ANNA, link)["value"] is True


def test_an_attribute_of_a_queue_has_activemqs_name() -> None:
    answer = posted({"type": "read", "mbean": QUEUE, "attribute": "EnqueueCount"})
    assert (answer["value"], answer["status"]) == (10, 200)
    assert answer["request"] == {"type": "read", "mbean": QUEUE, "attribute": "EnqueueCount"}
    assert fetched(f"read/{QUEUE}/EnqueueCount")["value"] == 10
    assert fetched(f"read/{QUEUE}/QueueSize,DequeueCount")["value"] == {"QueueSize": 3, "DequeueCount": 7}


def test_a_bean_without_named_attributes_shows_all() -> None:
    value = posted({"type": "read", "mbean": QUEUE})["value"]
    assert isinstance(value, dict)
    assert (value["Name"], value["QueueSize"], value["ConsumerCount"]) == ("A", 3, 1)
    broker = posted({"type": "read", "mbean": BROKER})["value"]
    assert isinstance(broker, dict)
    assert (broker["BrokerName"], broker["TotalEnqueueCount"], broker["MemoryPercentUsage"]) == ("orders", 14, 20)


def test_the_order_of_a_names_properties_has_no_meaning() -> None:
    name = "org.apache.activemq:destinationName=A,destinationType=Queue,brokerName=orders,type=Broker"
    assert posted({"type": "read", "mbean": name, "attribute": "QueueSize"})["value"] == 3


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("org.apache.activemq:type=Broker,brokerName=*", 1),
        ("org.apache.activemq:type=Broker,brokerName=*,destinationType=Queue,destinationName=*", 1),
        ("org.apache.activemq:type=Broker,*", 21),
        ("org.apache.*:type=Broker,brokerName=orders,destinationType=*,destinationName=?", 2),
        ("java.lang:type=Memory", 0),
        ("*:*", 21),
        ("*:connector=clientConnectors,connectionViewType=*,*", 3),
        ("*:*,endpoint=Consumer", 3),
        ("*:*,endpoint=Producer", 1),
        ("*:*,endpoint=dynamicProducer", 1),
        ("*:*,networkBridge=*", 2),
        ("*:*,service=*", 4),
    ],
)
def test_a_search_finds_beans_by_pattern(pattern: str, found: int) -> None:
    value = posted({"type": "search", "mbean": pattern}, VERA, peopled())["value"]
    assert isinstance(value, list)
    assert len(value) == found


def test_a_read_with_a_pattern_shows_each_bean() -> None:
    pattern = f"{BROKER},destinationType=*,destinationName=*"
    value = posted({"type": "read", "mbean": pattern, "attribute": "EnqueueCount"})["value"]
    assert value == {
        QUEUE: {"EnqueueCount": 10},
        QUEUE.replace("Queue,", "Topic,").replace("=A", "=T"): {"EnqueueCount": 4},
    }


def test_version_and_list_tell_what_there_is() -> None:
    assert isinstance(fetched("version")["value"], dict)
    assert isinstance(fetched("")["value"], dict)
    listed = fetched("list")["value"]
    assert isinstance(listed, dict)
    bean = listed["org.apache.activemq"][QUEUE.partition(":")[2]]
    assert set(bean["op"]) == {name for table in (EXECUTABLE, ANSWERS) for name, _ in table["queue"]}
    assert bean["attr"]["QueueSize"]["rw"] is False


def test_several_requests_come_in_one_list() -> None:
    requests = [{"type": "version"}, {"type": "read", "mbean": "x:y=z"}, 7, {}]
    answers = client_of(FakeBrokerLink()).post("/api/jolokia", json=requests, auth=VERA).json()
    assert [answer["status"] for answer in answers] == [200, 404, 400, 400]
    many = client_of(FakeBrokerLink()).post("/api/jolokia", json=[{}] * (MAX_REQUESTS + 1), auth=VERA)
    assert many.status_code == 400


def test_an_operation_runs_with_the_handle_of_its_caller() -> None:
    link = FakeBrokerLink()
    assert posted({"type": "exec", "mbean": QUEUE, "operation": "purge()"}, OTTO, link)["status"] == 200
    command, arguments = link.asked[-1]
    assert (command, arguments["destinations"]) == ("purge", ["queue://A"])
    link.answers["retry"] = [{"destination": "queue://A", "retried": 2, "left": 0}]
    assert posted({"type": "exec", "mbean": QUEUE, "operation": "retryMessages"}, OTTO, link)["value"] == 2


@pytest.mark.parametrize(
    ("mbean", "operation", "arguments", "command", "passed"),
    [
        (QUEUE, "removeMessage(java.lang.String)", ["ID:a'b"], "purge",
         {"destinations": ["queue://A"], "selector": "JMSMessageID = 'ID:a''b'", "limit": 1}),
        (QUEUE, "removeMatchingMessages", ["n > 1", 5], "purge",
         {"destinations": ["queue://A"], "selector": "n > 1", "limit": 5}),
        (QUEUE, "moveMatchingMessagesTo", ["n > 1", "B"], "move",
         {"destinations": ["queue://A"], "selector": "n > 1", "target": "B"}),
        (QUEUE, "copyMessageTo", ["ID:1", "topic://B"], "copy",
         {"destinations": ["queue://A"], "selector": "JMSMessageID = 'ID:1'", "target": "topic://B", "limit": 1}),
        (QUEUE, "sendTextMessage", ["hello"], "send", {"destination": "queue://A", "body": "hello"}),
        (BROKER, "addQueue", ["B"], "create", {"destinations": ["queue://B"]}),
        (BROKER, "removeTopic", ["B"], "delete", {"destinations": ["topic://B"]}),
        (BROKER, "createDurableSubscriber", ["c", "n", "T", ""], "create-subscription",
         {"client_id": "c", "name": "n", "topic": "T"}),
    ],
)  # fmt: skip
def test_activemqs_operations_have_its_arguments(
    mbean: str, operation: str, arguments: list[object], command: str, passed: dict[str, object]
) -> None:
    link = FakeBrokerLink()
    request = {"type": "exec", "mbean": mbean, "operation": operation, "arguments": arguments}
    assert posted(request, ANNA, link)["status"] == 200
    asked, given = link.asked[-1]
    assert (asked, {name: value for name, value in given.items() if name != "handle"}) == (command, passed)


def test_an_operation_has_activemqs_value() -> None:
    link = FakeBrokerLink()
    link.answers["move"] = [{"destination": "queue://A", "moved": 3, "left": 0}]
    request = {"type": "exec", "mbean": QUEUE, "operation": "moveMatchingMessagesTo", "arguments": ["n > 1", "B"]}
    assert posted(request, OTTO, link)["value"] == 3
    assert posted({**request, "operation": "moveMessageTo"}, OTTO, link)["value"] is True


def test_a_single_bean_has_the_attributes_that_lists_leave_out() -> None:
    for attribute in ("StatisticsEnabled", "AdvancedMessageStatisticsEnabled"):
        assert posted({"type": "read", "mbean": QUEUE, "attribute": attribute})["value"] is False


def test_s19_an_operation_needs_its_role() -> None:
    link = FakeBrokerLink()
    answer = posted({"type": "exec", "mbean": QUEUE, "operation": "purge"}, VERA, link)
    assert (answer["status"], answer["error_type"]) == (403, "java.lang.SecurityException")
    assert link.count("purge") == 0


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "exec", "mbean": QUEUE, "operation": "addConnector(java.lang.String)", "arguments": ["vm://x"]},
        {"type": "exec", "mbean": BROKER, "operation": "purge"},
        {"type": "exec", "mbean": BROKER, "operation": "terminateJVM", "arguments": [0]},
        {"type": "exec", "mbean": QUEUE, "operation": "__class__"},
        {"type": "exec", "mbean": QUEUE},
        {"type": "exec", "mbean": "java.lang:type=Runtime", "operation": "exec", "arguments": ["id"]},
        {"type": "write", "mbean": QUEUE, "attribute": "MemoryLimit", "value": "much"},
        {"type": "write", "mbean": QUEUE, "attribute": "Name", "value": "B"},
        {"type": "write", "mbean": BROKER, "attribute": {"a": 1}, "value": "B"},
        {"type": "write", "mbean": LOGGING, "attribute": "RootLogLevel", "value": {"a": 1}},
        {"type": "notification", "mbean": QUEUE},
        {"type": "read", "mbean": QUEUE, "attribute": "__dict__"},
        {"type": "read", "mbean": 1},
        {"type": "read", "mbean": QUEUE, "attribute": {"a": 1}},
        {"type": "search", "mbean": "*" * 50},
        {"type": "exec", "mbean": QUEUE, "operation": "purge", "arguments": [1, 2]},
        {"type": "exec", "mbean": QUEUE, "operation": "removeMessage", "arguments": [{"a": 1}]},
        {"type": "exec", "mbean": QUEUE, "operation": "removeMatchingMessages", "arguments": ["n = 1", "many"]},
        {"type": "exec", "mbean": QUEUE, "operation": "addQueue", "arguments": ["B"]},
    ],
)
def test_s20_nothing_generic_is_executed_read_or_written(request_: dict[str, object]) -> None:
    link = FakeBrokerLink()
    assert posted(request_, ANNA, link)["status"] in (400, 403, 404)
    assert {command for command, _ in link.asked} <= {"login", *READING}


def test_s23_a_get_executes_nothing() -> None:
    link = FakeBrokerLink()
    answer = client_of(link).get(f"/api/jolokia/exec/{quote(QUEUE)}/purge", auth=ANNA)
    assert answer.status_code == 405
    assert link.count("purge") == 0


@pytest.mark.parametrize(("body", "status"), [(b"{", 400), (b"[" * 9_000, 400), (b"\xff", 400)])
def test_s24_a_wrong_body_is_refused(body: bytes, status: int) -> None:
    client = client_of(FakeBrokerLink())
    headers = {"Content-Type": "application/json"}
    assert client.post("/api/jolokia", content=body, headers=headers, auth=VERA).status_code == status
    plain = client.post("/api/jolokia", content=b"{}", headers={"Content-Type": "text/plain"}, auth=VERA)
    assert plain.status_code == 415


def test_two_queues_that_share_a_beans_name_are_not_confused() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination("queue://A:1"), destination("queue://A,1")]
    name = f"{BROKER},destinationType=Queue,destinationName=A_1"
    assert posted({"type": "exec", "mbean": name, "operation": "purge"}, ANNA, link)["status"] == 400
    assert link.count("purge") == 0


def test_names_are_quoted_as_activemq_does() -> None:
    link = FakeBrokerLink()
    link.answers["destinations"] = [destination("queue://a=b*c?d'e")]
    value = json.dumps(posted({"type": "search", "mbean": "*:destinationType=*,*"}, VERA, link)["value"])
    assert "destinationName=a&equals;b&asterisk;c&qmark;d_e" in value


def test_a_path_has_escapes() -> None:
    assert split_path("read/a!/b!!c/d") == ["read", "a/b!c", "d"]
    assert split_path("") == [""]


def test_a_list_runs_each_operation_once_when_the_login_ends_in_the_middle() -> None:
    class Restarted(FakeBrokerLink):
        """A broker that starts again after the first purge."""

        async def ask(self, command: str, **arguments: object) -> object:
            answer = await super().ask(command, **arguments)
            if command == "purge" and self.count("purge") == 1:
                self.forget_handles()
            return answer

    link = Restarted()
    purge = {"type": "exec", "mbean": QUEUE, "operation": "purge"}
    browse = {"type": "exec", "mbean": QUEUE, "operation": "browse()"}
    answer = client_of(link).post("/api/jolokia", json=[purge, browse, browse], auth=ANNA)
    assert [one["status"] for one in answer.json()] == [200, 200, 200]
    assert (link.count("purge"), link.count("login")) == (1, 2)
