"""Splits the bytes of a stream into header, stanzas and end (RFC 6120, sections 4 and 11).

Expat checks the syntax. A document type, an entity, a comment or a processing instruction ends the stream, so no entity
is ever looked up or expanded. Bytes are counted before Expat gets them: a stanza beyond the limit is refused, even
before its end. Names are kept by Expat as long as the stream lives, so length and number of names are limited, too.

Expat reads an unfinished tag again with all further bytes. So bytes are held back until a ``>`` arrives, and a tag with
many ``>`` in its attributes is refused if received in very small pieces.
"""

from __future__ import annotations

from typing import Final
from xml.parsers import expat

from spanwire.protocols.xmpp.codec.elements import STREAMS, Element
from spanwire.protocols.xmpp.codec.errors import XmppProtocolError

MAX_STANZA: Final = 64 * 1024  # bytes of a stanza after the login; RFC 6120, section 13.12, asks for 10,000
MAX_STANZA_BEFORE_LOGIN: Final = 8 * 1024  # bytes; a stream header or a step of a login is far smaller
MAX_DEPTH: Final = 16  # elements inside each other, with the stream itself; a stanza of a client has about six
MAX_ELEMENTS: Final = 1_000  # elements of one stanza; an element of four bytes takes 300 in memory
MAX_ATTRIBUTES: Final = 32  # attributes of one element; the header of a stream has about eight
MAX_NAMESPACES: Final = 32  # declarations of namespaces in force at a time; a client has about four
MAX_NAME: Final = 512  # characters of a name with its namespace, and of a namespace
MAX_NAMES: Final = 1_000  # different names of a stream; a client uses some dozens, and Expat forgets none
MAX_RESCANNED: Final = 4 * 1024 * 1024  # bytes of an unfinished tag that Expat reads again; a few milliseconds
FEED_BYTES: Final = 4 * 1024  # bytes that Expat gets at a time; a stanza grows by them before it is measured again
SEPARATOR: Final = " "  # between namespace and name, as no namespace has one

RESTRICTED: Final = "restricted-xml"
POLICY: Final = "policy-violation"
NOT_WELL_FORMED: Final = "not-well-formed"
UNSUPPORTED_ENCODING: Final = "unsupported-encoding"
NOT_UTF8: Final = (b"\xff", b"\xfe", b"\0")  # first bytes of UTF-16 and UTF-32, which Expat would detect
HEADER_NAME: Final = "stream"


class StreamEvent:
    """A part of a stream: an element, whole but for `HEADER`, with later `STANZA` events inside."""

    __slots__ = ("element", "kind")

    def __init__(self, kind: int, element: Element) -> None:
        self.kind: Final[int] = kind
        self.element: Final[Element] = element


HEADER: Final = 0
STANZA: Final = 1
END: Final = 2

_ENTITY_ERRORS: Final = frozenset({11, 12, 13, 15, 16})  # Expat's numbers of errors about entities


class StreamDecoder:
    """Decodes one stream. After a login or STARTTLS the next stream begins with a new decoder.

    ``failure`` is set once the bytes can no longer be trusted; earlier events are still valid.
    """

    def __init__(self, max_stanza: int) -> None:
        self.failure: XmppProtocolError | None = None
        self.default_namespace: str | None = None  # in the header of the stream
        self._max_stanza = max_stanza
        self._events: list[StreamEvent] = []
        self._held = bytearray()  # without a `>` yet
        self._fed = 0  # bytes that Expat has
        self._stanza_start = 0  # of these, where the last tag before the current stanza begins, or the stanza itself
        self._has_ended = False
        self._open: Final[list[Element]] = []
        self._parts: Final[list[str]] = []
        self._depth = 0
        self._count = 0  # elements of the current stanza
        self._tags = 0  # of the stream; grows with each tag that is whole
        self._rescanned = 0
        self._namespaces = 0
        self._names: Final[dict[str, str]] = {}
        self._parser = _parser(self, self._names)

    @property
    def buffered_bytes(self) -> int:
        """Return the bytes in memory of an incomplete stanza."""
        return len(self._held) + self._fed - self._stanza_start

    @property
    def is_between_stanzas(self) -> bool:
        """Return True if no part of a further stanza has arrived, but for blanks."""
        return self._depth <= 1 and not self._held.strip()

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Decode bytes; return the completed events."""
        if self._is_over():
            return []
        if not self._fed and not self._held and data[:1] in NOT_UTF8:
            self._fail(XmppProtocolError(UNSUPPORTED_ENCODING, "the stream is not in UTF-8"))
            return []
        end = data.rfind(b">") + 1
        if end == 0:
            self._hold(data)
            return []
        held = self._held
        ready = data[:end]
        if held:
            held += ready
            ready = bytes(held)
            held.clear()
        self._parse(ready)
        if not self._is_over():
            self._hold(data[end:])
        events = self._events
        self._events = []
        return events

    def _is_over(self) -> bool:
        """Return True after the end or a failure; a method, as mypyc takes a compared attribute for unchanged."""
        return self.failure is not None or self._has_ended

    def _hold(self, data: bytes) -> None:
        """Keep bytes without a `>`; blanks between two stanzas are done."""
        if self.buffered_bytes == 0 and not data.strip():
            return
        if self.buffered_bytes + len(data) > self._max_stanza:
            self._refuse_size()
        else:
            self._held += data

    def _parse(self, data: bytes) -> None:
        """Pass bytes to Expat; the last one is a `>`."""
        first = self._fed
        tags_before = self._tags
        try:
            for start in range(0, len(data), FEED_BYTES):
                chunk = data[start : start + FEED_BYTES]
                self._fed += len(chunk)
                tags = self._tags
                self._parser.Parse(chunk, False)
                if self._tags == tags:
                    self._rescanned += self._fed - self._stanza_start
                    if self._rescanned > MAX_RESCANNED:
                        raise XmppProtocolError(POLICY, "a tag arrives in too many pieces")
                if self._fed - self._stanza_start > self._max_stanza + FEED_BYTES:
                    self._refuse_size()
                    return
                if len(self._names) > MAX_NAMES:
                    raise XmppProtocolError(POLICY, f"the stream has more than {MAX_NAMES} different names")
        except XmppProtocolError as broken_rule:
            self._fail(broken_rule)
        except expat.ExpatError as error:
            if not self._has_ended:
                self._fail(XmppProtocolError(_condition(error.code), f"wrong XML: {expat.ErrorString(error.code)}"))
        last_tag = self._stanza_start - first
        if self._depth <= 1 and self._tags > tags_before and data.find(b">", last_tag) == len(data) - 1:
            self._stanza_start = self._fed  # the last tag is the end of a stanza

    def _refuse_size(self) -> None:
        self._fail(XmppProtocolError(POLICY, f"a stanza is longer than {self._max_stanza} bytes"))

    def _fail(self, error: XmppProtocolError) -> None:
        self.failure = error
        self._held.clear()
        self._open.clear()
        self._stanza_start = self._fed

    def on_start(self, tag: str, attributes: list[str]) -> None:
        """Open an element. ``attributes`` are names and values in turn."""
        self._depth += 1
        self._count += 1
        self._tags += 1
        if self._depth > MAX_DEPTH:
            raise XmppProtocolError(POLICY, f"elements are more than {MAX_DEPTH} deep")
        if self._count > MAX_ELEMENTS:
            raise XmppProtocolError(POLICY, f"a stanza has more than {MAX_ELEMENTS} elements")
        if len(attributes) > 2 * MAX_ATTRIBUTES:
            raise XmppProtocolError(POLICY, f"an element has more than {MAX_ATTRIBUTES} attributes")
        named: dict[str, str] = {}
        for index in range(0, len(attributes), 2):
            named[_checked(attributes[index])] = attributes[index + 1]
        namespace, _, name = _checked(tag).rpartition(SEPARATOR)
        element = Element(namespace, name, named)
        if self._depth == 1:
            self._begin(element)
            return
        if self._depth > 2:
            self._end_text()
            self._open[-1].children.append(element)
        self._open.append(element)

    def _begin(self, header: Element) -> None:
        """Check the root element, the header of the stream."""
        if header.namespace != STREAMS:
            raise XmppProtocolError("invalid-namespace", f"the stream is in the namespace {header.namespace!r:.80}")
        if header.name != HEADER_NAME:
            raise XmppProtocolError("bad-format", f"the stream begins with the element {header.name!r:.80}")
        self._count = 0
        self._stanza_start = self._parser.CurrentByteIndex
        self._events.append(StreamEvent(HEADER, header))

    def on_end(self, tag: str) -> None:
        """Close the element; a stanza is complete if it stands right inside of the stream."""
        self._depth -= 1
        self._tags += 1
        if self._depth == 0:
            self._has_ended = True
            self._events.append(StreamEvent(END, Element(STREAMS, HEADER_NAME)))
            return
        self._end_text()
        element = self._open.pop()
        if self._depth == 1:
            self._count = 0
            self._rescanned = 0
            size = self._parser.CurrentByteIndex - self._stanza_start
            if size > self._max_stanza:
                raise XmppProtocolError(POLICY, f"a stanza is longer than {self._max_stanza} bytes")
            self._stanza_start = self._parser.CurrentByteIndex
            self._events.append(StreamEvent(STANZA, element))

    def on_text(self, text: str) -> None:
        """Add text to the open element; between stanzas only blanks are allowed."""
        if self._is_over():
            return  # the rest of Expat's buffer
        if self._open:
            if not self._open[-1].children:
                self._parts.append(text)
        elif text.strip():
            raise XmppProtocolError("bad-format", "there is text between two stanzas")

    def _end_text(self) -> None:
        if self._parts:
            self._open[-1].text = "".join(self._parts)
            self._parts.clear()

    def on_namespace(self, prefix: str | None, uri: str | None) -> None:
        """Count a declaration, before its element begins."""
        self._namespaces += 1
        if self._namespaces > MAX_NAMESPACES:
            raise XmppProtocolError(POLICY, f"more than {MAX_NAMESPACES} namespaces are declared")
        for text in (prefix, uri):
            if text is not None:
                _checked(text)
        if uri is not None and SEPARATOR in uri:
            raise XmppProtocolError("invalid-namespace", "a namespace has a blank")
        if self._depth == 0 and not prefix:
            self.default_namespace = uri

    def on_namespace_end(self, prefix: str | None) -> None:
        """Forget a declaration, after its element."""
        self._namespaces -= 1

    def on_declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        """Check the XML declaration."""
        if encoding is not None and encoding.lower() not in ("utf-8", "utf8"):
            raise XmppProtocolError(UNSUPPORTED_ENCODING, f"the stream is in {encoding!r:.40}, not in UTF-8")

    def on_doctype(self, name: str, system_id: str | None, public_id: str | None, has_internal_subset: int) -> None:
        """Refuse a document type, and so entities."""
        raise XmppProtocolError(RESTRICTED, "the stream has a document type")

    def on_instruction(self, target: str, data: str) -> None:
        """Refuse a processing instruction."""
        raise XmppProtocolError(RESTRICTED, "the stream has a processing instruction")

    def on_comment(self, text: str) -> None:
        """Refuse a comment."""
        raise XmppProtocolError(RESTRICTED, "the stream has a comment")

    def on_skipped(self, name: str, is_parameter: int) -> None:
        """Refuse an entity that Expat would leave out."""
        raise XmppProtocolError(RESTRICTED, "the stream has an entity")

    def limit(self, max_stanza: int) -> None:
        """Set the bytes of the largest stanza from now on."""
        self._max_stanza = max_stanza

    def release(self) -> None:
        """Break the cycle of decoder and parser, which would wait for the garbage collector.

        The decoder decodes no further bytes.
        """
        self._has_ended = True
        parser = self._parser
        parser.StartElementHandler = parser.EndElementHandler = parser.CharacterDataHandler = None
        parser.StartNamespaceDeclHandler = parser.EndNamespaceDeclHandler = parser.XmlDeclHandler = None
        parser.StartDoctypeDeclHandler = parser.ProcessingInstructionHandler = None
        parser.CommentHandler = parser.SkippedEntityHandler = None


def _parser(decoder: StreamDecoder, names: dict[str, str]) -> expat.XMLParserType:
    parser = expat.ParserCreate("utf-8", SEPARATOR, names)
    if hasattr(parser, "SetReparseDeferralEnabled"):  # a stanza must not wait for the next one
        parser.SetReparseDeferralEnabled(False)
    parser.ordered_attributes = True
    parser.buffer_text = True
    parser.StartElementHandler = decoder.on_start
    parser.EndElementHandler = decoder.on_end
    parser.CharacterDataHandler = decoder.on_text
    parser.StartNamespaceDeclHandler = decoder.on_namespace
    parser.EndNamespaceDeclHandler = decoder.on_namespace_end
    parser.XmlDeclHandler = decoder.on_declaration
    parser.StartDoctypeDeclHandler = decoder.on_doctype
    parser.ProcessingInstructionHandler = decoder.on_instruction
    parser.CommentHandler = decoder.on_comment
    parser.SkippedEntityHandler = decoder.on_skipped
    return parser


def _checked(name: str) -> str:
    if len(name) > MAX_NAME:
        raise XmppProtocolError(POLICY, f"a name has more than {MAX_NAME} characters")
    return name


def _condition(code: int) -> str:
    """Return the condition of an error of Expat."""
    return RESTRICTED if code in _ENTITY_ERRORS else NOT_WELL_FORMED
