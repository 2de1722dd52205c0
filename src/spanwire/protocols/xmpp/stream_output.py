"""The elements around the stanzas: headers, features, errors and the end of a stream.

Source: RFC 6120, section 4.
"""

from __future__ import annotations

from typing import Final

from spanwire.protocols.xmpp.codec.elements import CLIENT, STREAMS, Element, encode_element, escaped
from spanwire.protocols.xmpp.codec.errors import MAX_ERROR_TEXT, StanzaError, XmppProtocolError

TLS: Final = "urn:ietf:params:xml:ns:xmpp-tls"
SASL: Final = "urn:ietf:params:xml:ns:xmpp-sasl"
BIND: Final = "urn:ietf:params:xml:ns:xmpp-bind"
SESSION: Final = "urn:ietf:params:xml:ns:xmpp-session"
STREAM_ERRORS: Final = "urn:ietf:params:xml:ns:xmpp-streams"

END: Final = b"</stream:stream>"
PROCEED: Final = encode_element(Element(TLS, "proceed"))


def stream_header(domain: str, stream_id: str) -> bytes:
    """Return the header of our stream."""
    return (
        f"<?xml version='1.0'?><stream:stream from='{escaped(domain)}' id='{escaped(stream_id)}' version='1.0' "
        f"xml:lang='en' xmlns='{CLIENT}' xmlns:stream='{STREAMS}'>"
    ).encode()


def login_features(mechanisms: list[str], *, offers_tls: bool) -> bytes:
    """Return the features before the login; without any mechanism TLS is required."""
    features: list[Element] = []
    if offers_tls:
        start = Element(TLS, "starttls")
        if not mechanisms:
            start.add(Element(TLS, "required"))
        features.append(start)
    if mechanisms:
        offered = Element(SASL, "mechanisms")
        for mechanism in mechanisms:
            offered.add(Element(SASL, "mechanism", text=mechanism))
        features.append(offered)
    return _features(features)


def client_features() -> bytes:
    """Return the features after the login."""
    session = Element(SESSION, "session")
    session.add(Element(SESSION, "optional"))
    return _features([Element(BIND, "bind"), session])


def _features(features: list[Element]) -> bytes:
    inner = b"".join([encode_element(feature) for feature in features])
    return b"<stream:features>" + inner + b"</stream:features>"


def stream_error(error: XmppProtocolError) -> bytes:
    """Return the error that ends a stream."""
    condition = encode_element(Element(STREAM_ERRORS, error.condition))
    text = encode_element(Element(STREAM_ERRORS, "text", text=str(error)[:MAX_ERROR_TEXT]))
    return b"<stream:error>" + condition + text + b"</stream:error>"


def sasl_failure(error: StanzaError) -> bytes:
    """Return the refusal of a login."""
    failure = Element(SASL, "failure")
    failure.add(Element(SASL, error.condition))
    failure.add(Element(SASL, "text", {"xml:lang": "en"}, str(error)[:MAX_ERROR_TEXT]))
    return encode_element(failure)
