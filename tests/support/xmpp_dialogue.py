"""Dialogues between XMPP clients and a real broker, without sockets: stanzas go in as text, elements come out.

The elements that the broker writes are read by the standard library's parser, not by the code under test.
"""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET
from typing import Final

from spanwire.broker.ports import Authenticator, Authorizer
from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.xmpp.broker_connection import XmppBrokerConnection
from spanwire.service.message_formats import message_formats
from tests.support.stomp_dialogue import Stage

HEADER: Final = (
    "<?xml version='1.0'?><stream:stream to='{}' version='1.0' xmlns='jabber:client' "
    "xmlns:stream='http://etherx.jabber.org/streams'>"
)
START: Final = re.compile(rb"<\?xml version='1\.0'\?><stream:stream [^>]*>")
END: Final = "</stream:stream>"
CLIENT: Final = "{jabber:client}"
BIND: Final = (
    "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>r</resource></bind></iq>"
)
SASL: Final = "urn:ietf:params:xml:ns:xmpp-sasl"


def xmpp_stage(authenticator: Authenticator | None = None, authorizer: Authorizer | None = None) -> Stage:
    """A broker that converts messages between all protocols."""
    return Stage(authenticator, authorizer, message_formats())


def plain(user: str, password: str) -> str:
    """The element that logs in by PLAIN."""
    step = base64.b64encode(f"\0{user}\0{password}".encode()).decode()
    return f"<auth xmlns='{SASL}' mechanism='PLAIN'>{step}</auth>"


class XmppPeer:
    """One client."""

    def __init__(self, stage: Stage, settings: ConnectionSettings | None = None) -> None:
        self._stage: Final = stage
        self.connection: Final = XmppBrokerConnection(
            stage.broker, settings if settings is not None else ConnectionSettings(), stage.environment.now()
        )
        self.raw = b""
        self.jid = ""
        stage.peers.append(self)

    def sends(self, data: str | bytes) -> None:
        """Feed bytes, then let everything settle."""
        if isinstance(data, str):
            data = data.encode()
        self.connection.receive_data(data, self._stage.environment.now())
        self._stage.settle()

    def flush(self) -> bool:
        """Take what there is to send, after going on with requests that are held; whether there was any."""
        held = self.connection.holds_requests
        self.connection.go_on(self._stage.environment.now())
        chunks = self.connection.data_to_send()
        self.raw += b"".join(chunks)
        self.connection.unsent(0)
        return held or bool(chunks)

    def receives(self) -> list[ET.Element]:
        """All elements since the last call; headers and ends of streams are left out."""
        text = START.sub(b"", self.raw).replace(END.encode(), b"")
        self.raw = b""
        around = b"<all xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
        return list(ET.fromstring(around + text + b"</all>"))

    def opens(self, domain: str = "example.org") -> list[ET.Element]:
        """Begin a stream; what the broker offers."""
        self.sends(HEADER.format(domain))
        return self.receives()

    def logs_in(self, user: str = "alice", password: str = "secret", domain: str = "example.org") -> XmppPeer:
        """Log in by PLAIN and bind an address."""
        self.opens(domain)
        self.sends(plain(user, password))
        (success,) = self.receives()
        assert success.tag == f"{{{SASL}}}success", self.raw
        self.opens(domain)
        self.sends(BIND)
        (bound,) = self.receives()
        self.jid = "".join(bound.itertext())
        return self

    def leaves(self) -> None:
        """Close the socket."""
        self.connection.receive_eof(self._stage.environment.now())
        self._stage.settle()

    @property
    def closed(self) -> bool:
        return self.connection.closed


def body(stanza: ET.Element) -> str | None:
    """The body of a message."""
    return stanza.findtext(CLIENT + "body")


def headers(stanza: ET.Element) -> dict[str, str]:
    """The headers of a message (XEP-0131)."""
    shim = "{http://jabber.org/protocol/shim}"
    return {item.attrib["name"]: item.text or "" for item in stanza.iterfind(f"{shim}headers/{shim}header")}


def condition(stanza: ET.Element) -> str:
    """The name of the condition of an error stanza or stream error."""
    found = stanza.find(CLIENT + "error")
    first = (stanza if found is None else found)[0]
    return first.tag.partition("}")[2]
