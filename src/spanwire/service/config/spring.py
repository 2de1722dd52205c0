"""The Spring side of an ``activemq.xml``: finds the broker in it, feeds placeholders from its configurer beans.

No bean is ever made. A PropertyPlaceholderConfigurer is understood as a source of placeholders; any other bean, and
everything of other frameworks beside the broker, is refused by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.service.config.decryption import SETTINGS, Decryption
from spanwire.service.config.document import MAX_WORD, Element, Findings, read_text_file
from spanwire.service.config.properties import Variables, read_properties

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
)  # the format follows from the rest
CONFIGURER_SETTINGS: Final = frozenset(
    (
        "fileEncoding ignoreResourceNotFound ignoreUnresolvablePlaceholders localOverride location locations "
        "properties searchSystemEnvironment systemPropertiesMode systemPropertiesModeName"
    ).split()
)
LATER_BEANS: Final = (
    "com.ibm.mq.",
    "org.apache.activemq.",
    "org.apache.camel.",
    "org.springframework.jms.",
    "org.springframework.jndi.",
)  # parts of bridges and pipelines
FABRIC_PROPERTIES: Final = "io.fabric8.mq.fabric.ConfigurationProperties"
HARMLESS_BEANS: Final = frozenset(
    {
        "org.apache.activemq.hooks.osgi.SpringOsgiContextHook",  # of Java containers
        "org.jasypt.iv.RandomIvGenerator",
        "org.jasypt.iv.NoIvGenerator",
    }
)
MAX_CLASS: Final = 120  # characters of a class name that are repeated in an error
MAX_LOCATIONS: Final = 16  # property files of one document


class SpringDocument:
    """One document whose root is ``beans`` or ``broker``."""

    def __init__(
        self, root: Element, findings: Findings, variables: Variables, base: Path, decryption: Decryption
    ) -> None:
        self._root: Final = root
        self._findings: Final = findings
        self._variables: Final = variables
        self._base: Final = base
        self._decryption: Final = decryption
        self._locations = 0

    def broker(self) -> Element | None:
        """The broker element; None, with the obstacles noted, when there is none."""
        root = self._root
        if root.name == "broker" and root.namespace in NAMESPACES:
            self._namespace(root)
            return root
        if root.name != "beans" or root.namespace not in NAMESPACES:
            self._findings.unknown(root.line, "root element", root.name, ["beans", "broker"])
            return None
        brokers = []
        for element in root.children:
            if element.name == "broker" and element.namespace in NAMESPACES:
                brokers.append(element)
            else:
                self._beside_broker(element)
        if not brokers:
            self._findings.error(root.line, "<beans> holds no <broker>")
            return None
        for second in brokers[1:]:
            self._findings.error(second.line, "a second <broker>; start each broker from its own file")
        self._namespace(brokers[0])
        return brokers[0]

    def _namespace(self, broker: Element) -> None:
        if broker.namespace == OLD_CORE:
            self._findings.warn(broker.line, f"the namespace {OLD_CORE} is the old one; write {CORE}")
        pending = list(broker.children)
        while pending:
            element = pending.pop()
            if element.namespace not in NAMESPACES:
                self._findings.not_yet(
                    element.line, f"<{element.name}> of the namespace {element.namespace[:MAX_WORD]}"
                )
                element.namespace = broker.namespace
            pending.extend(element.children)

    def _beside_broker(self, element: Element) -> None:
        if element.name == "bean" and element.namespace in NAMESPACES:
            self._bean(element)
        elif element.name == "import" and element.namespace in NAMESPACES:
            resource = (element.value("resource") or "")[:MAX_WORD]
            self._findings.not_yet(element.line, f"<import> of {resource!r}")
        elif element.name in ("jetty", "camelContext", "alias", "description") or element.namespace not in NAMESPACES:
            if element.name != "description":
                self._findings.not_yet(element.line, f"<{element.name}>")
        else:
            known = ["bean", "broker", "import", "alias", "description", "jetty", "camelContext"]
            self._findings.unknown(element.line, "element in <beans>", element.name, known)

    def _bean(self, bean: Element) -> None:
        class_name = bean.value("class") or ""
        if class_name in CONFIGURERS:
            self._configurer(bean)
        elif class_name in ENCRYPTORS:
            self._encryptor(bean)
        elif class_name in HARMLESS_BEANS:
            return
        elif class_name.startswith(LATER_BEANS):
            self._findings.not_yet(bean.line, f"the bean of class {class_name[:MAX_CLASS]}")
        else:
            shown = class_name[:MAX_CLASS] or bean.value("id") or "?"
            advice = "Spanwire runs no Java classes; remove it, or use the element that does its work"
            self._findings.error(bean.line, f"the bean of class {shown} is not built: {advice}")

    def _configurer(self, bean: Element) -> None:
        for element in bean.children:
            name = element.value("name") or ""
            if element.name == "constructor-arg" and element.value("ref") is not None:
                continue  # the encryptor; there is one for the whole file
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
        """What decrypts ``ENC(…)``: its algorithm and where its password comes from."""
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
        found: dict[str, str] = {}
        pending = list(element.children)
        while pending:
            inner = pending.pop(0)
            if inner.name == "prop":
                found[inner.value("key") or ""] = inner.text.strip()
            elif inner.name in ("props", "value"):
                pending.extend(inner.children)
                found.update(read_properties(inner.text))
            elif inner.name == "bean" and inner.value("class") == FABRIC_PROPERTIES:
                self._findings.warn(inner.line, f"{FABRIC_PROPERTIES} is read as the environment")
            else:
                self._findings.unknown(inner.line, "element in <property>", inner.name, ["props", "prop", "value"])
        text = element.value("value")
        if text is not None:
            found.update(read_properties(text))
        found.pop("", None)
        self._variables.add(found)

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
        path = Path(_file_name(name))
        try:
            content = read_text_file(path if path.is_absolute() else self._base / path)
            self._variables.add(read_properties(content.decode("utf-8")))
        except ConfigurationError as error:
            self._findings.error(line, str(error))
        except UnicodeDecodeError:
            self._findings.error(line, f"the property file {name[:MAX_WORD]!r} is not in UTF-8")


def _texts(element: Element) -> list[str]:
    """The values of a property: its attribute, or the ``value`` elements inside it or inside its ``list``."""
    value = element.value("value")
    if value is not None:
        return value.split(",")
    found = []
    pending = list(element.children)
    while pending:
        inner = pending.pop(0)
        if inner.name == "value":
            found.append(inner.text)
        pending.extend(inner.children)
    return found


def _file_name(location: str) -> str:
    """``file:conf/x``, ``file:/conf/x`` and ``file:///conf/x`` as a path."""
    name = location.removeprefix("file:")
    return name[2:] if name.startswith("///") else name
