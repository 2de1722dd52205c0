"""Reads ActiveMQ's web server, ``<jetty>`` or an imported ``jetty.xml``, as the element ``<web>``.

Only the address and the file of users count (ActiveMQ, Web Console). Pages, handlers and headers are those of
Spanwire's web process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spanwire.documents.element import Attribute, Element
from spanwire.documents.xml import read_xml
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.readers.properties import Variables
from spanwire.service.config.values.diagnostics import Findings, read_text_file
from spanwire.service.config.web_mounts import APPLICATIONS, MAX_MOUNTS, read_mount

HOST: Final = "jetty.host"  # names that override the address in the file, as for ActiveMQ
PORT: Final = "jetty.port"
ANY_HOST: Final = "0.0.0.0"  # Jetty's, if the file names none
LOCAL_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = "8161"  # of ActiveMQ
PORT_BEAN: Final = "org.apache.activemq.web.WebConsolePort"
CONNECTORS: Final = (".ServerConnector", ".SelectChannelConnector", ".BlockingChannelConnector", ".SocketConnector")
SECURE: Final = ("SslConnectionFactory", "SslSelectChannelConnector", "SslSocketConnector")
REALM: Final = "HashLoginService"
OTHER_REALM: Final = "LoginService"
CONSTRAINT: Final = ".Constraint"
APPLICATION: Final = ".WebAppContext"
EXPRESSION: Final = "#{"  # a value from elsewhere in the file
OWN: Final = "spanwire start --web serves HTTP"


class WebServer:
    """The web server of one document; the first one found counts."""

    def __init__(self, findings: Findings, variables: Variables, base: Path) -> None:
        """``base`` is the directory of the document."""
        self._findings: Final = findings
        self._variables: Final = variables
        self._base: Final = base
        self._element: Element | None = None

    def insert(self, broker: Element) -> None:
        """Add the web server to the broker, unless the broker has a ``<web>`` of its own."""
        element = self._element
        if element is None:
            return
        if broker.child("web") is not None:
            self._findings.warn(element.line, "the web server of ActiveMQ has no effect: <broker> has a <web>")
            return
        element.namespace = broker.namespace
        broker.children.append(element)

    def read_element(self, jetty: Element) -> None:
        """Read ``<jetty>`` of ActiveMQ 5.3 and before, which has no users."""
        connectors = [one for group in jetty.children if group.name == "connectors" for one in group.children]
        for unread in connectors[1:]:
            self._findings.warn(unread.line, f"<{unread.name}> has no effect: one port serves HTTP")
        first = connectors[0] if connectors else jetty
        host, port = first.value("host"), first.value("port")
        if host is None and self._variables.value(HOST) is None:
            self._findings.warn(
                jetty.line,
                f"<jetty> has no users, so its port is open to this machine alone; -D {HOST}={ANY_HOST} opens it",
            )
        contexts = [
            (one.value("contextPath"), one.value("resourceBase") or one.value("war"), one.line)
            for one in _all(jetty)
            if one.name == "webAppContext"
        ]
        self._take(jetty.line, host or LOCAL_HOST, port, None, self._mounts(contexts))

    def read_import(self, resource: str, line: int) -> None:
        """Read the file ``resource`` beside the document; a missing file is a warning."""
        try:
            name = self._variables.replace(resource)
        except ConfigurationError as error:
            self._findings.error(line, f"<import> of {resource[:80]!r}: {error}")
            return
        path = self._base / re.sub(r"^(classpath:|file:(//(?=/))?)", "", name)
        if not path.is_file():
            where = f"there is no such file in {path.parent}"
            self._findings.warn(line, f"<import> of {resource[:80]!r} has no effect: {where}; {OWN}")
            return
        try:
            root = read_xml(read_text_file(path), str(path))
        except ConfigurationError as error:
            self._findings.error(line, str(error))
            return
        beans = [element for element in _all(root) if element.name == "bean"]
        host, port = self._address(beans)
        contexts = [
            (_property(bean, "contextPath"), _property(bean, "resourceBase") or _property(bean, "war"), line)
            for bean in beans
            if (bean.value("class") or "").endswith(APPLICATION)
        ]
        self._take(line, host, port, self._realm(beans, path, line), self._mounts(contexts))
        if any((bean.value("class") or "").endswith(SECURE) for bean in beans):
            self._findings.warn(
                line, f'the https connector of {path.name} is not opened: one port serves HTTP; write <web tls="true"/>'
            )

    def _mounts(self, contexts: list[tuple[str | None, str | None, int]]) -> str | None:
        """Return the paths of the known applications that differ from the usual ones; report others.

        Each context has a path, the directory of its application, and a line.
        """
        mounts: list[str] = []
        for path, directory, line in contexts:
            application = (directory or "").rstrip("/").rpartition("/")[2].removesuffix(".war")
            if path is None or application not in APPLICATIONS:
                word = f"the web application {application[:40]!r}"
                self._findings.warn(line, f"{word} has no effect: there are {', '.join(APPLICATIONS)}")
                continue
            try:
                mount = read_mount(f"{application}={path}")
            except ValueError as error:
                self._findings.warn(line, f"a web application has no effect: {error}")
                continue
            if mount.path != f"/{application}":
                mounts.append(str(mount))
        return ",".join(mounts[:MAX_MOUNTS]) or None

    def _take(self, line: int, host: str | None, port: str | None, realm: str | None, mounts: str | None) -> None:
        if self._element is not None:
            self._findings.warn(
                line, f"a second web server has no effect; the first one is in line {self._element.line}"
            )
            return
        values = {
            "host": self._variables.value(HOST) or host or ANY_HOST,
            "port": self._variables.value(PORT) or port or DEFAULT_PORT,
            "realm": realm,
            "mounts": mounts,
        }
        attributes = {name: Attribute(value, line) for name, value in values.items() if value is not None}
        self._element = Element("web", line, attributes=attributes)

    def _address(self, beans: list[Element]) -> tuple[str | None, str | None]:
        """Return host and port of the bean for the port, else of a connector without TLS."""
        ports = [bean for bean in beans if bean.value("class") == PORT_BEAN]
        ports += [bean for bean in beans if (bean.value("class") or "").endswith(CONNECTORS)]
        for bean in ports:
            host, port = _property(bean, "host"), _property(bean, "port")
            if port is not None and EXPRESSION not in port:
                return host, port
        return None, None

    def _realm(self, beans: list[Element], path: Path, line: int) -> str | None:
        """Return the file of users; None where anybody may come in."""
        constraints = [bean for bean in beans if (bean.value("class") or "").endswith(CONSTRAINT)]
        if constraints and all(_property(bean, "authenticate") == "false" for bean in constraints):
            return None
        for bean in beans:
            class_name = bean.value("class") or ""
            if class_name.endswith(REALM):
                return _property(bean, "config") or str(path.parent / "jetty-realm.properties")
            if class_name.endswith(OTHER_REALM):
                self._findings.warn(
                    line, f"the {class_name.rpartition('.')[2]} of {path.name} has no effect: the broker's users log in"
                )
        return None


def _all(root: Element) -> Iterator[Element]:
    pending = [root]
    while pending:
        element = pending.pop(0)
        yield element
        pending.extend(element.children)


def _property(bean: Element, name: str) -> str | None:
    """Return the value of a bean's property, or None."""
    return next(
        (one.value("value") for one in bean.children if one.name == "property" and one.value("name") == name), None
    )
