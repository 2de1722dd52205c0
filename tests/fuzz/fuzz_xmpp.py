"""Fuzz the XMPP decoder and whole connections: any bytes give stanzas or one error, and the broker stays whole.

python tests/fuzz/fuzz_xmpp.py [COUNT [SEED]]      seeded random conversations; atheris if it is installed
python tests/fuzz/fuzz_xmpp.py -atheris_runs=N     atheris and its own options
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from spanwire.protocols.xmpp.codec.stream_decoder import MAX_STANZA, StreamDecoder
from tests.fuzz.harness import run
from tests.support.xmpp_dialogue import HEADER, XmppPeer, xmpp_stage  # the path above makes a plain run find it

DEFAULT_COUNT: Final = 20_000
SLOWEST_SECONDS: Final = 1.0  # one conversation, interpreted, on a busy machine
MUC: Final = "<x xmlns='http://jabber.org/protocol/muc'/>"
ADDRESSES: Final = (
    "q@example.org",
    "Q@queues.example.org",
    "alice@example.org/r",
    "t@topics.example.org",
    "t@conference.example.org/n",
    "x@temp-queues.example.org",
    "example.org",
    "topics.example.org",
    "a.\\3e@topics.example.org",
    "a,b@example.org",
    "@",
    "a@b",
    "/",
    "",
)
TYPES: Final = (
    "",
    "chat",
    "groupchat",
    "error",
    "get",
    "set",
    "result",
    "subscribe",
    "unavailable",
    "unsubscribe",
    "x",
)
INNER: Final = (
    "<body>x</body>",
    "<body/>",
    "<subject/>",
    "<thread>t</thread>",
    MUC,
    "<priority>-1</priority>",
    "<request xmlns='urn:xmpp:receipts'/>",
    "<no-store xmlns='urn:xmpp:hints'/>",
    "<query xmlns='jabber:iq:roster'/>",
    "<query xmlns='jabber:iq:roster'><item jid='q@example.org' subscription='remove'/></query>",
    "<query xmlns='http://jabber.org/protocol/disco#items'/>",
    "<query xmlns='http://jabber.org/protocol/disco#info'/>",
    "<ping xmlns='urn:xmpp:ping'/>",
    "<headers xmlns='http://jabber.org/protocol/shim'><header name='k'>v</header></headers>",
    "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>",
    "<a><b><c/></b></a>",
    "&amp;",
    "<![CDATA[<]]>",
    "&lol;",
    "<!--x-->",
)
ODD: Final = (
    "</stream:stream>",
    "<?xml version='1.0'?>",
    "<!DOCTYPE a>",
    " ",
    "\n",
    ">",
    "<a b='>'/>",
    "<a:b/>",
    "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGEAYg==</auth>",
    "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'/>",
    "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>=</response>",
    "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
    HEADER.format("example.org"),
)
NAMES: Final = ("message", "message", "message", "presence", "presence", "iq", "iq", "x")


def run_bytes(data: bytes) -> None:
    """The entry that atheris calls."""
    started = time.process_time()
    converse(data)
    assert time.process_time() - started < SLOWEST_SECONDS, f"too slow: {data!r}"


def converse(data: bytes) -> None:
    """The bytes in pieces after a login, then at once without one, then in the decoder alone."""
    stage = xmpp_stage()
    peer = XmppPeer(stage).logs_in("alice")
    size = 1 + len(data) % 97
    for start in range(0, len(data), size):
        peer.sends(data[start : start + size])
    peer.receives()  # whole elements
    peer.leaves()
    early = XmppPeer(stage)
    early.sends(HEADER.format("example.org"))
    early.sends(data)
    early.leaves()
    assert stage.broker.connection_views() == []
    decoder = StreamDecoder(MAX_STANZA)
    decoder.feed(data)
    assert decoder.buffered_bytes <= len(data)
    decoder.release()


def random_stanza(source: random.Random) -> str:
    """Mostly a stanza that a client could send."""
    if source.random() < 0.1:
        return source.choice(ODD)
    name = source.choice(NAMES)
    kind, address = source.choice(TYPES), source.choice(ADDRESSES)
    attributes = (f" type='{kind}'" if kind else "") + (f" to='{address}'" if address else "")
    if source.random() < 0.7:
        attributes += " id='1'"
    inner = "".join(source.choice(INNER[:-2] if source.random() < 0.95 else INNER) for _ in range(source.randrange(3)))
    return f"<{name}{attributes}>{inner}</{name}>"


def random_bytes(source: random.Random) -> bytes:
    """Several stanzas, sometimes damaged."""
    data = "".join(random_stanza(source) for _ in range(source.randrange(1, 12))).encode()
    if source.random() < 0.3:
        damaged = bytearray(data)
        for _ in range(source.randrange(1, 6)):
            damaged[source.randrange(len(damaged))] = source.choice((0, 10, 38, 39, 60, 62, 255, source.randrange(256)))
        data = bytes(damaged)
    return data


def loop(source: random.Random, count: int) -> str:
    """Random conversations."""
    for _ in range(count):
        run_bytes(random_bytes(source))
    return f"xmpp: {count} conversations"


if __name__ == "__main__":
    sys.exit(run(sys.argv, run_bytes, DEFAULT_COUNT, loop))
