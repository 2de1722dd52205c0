"""Logins by SASL: which mechanisms are offered where, and what becomes of each step."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.ports import Authenticator, Principal
from spanwire.broker.security.authentication import (
    SUFFICIENT,
    CertificatesModule,
    DualLogin,
    GuestModule,
    LoginStack,
    StackEntry,
    User,
    UsersModule,
    simple_authenticator,
)
from spanwire.broker.security.held_passwords import held_passwords
from spanwire.broker.security.login_throttle import FREE_FAILURES
from spanwire.model.errors import JmsError
from spanwire.model.secret import Secret
from spanwire.protocols.base import LOGIN_DEADLINE, ConnectionSettings
from spanwire.protocols.xmpp.codec.errors import StanzaError
from spanwire.protocols.xmpp.codec.stream_decoder import MAX_STANZA_BEFORE_LOGIN
from spanwire.protocols.xmpp.login import MAX_FAILURES, decoded
from spanwire.protocols.xmpp.scram import ITERATIONS, MAX_STEP, NONCE_BYTES, SALT_BYTES, ScramExchange, prepared
from tests.support.canary import CANARY
from tests.support.fake_directory import FakeDirectory
from tests.support.stomp_dialogue import Stage
from tests.support.xmpp_dialogue import BIND, HEADER, SASL, XmppPeer, condition, plain, xmpp_stage

FAR = "tcp://192.0.2.7:40000"
TLS = "urn:ietf:params:xml:ns:xmpp-tls"
SCRAMS = ["SCRAM-SHA-256", "SCRAM-SHA-1"]


def users(*, guests: bool = False) -> LoginStack:
    anonymous = Principal("guest") if guests else None
    return simple_authenticator(
        [User("alice", Secret(CANARY), frozenset()), User("zoë", Secret("Ⅸ"), frozenset())], anonymous
    )


def guarded() -> Stage:
    return xmpp_stage(users())


def offered(peer: XmppPeer) -> list[str]:
    (features,) = peer.opens()
    return [item.text or "" for item in features.iter(f"{{{SASL}}}mechanism")]


def sends_step(peer: XmppPeer, step: str, mechanism: str = "") -> ET.Element:
    """One step in Base64; the answer."""
    text = base64.b64encode(step.encode()).decode()
    element = f"<auth xmlns='{SASL}' mechanism='{mechanism}'>" if mechanism else f"<response xmlns='{SASL}'>"
    peer.sends(element + text + ("</auth>" if mechanism else "</response>"))
    return peer.receives()[0]


def name(element: ET.Element) -> str:
    return element.tag.partition("}")[2]


def client_final(user: str, password: str, challenge: str, algorithm: str, flag: str = "n") -> tuple[str, str]:
    """The second step of a client, and the signature that the server must answer (RFC 5802, section 3)."""
    fields = dict(field.split("=", 1) for field in challenge.split(","))
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    binding = base64.b64encode(f"{flag},,".encode()).decode()
    bare = f"c={binding},r={fields['r']}"
    signed = f"n={user},r=abc,{challenge},{bare}".encode()
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    return f"{bare},p={base64.b64encode(proof).decode()}", f"v={base64.b64encode(server).decode()}"


@pytest.mark.parametrize("mechanism", SCRAMS)
@pytest.mark.parametrize(("user", "password", "flag"), [("alice", CANARY, "n"), ("zoë", "IX", "y")])
def test_scram_proves_both_sides(mechanism: str, user: str, password: str, flag: str) -> None:
    peer = XmppPeer(guarded(), ConnectionSettings(FAR))
    assert offered(peer) == SCRAMS
    algorithm = "sha256" if mechanism.endswith("256") else "sha1"
    challenge = base64.b64decode(sends_step(peer, f"{flag},,n={user},r=abc", mechanism).text or "").decode()
    assert challenge.startswith("r=abc")
    assert challenge.endswith(f"i={ITERATIONS}")
    step, signature = client_final(user, password, challenge, algorithm, flag)
    success = sends_step(peer, step)
    assert (name(success), base64.b64decode(success.text or "").decode()) == ("success", signature)
    peer.opens()
    peer.sends(BIND)
    assert "".join(peer.receives()[0].itertext()).startswith(f"{user}@example.org/")


def test_no_proof_is_computed_for_a_login_that_must_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = guarded()

    def fails() -> str:
        peer = XmppPeer(stage, ConnectionSettings(FAR))
        peer.opens()
        challenge = base64.b64decode(sends_step(peer, "n,,n=alice,r=abc", SCRAMS[0]).text or "").decode()
        return "".join(sends_step(peer, client_final("alice", "wrong", challenge, "sha256")[0]).itertext())

    derive = hashlib.pbkdf2_hmac
    derived: list[str] = []

    def counted(name: str, password: bytes, salt: bytes, rounds: int) -> bytes:
        derived.append(name)
        return derive(name, password, salt, rounds)

    for _ in range(FREE_FAILURES):
        assert "is invalid" in fails()
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    assert "Too many failed logins" in fails()
    assert len(derived) == 1  # that of the client in this test
    stage.environment.monotonic += 60
    assert "is invalid" in fails()
    assert len(derived) == 3


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", CANARY), ("nobody", "")])
def test_a_wrong_proof_and_an_unknown_user_are_refused_alike(
    user: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    peer = XmppPeer(guarded())
    peer.opens()
    challenge = base64.b64decode(sends_step(peer, f"n,,n={user},r=abc", SCRAMS[0]).text or "").decode()
    failure = sends_step(peer, client_final(user, password, challenge, "sha256")[0])
    assert (name(failure), name(failure[0])) == ("failure", "not-authorized")
    assert f"User name [{user}] or password is invalid." in "".join(failure.itertext())
    assert [record.getMessage() for record in caplog.records if record.name == "spanwire.audit"] == [
        f"refused: user {user} at tcp://127.0.0.1:0 (xmpp 1.0) may not log in"
    ]
    assert CANARY not in caplog.text


MALFORMED = [
    (SCRAMS[0], "p=tls-unique,,n=alice,r=abc", "malformed-request"),
    (SCRAMS[0], "n,a=root,n=alice,r=abc", "invalid-authzid"),
    (SCRAMS[0], "n,,n=al=3ice,r=abc", "malformed-request"),
    (SCRAMS[0], "n,,m=x,n=alice,r=abc", "malformed-request"),
    (SCRAMS[0], "n,,n=,r=abc", "malformed-request"),
    (SCRAMS[0], "n,,n=alice,r=", "malformed-request"),
    (SCRAMS[0], "x", "malformed-request"),
    ("PLAIN", "alice", "malformed-request"),
    ("PLAIN", "root\0alice\0x", "invalid-authzid"),
    ("PLAIN", "\0alice\0wrong", "not-authorized"),
    ("PLAIN", "\0alice\0", "not-authorized"),
    ("ANONYMOUS", "", "invalid-mechanism"),
    ("DIGEST-MD5", "", "invalid-mechanism"),
    ("", "n,,n=alice,r=abc", "malformed-request"),
]


@pytest.mark.parametrize(("mechanism", "step", "wanted"), MALFORMED)
def test_a_step_that_cannot_be_taken_is_refused_with_its_condition(mechanism: str, step: str, wanted: str) -> None:
    peer = XmppPeer(guarded())
    peer.opens()
    failure = sends_step(peer, step, mechanism)
    assert (name(failure), name(failure[0])) == ("failure", wanted)
    assert not peer.closed
    assert name(sends_step(peer, f"\0alice\0{CANARY}", "PLAIN")) == "success"


def test_a_proof_of_another_exchange_is_refused() -> None:
    peer = XmppPeer(guarded())
    peer.opens()
    challenge = base64.b64decode(sends_step(peer, "n,,n=alice,r=abc", SCRAMS[0]).text or "").decode()
    step, _ = client_final("alice", CANARY, challenge, "sha256")
    for wrong in (
        step.replace("r=abc", "r=abd"),
        step.replace("c=biws", "c=eSws"),
        step.partition(",p=")[0],
        step[:-4] + "?",
    ):
        failure = sends_step(peer, wrong)
        assert (name(failure), name(failure[0])) == ("failure", "malformed-request")
        if peer.closed:
            break
    assert peer.closed


def test_the_first_step_may_come_after_an_empty_challenge_and_a_login_may_be_given_up() -> None:
    peer = XmppPeer(guarded())
    peer.opens()
    peer.sends(f"<auth xmlns='{SASL}' mechanism='PLAIN'/>")
    assert name(peer.receives()[0]) == "challenge"
    peer.sends(f"<abort xmlns='{SASL}'/>")
    assert name(peer.receives()[0][0]) == "aborted"
    peer.sends(f"<auth xmlns='{SASL}' mechanism='PLAIN'/>")
    peer.receives()
    assert name(sends_step(peer, f"\0alice\0{CANARY}")) == "success"


def test_too_many_failed_logins_end_the_stream_and_delay_the_next() -> None:
    stage = guarded()
    for _ in range(2):
        peer = XmppPeer(stage)
        peer.opens()
        for _ in range(MAX_FAILURES):
            assert not peer.closed
            peer.sends(plain("alice", "wrong"))
        assert peer.closed
    peer = XmppPeer(stage)
    peer.opens()
    peer.sends(plain("alice", CANARY))
    assert "try again in" in "".join(peer.receives()[0].itertext())


@pytest.mark.parametrize(
    ("settings", "mechanisms"),
    [
        (ConnectionSettings(), [*SCRAMS, "PLAIN"]),
        (ConnectionSettings(FAR), SCRAMS),
        (ConnectionSettings(FAR, options={"plainWithoutTls": "true"}), [*SCRAMS, "PLAIN"]),
        (ConnectionSettings(FAR, encrypted=True), [*SCRAMS, "PLAIN"]),
        (ConnectionSettings(FAR, offers_tls=True), []),
        (ConnectionSettings(FAR, offers_tls=True, options={"plainWithoutTls": "true"}), [*SCRAMS, "PLAIN"]),
        (ConnectionSettings(offers_tls=True), [*SCRAMS, "PLAIN"]),
        (ConnectionSettings(offers_tls=True, options={"needClientAuth": "true"}), []),
    ],
)
def test_passwords_in_clear_are_for_tls_and_this_machine(settings: ConnectionSettings, mechanisms: list[str]) -> None:
    peer = XmppPeer(guarded(), settings)
    (features,) = peer.opens()
    assert [item.text for item in features.iter(f"{{{SASL}}}mechanism")] == mechanisms
    assert (features.find(f"{{{TLS}}}starttls") is not None) == settings.offers_tls
    assert (features.find(f"{{{TLS}}}starttls/{{{TLS}}}required") is not None) == (not mechanisms)
    if "PLAIN" not in mechanisms:
        failure = sends_step(peer, f"\0alice\0{CANARY}", "PLAIN")
        assert name(failure[0]) == "encryption-required"


GUEST = GuestModule(Principal("guest"), without_credentials=False)
CERTIFICATES = CertificatesModule({})


@pytest.mark.parametrize(
    ("authenticator", "is_offered"),
    [
        (users(), True),
        (users(guests=True), True),
        (LoginStack([StackEntry(SUFFICIENT, GUEST)]), False),
        (LoginStack([StackEntry(SUFFICIENT, UsersModule([])), StackEntry(SUFFICIENT, CERTIFICATES)]), False),
        (DualLogin(users(), LoginStack([StackEntry(SUFFICIENT, CERTIFICATES)])), True),
        (DualLogin(LoginStack([StackEntry(SUFFICIENT, CERTIFICATES)]), users()), False),
        (None, False),
    ],
)
def test_scram_is_offered_only_where_every_password_is_held(
    authenticator: Authenticator | None, is_offered: bool
) -> None:
    mechanisms = offered(XmppPeer(xmpp_stage(authenticator)))
    assert (SCRAMS[0] in mechanisms) == is_offered
    assert ("ANONYMOUS" in mechanisms) == (authenticator is None)
    assert "PLAIN" in mechanisms


def test_held_passwords_are_those_of_the_modules() -> None:
    held = held_passwords(users(), encrypted=False)
    assert held is not None
    password = held.password_of("alice")
    assert (password is not None and password.reveal(), held.password_of("nobody")) == (CANARY, None)


def test_an_anonymous_client_has_no_queue_of_its_own() -> None:
    stage = xmpp_stage()
    peer = XmppPeer(stage)
    peer.opens()
    assert name(sends_step(peer, "", "ANONYMOUS")) == "success"
    peer.opens()
    peer.sends(BIND)
    assert "".join(peer.receives()[0].itertext()).startswith("anonymous-")
    peer.sends("<presence/><message id='1'><body>x</body></message>")
    assert [condition(stanza) for stanza in peer.receives()] == ["jid-malformed"]


def test_two_clients_never_get_one_address() -> None:
    stage = xmpp_stage()
    assert XmppPeer(stage).logs_in("alice").jid != XmppPeer(stage).logs_in("alice").jid


def test_a_client_without_tls_or_a_mechanism_is_told_why(caplog: pytest.LogCaptureFixture) -> None:
    peer = XmppPeer(xmpp_stage(LoginStack([StackEntry(SUFFICIENT, GUEST)])), ConnectionSettings(FAR))
    (error,) = peer.opens()
    assert (condition(error), peer.closed) == ("policy-violation", True)
    assert "passwords in clear are refused, and TLS is not configured" in caplog.text


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (HEADER.format("h") + "<message to='a@h'><body>x</body></message>", "not-authorized"),
        (HEADER.format("h") + f"<starttls xmlns='{TLS}'/>", "policy-violation"),
        (HEADER.format("h") + f"<success xmlns='{TLS}'/>", "not-authorized"),
        (HEADER.format("h").replace("version='1.0' xmlns", "xmlns"), "unsupported-version"),
        (HEADER.format("h").replace("version='1.0' xmlns", "version='0.9' xmlns"), "unsupported-version"),
        (HEADER.format("h").replace("jabber:client", "jabber:server"), "invalid-namespace"),
        (HEADER.format("@"), "host-unknown"),
        ("GET / HTTP/1.1\r\n\r\n>", "not-well-formed"),
        (HEADER.format("h") + "<a>" + "x" * MAX_STANZA_BEFORE_LOGIN, "policy-violation"),
    ],
)
def test_a_stream_that_breaks_the_rules_before_the_login_ends_with_one_line(
    data: str, wanted: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stage = guarded()
    peer = XmppPeer(stage)
    peer.sends(data)
    assert condition(peer.receives()[-1]) == wanted
    assert peer.closed
    assert len(caplog.records) == 1
    assert stage.broker.connection_views() == []


def test_what_follows_a_login_without_waiting_is_refused() -> None:
    stage = guarded()
    peer = XmppPeer(stage)
    peer.opens()
    peer.sends(plain("alice", CANARY) + "<message to='a@h'><body>x</body></message>")
    assert condition(peer.receives()[-1]) == "policy-violation"
    assert stage.broker.connection_views() == []


def test_nothing_but_an_address_is_given_before_it_is_bound() -> None:
    peer = XmppPeer(guarded())
    peer.opens()
    peer.sends(plain("alice", CANARY))
    peer.receives()
    peer.opens()
    peer.sends("<message to='a@example.org' id='1'><body>x</body></message>")
    assert condition(peer.receives()[0]) == "not-allowed"


def test_s24_a_client_that_does_not_log_in_is_closed_at_the_deadline() -> None:
    stage = guarded()
    peer = XmppPeer(stage)
    for letter in HEADER.format("h"):
        stage.passes(0.25)
        if peer.closed:
            break
        peer.sends(letter)
    assert peer.closed
    assert stage.environment.monotonic - 1_000.0 == LOGIN_DEADLINE


def test_a_step_of_a_login_is_limited() -> None:
    assert decoded("A" * MAX_STEP) != b""
    with pytest.raises(StanzaError):
        decoded("A" * (MAX_STEP + 4))


@given(st.text(max_size=40), st.text(max_size=80))
def test_no_step_of_scram_raises_anything_but_its_error(first: str, second: str) -> None:
    held = held_passwords(users(), encrypted=False)
    assert held is not None
    exchange = ScramExchange(SCRAMS[0], held, bytes(SALT_BYTES + NONCE_BYTES))
    for step in (exchange.challenge, exchange.verify):
        try:
            step((first if step == exchange.challenge else second).encode("utf-8", "surrogatepass"))
        except JmsError:
            continue


def test_names_are_compared_in_the_form_of_saslprep() -> None:
    assert [prepared(text) for text in ("I\u00adX", "\u2168", "a\u00a0b", "user")] == ["IX", "IX", "a b", "user"]


@pytest.mark.parametrize(("password", "wanted"), [("ecila", "success"), ("wrong", "failure")])
def test_a_login_waits_for_the_answer_of_a_directory(password: str, wanted: str) -> None:
    directory = FakeDirectory()
    stage = xmpp_stage(directory.stack())
    peer = XmppPeer(stage)
    assert offered(peer) == ["PLAIN"]
    now = stage.environment.now()
    peer.connection.receive_data(plain("alice", password).encode(), now)
    peer.connection.go_on(now)
    assert (peer.connection.data_to_send(), peer.connection.holds_requests) == ([], True)
    directory.answers()
    stage.settle()
    assert name(peer.receives()[0]) == wanted
    assert not peer.connection.holds_requests


def test_a_directory_that_answers_after_the_client_has_left_lets_nobody_in() -> None:
    directory = FakeDirectory()
    stage = xmpp_stage(directory.stack())
    peer = XmppPeer(stage)
    peer.opens()
    peer.connection.receive_data(plain("alice", "ecila").encode(), stage.environment.now())
    peer.leaves()
    directory.answers()
    stage.settle()
    assert stage.broker.connection_views() == []


def test_a_directory_that_does_not_answer_is_a_temporary_failure() -> None:
    directory = FakeDirectory()
    stage = xmpp_stage(directory.stack())
    peer = XmppPeer(stage)
    peer.opens()
    peer.connection.receive_data(plain("alice", "ecila").encode(), stage.environment.now())
    directory.fails()
    stage.settle()
    (failure,) = peer.receives()
    assert name(failure[0]) == "temporary-auth-failure"
