from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.model import Aggregate, Choice, Filter, Multicast, Route, SetHeader, To
from spanwire.pipeline.routes.parsing import RouteFile, read_routes
from spanwire.pipeline.routes.placeholders import Placeholders
from spanwire.pipeline.routes.plan import plan_of

SAMPLES = Path(__file__).resolve().parents[3] / "vectors/configurations"
CANARY = "canary-6b1f"
NOTHING = Placeholders({}, {})
TO = 'steps: [{to: "json:/x"}]'


def parse(text: str) -> RouteFile:
    return read_routes(text.encode(), "r.yaml", NOTHING)


def only(text: str) -> Route:
    (route,) = parse(text).routes
    return route


def test_a_route_of_camels_yaml_is_read() -> None:
    route = only(
        """
- route:
    id: orders
    from:
      uri: activemq:queue:ORDERS?username=u&concurrentConsumers=10
      parameters: {brokerURL: "failover:(tcp://a:1,tcp://b:2)", selector: "region = 'us'"}
      steps:
        - filter: {selector: "price > 10"}
        - filter:
            sql: "JMSPriority > 4"
            steps: [{to: "activemq:topic:URGENT"}]
        - setHeader: {name: seen, expression: {constant: yes}}
        - choice:
            when: [{selector: "a = 1", steps: [{to: "activemq:ONE"}]}]
            otherwise: {steps: [{multicast: {steps: [{to: "json:/a"}, {pipeline: {steps: [{to: "csv:///b"}]}}]}}]}
"""
    )
    assert route.name == "orders"
    assert route.source.options == {
        "url": "failover:(tcp://a:1,tcp://b:2)",
        "user": "u",
        "selector": "region = 'us'",
        "destination": "queue://ORDERS",
    }
    plain, branch, header, choice = route.steps
    assert isinstance(plain, Filter) and not plain.is_branch
    assert isinstance(branch, Filter) and branch.is_branch and isinstance(branch.steps[0], To)
    assert branch.steps[0].endpoint.options["destination"] == "topic://URGENT"
    assert isinstance(header, SetHeader) and header.value.text == "yes"
    assert isinstance(choice, Choice) and isinstance(choice.otherwise[0], Multicast)
    copies = choice.otherwise[0].branches
    assert [step.endpoint.options["path"] for branch in copies for step in branch if isinstance(step, To)] == [
        "/a",
        "/b",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "r.yaml: is empty"),
        ("- route: [", "r.yaml:1: the YAML is broken: "),
        ("- rout: {}", "r.yaml:1: there is no word of a route file 'rout'; did you mean route?"),
        ("- brokers: {}", "r.yaml:1: there is no route"),
        ("- &a {from: x}\n- *a", r"r.yaml:2: aliases \(\*name\) are refused"),
        ("- !!python/object:os.system {}", "r.yaml:1: the tag"),
        (f'- from: {{uri: "activmq:queue:A", {TO}}}', "no endpoint scheme 'activmq'; did you mean activemq?"),
        (f'- from: {{uri: "jms:queue:A?selektor=a", {TO}}}', "no parameter 'selektor'; did you mean selector?"),
        (f'- from: {{uri: "jms:queue:A?maxRowsPerBatch=x", {TO}}}', "r.yaml:1: the option maxRowsPerBatch is 'x'"),
        (f'- from: {{uri: "jdbc:x", {TO}, parameters: {{dbtable: t}}}}', "a jdbc table is no source"),
        (
            '- from:\n    uri: "jms:A"\n    steps:\n    - fliter: {}',
            "r.yaml:4: there is no step 'fliter'; did you mean filter",
        ),
        ('- from:\n    uri: "jms:A"\n    steps:\n    - filter:\n        selector: "a ="', "r.yaml:5: expected a value"),
        ('- from: {uri: "jms:A", steps: [{filter: {simple: x}}]}', "the language simple is not understood"),
        ('- from: {uri: "jms:A", steps: [{filter: {constant: x}}]}', "a condition is a selector or sql"),
        ('- from: {uri: "jms:A", steps: [{to: "jms:B", filter: {}}]}', "a step has one name"),
        ('- from: {uri: "jms:A", steps: []}', "the route 'route1' sends its rows nowhere"),
        (f'- from: {{uri: "jms:A", id: a/b, {TO}}}', "the id 'a/b' may hold letters"),
        (f'- from: {{uri: "jms:A", id: a, {TO}}}\n- from: {{uri: "jms:B", id: a, {TO}}}', "there are two routes 'a'"),
        (f'- from: {{uri: "jms:A?clientId={{{{me}}}}", {TO}}}', r"\{\{me\}\} has no value: give it with -D me=VALUE"),
        (
            '- from: {uri: "jms:A", steps: [{to: "jms:B"}, {deduplicate: {watermark: 1 minute}}]}',
            "aggregate and deduplicate stand before the first to",
        ),
        ("- jmsBridge: {source: 'jms:A'}", "jmsBridge needs target"),
        (
            "- jmsBridge: {source: 'jms:A', target: 'jms:B', qualityOfServiceMode: ONCE_AND_ONLY_ONE}",
            "there is no qualityOfServiceMode 'ONCE_AND_ONLY_ONE'; did you mean ONCE_AND_ONLY_ONCE?",
        ),
        ("- jmsBridge: {source: 'jms:A', target: 'jms:B', maxBatchsize: 3}", "did you mean maxBatchSize?"),
        ("- jmsBridge: {source: 'jms:A', target: 'jms:B', failureRetryInterval: -1}", "with maxRetries -1 or 0"),
        ('- from: {uri: "jms:A", steps: [{transform: {function: "os;x.y"}}]}', "write module.name"),
        ('- from: {uri: "jms:A", uri: "jms:B"}', "'uri' is there twice"),
    ],
)
def test_a_bad_file_names_line_word_and_the_closest_known(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_a_topic_is_read_through_a_subscription_named_after_its_route() -> None:
    options = only(f'- from: {{uri: "jms:topic:T", id: news, {TO}}}').source.options
    assert (options["subscription"], options["clientId"]) == ("news", "spanwire.news")
    own = only(f'- from: {{uri: "jms:topic:T?durableSubscriptionName=d&clientId=c", {TO}}}').source.options
    assert (own["subscription"], own["clientId"]) == ("d", "c")


@pytest.mark.parametrize(
    ("mode", "of_source", "of_target"),
    [
        ("AT_MOST_ONCE", "AT_MOST_ONCE", "AT_MOST_ONCE"),
        ("DUPLICATES_OK", None, "DUPLICATES_OK"),
        ("ONCE_AND_ONLY_ONCE", None, "ONCE_AND_ONLY_ONCE"),
    ],
)
def test_a_bridge_does_as_often_as_its_mode_says(mode: str, of_source: str | None, of_target: str) -> None:
    route = only(f"- jmsBridge: {{source: 'jms:A', target: 'jms:B', qualityOfServiceMode: {mode}}}")
    assert route.source.options.get("qualityOfServiceMode") == of_source
    (to,) = route.steps
    assert isinstance(to, To) and to.endpoint.options["qualityOfServiceMode"] == of_target


def test_the_jms_bridge_is_a_route() -> None:
    route = only(
        """
- jmsBridge:
    name: b
    source: {uri: "jms:queue:A"}
    target: "jms:queue:B"
    sourceUsername: u
    selector: "x = 1"
    maxBatchSize: 50
    maxBatchTime: -1
    failureRetryInterval: 200
    maxRetries: -1
    addMessageIDInHeader: true
"""
    )
    assert (route.name, route.patience.retries, route.patience.interval_ms) == ("b", -1, 200)
    options = route.source.options
    assert (options["user"], options["selector"], options["maxRowsPerBatch"]) == ("u", "x = 1", "50")
    header, to = route.steps
    assert isinstance(header, SetHeader) and header.name == "ACTIVEMQ_BRIDGE_MSG_ID_LIST"
    assert isinstance(to, To) and to.endpoint.destination == "queue://B"


def test_camels_four_routes_say_which_broker_they_lack() -> None:
    sample = SAMPLES / "25-camel-four-routes.xml"
    with pytest.raises(ConfigurationError, match=r"xml:31: activemq is vm://local\?….*--broker activemq=URL"):
        read_routes(sample.read_bytes(), "four.xml", NOTHING)
    with pytest.raises(ConfigurationError, match="websphere is reached through MQConnectionFactory"):
        read_routes(sample.read_bytes(), "four.xml", NOTHING, {"activemq": "tcp://a:1"})
    file = read_routes(sample.read_bytes(), "four.xml", NOTHING, {"activemq": "tcp://a:1", "websphere": "tcp://b:2"})
    ends = [(route.source.destination, route.source.options["url"]) for route in file.routes]
    assert ends == [
        ("queue://QueueA", "tcp://a:1"),
        ("topic://TopicA", "tcp://a:1"),
        ("queue://QueueX", "tcp://b:2"),
        ("topic://TopicX", "tcp://b:2"),
    ]


def test_steps_of_camels_xml_are_those_of_its_yaml() -> None:
    xml = b"""<camelContext xmlns="http://camel.apache.org/schema/spring"><route id="r"><from uri="jms:queue:A"/>
<choice><when><selector>a = 1</selector><to uri="jms:queue:B"/></when>
<otherwise><to uri="jms:queue:C"/></otherwise></choice>
<filter><sql>JMSPriority > 4</sql><to uri="json:/x"/></filter>
<setHeader name="h"><constant>v</constant></setHeader><wireTap uri="jms:queue:D"/></route></camelContext>"""
    (route,) = read_routes(xml, "r.xml", NOTHING).routes
    choice, branch, header, tap = route.steps
    assert isinstance(choice, Choice) and len(choice.branches) == 1 and len(choice.otherwise) == 1
    assert isinstance(branch, Filter) and branch.is_branch
    assert isinstance(header, SetHeader) and (header.name, header.value.text) == ("h", "v")
    assert isinstance(tap, To) and tap.is_tap
    with pytest.raises(ConfigurationError, match=r"r\.xml:1: DOCTYPE is refused"):
        read_routes(b"<!DOCTYPE a []><beans/>", "r.xml", NOTHING)


def test_the_plan_says_what_would_be_done_and_no_password() -> None:
    text = """
- brokers: {shop: {url: "tcp://h:1", password: "{{env:PW}}"}}
- errorHandler: {deadLetterChannel: {deadLetterUri: "shop:queue:DEAD"}}
- from:
    uri: shop:queue:A
    steps:
      - aggregate: {window: 1 minute, watermark: 10 seconds, by: {s: "properties['s']::string"}, columns: {n: count(*)}}
      - transform: {select: {text: "to_json(struct(*))"}}
      - to: shop:queue:B
"""
    file = read_routes(text.encode(), "r.yaml", Placeholders({}, {"PW": CANARY}))
    assert isinstance(file.routes[0].steps[0], Aggregate)
    plan = plan_of(file)
    assert CANARY not in plan + repr(file)
    assert plan.splitlines() == [
        "route route1",
        "  from queue://A (password=***, url=tcp://h:1)",
        "  aggregate windows of 1 minute, 10 seconds late at most by s = properties['s']::string: n = count(*)",
        "  select text = to_json(struct(*))",
        "  to queue://B (password=***, url=tcp://h:1)",
        "  rows that fail: to queue://DEAD (password=***, url=tcp://h:1)",
    ]


def test_a_password_inside_a_url_is_in_no_plan() -> None:
    text = f"""
- brokers: {{shop: {{url: "ssl://h:1?transport.keyStorePassword={CANARY}&a=1"}}}}
- from:
    uri: shop:queue:A
    steps:
      - to: {{uri: "jdbc:postgresql://u:{CANARY}@h/b?password={CANARY}&x=1", parameters: {{dbtable: t}}}}
"""
    plan = plan_of(parse(text))
    assert CANARY not in plan + repr(parse(text))
    assert "url=ssl://h:1?transport.keyStorePassword=***&a=1" in plan
    assert "url=jdbc:postgresql:***" in plan


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        (f"format:kafka?kafka.sasl.jaas.config=x {CANARY}&topic=t", "kafka.sasl.jaas.config=***, topic=t"),
        (f"format:mongodb?connection.uri=mongodb://u:{CANARY}@h", "connection.uri=***"),
        (
            f"format:x?sfPassphrase={CANARY}&credentials={CANARY}&auth={CANARY}",
            "auth=***, credentials=***, sfPassphrase=",
        ),
        (f"json:/x?unheard={CANARY}", "unheard=***"),
        (f"parquet:s3a://k:a/{CANARY}@b/x?compression=zstd", "parquet:s3a://***@b/x (compression=zstd)"),
        (f"jdbc:oracle:thin:scott/{CANARY}@h:1521:orcl", "url=jdbc:oracle:***"),
        (f"jdbc:oracle:thin:scott/a?{CANARY}@//h:1521/orcl", "url=jdbc:oracle:***"),
        (f"jdbc:sqlserver://h:1433;password={{a@{CANARY}}};user=u", "url=jdbc:sqlserver:***"),
        (f"jdbc:sqlserver://h:1433;password={CANARY};user=u", "url=jdbc:sqlserver://h:1433***"),
        (f"jdbc:db2://h:50000/b:password={CANARY};user=u;", "url=jdbc:db2://h:50000/b:***"),
        (f"jdbc:mysql://address=(host=h)(password={CANARY})/b", "url=jdbc:mysql://***"),
        ("jdbc:postgresql://h:5432/b", "url=jdbc:postgresql://h:5432/b"),
        (f"jms:queue:B?brokerURL=RAW(tcp://h:1?wireFormat.passphrase={CANARY})", "wireFormat.passphrase=***"),
        (f"jms:queue:B?brokerURL=RAW(tcp://u:a/{CANARY}@h:1)", "url=tcp://***@h:1"),
    ],
)
def test_credentials_of_any_endpoint_are_in_no_plan(endpoint: str, shown: str) -> None:
    parameters = "{dbtable: t}" if endpoint.startswith("jdbc:") else "{}"
    plan = plan_of(parse(f'- from: {{uri: "jms:A", steps: [{{to: {{uri: "{endpoint}", parameters: {parameters}}}}}]}}'))
    assert CANARY not in plan
    assert shown in plan
