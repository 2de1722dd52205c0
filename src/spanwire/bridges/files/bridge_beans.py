"""The JMS bridge of HornetQ and ActiveMQ Artemis as a bean, such as Spring and JBoss configure it.

    <bean id="orders" class="org.apache.activemq.artemis.jms.bridge.impl.JMSBridgeImpl">
      <property name="sourceConnectionFactoryFactory" ref="far"/>
      <property name="selector"><null/></property>
    </bean>
    <bean id="far" class="….JNDIConnectionFactoryFactory"> environment and name </bean>

No bean is created. Values become the parameters of a file of bridges, so both have the same checks. Factories by JNDI,
and beans of connection factories and destinations in their place, are known; other factories are Java programs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from spanwire.bridges.files.jndi_parameters import PREFIX, located
from spanwire.bridges.files.parameters import bridge_of
from spanwire.bridges.jndi.environment import Context, check_name, read_environment
from spanwire.bridges.model.definition import BridgeDefinition, ConnectionFactory
from spanwire.bridges.model.directory import Directory
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.bridges.model.this_broker import THIS_BROKER
from spanwire.documents.element import Element
from spanwire.ldap.ldap_url import parse_ldap_url
from spanwire.model.secret import Secret
from spanwire.routes.readers.nodes import Entry, Location, Mapping, Word

BRIDGE: Final = re.compile(r"(?:[\w$]+\.)+JMSBridgeImpl")
LOOKED_UP: Final = ("JNDIConnectionFactoryFactory", "JNDIDestinationFactory")
ACTIVEMQ_FACTORY: Final = re.compile(r"org\.apache\.activemq\.(?:[\w$]+\.)*ActiveMQ\w*ConnectionFactory")
ANY_FACTORY: Final = re.compile(r"(?:[\w$]+\.)+[\w$]*ConnectionFactory")
DESTINATIONS: Final = {"ActiveMQQueue": "queue://", "ActiveMQTopic": "topic://"}
FACTORIES: Final = ("sourceConnectionFactoryFactory", "targetConnectionFactoryFactory")
DESTINATION_FACTORIES: Final = ("sourceDestinationFactory", "targetDestinationFactory")
# The arguments of the constructors, in order; the last two are those of the longer one.
ARGUMENTS: Final = (
    *FACTORIES,
    *DESTINATION_FACTORIES,
    "sourceUsername",
    "sourcePassword",
    "targetUsername",
    "targetPassword",
    "selector",
    "failureRetryInterval",
    "maxRetries",
    "qualityOfServiceMode",
    "maxBatchSize",
    "maxBatchTime",
    "subscriptionName",
    "clientID",
    "addMessageIDInHeader",
    "mBeanServer",
    "objectName",
)
PROPERTIES: Final = ("failoverTimeout", "messageIDHeader")  # no arguments of a constructor
COUNTS: Final = (17, 19)
OTHER_NAMES: Final = {"MBeanServer": "mBeanServer", "mbeanServer": "mBeanServer"}
WITHOUT_EFFECT: Final[dict[str, str]] = {
    "mBeanServer": "spanwire bridge and the HTTP API show and operate the bridge",
    "objectName": "spanwire bridge and the HTTP API show and operate the bridge",
    "transactionManager": "a bridge is its own transaction manager",
}
FACTORY_PROPERTIES: Final = (
    "brokerURL",
    "userName",
    "password",
    "trustStore",
    "trustStorePassword",
    "keyStore",
    "keyStorePassword",
)
FACTORY_NAMES: Final = {"brokerUrl": "brokerURL", "username": "userName"}  # other spellings of Spring
ARGUMENTS_WITH_LOGIN: Final = ("userName", "password", "brokerURL")  # of the factory's longest constructor
MAX_REFERENCES: Final = 8  # from a bean to the bean in its place; ends circles


@dataclass(slots=True)
class BridgeBeansOfFile:
    """The bridges of a document, the necessary beans, and words without effect as warnings with lines."""

    bridges: list[BridgeDefinition] = field(default_factory=list)
    used: list[Element] = field(default_factory=list)
    warnings: list[tuple[int, str]] = field(default_factory=list)


def read_bridge_beans(
    root: Element, file: str, fill: Callable[[str], str], broker_name: str | None = None
) -> BridgeBeansOfFile:
    """Return the bridges of the beans of a document. ``fill`` replaces placeholders.

    ``vm://`` with ``broker_name`` is the broker that the document configures.

    Raises:
        ConfigurationError: a bean cannot be honoured; the error has the line.
    """
    return _Reader(root, file, fill, broker_name).read()


def has_bridge_beans(root: Element) -> bool:
    """Return True for a document with a bridge as a bean."""
    return any(_is_bridge(element) for element in root.children)


def _is_bridge(element: Element) -> bool:
    return element.name == "bean" and BRIDGE.fullmatch(element.value("class") or "") is not None


class _Reader:
    def __init__(self, root: Element, file: str, fill: Callable[[str], str], broker_name: str | None) -> None:
        self._root: Final = root
        self._file: Final = file
        self._fill: Final = fill
        self._broker_name: Final = broker_name
        self._beans: Final = {element.value("id") or element.value("name"): element for element in root.children}
        self._found: Final = BridgeBeansOfFile()

    def read(self) -> BridgeBeansOfFile:
        names: set[str] = set()
        for element in self._root.children:
            if _is_bridge(element):
                self._found.used.append(element)
                name = element.value("id") or element.value("name") or "JMSBridge"
                if name in names:
                    raise self._at(element).error(f"a second bridge is named {name!r}; names must differ")
                names.add(name)
                self._found.bridges.append(self._bridge(element, name))
        return self._found

    def _at(self, element: Element) -> Location:
        return Location(self._file, element.line)

    def _bridge(self, bean: Element, name: str) -> BridgeDefinition:
        values = dict(self._values(bean))
        factories: dict[str, ConnectionFactory] = {}
        contexts: dict[str, Context] = {}
        words = Mapping(self._at(bean))
        for word, holder in values.items():
            location = self._at(holder)
            if word in FACTORIES:
                key = word.removesuffix("Factory")
                factory, context = self._factory(holder, word)
                factories[key] = factory
                if context is not None:
                    contexts[key] = context
                words.entries[key] = Entry(location, Word(location, key))
            elif word in WITHOUT_EFFECT:
                self._warn(word, holder)
            elif word not in DESTINATION_FACTORIES:
                text = self._text(holder)
                if word == "qualityOfServiceMode" and text is not None:
                    text = text.rpartition(".")[2]  # a constant of the class
                words.entries[word] = Entry(location, Word(location, text))
        for word in DESTINATION_FACTORIES:
            if word in values:
                holder, side = values[word], word.removesuffix("DestinationFactory")
                key = f"{side}ConnectionFactory"
                destination, context = self._destination(holder, word)
                if destination.startswith(PREFIX) and context is not None:
                    contexts[key] = context
                location = self._at(holder)
                words.entries[f"{side}Destination"] = Entry(location, Word(location, destination))
        return replace(bridge_of(words, name, factories, contexts), written_at=str(words.location))

    def _warn(self, word: str, holder: Element) -> None:
        if self._text(holder) is not None or self._refers(holder):
            self._found.warnings.append((holder.line, f"{word} has no effect: {WITHOUT_EFFECT[word]}"))

    def _values(self, bean: Element) -> Iterator[tuple[str, Element]]:
        """Yield the names of parameters with the elements of the values."""
        arguments = [child for child in bean.children if child.name == "constructor-arg"]
        for child in bean.children:
            if child.name == "constructor":  # of JBoss
                arguments += [inner for inner in child.children if inner.name == "parameter"]
        if arguments:
            if len(arguments) not in COUNTS:
                raise self._at(bean).error(
                    f"JMSBridgeImpl has {len(arguments)} arguments here; its constructors have 17 or 19, from the "
                    "source's connection factory to addMessageIDInHeader or to the object name; write properties"
                )
            yield from zip(ARGUMENTS, self._ordered(arguments), strict=False)
        for child in bean.children:
            if child.name == "property":
                word = child.value("name") or ""
                word = OTHER_NAMES.get(word, word)
                known = (*ARGUMENTS, *PROPERTIES, *WITHOUT_EFFECT)
                if word not in known:
                    raise self._at(child).unknown("property of JMSBridgeImpl", word, known)
                yield word, child

    def _ordered(self, arguments: list[Element]) -> list[Element]:
        """Return the arguments of a constructor in their order: as written, or by their ``index``."""
        places: dict[int, Element] = {}
        for position, argument in enumerate(arguments):
            if "name" in argument.attributes:
                raise self._at(argument).error("name of <constructor-arg> is not supported; write index, or properties")
            text = argument.value("index")
            index = position if text is None else int(text) if text.isdecimal() and text.isascii() else len(arguments)
            if index >= len(arguments) or index in places:
                shown = (text or str(index))[:20]
                raise self._at(argument).error(
                    f"index of <constructor-arg> is {shown!r}; write 0 to {len(arguments) - 1}, each once"
                )
            places[index] = argument
        return [places[index] for index in sorted(places)]

    def _text(self, holder: Element) -> str | None:
        """Return the text of a value; None for ``<null/>`` or a bean."""
        value = holder.value("value")
        if value is None:
            inner = holder.child("value")
            value = holder.text if inner is None else inner.text
            if holder.child("null") is not None or (not value.strip() and (holder.children or holder.value("ref"))):
                return None
        return self._fill(value.strip())

    def _refers(self, holder: Element) -> bool:
        """Return True for a value that is a bean, also of a container such as JBoss; note a bean of the document."""
        names = [holder.value("ref"), *(child.value("bean") for child in holder.children)]
        self._found.used += [bean for name in names if name is not None and (bean := self._beans.get(name)) is not None]
        return any(name is not None for name in names) or holder.child("bean") is not None

    def _bean(self, holder: Element) -> Element | None:
        """Return the bean of a value."""
        reference = holder.attributes.get("ref")
        for child in holder.children:
            if child.name == "bean":
                return child
            if child.name in ("ref", "inject"):
                reference = child.attributes.get("bean")
        if reference is None:
            return None
        bean = self._beans.get(reference.value)
        if bean is None:
            names = [name for name in self._beans if name is not None]
            raise Location(self._file, reference.line).unknown("bean", reference.value, names)
        self._found.used.append(bean)
        return bean

    def _needed(self, holder: Element, word: str) -> Element:
        bean = self._bean(holder)
        if bean is None:
            raise self._at(holder).error(f"{word} must be a bean, such as {LOOKED_UP[word in DESTINATION_FACTORIES]}")
        return bean

    def _factory(self, holder: Element, word: str) -> tuple[ConnectionFactory, Context | None]:
        bean = self._needed(holder, word)
        class_name, location = bean.value("class") or "", self._at(bean)
        if class_name.endswith(LOOKED_UP[0]):
            context, name = self._looked_up(bean)
            if isinstance(context, Directory):
                entry = str(parse_ldap_url(context.url).entry(name))
                return ConnectionFactory(entry, provider="ldap", directory=context), context
            factory = located(location, lambda: context.factory(name))
            return self._reached(factory, location), context
        properties = {
            child.value("name") or "": self._text(child) or "" for child in bean.children if child.name == "property"
        }
        if ACTIVEMQ_FACTORY.fullmatch(class_name) is not None:
            return self._reached(self._activemq_factory(bean, class_name, properties), location), None
        if ANY_FACTORY.fullmatch(class_name) is not None:
            pairs = tuple((name, Secret(text)) for name, text in properties.items())
            return ConnectionFactory(f"jvm:{class_name}", provider="jvm", java=JavaFactory(class_name, pairs)), None
        raise location.error(
            f"{word} is {class_name[:120] or 'a bean without a class'}, a Java program that does not run here; write "
            f"{LOOKED_UP[0]}, or a bean of the connection factory itself"
        )

    def _activemq_factory(self, bean: Element, class_name: str, properties: dict[str, str]) -> ConnectionFactory:
        """Return the factory of a bean of ActiveMQ or Artemis, with its address, login and stores."""
        arguments = [self._text(child) or "" for child in bean.children if child.name == "constructor-arg"]
        if len(arguments) == len(ARGUMENTS_WITH_LOGIN):
            properties = {**dict(zip(ARGUMENTS_WITH_LOGIN, arguments, strict=True)), **properties}
        words = {FACTORY_NAMES.get(name, name): text for name, text in properties.items()}
        for child in bean.children:
            name = child.value("name") or ""
            if child.name == "property" and FACTORY_NAMES.get(name, name) not in FACTORY_PROPERTIES:
                warning = f"{name} of {class_name} has no effect: the bridge decides how it receives and sends"
                self._found.warnings.append((child.line, warning))
        url = words.get("brokerURL") or (arguments[-1] if arguments else "")
        if not url:
            raise self._at(bean).error(f"the bean of class {class_name} has no brokerURL")
        for store in ("trustStore", "keyStore"):
            if words.get(f"{store}Password") and not words.get(store):
                raise self._at(bean).error(f"{store}Password needs {store}")
        return ConnectionFactory(
            url,
            words.get("userName") or None,
            _secret(words, "password"),
            words.get("trustStore") or None,
            _secret(words, "trustStorePassword"),
            words.get("keyStore") or None,
            _secret(words, "keyStorePassword"),
        )

    def _reached(self, factory: ConnectionFactory, location: Location) -> ConnectionFactory:
        """Return a factory with ``vm:`` for the broker of the document.

        Other brokers inside of processes are refused.
        """
        url = factory.url.lower()
        if not url.startswith(("vm:", "peer:")):
            return factory
        if self._broker_name is not None and factory.url.partition("?")[0].rstrip("/") == f"vm://{self._broker_name}":
            return replace(factory, url=THIS_BROKER)
        raise location.error(
            f"{url.partition(':')[0]}: is a broker inside another process; write the address where the broker listens"
        )

    def _destination(self, holder: Element, word: str) -> tuple[str, Context | None]:
        text = self._text(holder)
        if text:
            return text, None
        bean = self._needed(holder, word)
        class_name = bean.value("class") or ""
        if class_name.endswith(LOOKED_UP[1]):
            context, name = self._looked_up(bean)
            return f"{PREFIX}{name}", context
        prefix = DESTINATIONS.get(class_name.rpartition(".")[2])
        names = [
            self._text(child)
            for child in bean.children
            if child.name == "constructor-arg" or child.value("name") in ("physicalName", "address", "name")
        ]
        if prefix is None or not names or not names[0]:
            raise self._at(bean).error(
                f"{word} is {class_name[:120] or 'a bean without a class'}, which names no destination here; write "
                f"{LOOKED_UP[1]}, or a bean of ActiveMQQueue or ActiveMQTopic"
            )
        return f"{prefix}{names[0]}", None

    def _looked_up(self, bean: Element) -> tuple[Context, str]:
        """Return the context and the name of a factory by JNDI: its environment and a text."""
        holders = [child for child in bean.children if child.name in ("constructor-arg", "property")]
        for child in bean.children:
            if child.name == "constructor":
                holders += [inner for inner in child.children if inner.name == "parameter"]
        texts = [text for holder in holders if (text := self._text(holder))]
        environment: dict[str, str] = {}
        for holder in holders:
            self._read_environment(holder, environment, 0)
        location = self._at(bean)
        if not texts:
            raise location.error(f"the bean of class {bean.value('class')} has no name to look up")
        name = located(location, lambda: check_name(texts[-1]))
        return located(location, lambda: read_environment(environment)), name

    def _read_environment(self, holder: Element, into: dict[str, str], depth: int) -> None:
        if depth > MAX_REFERENCES:
            return
        key = holder.value("key")
        if key is not None and holder.name in ("prop", "entry"):
            into[key] = self._text(holder) or ""
            return
        inner_key, inner_value = holder.child("key"), holder.child("value")
        if holder.name == "entry" and inner_key is not None:  # of JBoss
            into[inner_key.text.strip()] = self._fill((inner_value.text if inner_value is not None else "").strip())
            return
        bean = self._bean(holder) if holder.name in ("constructor-arg", "property", "parameter") else None
        for child in (*holder.children, *(() if bean is None else bean.children)):
            self._read_environment(child, into, depth + 1)


def _secret(words: dict[str, str], name: str) -> Secret | None:
    text = words.get(name)
    return Secret(text) if text else None
