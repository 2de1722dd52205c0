"""The broker's side of an XMPP connection: stanzas in, `Broker` calls, stanzas out (RFC 6120).

``states.py`` names the states, ``login.py`` and ``scram.py`` check logins, ``session.py`` executes the stanzas of a
client. After STARTTLS a new connection goes on inside of TLS (`spanwire.transports.starttls`).
"""

from __future__ import annotations

import base64
import logging
from typing import Final

from mypy_extensions import i64

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.ports import NO_TOKEN, ClientConnection
from spanwire.model.environment import Time
from spanwire.model.errors import AuthenticationError, JmsError, SpanwireError
from spanwire.protocols.base import REQUEST_STEPS, ConnectionSettings, ProtocolConnection
from spanwire.protocols.xmpp.codec.addresses import Jid, escape_local, parse_jid
from spanwire.protocols.xmpp.codec.elements import CLIENT, Element, encode_element
from spanwire.protocols.xmpp.codec.errors import StanzaError, XmppProtocolError
from spanwire.protocols.xmpp.codec.stream_decoder import (
    END,
    HEADER,
    MAX_STANZA,
    MAX_STANZA_BEFORE_LOGIN,
    StreamDecoder,
    StreamEvent,
)
from spanwire.protocols.xmpp.login import (
    MAX_FAILURES,
    Credentials,
    HeldLogin,
    SaslLogin,
    connection_info,
    refusal,
)
from spanwire.protocols.xmpp.queries import PING
from spanwire.protocols.xmpp.replies import UNANSWERED, error_reply, reply
from spanwire.protocols.xmpp.session import ClientSession
from spanwire.protocols.xmpp.states import State
from spanwire.protocols.xmpp.stream_output import (
    BIND,
    PROCEED,
    SASL,
    TLS,
    client_features,
    login_features,
    sasl_failure,
    stream_error,
    stream_header,
)
from spanwire.protocols.xmpp.stream_output import END as STREAM_END

MAX_PENDING_SENDS: Final = 1_000  # unfinished messages of a client; beyond this number its bytes are not read
MAX_UNREAD_ANSWERS: Final = 8 * 1024 * 1024  # bytes of answers that a client leaves unread; then it is closed
MAX_RESOURCE: Final = 256  # characters of a resource that a client asks for
TIMEOUT: Final = "connection-timeout"
ANONYMOUS_PREFIX: Final = "anonymous-"

logger = logging.getLogger(__name__)


class XmppBrokerConnection(ClientConnection, ProtocolConnection):
    """The connection of an XMPP client.

    ``wants_tls`` is True once the client was told to begin TLS; the transport begins TLS after the output is written.
    """

    def __init__(self, broker: Broker, settings: ConnectionSettings, now: Time) -> None:
        self.wants_tls = False
        self._broker: Final[Broker] = broker
        self._settings: Final[ConnectionSettings] = settings
        self._max_stanza: Final[int] = min(MAX_STANZA, settings.max_frame_size)
        self._decoder = StreamDecoder(min(MAX_STANZA_BEFORE_LOGIN, self._max_stanza))
        self._events: list[StreamEvent] = []
        self._next_event = 0
        self._out: Final[list[bytes]] = []
        self._state = State.HEADER
        self._is_paused = False  # a job of the client is unfinished
        self._has_header = False  # of our own in the current stream
        self._domain = broker.name.lower()
        self._login: SaslLogin | None = None
        self._held_login: HeldLogin | None = None
        self._hurries = False
        self._login_deadline: Final[float] = now.monotonic + settings.login_timeout
        self._last_received = now.monotonic
        self._pings = 0
        self._is_pinged = False  # since the last input
        self._unread_answers = 0
        self._client: ConnectionState | None = None
        self._is_anonymous = False
        self._session: ClientSession | None = None
        self._goodbye_token = NO_TOKEN  # of the answer that all messages of a leaving client are stored

    def receive_data(self, data: bytes, now: Time) -> None:
        """Process bytes from the client and every completed stanza."""
        if self._state is State.CLOSED:
            return
        self._last_received = now.monotonic
        self._is_pinged = False
        if not data:
            return
        while self.holds_requests:  # the transport did not wait for `go_on`
            self._hurry()
            self.go_on(now)
        self._hurries = False
        if self.closed:
            return
        self._events = self._decoder.feed(data)
        self._next_event = 0
        self._handle_all(now)

    def go_on(self, now: Time) -> None:
        """Process postponed stanzas."""
        if self.holds_requests:
            self._last_received = now.monotonic  # the client is not read meanwhile, so silence is no sign
            self._handle_all(now)

    @property
    def holds_requests(self) -> bool:
        """Return True while stanzas wait for the next turn, or for a job over several turns."""
        return (self._next_event < len(self._events) or self._is_busy()) and self._state is not State.CLOSED

    def _is_busy(self) -> bool:
        """Return True while a login waits or a job of the client is unfinished.

        Other requests of the client wait.
        """
        client = self._client
        return self._held_login is not None or (client is not None and client.job is not None)

    def _hurry(self) -> None:
        """Finish all waiting work at once."""
        self._hurries = True
        if self._client is not None:
            self._broker.complete(self._client)

    def _handle_all(self, now: Time) -> None:
        """Process stanzas until all are done or the share of the turn is used."""
        broker = self._broker
        end = broker.steps + REQUEST_STEPS
        self._resume_login(now)
        self._is_paused = self._is_busy()
        events = self._events
        count: i64 = len(events)
        while self._next_event < count and broker.steps < end and not self._is_paused:
            event = events[self._next_event]
            self._next_event += 1
            self._handle(event, now)
            if self._state is State.CLOSED:
                return
            self._is_paused = self._is_busy()
        if self._next_event < count:
            return
        self._events = []
        self._next_event = 0
        failure = self._decoder.failure
        if failure is not None and not self._is_paused:
            self._fail(failure, now)

    def receive_eof(self, now: Time) -> None:
        """Release the broker resources of a closed connection."""
        self._close(now)

    def data_to_send(self) -> list[bytes]:
        """Return and forget the output."""
        chunks = self._out.copy()
        self._out.clear()
        return chunks

    def unsent(self, count: int) -> None:
        """Set the number of bytes that the transport has not sent yet."""
        now = self._broker.environment.now()
        self._unread_answers = min(self._unread_answers, count)
        client, session = self._client, self._session
        if client is None:
            return
        if session is not None and session.has_undelivered:
            session.acknowledge_undelivered(now)
        self._broker.output_progress(client, count, now)

    def next_timeout(self) -> float | None:
        """Return the login deadline, or the time of the next ping or of the end of a silent client."""
        if self._state is State.CLOSED:
            return None
        if self._client is None:
            return self._login_deadline
        return self._silence_end()

    def handle_timeout(self, now: Time) -> None:
        """Close a connection without a login; ping a silent client, then close the connection."""
        if self._state is State.CLOSED:
            return
        if self._client is None:
            if now.monotonic >= self._login_deadline:
                self._fail(XmppProtocolError(TIMEOUT, f"no login within {self._settings.login_timeout:g} s"), now)
            return
        if not self.wants_read:
            self._last_received = now.monotonic
        silence_end = self._silence_end()
        if silence_end is None or now.monotonic < silence_end:
            return
        session = self._session
        if self._is_pinged or session is None:
            self._fail(XmppProtocolError(TIMEOUT, "the client has not answered a ping"), now)
            return
        self._is_pinged = True
        self._pings += 1
        ping = Element(CLIENT, "iq", {"type": "get", "id": f"ping-{self._pings}", "from": self._domain})
        ping.attributes["to"] = str(session.jid)
        ping.add(Element(PING, "ping"))
        self._write(encode_element(ping))

    def _silence_end(self) -> float | None:
        interval = self._settings.max_inactivity_ms / 1000
        if interval <= 0:
            return None
        return self._last_received + interval * (2 if self._is_pinged else 1)

    @property
    def wants_read(self) -> bool:
        """Return False while the broker has no space for the client's messages, or too many are unfinished."""
        client, session = self._client, self._session
        if client is None:
            return True
        return not client.reading_paused and (session is None or len(session.pending) < MAX_PENDING_SENDS)

    @property
    def closed(self) -> bool:
        """Return True once the transport should write the remaining output and close the socket."""
        return self._state is State.CLOSED

    @property
    def pending_bytes(self) -> int:
        """Return the bytes in memory of an incomplete stanza."""
        return self._decoder.buffered_bytes

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        """Answer a send that the broker has finished; go on with the end of the stream."""
        session = self._session
        if self._state is State.CLOSED or session is None:
            return
        if token != NO_TOKEN and token == self._goodbye_token:
            self._end_stream(self._broker.environment.now())
            return
        written = len(self._out)
        session.complete(token, error)
        self._count_answers(written)
        self._mark_dirty()
        if self._state is State.LEAVING and not session.pending:
            self._leave(session, self._broker.environment.now())

    def close_with(self, error: SpanwireError) -> None:
        """Send a stream error and close the connection."""
        if self._state is not State.CLOSED:
            self._write(stream_error(XmppProtocolError("undefined-condition", str(error))) + STREAM_END)
            self._state = State.CLOSED

    def _handle(self, event: StreamEvent, now: Time) -> None:
        """Execute one event of the stream."""
        written = len(self._out)
        try:
            if event.kind == HEADER:
                self._open_stream(event.element, now)
            elif event.kind == END:
                self._on_end(now)
            else:
                self._handle_stanza(event.element, now)
        except XmppProtocolError as error:
            self._fail(error, now)
            return
        self._mark_dirty()
        self._count_answers(written)
        if self._unread_answers > MAX_UNREAD_ANSWERS and self._state is not State.CLOSED:
            self._fail(XmppProtocolError("policy-violation", "the client does not read its answers"), now)

    def _count_answers(self, written: int) -> None:
        """Count the output behind the first ``written`` chunks as answers unread by the client."""
        self._unread_answers += sum([len(chunk) for chunk in self._out[written:]])

    def _handle_stanza(self, stanza: Element, now: Time) -> None:
        session = self._session
        if session is not None:
            if self._state is State.CONNECTED:
                session.handle(stanza, now)
        elif self._state is State.BINDING:
            self._bind(stanza, now)
        elif self._state is State.LOGIN and stanza.namespace == SASL:
            self._log_in(stanza, now)
        elif self._state is State.LOGIN and stanza.namespace == TLS and stanza.name == "starttls":
            self._start_tls()
        else:
            raise XmppProtocolError("not-authorized", f"{stanza.name[:40]!r} came before the login")

    def _open_stream(self, header: Element, now: Time) -> None:
        """Answer the header of a stream by a header and the features."""
        if self._client is None:
            to = header.attributes.get("to")
            if to is not None:
                try:
                    self._domain = parse_jid(to).domain
                except StanzaError as error:
                    raise XmppProtocolError("host-unknown", str(error)) from error
        self._write_header()
        if self._decoder.default_namespace != CLIENT:
            raise XmppProtocolError("invalid-namespace", "the stanzas of a client are in jabber:client")
        major = header.attributes.get("version", "0").partition(".")[0]
        if not major.isascii() or not major.isdigit() or int(major[:4]) < 1:
            raise XmppProtocolError("unsupported-version", "the client does not speak XMPP 1.0")
        if self._client is not None:
            self._decoder.limit(self._max_stanza)
            self._state = State.BINDING
            self._write(client_features())
            return
        login = SaslLogin(self._settings, self._broker.assembly.logins, self._broker.environment)
        if not login.mechanisms and not self._settings.offers_tls:
            raise XmppProtocolError("policy-violation", "passwords in clear are refused, and TLS is not configured")
        self._login = login
        self._state = State.LOGIN
        self._write(login_features(login.mechanisms, offers_tls=self._settings.offers_tls))

    def _write_header(self) -> None:
        self._has_header = True
        stream_id = base64.b32encode(self._broker.environment.random_bytes(10)).decode()
        self._write(stream_header(self._domain, stream_id))

    def _start_tls(self) -> None:
        """Let TLS begin; earlier bytes are refused, and never read as bytes of the TLS connection."""
        if not self._settings.offers_tls:
            raise XmppProtocolError("policy-violation", "TLS is not configured")
        self._check_last("TLS")
        self._state = State.PROCEEDED
        self.wants_tls = True
        self._write(PROCEED)

    def _check_last(self, following: str) -> None:
        """Check that the client has sent no more bytes before ``following``."""
        decoder = self._decoder
        if self._next_event < len(self._events) or not decoder.is_between_stanzas or decoder.failure is not None:
            raise XmppProtocolError("policy-violation", f"the client did not wait for {following}")

    def _log_in(self, step: Element, now: Time) -> None:
        """Handle a step of a login."""
        login = self._login
        if login is None:
            return
        try:
            if step.name == "auth":
                answer = login.begin(step.attributes.get("mechanism", ""), step.text.strip())
            elif step.name == "response":
                answer = login.respond(step.text.strip(), now.monotonic)
            else:
                raise StanzaError("auth", "aborted", "the client has given the login up")
            credentials = answer.credentials
            if credentials is None:
                challenge = answer.challenge
                text = base64.b64encode(challenge if challenge is not None else b"").decode()
                self._write(encode_element(Element(SASL, "challenge", text=text)))
                return
            self._enter_broker(credentials, now)
        except JmsError as error:
            self._refuse_login(error)

    def _enter_broker(self, credentials: Credentials, now: Time) -> None:
        """Log the client in, or begin to wait for a directory.

        Raises:
            JmsError: the login is refused.
        """
        broker = self._broker
        info = connection_info(credentials, broker.ids.next_id(), self._settings)
        if not credentials.is_proven:  # without a password no module accepts the user, but the failure is counted
            broker.administration.log_in(info, now)
            raise AuthenticationError(f"User name [{str(credentials.user)[:MAX_RESOURCE]}] or password is invalid.")
        self._check_last("the new stream")
        self._held_login = HeldLogin(info, credentials)
        self._finish_login(now)

    def _finish_login(self, now: Time) -> None:
        """Log the client in unless a directory has still to answer, and wait for the next stream.

        Raises:
            JmsError: the login is refused.
        """
        held = self._held_login
        if held is None or (not self._hurries and self._broker.is_held(self, held.info, now)):
            return
        self._held_login = None
        self._client = self._broker.add_connection(self, held.info, now)
        self._is_anonymous = held.credentials.user is None
        self._login = None
        text = base64.b64encode(held.credentials.signature).decode()
        self._write(encode_element(Element(SASL, "success", text=text)))
        self._decoder.release()
        self._decoder = StreamDecoder(min(MAX_STANZA_BEFORE_LOGIN, self._max_stanza))
        self._has_header = False
        self._state = State.HEADER

    def _resume_login(self, now: Time) -> None:
        """Go on with a login that has waited."""
        try:
            self._finish_login(now)
        except JmsError as error:
            try:
                self._refuse_login(error)
            except XmppProtocolError as broken_rule:
                self._fail(broken_rule, now)

    def _refuse_login(self, error: JmsError) -> None:
        """Answer a refused login.

        Raises:
            XmppProtocolError: it was the last permitted login.
        """
        self._write(sasl_failure(refusal(error)))
        login = self._login
        if login is None:
            return
        login.failures += 1
        if login.failures >= MAX_FAILURES:
            raise XmppProtocolError("policy-violation", f"too many failed logins: {error}") from error

    def _bind(self, stanza: Element, now: Time) -> None:
        """Give the client an address; the resource gets the number of the connection, so addresses are unique."""
        client = self._client
        if client is None or stanza.attributes.get("type") in UNANSWERED:
            return
        asked = stanza.child(BIND, "bind")
        if stanza.name != "iq" or stanza.attributes.get("type") != "set" or asked is None:
            error = StanzaError("cancel", "not-allowed", "an address must be bound first")
            self._write(encode_element(error_reply(stanza, self._domain, error)))
            return
        number = client.connection_id.rpartition(":")[2]
        wanted = asked.child(BIND, "resource")
        resource = number
        if wanted is not None and wanted.text.isprintable() and 0 < len(wanted.text) <= MAX_RESOURCE:
            resource = f"{wanted.text}-{number}"
        local = ANONYMOUS_PREFIX + number if self._is_anonymous else escape_local(client.principal.name)
        jid = Jid(local, self._domain, resource)
        session = ClientSession(self._broker, client, jid, self._out, has_queue=not self._is_anonymous)
        session.begin(now)
        self._session = session
        self._state = State.CONNECTED
        answer = reply(stanza, str(jid), "result")
        answer.add(Element(BIND, "bind")).add(Element(BIND, "jid", text=str(jid)))
        self._write(encode_element(answer))

    def _on_end(self, now: Time) -> None:
        """End our stream after the messages of the client are stored."""
        session = self._session
        if session is None:
            self._end_stream(now)
            return
        self._state = State.LEAVING
        if not session.pending:
            self._leave(session, now)

    def _leave(self, session: ClientSession, now: Time) -> None:
        token = session.next_token()
        if self._broker.answer_when_stored(session.state, token):
            self._end_stream(now)
        else:
            self._goodbye_token = token

    def _end_stream(self, now: Time) -> None:
        self._write(STREAM_END)
        self._close(now)

    def _write(self, data: bytes) -> None:
        self._out.append(data)
        self._mark_dirty()

    def _mark_dirty(self) -> None:
        if self._out and self._client is not None:
            self._broker.mark_dirty(self._client)

    def _fail(self, error: XmppProtocolError, now: Time) -> None:
        """End the stream with an error and close the connection."""
        if self._client is None:
            unfinished = self._broker.assembly.unfinished_logins
            unfinished.ended(self._settings.remote_address, "XMPP", str(error), now.monotonic)
        else:
            logger.info("connection of %s closed: %s", self._settings.remote_address, error)
        if not self._has_header:
            self._write_header()
        self._write(stream_error(error) + STREAM_END)
        self._close(now)

    def _close(self, now: Time) -> None:
        self._state = State.CLOSED
        self._held_login = None
        self._broker.assembly.logins.forget(self)
        self._decoder.release()
        client = self._client
        if client is not None:
            self._client = self._session = None
            self._broker.remove_connection(client, now)
