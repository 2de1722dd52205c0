"""Beans about JNDI that the native JMS bridges of a broker refer to.

    <bean id="directory" class="org.springframework.jndi.JndiTemplate">
      <property name="environment"><props>
        <prop key="java.naming.factory.initial">com.sun.jndi.ldap.LdapCtxFactory</prop>
      </props></property>
    </bean>

No bean is created. A template becomes the inner element of its reference, with one element ``prop`` for each property
of its environment: the form of TOML.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanwire.documents.element import Attribute, Element
from spanwire.service.config.readers.properties import read_properties
from spanwire.service.config.values.diagnostics import MAX_CLASS, Findings

TEMPLATE: Final = "org.springframework.jndi.JndiTemplate"
WRAPPERS: Final = frozenset({"org.apache.activemq.network.jms.JndiTemplateLookupFactory"})
OBJECT: Final = "org.springframework.jndi.JndiObjectFactoryBean"
FILES: Final = "org.springframework.beans.factory.config.PropertiesFactoryBean"
PROP: Final = "prop"
FILE: Final = "file"
MAX_REFERENCES: Final = 8  # from a template to its environment; ends circles

BeanOf = Callable[[Attribute | None], Element | None]


class JndiBeans:
    """Reads beans about JNDI; ``bean_of`` returns the bean of a reference ``#id``."""

    def __init__(self, findings: Findings, bean_of: BeanOf) -> None:
        self._findings: Final = findings
        self._bean_of: Final = bean_of

    def template(self, bean: Element, name: str) -> Element | None:
        """Return the environment of a template as an element ``name``, or None with an obstacle."""
        current = bean
        for _ in range(MAX_REFERENCES):
            class_name = current.value("class") or ""
            if current.name == name or class_name == TEMPLATE:
                return self._environment_of(current, name)
            inner = self._inner(current, None) if class_name in WRAPPERS else None
            if inner is None:
                break
            current = inner
        shown = (bean.value("class") or f"<{bean.name}>")[:MAX_CLASS]
        self._findings.error(bean.line, f"{name} is {shown}; write a bean of {TEMPLATE} with the property environment")
        return None

    def looked_up(self, bean: Element, name: str) -> tuple[str, Element | None] | None:
        """Return the name and the template of a bean that looks up its object; None for another bean."""
        if bean.value("class") != OBJECT:
            return None
        looked_up = next((_text(child) for child in bean.children if child.value("name") == "jndiName"), "")
        if not looked_up:
            self._findings.error(bean.line, f"the bean of class {OBJECT} has no jndiName")
        for child in bean.children:
            if child.value("name") == "jndiTemplate":
                template = self._inner(bean, "jndiTemplate")
                if template is not None:
                    return looked_up, self.template(template, name)
        element = Element(name, bean.line, namespace="")
        for child in bean.children:
            if child.value("name") == "jndiEnvironment":
                self._read(child, element)
        return looked_up, element

    def _environment_of(self, bean: Element, name: str) -> Element:
        """Return an element with the environment; the element itself may have one in the form of TOML."""
        element = Element(name, bean.line, namespace="", attributes={})
        if bean.name == name:
            element.attributes.update(bean.attributes)
            element.attributes.pop("id", None)
        for child in bean.children:
            if child.name == PROP or (child.name == "environment" and bean.name == name):
                self._read(child, element)
            elif child.name == "constructor-arg" or child.value("name") == "environment":
                self._read(child, element)
            else:
                self._findings.unknown(
                    child.line, f"property of {TEMPLATE}", child.value("name") or "", ["environment"]
                )
        return element

    def _read(self, holder: Element, into: Element, depth: int = 0) -> None:
        """Add the properties in an element: ``prop``, ``entry``, the lines of a text, or the lines of a file."""
        if depth > MAX_REFERENCES:
            return
        key = holder.value("key")
        if holder.name in (PROP, "entry") and key is not None:
            _add(into, key, _text(holder), holder.line)
            return
        value = holder.attributes.get("value")
        for text in (value.value if value is not None else "", holder.text):
            for name, found in read_properties(text).items():
                _add(into, name, found, holder.line)
        _set_file(into, holder.attributes.get("location"))
        self._follow(holder, into, depth + 1)
        for child in holder.children:
            if child.name == "bean":
                self._read_bean(child, into, depth + 1)
            else:
                self._read(child, into, depth + 1)

    def _follow(self, holder: Element, into: Element, depth: int) -> None:
        """Read the bean to which an element refers."""
        for reference in (holder.attributes.get("ref"), holder.attributes.get("bean")):
            bean = None if reference is None else self._bean_of(Attribute(f"#{reference.value}", reference.line))
            if bean is not None:
                self._read_bean(bean, into, depth)
            elif reference is not None:
                self._findings.error(reference.line, f"unknown bean {reference.value[:MAX_CLASS]!r}")

    def _read_bean(self, bean: Element, into: Element, depth: int) -> None:
        if bean.name == "bean" and bean.value("class") not in (FILES, "java.util.Properties", "java.util.Hashtable"):
            shown = (bean.value("class") or "?")[:MAX_CLASS]
            self._findings.error(bean.line, f"an environment by a bean of class {shown} is not read; write <props>")
            return
        for child in bean.children:
            if child.value("name") == "location":
                _set_file(into, child.attributes.get("value"))
            else:
                self._read(child, into, depth)
        _set_file(into, bean.attributes.get("location"))  # of <util:properties>

    def _inner(self, bean: Element, name: str | None) -> Element | None:
        """Return the bean of a property, or of the constructor's argument."""
        for child in bean.children:
            if child.name == "constructor-arg" or child.value("name") == name or name is None:
                if child.children and child.children[0].name == "bean":
                    return child.children[0]
                inner = child.child("ref")
                reference = child.attributes.get("ref") or (None if inner is None else inner.attributes.get("bean"))
                return None if reference is None else self._bean_of(Attribute(f"#{reference.value}", reference.line))
        return None


def _add(into: Element, key: str, value: str, line: int) -> None:
    attributes = {"key": Attribute(key.strip(), line), "value": Attribute(value.strip(), line)}
    into.children.append(Element(PROP, line, namespace="", attributes=attributes))


def _set_file(into: Element, location: Attribute | None) -> None:
    if location is not None:
        into.attributes[FILE] = location


def _text(holder: Element) -> str:
    value = holder.value("value")
    if value is not None:
        return value.strip()
    inner = holder.child("value")
    return (holder.text if inner is None else inner.text).strip()
