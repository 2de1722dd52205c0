"""Beans that the native JMS bridges of a broker refer to.

    <jmsQueueConnector outboundQueueConnectionFactory="#remote"/>
    <bean id="remote" class="org.apache.activemq.ActiveMQConnectionFactory">
      <property name="brokerURL" value="tcp://berlin:61616"/>
    </bean>

No bean is created. A connection factory becomes the inner element of its reference, with the properties as attributes:
the form of TOML. A pool leads on to its factory.
"""

from __future__ import annotations

import re
from typing import Final

from spanwire.documents.element import Attribute, Element
from spanwire.service.config.readers.jndi_beans import PROP, JndiBeans
from spanwire.service.config.values.diagnostics import MAX_CLASS, MAX_WORD, Findings

CONNECTORS: Final = "jmsBridgeConnectors"
FACTORY_REFERENCES: Final = (
    "outboundQueueConnectionFactory",
    "outboundTopicConnectionFactory",
    "localQueueConnectionFactory",
    "localTopicConnectionFactory",
)
CONNECTION_REFERENCES: Final = {
    name: f"{name}Factory"
    for name in (
        "outboundQueueConnection",
        "outboundTopicConnection",
        "localQueueConnection",
        "localTopicConnection",
    )
}
CONNECTION_METHOD: Final = re.compile(r"create(?:Queue|Topic|XA|XAQueue|XATopic)?Connection")  # of a factory
CONNECTION_CLASS: Final = re.compile(r"org\.apache\.activemq\.ActiveMQ(?:Ssl|XA)?Connection")
CONNECTION_ADVICE: Final = (
    'write factory-bean="…" factory-method="createConnection", or a bean of the connection factory and refer to it'
)
CONVERTOR_REFERENCES: Final = ("inboundMessageConvertor", "outboundMessageConvertor")
POLICY_REFERENCE: Final = "reconnectionPolicy"
DIRECTORY_REFERENCES: Final = ("jndiLocalTemplate", "jndiOutboundTemplate")
REFERENCES: Final = (*CONNECTION_REFERENCES, *FACTORY_REFERENCES, *DIRECTORY_REFERENCES, POLICY_REFERENCE)
PROPERTIES: Final = "http://www.springframework.org/schema/p"  # properties as attributes: p:brokerURL="…"
FACTORY_ELEMENTS: Final = ("connectionFactory", "xaConnectionFactory")
POOL_ELEMENTS: Final = ("pooledConnectionFactory", "xaPooledConnectionFactory")
FACTORY_CLASSES: Final = frozenset(
    {
        *(
            f"org.apache.activemq.ActiveMQ{kind}ConnectionFactory"
            for kind in ("", "Ssl", "XA", "XASsl")  # all of them make connections with one transaction at a time here
        ),
        "org.apache.activemq.spring.ActiveMQConnectionFactory",
        "org.apache.activemq.spring.ActiveMQXAConnectionFactory",
        *(
            f"org.apache.activemq.artemis.jms.client.ActiveMQ{kind}ConnectionFactory"
            for kind in ("", "JMS", "Queue", "Topic", "XA")
        ),
    }
)
POOL_CLASSES: Final = frozenset(
    {
        *(
            f"org.apache.activemq.{package}.{kind}PooledConnectionFactory"
            for package in ("pool", "jms.pool", "spring")
            for kind in ("", "Xa", "Jca")
        ),
        "org.messaginghub.pooled.jms.JmsPoolConnectionFactory",
        "org.springframework.jms.connection.CachingConnectionFactory",
        "org.springframework.jms.connection.SingleConnectionFactory",
    }
)
JAVA: Final = "java"  # the inner element of a factory of another JMS provider
JAVA_FACTORY: Final = re.compile(r"(?!org\.(?:apache\.activemq|springframework)\.)[\w$]+(?:\.[\w$]+)+ConnectionFactory")
POOLED: Final = ("connectionFactory", "targetConnectionFactory")  # properties of a pool
CONSTRUCTORS: Final = {1: ("brokerURL",), 3: ("userName", "password", "brokerURL")}  # by number of arguments
OTHER_NAMES: Final = {"brokerUrl": "brokerURL", "username": "userName"}
MAX_REFERENCES: Final = 8  # from a pool to its factory; ends circles
FEATURE: Final = "bridges to other messaging systems"
POOL: Final = "a bridge has its own connections"


class BridgeBeans:
    """The beans of a document that its bridges need."""

    def __init__(self, root: Element, findings: Findings) -> None:
        self._findings: Final = findings
        self._beans: Final[dict[str, Element]] = {}
        for element in root.children:
            for name in (element.value("id"), *(element.value("name") or "").replace(",", " ").split()):
                if name and element.name != "broker":
                    self._beans.setdefault(name, element)
        self._used: Final[list[Element]] = []
        self._jndi: Final = JndiBeans(findings, self._bean)

    def is_used(self, element: Element) -> bool:
        """Return True if a bridge refers to this element beside the broker."""
        return any(used is element for used in self._used)

    def insert(self, broker: Element) -> None:
        """Replace the references of the broker's bridges. A connector with a wrong reference is left out."""
        for group in broker.children:
            if group.name == CONNECTORS:
                group.children[:] = [connector for connector in group.children if self._is_complete(connector)]

    def _is_complete(self, connector: Element) -> bool:
        is_complete = True
        for name, factory in CONNECTION_REFERENCES.items():
            is_complete = self._has_connection(connector, name, factory) and is_complete
        for name in FACTORY_REFERENCES:
            is_complete = self._has_factory(connector, name) and is_complete
        policy = self._taken(connector, POLICY_REFERENCE)
        if policy is not None:
            connector.children.append(self._with_properties(POLICY_REFERENCE, policy))
        for name in CONVERTOR_REFERENCES:
            reference = connector.attributes.get(name)
            bean = self._taken(connector, name)
            if bean is not None:
                line = bean.line if reference is None else reference.line
                connector.attributes[name] = Attribute(bean.value("class") or "", line)
            elif (
                reference is not None and len(reference.value) > 1 and reference.value[0] == "#"
            ):  # a convertor of the directory of --convertors
                connector.attributes[name] = Attribute(reference.value[1:].strip(), reference.line)
        for name in DIRECTORY_REFERENCES:
            bean = self._taken(connector, name)
            template = None if bean is None else self._jndi.template(bean, name)
            is_complete = is_complete and (bean is None or template is not None)
            if template is not None:
                connector.children.append(template)
        return is_complete and not self._has_unknown(connector)

    def _has_connection(self, connector: Element, name: str, factory: str) -> bool:
        """Let the factory of a connection stand for the connection; return False if there is an obstacle.

        The arguments of the method are the login, in place of that of the connector.
        """
        bean = self._taken(connector, name)
        if bean is None:
            return True
        maker, method = bean.attributes.get("factory-bean"), bean.value("factory-method") or ""
        arguments = [child for child in bean.children if child.name == "constructor-arg"]
        if maker is not None and CONNECTION_METHOD.fullmatch(method) is not None and len(arguments) in (0, 2):
            self._leave_out(connector, factory, name)
            side = "local" if name.startswith("local") else "outbound"
            for word, argument in zip(("Username", "Password"), arguments, strict=False):
                connector.attributes[f"{side}{word}"] = _value(argument)
            connector.attributes[factory] = Attribute(f"#{maker.value.strip()}", maker.line)
            return True
        if CONNECTION_CLASS.fullmatch(bean.value("class") or "") is not None and len(arguments) in CONSTRUCTORS:
            self._leave_out(connector, factory, name)
            class_name = {"class": Attribute("org.apache.activemq.ActiveMQConnectionFactory", bean.line)}
            made = Element("bean", bean.line, attributes=class_name, children=arguments)
            connector.children.append(Element(factory, bean.line, children=[made]))
            return True
        self._findings.not_yet(bean.line, f"{name} by {_shown(bean)}", advice=CONNECTION_ADVICE)
        return False

    def _leave_out(self, connector: Element, factory: str, connection: str) -> None:
        """Leave out the factory beside a connection."""
        if factory not in connector.attributes and connector.child(factory) is None:
            return
        self._findings.warn(connector.line, f"{factory} has no effect beside {connection}")
        self._taken(connector, factory)
        connector.attributes.pop(factory, None)
        connector.children[:] = [child for child in connector.children if child.name != factory]

    def _has_factory(self, connector: Element, name: str) -> bool:
        """Insert the factory of a reference; return False if there is an obstacle."""
        bean = self._taken(connector, name)
        looked_up = None if bean is None else self._jndi.looked_up(bean, _template_of(name))
        if bean is None or looked_up is not None:
            if looked_up is not None:
                self._look_up(connector, name, *looked_up)
            return True
        factory = self._factory(bean, name)
        if factory is not None:
            connector.children.append(factory)
        return factory is not None

    def _look_up(self, connector: Element, name: str, looked_up: str, template: Element | None) -> None:
        """Let a connector look up the factory ``name``, which is a bean that does so."""
        word = "localConnectionFactoryName" if name.startswith("local") else f"{name}Name"
        connector.attributes[word] = Attribute(looked_up, connector.line)
        if template is not None:
            connector.children.append(template)

    def _has_unknown(self, connector: Element) -> bool:
        """Report references to beans that do not exist."""
        unknown = [
            (name, attribute)
            for name, attribute in connector.attributes.items()
            if name in REFERENCES and attribute.value[:1] == "#"
        ]
        for name, attribute in unknown:
            word = f"bean of {name} in <{connector.name}>:"
            self._findings.unknown(attribute.line, word, attribute.value[1:], self._beans, spelt=True)
        return bool(unknown)

    def _bean(self, attribute: Attribute | None) -> Element | None:
        bean = None if attribute is None or attribute.value[:1] != "#" else self._beans.get(attribute.value[1:].strip())
        if bean is not None:
            self._used.append(bean)
        return bean

    def _taken(self, connector: Element, name: str) -> Element | None:
        """Take the bean of a reference, or the bean inside of the element with the reference's name, out."""
        bean = self._bean(connector.attributes.get(name))
        if bean is not None:
            del connector.attributes[name]
            return bean
        holder = connector.child(name)
        if (
            holder is None
            or holder.attributes
            or len(holder.children) != 1
            or holder.children[0].name in (name, PROP, JAVA)
        ):
            return None
        connector.children[:] = [child for child in connector.children if child is not holder]
        return holder.children[0]

    def _factory(self, bean: Element, name: str) -> Element | None:
        """Return the connection factory of a bean as an element ``name``."""
        current: Element | None = bean
        for _ in range(MAX_REFERENCES):
            assert current is not None
            class_name = current.value("class") or ""
            if current.name in FACTORY_ELEMENTS or class_name in FACTORY_CLASSES:
                return self._with_properties(name, current)
            inner = self._pooled(current) if current.name in POOL_ELEMENTS or class_name in POOL_CLASSES else None
            if inner is None:
                if JAVA_FACTORY.fullmatch(class_name) is not None:
                    return self._java_factory(name, current, class_name)
                break
            self._findings.warn(current.line, f"the pool {_shown(current)} has no effect: {POOL}")
            current = inner
        self._findings.not_yet(bean.line, f"{name} by {_shown(bean)}", FEATURE)
        return None

    def _java_factory(self, name: str, bean: Element, class_name: str) -> Element:
        """Return the factory of another JMS provider, which Java makes, as an element ``name``."""
        properties = self._with_properties(JAVA, bean).attributes
        java = Element(JAVA, bean.line, namespace="", attributes={"class": Attribute(class_name, bean.line)})
        for key, value in properties.items():
            attributes = {"key": Attribute(key, value.line), "value": value}
            java.children.append(Element(PROP, value.line, namespace="", attributes=attributes))
        return Element(name, bean.line, namespace="", children=[java])

    def _pooled(self, pool: Element) -> Element | None:
        """Return the factory of a pool; the pool itself stands for a factory if the pool has the URL."""
        for name in POOLED:
            found = self._bean(pool.attributes.get(name))
            if found is not None:
                return found
            for child in pool.children:
                if child.name == name and child.children:
                    return child.children[0]
                if child.name in ("property", "constructor-arg") and child.value("name") in (name, None):
                    if child.children and child.children[0].name in ("bean", *FACTORY_ELEMENTS):
                        return child.children[0]
                    reference = child.attributes.get("ref") or next(
                        (inner.attributes.get("bean") for inner in child.children if inner.name == "ref"), None
                    )
                    if reference is not None:
                        return self._bean(Attribute(f"#{reference.value}", reference.line))
        settings = self._with_properties("connectionFactory", pool)
        url = settings.attributes.get("brokerURL")
        return None if url is None else Element("connectionFactory", pool.line, attributes={"brokerURL": url})

    def _with_properties(self, name: str, bean: Element) -> Element:
        """Return an element with the properties of a bean as attributes."""
        element = Element(name, bean.line, namespace="")
        if bean.name != "bean":
            element.attributes.update(bean.attributes)
            element.children.extend(bean.children)
            return element
        arguments = [child for child in bean.children if child.name == "constructor-arg"]
        for word, argument in zip(CONSTRUCTORS.get(len(arguments), ()), arguments, strict=False):
            element.attributes[word] = _value(argument)
        for (namespace, word), attribute in bean.foreign.items():
            if namespace == PROPERTIES:
                element.attributes[OTHER_NAMES.get(word, word)] = attribute
        for child in bean.children:
            word = child.value("name") or ""
            if child.name == "property" and word:
                element.attributes[OTHER_NAMES.get(word, word)] = _value(child)
            elif child.name not in ("constructor-arg", "description"):
                self._findings.unknown(child.line, "element in <bean>", child.name, ["property", "constructor-arg"])
        return element


def _template_of(factory: str) -> str:
    """Return the word of the template in which the factory of a reference is looked up."""
    return "jndiLocalTemplate" if factory.startswith("local") else "jndiOutboundTemplate"


def _value(holder: Element) -> Attribute:
    """Return the value of a property or of an argument of a constructor."""
    value = holder.attributes.get("value")
    if value is not None:
        return value
    inner = holder.child("value")
    return Attribute("" if inner is None else inner.text.strip(), holder.line)


def _shown(bean: Element) -> str:
    class_name = bean.value("class")
    return f"<{bean.name[:MAX_WORD]}>" if class_name is None else f"a bean of class {class_name[:MAX_CLASS]}"
