from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.options import write_options
from spanwire.routes.endpoints import MAX_PARAMETERS
from spanwire.routes.expressions import sql_of
from spanwire.routes.model import SPARK, Aggregate, Choice, Filter, Multicast, Patience, Route, SetHeader, To
from spanwire.routes.plan import plan_of
from spanwire.routes.readers.parsing import RouteFile, read_routes
from spanwire.routes.readers.placeholders import Placeholders
from tests.support.certificates import Authority

SAMPLES = Path(__file__).resolve().parents[3] / "vectors/configurations"
CANARY = "canary-6b1f"
NOTHING = Placeholders({}, {})
URL = "tcp://127.0.0.1:61616"
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
        (
            f'- from: {{uri: "other:queue:A", {TO}}}',
            r"did you mean timer\? For a broker write --broker other=URL, or name it in brokers of the file",
        ),
        (f'- brokers: {{far: {{url: "tcp://f:1"}}}}\n- from: {{uri: "fra:queue:A", {TO}}}', "'fra'; did you mean far?"),
        (f'- from: {{uri: "shop:queue:A", {TO}}}', "for a broker write --broker shop=URL, or name it in brokers of"),
        (f'- from: {{uri: "jms:queue:A?selektor=a", {TO}}}', "no parameter 'selektor'; did you mean selector?"),
        (f'- from: {{uri: "jms:queue:A?maxRowsPerBatch=x", {TO}}}', "r.yaml:1: the option maxRowsPerBatch is 'x'"),
        (f'- from: {{uri: "jdbc:x", {TO}, parameters: {{dbtable: t}}}}', "a jdbc table is no source"),
        (
            '- from: {uri: "jms:A", steps: [{to: {uri: "jdbc:x", parameters: {dbtable: t, qualityOfServiceMode: x}}}]}',
            "qualityOfServiceMode of a jdbc table is DUPLICATES_OK or ONCE_AND_ONLY_ONCE",
        ),
        (
            '- from:\n    uri: "jms:A"\n    steps:\n    - fliter: {}',
            "r.yaml:4: there is no step 'fliter'; did you mean filter",
        ),
        ('- from:\n    uri: "jms:A"\n    steps:\n    - filter:\n        selector: "a ="', "r.yaml:5: expected a value"),
        ('- from: {uri: "jms:A", steps: [{filter: {simple: x}}]}', "'x' is no condition"),
        ('- from: {uri: "jms:A", steps: [{filter: {constant: x}}]}', "a condition is a selector, simple, xpath or sql"),
        ('- from: {uri: "jms:A", steps: [{to: "jms:B", filter: {}}]}', "a step has one name"),
        ('- from: {uri: "jms:A", steps: []}', "the route 'route1' has no endpoint"),
        (f'- from: {{uri: "jms:A", id: a/b, {TO}}}', "the id 'a/b' may hold letters"),
        (f'- from: {{uri: "jms:A", id: a, {TO}}}\n- from: {{uri: "jms:B", id: a, {TO}}}', "there are two routes 'a'"),
        (f'- from: {{uri: "jms:A?clientId={{{{me}}}}", {TO}}}', r"\{\{me\}\} has no value: give it with -D me=VALUE"),
        (
            '- from: {uri: "jms:A", steps: [{to: "jms:B"}, {deduplicate: {watermark: 1 minute}}]}',
            "put aggregate and deduplicate before the first to",
        ),
        (
            '- from: {uri: "jms:A", steps: [{deduplicate: {watermark: 1 minute}},'
            ' {aggregate: {window: 1 hour, watermark: 2 minutes, columns: {n: "count(1)"}}}, {to: "jms:B"}]}',
            "a route has one watermark: write 1 minute of JMSTimestamp here",
        ),
        ("- jmsBridge: {source: 'jms:A'}", "jmsBridge needs target"),
        (
            "- jmsBridge: {source: 'jms:A', target: 'jms:B', qualityOfServiceMode: ONCE_AND_ONLY_ONE}",
            "there is no qualityOfServiceMode 'ONCE_AND_ONLY_ONE'; did you mean ONCE_AND_ONLY_ONCE?",
        ),
        ("- jmsBridge: {source: 'jms:A', target: 'jms:B', maxBatchsize: 3}", "did you mean maxBatchSize?"),
        ("- jmsBridge: {source: 'jms:A', target: 'jms:B', failureRetryInterval: 0}", "with maxRetries -1 or 0"),
        ('- from: {uri: "jms:A", steps: [{transform: {function: "os;x.y"}}]}', "write module.name"),
        (
            '- from: {uri: "jms:A", steps: [{setHeader: {name: n, expression: {constnat: x}}}]}',
            "there is no language 'constnat'; did you mean constant?",
        ),
        (
            "- brokers: {east: {brokerUrl: 'tcp://a:1'}}",
            "there is no word of a broker 'brokerUrl'; there are clientId, ",
        ),
        (
            f'- from: {{uri: "jms:queue:A?{"&".join(f"p{n}=1" for n in range(MAX_PARAMETERS + 1))}", {TO}}}',
            f"more than {MAX_PARAMETERS} parameters",
        ),
        (
            f'- from: {{uri: "jms:queue:A?{"&".join(f"p{n}=1" for n in range(MAX_PARAMETERS))}", {TO}}}',
            "no parameter 'p0'",
        ),
        ('- from: {uri: "jms:A", uri: "jms:B"}', "'uri' is there twice"),
        ("- ? [a]\n  : b", "r.yaml:1: a name must be a text"),
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


def test_a_bridge_reads_a_topic_durably_only_if_its_subscription_has_a_name() -> None:
    plain = only("- jmsBridge: {source: 'jms:topic:T', target: 'jms:B', clientID: c}").source.options
    assert plain == {"url": URL, "destination": "topic://T", "clientId": "c", "subscriptionDurable": "false"}
    named = only(
        "- jmsBridge: {source: 'jms:topic:T', target: 'jms:B', subscriptionName: s, clientID: c}"
    ).source.options
    assert (named["subscription"], named["clientId"], named["subscriptionDurable"]) == ("s", "c", "true")
    assert "subscriptionDurable" not in only("- jmsBridge: {source: 'jms:A', target: 'jms:B'}").source.options
    asked = only(
        "- jmsBridge: {name: b, source: 'jms:topic:T?subscriptionDurable=true', target: 'jms:B'}"
    ).source.options
    assert (asked["subscription"], asked["clientId"]) == ("b", "spanwire.b")
    route = only(f'- from: {{uri: "jms:topic:T?subscriptionDurable=false", {TO}}}').source.options
    assert "subscription" not in route
    with pytest.raises(ConfigurationError, match="the subscription 's' has a name, so it is durable"):
        parse(f'- from: {{uri: "jms:topic:T?subscriptionDurable=false&subscription=s", {TO}}}')


def test_parameters_without_a_value_are_as_if_they_were_not_there() -> None:
    words = "selector: null, clientID:, maxRetries: ~, sourceUsername:, failureRetryInterval:"
    route = only(f"- jmsBridge: {{source: {{uri: 'jms:A', parameters: {{user: }}}}, target: 'jms:B', {words}}}")
    assert route.source.options == {"url": URL, "destination": "queue://A"}
    assert route.patience == Patience(-1, is_growing=False)


def test_a_bridge_has_the_error_handler_of_its_file_or_its_own() -> None:
    handler = '- errorHandler: {deadLetterChannel: {deadLetterUri: "jms:DEAD"}}\n'
    bridge = "- jmsBridge: {source: 'jms:A', target: 'jms:B'"
    assert only(bridge + "}").dead_letters is None
    for text, queue in ((handler + bridge + "}", "DEAD"), (handler + bridge + ", deadLetter: 'jms:OWN'}", "OWN")):
        (route,) = parse(text).routes
        assert route.dead_letters is not None and route.dead_letters.destination == f"queue://{queue}"


@pytest.mark.parametrize(
    ("url", "is_left"),
    [
        ("tcp://a:1", False),
        ("failover:(tcp://b:1,tcp://a:1)", False),
        ("nio://a:1?keepAlive=true", False),
        ("tcp://a:2", True),
        ("ssl://b:1", True),
    ],
)
def test_a_temporary_destination_for_answers_goes_to_its_own_broker_alone(url: str, is_left: bool) -> None:
    brokers = f'- brokers: {{here: {{url: "tcp://a:1"}}, there: {{url: "{url}"}}}}\n'
    (route,) = parse(brokers + "- jmsBridge: {source: 'here:A', target: 'there:B'}").routes
    (to,) = route.steps
    assert isinstance(to, To)
    assert to.endpoint.options.get("dropTemporaryReplyTo") == ("true" if is_left else None)
    assert write_options(to.endpoint.options).drop_temporary_reply is is_left


def test_stores_are_opened_before_anything_is_connected(tmp_path: Path) -> None:
    authority = Authority()
    trust = authority.issue().write_trust_pkcs12(tmp_path / "trust.p12", "secret-1")
    key = authority.issue().write_pkcs12(tmp_path / "key.p12", "secret-2")
    stores = f"trustStore: {trust}, trustStorePassword: %s, keyStore: {key}, keyStorePassword: secret-2"
    text = f'- brokers: {{b: {{url: "ssl://h:1", {stores}}}}}\n- jmsBridge: {{source: "b:A", target: "b:B"}}'
    file = parse(text % "secret-1")
    tls = write_options(file.routes[0].steps[0].endpoint.options).login.tls  # type: ignore[union-attr]
    assert tls is not None and tls.key_store is not None and tls.key_store.path == key
    plan = plan_of(file)
    assert "secret" not in plan and f"trustStore={trust}, trustStorePassword=***" in plan
    with pytest.raises(ConfigurationError, match=r"^r\.yaml:2: .*trust\.p12"):
        parse(text % "wrong")
    with pytest.raises(ConfigurationError, match="tcp://h:1 is not encrypted, so the stores are of no use"):
        parse(text.replace("ssl:", "tcp:") % "secret-1")


def test_stores_of_a_camel_factory_are_those_of_its_broker(tmp_path: Path) -> None:
    trust = Authority().issue().write_certificate(tmp_path / "trust.pem")
    xml = f"""<beans><bean id="activemq" class="x.ActiveMQComponent"><property name="connectionFactory">
<bean class="org.apache.activemq.ActiveMQSslConnectionFactory"><property name="brokerURL" value="ssl://h:1"/>
<property name="trustStore" value="{trust}"/><property name="trustStoreType" value="pkcs12"/></bean></property></bean>
<camelContext><route><from uri="activemq:A"/><to uri="activemq:B"/></route></camelContext></beans>"""
    file = read_routes(xml.encode(), "r.xml", NOTHING)
    assert file.routes[0].source.options["trustStore"] == str(trust)
    assert file.warnings == ["r.xml:2: trustStoreType of ActiveMQSslConnectionFactory has no effect here"]


def test_camels_four_routes_say_which_broker_they_lack() -> None:
    sample = SAMPLES / "25-camel-four-routes.xml"
    with pytest.raises(ConfigurationError, match=r"xml:31: activemq is vm://local\?….*--broker activemq=URL"):
        read_routes(sample.read_bytes(), "four.xml", NOTHING)
    with pytest.raises(ConfigurationError, match=r"OpenWire alone, and websphere has the provider jvm; run .* or give"):
        read_routes(sample.read_bytes(), "four.xml", NOTHING, {"activemq": "tcp://a:1"}).only(SPARK)
    file = read_routes(sample.read_bytes(), "four.xml", NOTHING, {"activemq": "tcp://a:1", "websphere": "tcp://b:2"})
    assert [line.split(": ", 1)[1] for line in file.warnings] == [
        "transportType, hostName, port, queueManager of MQConnectionFactory have no effect here",
    ]
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
- brokers: {{shop: {{url: "ssl://h:1?jms.password={CANARY}&keepAlive=true"}}}}
- from:
    uri: shop:queue:A
    steps:
      - to: {{uri: "jdbc:postgresql://u:{CANARY}@h/b?password={CANARY}&x=1", parameters: {{dbtable: t}}}}
"""
    plan = plan_of(parse(text))
    assert CANARY not in plan + repr(parse(text))
    assert "url=ssl://h:1?jms.password=***&keepAlive=true" in plan
    assert "url=jdbc:postgresql:***" in plan


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("amqp://h:5672", "the engine spark reaches brokers by OpenWire alone, and jms has the provider amqp091"),
        ("stomp://h:61613", "the engine spark reaches brokers by OpenWire alone, and jms has the provider stomp"),
        ("${broker.url}", "is no broker URL"),
        ("h:61616", "write tcp://host:port"),
        ("tcp://h:0", "is not between 1 and 65535"),
        ("tcp://h:1?tcpNodelay=true", "did you mean tcpNoDelay?"),
        ("vm://local", "is a broker inside another process, which Spark's processes do not reach"),
        ("failover:(tcp://a:1,vm://b)", "is a broker inside another process"),
        (f"tcp://u:a/{CANARY}@h:1", "has a user before the host"),
        (f"tcp://h:1?wireFormat.passphrase={CANARY}", "unknown option 'wireFormat.passphrase'"),
    ],
)
@pytest.mark.parametrize("side", ["from", "to", "dead"])
def test_an_address_that_the_client_cannot_speak_is_told_by_the_plan(side: str, url: str, told: str) -> None:
    uris = {
        one: f"jms:queue:A?brokerURL=RAW({url})" if one == side else "jms:queue:B" for one in ("from", "to", "dead")
    }
    with pytest.raises(ConfigurationError) as caught:
        parse(f"""
- errorHandler: {{deadLetterChannel: {{deadLetterUri: "{uris["dead"]}"}}}}
- jmsBridge: {{source: "{uris["from"]}", target: "{uris["to"]}"}}
""").only(SPARK)
    assert told in str(caught.value) and CANARY not in str(caught.value)
    assert str(caught.value).startswith(f"r.yaml:{2 if side == 'dead' else 3}: ")


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
        (f"jms:queue:B?brokerURL=RAW(tcp://h:1?jms.password={CANARY})", "jms.password=***"),
    ],
)
def test_credentials_of_any_endpoint_are_in_no_plan(endpoint: str, shown: str) -> None:
    parameters = "{dbtable: t}" if endpoint.startswith("jdbc:") else "{}"
    plan = plan_of(parse(f'- from: {{uri: "jms:A", steps: [{{to: {{uri: "{endpoint}", parameters: {parameters}}}}}]}}'))
    assert CANARY not in plan
    assert shown in plan


@pytest.mark.parametrize(
    ("words", "patience"),
    [
        ("failureRetryInterval: 1", Patience(-1, 1, is_growing=False)),
        ("failureRetryInterval: -1, maxRetries: 0", Patience(0)),
        ("failureRetryInterval: -1, maxRetries: -1", Patience(-1)),
        ("maxRetries: 7", Patience(7, Patience().interval_ms, is_growing=False)),
    ],
)
def test_a_bridge_tries_again_as_often_and_as_soon_as_it_says(words: str, patience: Patience) -> None:
    assert only(f"- jmsBridge: {{source: 'jms:A', target: 'jms:B', {words}}}").patience == patience


@pytest.mark.parametrize("words", ["failureRetryInterval: 0", "failureRetryInterval: -1, maxRetries: 1"])
def test_a_bridge_that_would_try_again_at_once_or_for_ever_is_refused(words: str) -> None:
    with pytest.raises(ConfigurationError, match="it must be at least 1, or -1 with maxRetries -1 or 0"):
        parse(f"- jmsBridge: {{source: 'jms:A', target: 'jms:B', {words}}}")


def test_functions_are_found_in_all_branches() -> None:
    call = "{transform: {function: f.one}}"
    inner = f"{{filter: {{sql: 'a = 1', steps: [{call.replace('one', 'two')}, {{to: 'json:/y'}}]}}}}"
    found = parse(f'- from: {{uri: "jms:A", steps: [{call}, {inner}, {{to: "json:/x"}}]}}').functions()
    assert [(step.module, step.name) for step in found] == [("f", "one"), ("f", "two")]


@pytest.mark.parametrize(
    ("value", "sql"),
    [("sql: upper(text)", "upper(text)"), ("constant: it's", "'it\\'s'"), ("constant: a\\b", "'a\\\\b'")],
)
def test_a_value_is_sql_or_a_constant_as_it_stands(value: str, sql: str) -> None:
    (header, _) = only(
        f'- from: {{uri: "jms:A", steps: [{{setHeader: {{name: n, {value}}}}}, {{to: "json:/x"}}]}}'
    ).steps
    assert isinstance(header, SetHeader) and sql_of(header.value) == sql


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("setHeader", "name: n, constant: x"),
        ("removeHeader", "name: n"),
        ("removeHeaders", "pattern: 'n*'"),
        ("setBody", "constant: x"),
        ("split", "sql: 'array(text)'"),
        ("aggregate", "window: 1 hour, watermark: 1 hour, columns: {n: 'count(1)'}"),
        ("deduplicate", "key: text, watermark: 1 hour"),
        ("join", "table: 'parquet:/t', 'on': 'message.text = table.k', columns: {text: table.v}"),
        ("choice", "when: [{sql: 'a = 1', steps: [{to: 'json:/y'}]}]"),
        ("multicast", "steps: [{to: 'json:/y'}]"),
        ("filter", "sql: 'a = 1'"),
    ],
)
def test_a_word_that_a_step_does_not_know_is_refused(step: str, words: str) -> None:
    route = f'- from: {{uri: "jms:A", steps: [{{{step}: {{{words}}}}}, {{to: "json:/x"}}]}}'
    assert only(route).steps
    with pytest.raises(ConfigurationError, match=r"^r\.yaml:1: there is no .*'nonsense'"):
        parse(route.replace(words, f"{words}, nonsense: 1"))
