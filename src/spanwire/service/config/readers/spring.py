"""Finds the broker in the beans of an ``activemq.xml``, and reads placeholders from configurer beans.

No bean is created. A PropertyPlaceholderConfigurer is a source of placeholders. Other beans and elements of other
frameworks beside the broker are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.documents.element import Element
from spanwire.documents.spelling import closest
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.readers.bridge_beans import BridgeBeans
from spanwire.service.config.readers.camel_beans import LOCATION, CamelBeans
from spanwire.service.config.readers.properties import Variables, read_properties
from spanwire.service.config.readers.web_server import WebServer
from spanwire.service.config.tables.schema_elements import OBJECTS, PROGRAMS
from spanwire.service.config.values.decryption import SETTINGS, Decryption
from spanwire.service.config.values.diagnostics import MAX_CLASS, MAX_WORD, Findings, read_text_file

if TYPE_CHECKING:
    from spanwire.bridges.model.definition import BridgeDefinition

BEANS: Final = "http://www.springframework.org/schema/beans"
CORE: Final = "http://activemq.apache.org/schema/core"
OLD_CORE: Final = "http://activemq.org/config/1.0"
NAMESPACES: Final = frozenset({"", BEANS, CORE, OLD_CORE})

CONFIGURERS: Final = frozenset(
    {
        "org.springframework.beans.factory.config.PropertyPlaceholderConfigurer",
        "org.springframework.context.support.PropertySourcesPlaceholderConfigurer",
        *(
            f"org.jasypt.{package}.properties.EncryptablePropertyPlaceholderConfigurer"
            for package in ("spring", "spring2", "spring3", "spring31", "spring4")
        ),
    }
)
ENCRYPTORS: Final = frozenset(
    {
        "org.jasypt.encryption.pbe.StandardPBEStringEncryptor",
        "org.jasypt.encryption.pbe.config.EnvironmentStringPBEConfig",
        "org.jasypt.encryption.pbe.config.SimpleStringPBEConfig",
    }
)
ENCRYPTOR_LINKS: Final = frozenset(
    {"config", "ivGenerator", "ivGeneratorClassName"}
)  # ignored, because the format follows from other properties
CONFIGURER_SETTINGS: Final = frozenset(
    (
        "fileEncoding ignoreResourceNotFound ignoreUnresolvablePlaceholders localOverride location locations "
        "properties searchSystemEnvironment systemPropertiesMode systemPropertiesModeName"
    ).split()
)
BROKER_SERVICE: Final = "brokerService"  # the same class as that of <broker>
ROUTES: Final = "parts of Camel that no route needs"
LATER_BEANS: Final = {
    "com.ibm.mq.": "bridges to other messaging systems",
    "org.apache.activemq.camel.": ROUTES,
    "org.apache.activemq.": "bridges to other messaging systems",
    "org.apache.camel.": ROUTES,
    "org.springframework.jms.": "bridges to other messaging systems",
    "org.springframework.jndi.": "bridges to other messaging systems",
}
# A bean has no effect unless the broker refers to it, which is checked there. A bean with a class name that suggests
# access control is refused regardless.
GUARDING: Final = re.compile(
    r"ACL|Acl|TLS|Tls|SSL|Ssl|Authenti|Authori|Role|User|"
    r"(?i:certificate|cipher|credential|crypt|firewall|jaas|kerberos|keymanager|keystore|ldap|login|password|"
    r"permission|principal|privilege|realm|saml|security|shiro|truststore|trustmanager)"
)
LOG_QUERIES: Final = frozenset(
    f"{package}.insight.log.log4j.Log4jLogQuery" for package in ("io.fabric8", "org.fusesource")
)
NO_LOG_QUERY: Final = "the broker logs to standard error"
JMS_BRIDGE: Final = re.compile(r"(?:[\w$]+\.)+JMSBridgeImpl")
JETTY_FILE: Final = re.compile(r"(?:classpath:|file:)?(?:[^:]*/)?jetty[\w.\-]*\.xml", re.ASCII)
IMPORTS: Final = ("jetty.xml", "camel.xml")  # usual names of the files that are read
CAMEL_FILE: Final = re.compile(r"(?:classpath:|file:)?(?:[^:]*/)?camel[\w.\-]*\.xml", re.ASCII)
FABRIC_PROPERTIES: Final = "io.fabric8.mq.fabric.ConfigurationProperties"
HARMLESS_BEANS: Final = frozenset(
    {
        "org.apache.activemq.hooks.osgi.SpringOsgiContextHook",  # for Java containers
        "org.jasypt.iv.RandomIvGenerator",
        "org.jasypt.iv.NoIvGenerator",
    }
)
MAX_LOCATIONS: Final = 16  # property files of one document; bounds the files to open

BridgeReader = Callable[[Element, Element, Findings, Variables], tuple[tuple["BridgeDefinition", ...], list[Element]]]


class SpringDocument:
    """A document with the root ``beans`` or ``broker``."""

    def __init__(
        self, root: Element, findings: Findings, variables: Variables, base: Path, decryption: Decryption
    ) -> None:
        self._root: Final = root
        self._findings: Final = findings
        self._variables: Final = variables
        self._base: Final = base
        self._decryption: Final = decryption
        self._web: Final = WebServer(findings, variables, base)
        self._camel: Final = CamelBeans(root, findings, variables, base)
        self._jms_bridges: tuple[BridgeDefinition, ...] = ()
        self._locations = 0
        self._optional = False  # True if property files may be missing

    def broker(self) -> Element | None:
        """Return the broker element; None, with findings, if missing."""
        root = self._root
        if root.name == "broker" and root.namespace in NAMESPACES:
            BridgeBeans(root, self._findings).insert(root)
            self._namespace(root)
            return root
        if root.name != "beans" or root.namespace not in NAMESPACES:
            self._findings.unknown(root.line, "root element", root.name, ["beans", "broker"])
            return None
        brokers = [element for element in root.children if element.name == "broker" and element.namespace in NAMESPACES]
        beans = BridgeBeans(root, self._findings)
        for broker in brokers[:1]:
            beans.insert(broker)
        known = [*brokers, *self._read_jms_bridges(brokers)]
        for element in root.children:
            if any(element is one for one in known) or self._camel.is_used(element):
                continue
            if not beans.is_used(element):
                self._beside_broker(element)
        if not brokers:
            has_bridges = any(JMS_BRIDGE.fullmatch(one.value("class") or "") for one in root.children)
            advice = "; run its bridges with spanwire bridge run" if has_bridges else ""
            advice = advice if not self.camel_documents() else "; run its routes with spanwire bridge run, or import it"
            self._findings.error(root.line, f"<beans> holds no <broker>{advice}")
            return None
        for second in brokers[1:]:
            self._findings.error(second.line, "a second <broker>; start each broker from its own file")
        self._namespace(brokers[0])
        self._web.insert(brokers[0])
        return brokers[0]

    def _read_jms_bridges(self, brokers: list[Element]) -> list[Element]:
        """Read the JMS bridges that stand beside the broker as beans. Returns the beans that they need."""
        bridges = [one for one in self._root.children if JMS_BRIDGE.fullmatch(one.value("class") or "") is not None]
        if not bridges or not brokers:
            return bridges
        read = cast(BridgeReader, registry.load(registry.BRIDGE_BEANS))
        self._jms_bridges, used = read(self._root, brokers[0], self._findings, self._variables)
        return used

    def jms_bridges(self) -> tuple[BridgeDefinition, ...]:
        """Return the JMS bridges beside the broker."""
        return self._jms_bridges

    def camel_documents(self) -> list[tuple[Element, str]]:
        """Return the documents with routes of Camel, each with the name of its file."""
        return self._camel.documents()

    def _namespace(self, broker: Element) -> None:
        if broker.namespace == OLD_CORE:
            self._findings.warn(broker.line, f"the namespace {OLD_CORE} is the old one; write {CORE}")
        pending = list(broker.children)
        while pending:
            element = pending.pop()
            if element.namespace not in NAMESPACES:
                where = element.namespace[:MAX_WORD]
                self._findings.error(
                    element.line, f"<{element.name}> is of the namespace {where}, which is unknown; write {CORE}"
                )
                element.namespace = broker.namespace
            pending.extend(element.children)

    def _beside_broker(self, element: Element) -> None:
        if element.name == "bean" and element.namespace in NAMESPACES:
            self._bean(element)
        elif element.name == "import" and element.namespace in NAMESPACES:
            self._import(element)
        elif element.name == "jetty":
            self._web.read_element(element)
        elif element.name in PROGRAMS and element.namespace in NAMESPACES:
            word = f"<{element.name}> beside the broker"
            self._findings.not_yet(element.line, word, "objects for Java programs in the same file")
        elif element.name == BROKER_SERVICE and element.namespace in NAMESPACES:
            self._findings.error(element.line, f"<{BROKER_SERVICE}> is not read; write <broker>")
        elif element.name in OBJECTS and element.namespace in NAMESPACES:
            word = f"<{element.name}> beside the broker"
            advice = "write it inside of <broker>, where it is used"
            self._findings.not_yet(element.line, word, "an object that others refer to", advice)
        elif element.name in ("alias", "description") and element.namespace in NAMESPACES:
            return  # an alias of a bean, and a text for people
        elif element.namespace not in NAMESPACES:
            where = element.namespace[:MAX_WORD]
            guards = GUARDING.search(element.namespace + element.name) is not None
            self._findings.not_yet(element.line, f"<{element.name}> of the namespace {where}", guards=guards)
        else:
            known = ["bean", "broker", "import", "alias", "description", "jetty", "camelContext"]
            self._findings.unknown(element.line, "element in <beans>", element.name, known)

    def _import(self, element: Element) -> None:
        """Read the web server of an imported ``jetty.xml``, or routes; report another file as unused.

        The likely contents of the file decide whether the broker can do without it. A missing file is an obstacle, too:
        its name may be mistyped.
        """
        resource = element.value("resource") or ""
        word = f"<import> of {resource[:MAX_WORD]!r}"
        if JETTY_FILE.fullmatch(resource):
            self._web.read_import(resource, element.line)
        elif self._camel.take_import(resource, element.line):
            return
        elif CAMEL_FILE.fullmatch(resource):
            self._findings.refuse_or_skip(element.line, f"{word} has no effect: there is no such file with routes")
        else:
            self._findings.error(element.line, f"{word} is not read: {self._why_not_read(resource)}")

    def _why_not_read(self, resource: str) -> str:
        path = self._base / LOCATION.sub("", self._variables.replace(resource))
        if path.exists() or "://" in resource:
            return "only web servers and routes are read from another file; copy its beans here, they may guard access"
        near = closest(path.name, IMPORTS)
        advice = "correct its name, or remove the line" if near is None else f"did you mean {near}?"
        return f"there is no such file in {path.parent}; {advice}"

    def _bean(self, bean: Element) -> None:
        class_name = bean.value("class") or ""
        if class_name in CONFIGURERS:
            self._configurer(bean)
        elif class_name in ENCRYPTORS:
            self._encryptor(bean)
        elif class_name in HARMLESS_BEANS:
            return
        elif class_name in LOG_QUERIES:
            self._findings.warn(bean.line, f"the bean of class {class_name} has no effect: {NO_LOG_QUERY}")
        else:
            self._foreign_bean(bean, class_name)

    def _foreign_bean(self, bean: Element, class_name: str) -> None:
        shown = class_name[:MAX_CLASS] or (bean.value("id") or "?")[:MAX_WORD]
        feature = next((text for prefix, text in LATER_BEANS.items() if class_name.startswith(prefix)), "")
        if not class_name or GUARDING.search(class_name):
            advice = "use the corresponding element; it may guard access, so it is never skipped"
            self._findings.error(
                bean.line, f"the bean of class {shown} is not built: Spanwire runs no Java classes; {advice}"
            )
        elif feature:
            self._findings.not_yet(bean.line, f"the bean of class {shown}", feature)
        else:
            self._findings.refuse_or_skip(
                bean.line, f"the bean of class {shown} is not built: Spanwire runs no Java classes"
            )

    def _configurer(self, bean: Element) -> None:
        self._optional = any(
            (element.value("name"), element.value("value")) == ("ignoreResourceNotFound", "true")
            for element in bean.children
        )
        for element in bean.children:
            name = element.value("name") or ""
            if element.name == "constructor-arg" and element.value("ref") is not None:
                continue  # the encryptor, which applies to the whole file
            if element.name != "property":
                self._findings.unknown(element.line, "element in <bean>", element.name, ["property"])
            elif name not in CONFIGURER_SETTINGS:
                self._findings.unknown(element.line, "property of the placeholder bean", name, CONFIGURER_SETTINGS)
            elif name == "properties":
                self._properties(element)
            elif name in ("location", "locations"):
                for text in _texts(element):
                    self._location(text, element.line)

    def _encryptor(self, bean: Element) -> None:
        """Configure the decryption of ``ENC(…)``: algorithm and source of the password."""
        for element in bean.children:
            name = element.value("name") or ""
            if element.name != "property":
                self._findings.unknown(element.line, "element in <bean>", element.name, ["property"])
            elif name in SETTINGS:
                try:
                    self._decryption.configure(name, self._variables.replace(element.value("value") or ""))
                except ConfigurationError as error:
                    self._findings.error(element.line, f"{name} of the encryptor bean: {error}")
            elif name not in ENCRYPTOR_LINKS:
                known = [*SETTINGS, *ENCRYPTOR_LINKS]
                self._findings.unknown(element.line, "property of the encryptor bean", name, known)

    def _properties(self, element: Element) -> None:
        properties: dict[str, str] = {}
        pending = list(element.children)
        while pending:
            inner = pending.pop(0)
            if inner.name == "prop":
                properties[inner.value("key") or ""] = inner.text.strip()
            elif inner.name in ("props", "value"):
                pending.extend(inner.children)
                properties.update(read_properties(inner.text))
            elif inner.name == "bean" and inner.value("class") == FABRIC_PROPERTIES:
                self._findings.warn(inner.line, f"{FABRIC_PROPERTIES} is read as the environment")
            else:
                self._findings.unknown(inner.line, "element in <property>", inner.name, ["props", "prop", "value"])
        text = element.value("value")
        if text is not None:
            properties.update(read_properties(text))
        properties.pop("", None)
        self._variables.add(properties)

    def _location(self, text: str, line: int) -> None:
        self._locations += 1
        if self._locations > MAX_LOCATIONS:
            self._findings.error(line, f"more than {MAX_LOCATIONS} property files")
            return
        try:
            name = self._variables.replace(text.strip())
        except ConfigurationError as error:
            self._findings.error(line, f"the location of a property file holds a placeholder without a value: {error}")
            return
        if not name.startswith("file:") and ":" in name.partition("/")[0]:
            self._findings.error(line, f"the property file {name[:MAX_WORD]!r} must be a file: location")
            return
        path = self._base / _file_name(name)
        if self._optional and not path.exists():
            return
        try:
            content = read_text_file(path)
            self._variables.add(read_properties(content.decode("utf-8")))
        except ConfigurationError as error:
            self._findings.error(line, str(error))
        except UnicodeDecodeError:
            self._findings.error(line, f"the property file {name[:MAX_WORD]!r} is not in UTF-8")


def _texts(element: Element) -> list[str]:
    """Return the values of a property: the attribute, or ``value`` elements, also inside a ``list``."""
    value = element.value("value")
    if value is not None:
        return value.split(",")
    texts = []
    pending = list(element.children)
    while pending:
        inner = pending.pop(0)
        if inner.name == "value":
            texts.append(inner.text)
        pending.extend(inner.children)
    return texts


def _file_name(location: str) -> str:
    """Return the path of ``file:conf/x``, ``file:/conf/x`` or ``file:///conf/x``."""
    name = location.removeprefix("file:")
    return name[2:] if name.startswith("///") else name
