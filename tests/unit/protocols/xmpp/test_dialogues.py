"""Stanzas of clients as messages of the broker, and back: queues, rooms, rosters, queries, and what is refused."""

from __future__ import annotations

import base64
import json
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.security.authentication import User, simple_authenticator
from spanwire.broker.security.authorization_map import AccessList, AuthorizationEntry, AuthorizationMap
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import JmsError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import FORMAT_OPENWIRE_10
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTES,
    INT_VALUE,
    MAP,
    OBJECT,
    PLAIN,
    STREAM,
    STRING_VALUE,
    TEXT,
    MessageView,
)
from spanwire.model.secret import Secret
from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.primitive_map import encode_map
from spanwire.protocols.xmpp import broker_connection
from spanwire.protocols.xmpp.codec.elements import Element
from spanwire.protocols.xmpp.consumer import MAX_NICK
from spanwire.protocols.xmpp.destinations import MAX_KNOWN, MAX_LISTED, MAX_SCANNED
from spanwire.protocols.xmpp.presences import PREFETCH
from spanwire.protocols.xmpp.session import without_contents
from spanwire.protocols.xmpp.stanzas import MAX_BODY
from tests.support.stomp_dialogue import JmsClient, Stage
from tests.support.xmpp_dialogue import CLIENT, HEADER, XmppPeer, body, condition, headers, xmpp_stage

MUC = "<x xmlns='http://jabber.org/protocol/muc'/>"
MUC_USER = "{http://jabber.org/protocol/muc#user}"
ROOM = "PRICES@topics.example.org"
SHIM = "<headers xmlns='http://jabber.org/protocol/shim'><header name='{}'>{}</header></headers>"
DISCO = "http://jabber.org/protocol/disco#"


def view_of(kind: int, octets: bytes | None, name: str = "alice", number: int = 1) -> MessageView:
    view = MessageView(kind, Destination(QUEUE, name), MessageId(ProducerId("ID:jms-1-2-0:1", 1, 1), number))
    view.body = octets
    view.timestamp_ms = 1_700_000_000_000
    view.persistent = True
    return view


def sends(stage: Stage, client: JmsClient, view: MessageView) -> None:
    client.sends(stage.broker.formats.format(FORMAT_OPENWIRE_10).encode_from_view(view))


def messages(peer: XmppPeer) -> list[ET.Element]:
    return [stanza for stanza in peer.receives() if stanza.tag == CLIENT + "message"]


def enters(peer: XmppPeer, room: str = ROOM, nick: str = "al") -> list[ET.Element]:
    peer.sends(f"<presence to='{room}/{nick}'>{MUC}</presence>")
    return peer.receives()


def test_a_message_to_a_user_waits_in_the_queue_of_his_name() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage).logs_in("alice")
    alice.sends("<message to='bob@example.org' type='chat' id='m1'><body>hi</body><thread>t1</thread></message>")
    assert alice.receives() == []
    bob = XmppPeer(stage).logs_in("bob")
    assert messages(bob) == []
    bob.sends("<presence/>")
    (stanza,) = messages(bob)
    assert stanza.attrib["from"] == alice.jid
    assert (stanza.attrib["type"], stanza.attrib["id"], stanza.attrib["to"]) == ("chat", "m1", bob.jid)
    assert (body(stanza), stanza.findtext(CLIENT + "thread")) == ("hi", "t1")
    assert headers(stanza) == {"JMSDestination": "queue://bob"}


def test_a_negative_priority_and_the_end_of_a_presence_leave_messages_in_the_queue() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage).logs_in("alice")
    for absence in ("<presence><priority>-1</priority></presence>", "<presence type='unavailable'/>"):
        alice.sends(absence)
        alice.sends("<message to='alice@example.org'><body>kept</body></message>")
        assert messages(alice) == []
        alice.sends("<presence/>")
        assert [body(stanza) for stanza in messages(alice)] == ["kept"]


def test_what_was_not_written_is_delivered_again_and_says_so() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage).logs_in("alice")
    alice.sends("<message to='alice@example.org'><body>again</body></message>")
    alice.connection.receive_data(b"<presence/>", stage.environment.now())
    alice.connection.data_to_send()  # and the socket breaks
    alice.leaves()
    later = XmppPeer(stage).logs_in("alice")
    later.sends("<presence/>")
    (stanza,) = messages(later)
    assert (body(stanza), headers(stanza)["JMSXDeliveryCount"]) == ("again", "2")


def test_a_receipt_is_written_after_the_sync() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage).logs_in("alice")
    stage.syncs = False
    request = "<request xmlns='urn:xmpp:receipts'/>"
    alice.sends(f"<message to='orders@example.org' id='m1'><body>x</body>{request}</message>")
    assert alice.receives() == []
    stage.syncs = True
    stage.settle()
    (receipt,) = alice.receives()
    assert receipt.attrib["from"] == "orders@example.org"
    assert receipt[0].attrib == {"id": "m1"}


def test_the_end_of_the_stream_is_answered_after_the_sync() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage).logs_in("alice")
    stage.syncs = False
    alice.sends("<message to='orders@example.org'><body>x</body></message></stream:stream>")
    assert not alice.closed
    stage.syncs = True
    stage.settle()
    assert alice.closed
    assert alice.raw == b"</stream:stream>"
    assert stage.broker.connection_views() == []


def test_stomp_clients_and_xmpp_clients_share_queues() -> None:
    stage = xmpp_stage()
    stomp = stage.peer("1.2")
    stomp.sends("SUBSCRIBE\nid:1\ndestination:/queue/ORDERS\n\n\0")
    alice = XmppPeer(stage).logs_in("alice")
    header = SHIM.format("kind", "new")
    alice.sends(f"<message to='orders@example.org' id='m1'><subject>s</subject><body>x</body>{header}</message>")
    (frame,) = stomp.receives()
    assert frame.body == b"x"
    expected = {
        "XMPPFrom": alice.jid.replace(":", "\\c"), "XMPPTo": "orders@example.org", "XMPPID": "m1", "XMPPSubject": "s",
        "kind": "new", "persistent": "true", "reply-to": "/queue/alice", "type": "normal",
    }  # fmt: skip
    assert {name: frame.headers.get(name) for name in expected} == expected
    alice.sends("<presence/>")
    stomp.sends("SEND\ndestination:/queue/alice\nreply-to:/queue/ANSWERS\nsize:5\n\nhello\0")
    (stanza,) = messages(alice)
    assert (stanza.attrib["from"], body(stanza)) == ("ANSWERS@example.org", "hello")
    assert headers(stanza) == {"JMSDestination": "queue://alice", "size": "5"}


def test_an_answer_to_a_temporary_queue_finds_its_way() -> None:
    stage = xmpp_stage()
    stomp = stage.peer("1.2")
    stomp.sends("SUBSCRIBE\nid:1\ndestination:/temp-queue/ANSWERS\n\n\0")
    alice = XmppPeer(stage).logs_in("alice")
    alice.sends("<presence/>")
    stomp.sends("SEND\ndestination:/queue/alice\nreply-to:/temp-queue/ANSWERS\n\nquestion\0")
    (question,) = messages(alice)
    assert question.attrib["from"].endswith("@temp-queues.example.org")
    alice.sends(f"<message to='{question.attrib['from']}'><body>answer</body></message>")
    assert [frame.body for frame in stomp.receives()] == [b"answer"]


def test_a_group_header_is_the_message_group_and_no_store_makes_a_message_transient() -> None:
    stage = xmpp_stage()
    client = JmsClient(stage)
    client.listens(Destination(QUEUE, "Q"))
    alice = XmppPeer(stage).logs_in("alice")
    hint = "<no-store xmlns='urn:xmpp:hints'/>"
    alice.sends(f"<message to='Q@example.org'><body>x</body>{SHIM.format('JMSXGroupID', 'g')}{hint}</message>")
    (message,) = client.messages
    assert (message.group_id, message.persistent) == ("g", False)


@pytest.mark.parametrize("name", ["JMSXUserID", "XMPPFrom", ""])
def test_a_header_that_the_broker_sets_is_refused(name: str) -> None:
    alice = XmppPeer(xmpp_stage()).logs_in("alice")
    alice.sends(f"<message to='Q@example.org' id='1'><body>x</body>{SHIM.format(name, 'x')}</message>")
    (refusal,) = alice.receives()
    assert condition(refusal) == "not-acceptable"


def test_a_chat_state_is_no_message() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage).logs_in("alice")
    alice.sends("<message to='Q@example.org'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>")
    assert alice.receives() == []
    assert stage.broker.destination_views() == []


def test_an_address_in_small_letters_finds_the_destination_with_capital_ones() -> None:
    stage = xmpp_stage()
    client = JmsClient(stage)
    client.listens(Destination(QUEUE, "Orders"))
    alice = XmppPeer(stage).logs_in("alice")
    alice.sends("<message to='orders@example.org'><body>1</body></message>")
    assert len(client.messages) == 1
    JmsClient(stage, "ID:jms-2-2-0:1").listens(Destination(QUEUE, "ORDERS"))
    another = XmppPeer(stage).logs_in("bob")
    another.sends("<message to='orders@example.org' id='1'><body>2</body></message>")
    (refusal,) = another.receives()
    assert condition(refusal) == "not-acceptable"
    another.sends("<message to='ORDERS@example.org'><body>3</body></message>")
    assert another.receives() == []


def test_a_room_is_a_topic_in_both_directions() -> None:
    stage = xmpp_stage()
    stomp = stage.peer("1.2")
    stomp.sends("SUBSCRIBE\nid:1\ndestination:/topic/PRICES\n\n\0")
    alice, bob = XmppPeer(stage).logs_in("alice"), XmppPeer(stage).logs_in("bob")
    others, own, subject = enters(alice)
    assert (others.attrib["from"], own.attrib["from"]) == (f"{ROOM}/broker", f"{ROOM}/al")
    assert [item.attrib["code"] for item in own.iter(MUC_USER + "status")] == ["110"]
    assert (subject.attrib["type"], subject[0].tag) == ("groupchat", CLIENT + "subject")
    enters(bob, "prices@conference.example.org", "bo")
    alice.sends(f"<message to='{ROOM}' type='groupchat' id='g1'><body>42</body></message>")
    for peer, sender in ((alice, f"{ROOM}/al"), (bob, "prices@conference.example.org/al")):
        (stanza,) = peer.receives()
        assert (stanza.attrib["from"], stanza.attrib["type"], stanza.attrib["id"]) == (sender, "groupchat", "g1")
        assert body(stanza) == "42"
    assert [frame.body for frame in stomp.receives()] == [b"42"]
    stomp.sends("SEND\ndestination:/topic/PRICES\n\n43\0")
    assert [(stanza.attrib["from"], body(stanza)) for stanza in alice.receives()] == [(f"{ROOM}/broker", "43")]


def test_who_leaves_a_room_hears_nothing_more_and_a_nick_can_be_changed() -> None:
    stage = xmpp_stage()
    alice, bob = XmppPeer(stage).logs_in("alice"), XmppPeer(stage).logs_in("bob")
    enters(alice)
    gone, come = enters(alice, nick="new")
    assert (gone.attrib["type"], gone.attrib["from"], come.attrib["from"]) == (
        "unavailable", f"{ROOM}/al", f"{ROOM}/new",
    )  # fmt: skip
    assert {item.attrib["code"] for item in gone.iter(MUC_USER + "status")} == {"303", "110"}
    bob.sends(f"<message to='{ROOM}' type='groupchat'><body>1</body></message>")
    assert [body(stanza) for stanza in alice.receives()] == ["1"]
    alice.sends(f"<presence to='{ROOM}/new' type='unavailable'/>")
    (left,) = alice.receives()
    assert left.attrib["type"] == "unavailable"
    bob.sends(f"<message to='{ROOM}' type='groupchat'><body>2</body></message>")
    assert alice.receives() == []


def test_a_wildcard_room_hears_all_topics_below_it() -> None:
    stage = xmpp_stage()
    stomp = stage.peer("1.2")
    alice = XmppPeer(stage).logs_in("alice")
    enters(alice, "prices.\\3e@topics.example.org")
    stomp.sends("SEND\ndestination:/topic/prices.usa.ibm\n\n7\0")
    (stanza,) = alice.receives()
    assert (body(stanza), headers(stanza)["JMSDestination"]) == ("7", "topic://prices.usa.ibm")


@pytest.mark.parametrize(
    ("stanza", "wanted"),
    [
        (f"<presence to='{ROOM}'>{MUC}</presence>", "jid-malformed"),
        (f"<presence to='{ROOM}/{'n' * (MAX_NICK + 1)}'>{MUC}</presence>", "jid-malformed"),
        (f"<message to='{ROOM}/bo' type='chat'><body>x</body></message>", "feature-not-implemented"),
        (f"<message to='{ROOM}' type='groupchat'><subject>x</subject></message>", "forbidden"),
        ("<message to='a@other.org'><body>x</body></message>", "remote-server-not-found"),
        ("<message to='example.org'><body>x</body></message>", "service-unavailable"),
        ("<message to='a b@example.org'><body>x</body></message>", "jid-malformed"),
        ("<message to='@'><body>x</body></message>", "jid-malformed"),
        (f"<message to='a@example.org' id='{'i' * 1025}'><body>x</body></message>", "bad-request"),
        (f"<message to='{'a' * 1024}@example.org'><body>x</body></message>", "jid-malformed"),
        ("<message to='a\\20@example.org'><body>x</body></message>", "jid-malformed"),
        ("<iq type='get' id='1'><query xmlns='urn:x'/></iq>", "service-unavailable"),
        ("<iq type='get' id='1' to='other.org'><ping xmlns='urn:xmpp:ping'/></iq>", "remote-server-not-found"),
        ("<iq type='get'/>", "bad-request"),
        ("<iq type='what' id='1'><query xmlns='urn:x'/></iq>", "bad-request"),
    ],
)
def test_a_refused_stanza_is_answered_and_the_stream_lives_on(stanza: str, wanted: str) -> None:
    alice = XmppPeer(xmpp_stage()).logs_in("alice")
    alice.sends(stanza)
    (refusal,) = alice.receives()
    assert (refusal.attrib["type"], condition(refusal)) == ("error", wanted)
    alice.sends("<iq type='get' id='2'><ping xmlns='urn:xmpp:ping'/></iq>")
    assert [answer.attrib["type"] for answer in alice.receives()] == ["result"]


def test_errors_and_results_are_never_answered() -> None:
    alice = XmppPeer(xmpp_stage()).logs_in("alice")
    alice.sends("<message type='error' to='@'/><presence type='error' to='@'/><iq type='error' id='1'/>")
    alice.sends("<iq type='result' id='1'/><presence type='probe' to='a@example.org'/>")
    assert alice.receives() == []


def test_a_subscription_to_a_queue_shows_it_in_the_roster() -> None:
    stage = xmpp_stage()
    stomp = stage.peer("1.2")
    stomp.sends("SEND\ndestination:/queue/ORDERS\n\n1\0")
    alice = XmppPeer(stage).logs_in("alice")
    query = "<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>"
    alice.sends(query)
    roster = "{jabber:iq:roster}item"
    assert [item.attrib for item in alice.receives()[0].iter(roster)] == [
        {"jid": "ORDERS@example.org", "name": "ORDERS", "subscription": "none"}
    ]
    alice.sends("<presence to='orders@example.org' type='subscribe'/>")
    push, subscribed, available, message = alice.receives()
    assert next(push.iter(roster)).attrib == {"jid": "orders@example.org", "subscription": "both"}
    assert (subscribed.attrib["type"], available.attrib.get("type"), body(message)) == ("subscribed", None, "1")
    alice.sends(query)
    assert [item.attrib["subscription"] for item in alice.receives()[0].iter(roster)] == ["both"]
    removal = "<item jid='orders@example.org' subscription='remove'/>"
    alice.sends(f"<iq type='set' id='2'><query xmlns='jabber:iq:roster'>{removal}</query></iq>")
    assert [stanza.tag for stanza in alice.receives()] == [CLIENT + "iq", CLIENT + "presence", CLIENT + "iq"]
    stomp.sends("SEND\ndestination:/queue/ORDERS\n\n2\0")
    assert alice.receives() == []


def test_discovery_leads_from_the_domain_to_topics_and_queues() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage).logs_in("alice")
    enters(alice)
    alice.sends("<message to='orders@example.org'><body>x</body></message>")
    found: dict[str, list[str]] = {}
    for address in ("example.org", "topics.example.org", "queues.example.org", ROOM):
        alice.sends(f"<iq type='get' id='1' to='{address}'><query xmlns='{DISCO}items'/></iq>")
        found[address] = [item.attrib["jid"] for item in alice.receives()[0].iter(f"{{{DISCO}items}}item")]
    assert found == {
        "example.org": ["queues.example.org", "topics.example.org"],
        "topics.example.org": [ROOM],
        "queues.example.org": ["orders@example.org"],
        ROOM: [],
    }
    kinds: dict[str, str] = {}
    for address in ("example.org", "conference.example.org", ROOM, "orders@example.org"):
        alice.sends(f"<iq type='get' id='1' to='{address}'><query xmlns='{DISCO}info'/></iq>")
        (answer,) = alice.receives()
        kinds[address] = next(answer.iter(f"{{{DISCO}info}}identity")).attrib["category"]
        features = {item.attrib["var"] for item in answer.iter(f"{{{DISCO}info}}feature")}
        assert (MUC[10:-3] in features) == (kinds[address] == "conference")
    assert kinds == {
        "example.org": "server",
        "conference.example.org": "conference",
        ROOM: "conference",
        "orders@example.org": "component",
    }


def test_a_long_list_of_destinations_is_cut() -> None:
    stage = xmpp_stage()
    for number in range(MAX_LISTED + 5):
        stage.broker.configure_destination(Destination(QUEUE, f"Q{number}"))
    alice = XmppPeer(stage).logs_in("alice")
    alice.sends("<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>")
    assert len(list(alice.receives()[0].iter("{jabber:iq:roster}item"))) == MAX_LISTED


BODIES = [
    (TEXT, "Grüße".encode(), "Grüße", None),
    (TEXT, None, "", None),
    (PLAIN, None, None, None),
    (BYTES, b"text of STOMP", "text of STOMP", None),
    (BYTES, b"\x00\xff", json.dumps({"base64": "AP8="}), "BytesMessage"),
    (TEXT, b"a\x01", json.dumps({"base64": base64.b64encode(b"a\x01").decode()}), "TextMessage"),
    (MAP, encode_map({"n": (INT_VALUE, 7), "t": (STRING_VALUE, "x\x02")}), '{"n": 7, "t": "x\\u0002"}', "MapMessage"),
    (OBJECT, b"\xac\xed", json.dumps({"base64": "rO0="}), "ObjectMessage"),
]


@pytest.mark.parametrize(("kind", "octets", "text", "described"), BODIES)
def test_every_body_of_jms_has_a_form(kind: int, octets: bytes | None, text: str | None, described: str | None) -> None:
    stage = xmpp_stage()
    client = JmsClient(stage)
    alice = XmppPeer(stage).logs_in("alice")
    alice.sends("<presence/>")
    view = view_of(kind, octets)
    view.properties["yes"] = (BOOLEAN_VALUE, True)
    sends(stage, client, view)
    (stanza,) = messages(alice)
    assert body(stanza) == text
    assert headers(stanza).get("JMSMessageKind") == described
    assert headers(stanza)["yes"] == "true"


def test_a_message_that_xmpp_cannot_carry_becomes_a_dead_letter() -> None:
    stage = xmpp_stage()
    client = JmsClient(stage)
    alice = XmppPeer(stage).logs_in("alice")
    alice.sends("<presence/>")
    sends(stage, client, view_of(STREAM, b"\xff", number=1))
    sends(stage, client, view_of(TEXT, b"x" * (MAX_BODY + 1), number=2))
    sends(stage, client, view_of(TEXT, b"x" * MAX_BODY, number=3))
    assert [len(body(stanza) or "") for stanza in messages(alice)] == [MAX_BODY]
    client.listens(Destination(QUEUE, "ActiveMQ.DLQ"))
    stage.settle()
    assert [message.sequence for message in client.messages] == [1, 2]


def test_properties_of_a_message_count_as_its_body_does() -> None:
    stage = xmpp_stage()
    client = JmsClient(stage)
    alice = XmppPeer(stage).logs_in("alice")
    alice.sends("<presence/>")
    large = view_of(TEXT, b"x", number=1)
    large.properties["note"] = (STRING_VALUE, "<" * MAX_BODY)
    sends(stage, client, large)
    sends(stage, client, view_of(TEXT, b"y", number=2))
    assert [body(stanza) for stanza in messages(alice)] == ["y"]
    client.listens(Destination(QUEUE, "ActiveMQ.DLQ"))
    stage.settle()
    assert [message.sequence for message in client.messages] == [1]


def test_an_old_message_says_when_it_was_sent() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage).logs_in("alice")
    alice.sends("<message to='alice@example.org'><body>x</body></message>")
    stage.passes(11)
    alice.sends("<presence/>")
    (stanza,) = messages(alice)
    assert [item.attrib["stamp"] for item in stanza.iter("{urn:xmpp:delay}delay")] == ["2023-11-14T22:13:20Z"]


def rights() -> tuple[object, AuthorizationMap]:
    chat, admins = AccessList(*[frozenset({"chat"})] * 3), AccessList(*[frozenset({"admins"})] * 3)
    return None, AuthorizationMap(
        [
            AuthorizationEntry(Destination(QUEUE, ">"), admins),
            AuthorizationEntry(Destination(TOPIC, ">"), admins),
            AuthorizationEntry(Destination(QUEUE, "OPEN"), chat),
            AuthorizationEntry(Destination(TOPIC, "OPEN"), chat),
            AuthorizationEntry(Destination(QUEUE, "IN"), AccessList(frozenset(), frozenset({"chat"}), frozenset())),
        ],
        None,
    )


def guarded() -> tuple[Stage, XmppPeer]:
    users = simple_authenticator(
        [User("alice", Secret("secret"), frozenset({"chat"})), User("root", Secret("root"), frozenset({"admins"}))],
        None,
    )
    stage = xmpp_stage(users, rights()[1])
    for name in ("IN", "OPEN", "SECRET"):
        stage.broker.configure_destination(Destination(QUEUE, name))
        stage.broker.configure_destination(Destination(TOPIC, name))
    return stage, XmppPeer(stage).logs_in("alice", "secret")


@pytest.mark.parametrize(
    ("stanza", "is_allowed"),
    [
        ("<message to='OPEN@example.org' id='1'><body>x</body></message>", True),
        ("<message to='IN@example.org' id='1'><body>x</body></message>", True),
        ("<message to='SECRET@example.org' id='1'><body>x</body></message>", False),
        ("<message to='new@example.org' id='1'><body>x</body></message>", False),
        ("<message to='SECRET@topics.example.org' type='groupchat' id='1'><body>x</body></message>", False),
        ("<presence to='OPEN@example.org' id='1'/>", True),
        ("<presence to='IN@example.org' id='1'/>", False),
        (f"<presence to='OPEN@topics.example.org/al' id='1'>{MUC}</presence>", True),
        (f"<presence to='SECRET@topics.example.org/al' id='1'>{MUC}</presence>", False),
        (f"<presence to='new@topics.example.org/al' id='1'>{MUC}</presence>", False),
    ],
)
def test_rights_hold_as_for_every_protocol(stanza: str, is_allowed: bool) -> None:
    _, alice = guarded()
    alice.sends(stanza)
    refusals = [condition(answer) for answer in alice.receives() if answer.attrib.get("type") == "error"]
    assert refusals == ([] if is_allowed else ["forbidden"])
    assert not alice.closed


def test_lists_show_readable_destinations_only_and_an_own_queue_that_is_not_is_announced() -> None:
    _, alice = guarded()
    alice.sends("<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>")
    assert [item.attrib["name"] for item in alice.receives()[0].iter("{jabber:iq:roster}item")] == ["OPEN"]
    alice.sends("<presence/>")
    (notice,) = alice.receives()
    assert notice.attrib["type"] == "headline"
    assert (body(notice) or "").startswith("No direct messages reach you: User alice is not authorized")


def test_a_silent_client_is_asked_and_then_left() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage, ConnectionSettings(max_inactivity_ms=30_000)).logs_in("alice")
    stage.passes(29)
    assert alice.receives() == []
    stage.passes(2)
    (ping,) = alice.receives()
    alice.sends(f"<iq type='result' id='{ping.attrib['id']}' to='example.org'/>")
    stage.passes(29)
    assert alice.receives() == []
    stage.passes(32)
    _, error = alice.receives()
    assert condition(error) == "connection-timeout"
    assert alice.closed


def test_without_a_limit_a_silent_client_stays() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage, ConnectionSettings(max_inactivity_ms=0)).logs_in("alice")
    stage.passes(600)
    assert (alice.receives(), alice.closed) == ([], False)


@pytest.mark.large
def test_a_client_that_leaves_its_answers_unread_is_closed() -> None:
    stage = xmpp_stage()
    for number in range(MAX_LISTED):
        stage.broker.configure_destination(Destination(QUEUE, f"{number}{'x' * 400}"))
    alice = XmppPeer(stage).logs_in("alice")
    query = b"<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>"
    written = 0
    for _ in range(1_000):
        alice.connection.receive_data(query, stage.environment.now())
        written += sum(len(chunk) for chunk in alice.connection.data_to_send())
        if alice.closed:
            break
    assert alice.closed
    assert broker_connection.MAX_UNREAD_ANSWERS < written < broker_connection.MAX_UNREAD_ANSWERS * 1.2


@pytest.mark.large
def test_receipts_that_come_later_count_as_unread_answers_too() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage).logs_in("alice")
    request = "<request xmlns='urn:xmpp:receipts'/>"
    stanzas = f"<message to='q@example.org' id='{'i' * 1_000}'><body>x</body>{request}</message>".encode() * 500
    written = 0
    for _ in range(40):
        alice.connection.receive_data(stanzas, stage.environment.now())
        stored = stage.store.turn()
        if stored is not None:
            stage.broker.stored(stored, stage.environment.now())
        written += sum(len(chunk) for chunk in alice.connection.data_to_send())
        if alice.closed:
            break
    assert alice.closed
    assert written < broker_connection.MAX_UNREAD_ANSWERS * 1.3


@pytest.mark.large
def test_a_client_that_reads_its_answers_slowly_is_served() -> None:
    stage = xmpp_stage()
    for number in range(MAX_LISTED):
        stage.broker.configure_destination(Destination(QUEUE, f"{number}{'x' * 400}"))
    alice = XmppPeer(stage).logs_in("alice")
    query = b"<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>"
    written = 0
    while written < 2 * broker_connection.MAX_UNREAD_ANSWERS:
        alice.connection.receive_data(query, stage.environment.now())
        assert not alice.closed
        written += sum(len(chunk) for chunk in alice.connection.data_to_send())
        alice.connection.unsent(1_000)


def test_a_client_with_too_many_unfinished_messages_is_not_read() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage).logs_in("alice")
    stage.syncs = False
    stanza = "<message to='q@example.org'><body>x</body></message>"
    alice.sends(stanza * (broker_connection.MAX_PENDING_SENDS - 1))
    assert alice.connection.wants_read
    alice.sends(stanza)
    assert not alice.connection.wants_read
    stage.syncs = True
    stage.settle()
    assert alice.connection.wants_read


def test_unfinished_messages_are_kept_without_their_contents() -> None:
    kept = without_contents(
        Element(CLIENT[1:-1], "message", {"to": "a@example.org", "id": "1", "type": "chat"}, "long text")
    )
    assert (kept.attributes, kept.text, kept.children) == ({"to": "a@example.org", "id": "1"}, "", [])


def test_a_refusal_without_a_message_is_a_notice_and_the_stream_lives_on() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage).logs_in("alice")
    alice.connection.on_completed(NO_TOKEN, JmsError("no room"))
    stage.settle()
    (notice,) = alice.receives()
    assert (notice.attrib["type"], body(notice), alice.closed) == ("headline", "no room", False)


def test_the_broker_ends_a_connection_by_a_stream_error() -> None:
    stage = xmpp_stage()
    alice = XmppPeer(stage).logs_in("alice")
    alice.connection.close_with(JmsError("an operator has ended it"))
    stage.settle()
    (error,) = alice.receives()
    assert (condition(error), "".join(error.itertext())) == ("undefined-condition", "an operator has ended it")


def test_management_shows_the_protocol_and_the_user() -> None:
    stage = xmpp_stage()
    XmppPeer(stage).logs_in("alice")
    (view,) = stage.broker.overview.connection_views()
    assert (view.protocol, view.user_name) == ("xmpp 1.0", "alice")


@given(st.lists(st.sampled_from(
    [
        "<message to='q@example.org' id='1'><body>x</body></message>", "<presence/>", "<presence type='unavailable'/>",
        f"<presence to='{ROOM}/al'>{MUC}</presence>", f"<message to='{ROOM}' type='groupchat'><body>x</body></message>",
        f"<presence to='{ROOM}/al' type='unavailable'/>", "<presence to='q@example.org' type='subscribe'/>",
        "<presence to='q@example.org' type='unsubscribe'/>", "<iq type='get' id='1'><a xmlns='urn:b'/></iq>",
        "<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>", "<message to='@'><body/></message>", "</a>",
        "<a/>",
    ]
), max_size=12), st.integers(min_value=1, max_value=200))  # fmt: skip
def test_any_conversation_means_the_same_however_it_is_cut(stanzas: list[str], size: int) -> None:
    outputs = []
    data = "".join(stanzas).encode()
    for step in (size, len(data) + 1):
        stage = xmpp_stage()
        alice = XmppPeer(stage).logs_in("alice")
        for start in range(0, len(data), step):
            alice.connection.receive_data(data[start : start + step], stage.environment.now())
        stage.settle()
        outputs.append((sorted(ET.tostring(item) for item in alice.receives()), alice.closed))
        alice.leaves()
        assert stage.broker.connection_views() == []
    assert outputs[0] == outputs[1]


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_in_any_state(data: bytes) -> None:
    stage = xmpp_stage()
    for words in ("", HEADER.format("example.org")):
        peer = XmppPeer(stage)
        peer.sends(words.encode() + data + b">")
        peer.leaves()
    peer = XmppPeer(stage).logs_in("alice")
    peer.sends(data + b">")
    peer.leaves()
    assert stage.broker.connection_views() == []


def test_a_client_that_does_not_read_gets_no_more_than_its_prefetch() -> None:
    stage = xmpp_stage()
    stomp = stage.peer("1.2")
    for number in range(PREFETCH + 5):
        stomp.sends(f"SEND\ndestination:/queue/alice\n\n{number}\0")
    alice = XmppPeer(stage).logs_in("alice")
    alice.connection.receive_data(b"<presence/>", stage.environment.now())
    written = b"".join(alice.connection.data_to_send())
    alice.connection.unsent(len(written))
    assert written.count(b"<message ") == PREFETCH
    alice.connection.unsent(0)
    stage.settle()
    assert [body(stanza) for stanza in messages(alice)] == [str(PREFETCH + number) for number in range(5)]


@pytest.mark.large
def test_a_list_asks_for_the_rights_of_so_many_destinations() -> None:
    stage, alice = guarded()
    for number in range(MAX_SCANNED):
        stage.broker.configure_destination(Destination(QUEUE, f"S{number}"))
    stage.broker.configure_destination(Destination(QUEUE, "OPEN.2"))
    before = stage.broker.steps
    alice.sends("<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>")
    assert [item.attrib["name"] for item in alice.receives()[0].iter("{jabber:iq:roster}item")] == ["OPEN"]
    assert MAX_SCANNED <= stage.broker.steps - before < MAX_SCANNED + 100


def test_only_the_last_addresses_are_remembered() -> None:
    stage = xmpp_stage()
    stage.broker.configure_destination(Destination(QUEUE, "ORDERS"))
    for number in range(MAX_KNOWN):
        stage.broker.configure_destination(Destination(QUEUE, f"Q{number}"))
    alice = XmppPeer(stage).logs_in("alice")
    steps = []
    for name in ("orders", "orders", *[f"q{number}" for number in range(MAX_KNOWN)], "orders"):
        before = stage.broker.steps
        alice.sends(f"<presence to='{name}@example.org' type='unavailable'/>")
        steps.append(stage.broker.steps - before)
    assert steps[1] < steps[0] <= steps[-1]
