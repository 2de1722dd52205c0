"""Camel's Spring XML as people write it: done, told of, or refused by name with the line."""

from __future__ import annotations

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.routes.model import To
from spanwire.routes.readers.parsing import RouteFile, read_routes
from spanwire.routes.readers.placeholders import Placeholders

ROUTE = '<route id="r"><from uri="activemq:queue:A"/><to uri="activemq:queue:B"/></route>'
CONTEXT = f"<camelContext>{ROUTE}</camelContext>"
COMPONENT = '<bean id="activemq" class="org.apache.activemq.camel.component.ActiveMQComponent">'
NOT_READ = "its file is not read; give the value of a placeholder with -D NAME=VALUE"
FACTORY = "org.apache.activemq.ActiveMQConnectionFactory"


def parse(inside: str, environment: dict[str, str] | None = None, **definitions: str) -> RouteFile:
    text = f'<beans xmlns="http://x/beans" xmlns:p="http://www.springframework.org/schema/p">\n{inside}\n</beans>'
    return read_routes(text.encode(), "r.xml", Placeholders(definitions, environment or {}))


def source_url(file: RouteFile) -> str:
    return file.routes[0].source.options["url"]


def test_a_bean_inside_a_property_is_followed_to_its_broker() -> None:
    file = parse(f"""{COMPONENT}
<property name="configuration"><bean class="org.apache.camel.component.jms.JmsConfiguration">
<property name="connectionFactory"><bean class="org.apache.activemq.pool.PooledConnectionFactory">
<property name="maxConnections" value="8"/>
<property name="connectionFactory"><bean class="{FACTORY}"><property name="brokerURL"><value>tcp://a:1</value></property>
</bean></property></bean></property></bean></property></bean>{CONTEXT}""")
    assert source_url(file) == "tcp://a:1"
    assert file.warnings == ["r.xml:4: maxConnections of PooledConnectionFactory has no effect here"]


def test_references_and_short_properties_are_read_in_each_of_their_forms() -> None:
    beans = f"""{COMPONENT}<property name="connectionFactory"><ref bean="f"/></property></bean>
<bean id="f" class="{FACTORY}" p:brokerURL="tcp://a:1" p:userName="u"/>"""
    assert parse(beans + CONTEXT).routes[0].source.options["user"] == "u"
    short = f'<bean id="activemq" class="x.JmsComponent" p:connectionFactory-ref="f"/><bean id="f" class="{FACTORY}"/>'
    assert source_url(parse(short + CONTEXT)) == "tcp://127.0.0.1:61616"


def test_placeholders_of_spring_get_values_from_the_command_line_or_the_environment() -> None:
    configurer = """<bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">
<property name="location" value="classpath:broker.properties"/></bean>"""
    beans = (
        f"""{configurer}{COMPONENT}<property name="brokerURL" value="tcp://${{broker.host}}:${{port:61616}}"/></bean>"""
    )
    file = parse(beans + CONTEXT, {"broker.host": "a"}, port="7")
    assert source_url(file) == "tcp://a:7"
    assert file.warnings == [f"r.xml:2: PropertyPlaceholderConfigurer: {NOT_READ}"]
    with pytest.raises(
        ConfigurationError, match=r"^r\.xml:3: \$\{broker\.host\} has no value: give it with -D broker\.host=VALUE$"
    ):
        parse(beans + CONTEXT)


def test_a_bean_that_no_route_uses_may_hold_whatever_spring_reads() -> None:
    other = """<bean class="my.Listener"><property name="names"><list><value>a</value></list></property></bean>
<bean id="data" class="my.DataSource" init-method="open"><property name="url" value="${jdbc.url}"/></bean>
<bean id="manager" class="org.springframework.jms.connection.JmsTransactionManager"><constructor-arg ref="f"/></bean>
<bean id="heir" parent="data"/><bean class="my.Made" factory-bean="data" factory-method="make"/>"""
    assert parse(other + CONTEXT).warnings == []


def test_endpoints_with_a_name_stand_for_their_uris() -> None:
    file = parse("""<camelContext><endpoint id="in" uri="activemq:queue:A?selector=a=1"/>
<endpoint id="out" uri="jms:B"/>
<route><from ref="in"/><to ref="out"/><wireTap uri="ref:out"/></route></camelContext>""")
    (route,) = file.routes
    assert route.source.options["selector"] == "a=1"
    assert [step.endpoint.destination for step in route.steps if isinstance(step, To)] == ["queue://B"] * 2
    with pytest.raises(ConfigurationError, match=r"^r\.xml:2: there is no endpoint 'outt'; did you mean out\?$"):
        parse("""<camelContext><endpoint id="out" uri="jms:B"/><route><from uri="jms:A"/><to ref="outt"/></route>
</camelContext>""")


def test_a_route_that_does_not_start_by_itself_is_not_run() -> None:
    off = ROUTE.replace('id="r"', 'id="off" autoStartup="${start:false}"')
    file = parse(f"<camelContext>{off}{ROUTE}</camelContext>")
    assert [route.name for route in file.routes] == ["r"]
    assert file.warnings == ["r.xml:2: off has autoStartup=false, so it is not run"]
    assert len(parse(f"<camelContext>{off}{ROUTE}</camelContext>", start="true").routes) == 2
    with pytest.raises(ConfigurationError, match=r"^r\.xml:1: there is no route with autoStartup$"):
        parse(CONTEXT.replace("<camelContext", '<camelContext autoStartup="false"'))


def test_properties_of_a_configuration_hold_for_its_endpoints_or_are_named() -> None:
    file = parse(f"""{COMPONENT}
<property name="deliveryPersistent" value="false"/><property name="selector" value="a = 1"/>
<property name="transacted" value="true"/><property name="cacheLevelName" value="CACHE_CONSUMER"/>
<property name="clientID"><null/></property>
</bean>{CONTEXT}""")
    (route,) = file.routes
    (to,) = route.steps
    assert isinstance(to, To)
    assert route.source.options == {"url": "tcp://127.0.0.1:61616", "selector": "a = 1", "destination": "queue://A"}
    assert to.endpoint.options["persistent"] == "false"
    assert file.warnings == ["r.xml:2: transacted, cacheLevelName of ActiveMQComponent have no effect here"]


@pytest.mark.parametrize(
    ("inside", "told"),
    [
        (
            ROUTE.replace("<to", "<script/>\n<to"),
            r"2: the step script of Camel is not supported; it calls Java",
        ),
        (
            ROUTE.replace("<to", "<unmarshal><avro/></unmarshal><to"),
            r"2: the step unmarshal of Camel is not supported; .* Avro and Protobuf are for programs: avro_as",
        ),
        (
            ROUTE.replace("<to", "<filter><simple>${body}</simple></filter><to"),
            r"2: '\$\{body\}' is no condition; write \$\{header.name\} == 'value'",
        ),
        (
            ROUTE.replace("<to", '<setHeader name="h"><constant>${x}</constant></setHeader><to'),
            r"2: \$\{x\} has no value",
        ),
        (ROUTE.replace('id="r"', 'id="r" streamCache="true"'), "2: there is no word of route 'streamCache'; there are"),
        ("<onException/>" + ROUTE, "2: onException needs one <to> for the failed messages"),
        (
            "<restConfiguration/>" + ROUTE,
            "2: there is no element of a camelContext 'restConfiguration'; there are desc",
        ),
        ('<endpoint id="x"/>' + ROUTE, "2: an endpoint needs id and uri"),
    ],
)
def test_what_camel_has_and_routes_have_not_is_refused_by_name(inside: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^r\.xml:{told}") as caught:
        parse(f"<camelContext>{inside}</camelContext>")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("bean", "told"),
    [
        (
            '<bean id="activemq" parent="base"/>',
            "2: activemq is a bean without a class: parent of a bean is not understood; write its class and properties",
        ),
        (
            f'{COMPONENT[:-1]}\nfactory-method="activeMQComponent"><constructor-arg value="tcp://a:1"/></bean>',
            "2: factory-method of a bean is not understood",
        ),
        (
            f'''{COMPONENT}<property name="connectionFactory"><bean class="{FACTORY}">
<constructor-arg value="tcp://a:1"/></bean></property></bean>''',
            "3: <constructor-arg> of a bean is not understood; write its class and properties out",
        ),
        (
            f"""{COMPONENT}<property name="connectionFactory" ref="f"/></bean>
<bean id="f" parent="base"/>""",
            "3: parent of a bean is not understood",
        ),
        (f'{COMPONENT}\n<property name="configuration" ref="b"/></bean>', "2: there is no bean 'b'"),
        ("<alias/>", "2: there is no element 'alias'"),
    ],
)
def test_a_bean_that_would_be_misread_is_refused_by_name(bean: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^r\.xml:{told}"):
        parse(bean + CONTEXT)


def test_a_broker_of_the_command_line_stands_for_a_component_that_would_be_misread() -> None:
    text = f'<beans><bean id="activemq" parent="base"/>{CONTEXT}</beans>'
    file = read_routes(text.encode(), "r.xml", Placeholders({}, {}), {"activemq": "tcp://a:1"})
    assert source_url(file) == "tcp://a:1"


def test_what_has_no_effect_beside_routes_is_told() -> None:
    context = CONTEXT.replace(
        "<route", '<propertyPlaceholder id="p" location="x.properties"/><jmxAgent id="j"/>\n<route'
    )
    assert parse(f'<import resource="beans.xml"/><component-scan base-package="my"/>{context}').warnings == [
        "r.xml:2: <import> has no effect here",
        "r.xml:2: <component-scan> has no effect here",
        f"r.xml:2: <propertyPlaceholder>: {NOT_READ}",
        "r.xml:2: <jmxAgent> has no effect here",
    ]


@pytest.mark.parametrize("inside", ["", "<description>nothing</description>", '<to uri="jms:A"/><from uri="jms:B"/>'])
def test_a_route_that_does_not_begin_with_its_source_is_refused(inside: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^r\.xml:2: a route begins with <from uri=…>$"):
        parse(f"<camelContext><route>{inside}</route></camelContext>")
