"""Messages in XML and in feeds."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.message_view import STRING_VALUE
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.web.rest.feeds import FEEDS, feed_of
from spanwire.web.rest.message_xml import message_xml
from spanwire.web.rest.requests import BadRequestError
from tests.support.received_message import received, text

URI = "http://localhost:8161/admin/queueBrowse/FOO/BAR"
NAMESPACES = {
    "rss_1.0": "{http://purl.org/rss/1.0/}item/{http://purl.org/rss/1.0/}link",
    "rss_2.0": "channel/item/link",
    "atom_0.3": "{http://purl.org/atom/ns#}entry/{http://purl.org/atom/ns#}link",
    "atom_1.0": "{http://www.w3.org/2005/Atom}entry/{http://www.w3.org/2005/Atom}link",
}


@given(st.text(max_size=50), st.text(min_size=1, max_size=20), st.text(max_size=20))
def test_a_message_with_any_text_is_well_formed(body: str, name: str, value: str) -> None:
    element = fromstring(message_xml(text(body, {name: (STRING_VALUE, value)})))
    assert element.tag == "org.apache.activemq.command.ActiveMQTextMessage"
    assert element.findtext("messageId") == "ID:p:1:1:1"


def test_a_message_shows_its_headers_properties_and_text() -> None:
    element = fromstring(message_xml(text("a < b", {"n": (STRING_VALUE, '"7"')})))
    assert (element.findtext("destination"), element.findtext("priority")) == ("queue://FOO.BAR", "4")
    assert element.findtext("text") == "a < b"
    found = element.find("properties/property")
    assert found is not None
    assert (found.get("name"), found.get("type"), found.text) == ("n", "string", '"7"')


def test_octets_are_shown_in_base64() -> None:
    structure = wire.ActiveMQBytesMessage()
    structure.content = b"\xff"
    assert '<content encoding="base64">/w==</content>' in message_xml(received(structure))


def test_a_body_that_cannot_be_decoded_is_shown_as_such() -> None:
    structure = wire.ActiveMQMapMessage()
    structure.content = b"\xff\xff"
    assert fromstring(message_xml(received(structure))).find("content[@error]") is not None


@pytest.mark.parametrize("feed_type", FEEDS)
def test_an_entry_of_a_feed_leads_to_its_message(feed_type: str) -> None:
    feed = fromstring(feed_of(feed_type)(Destination(QUEUE, "FOO.BAR"), URI, [text("x")]))
    link = feed.find(NAMESPACES[feed_type])
    assert link is not None
    assert f"{URI}?msgId=ID:p:1:1:1" in (link.text, link.get("href"))


@pytest.mark.parametrize("feed_type", FEEDS)
def test_a_feed_of_an_empty_queue_is_well_formed(feed_type: str) -> None:
    assert len(fromstring(feed_of(feed_type)(Destination(QUEUE, "A<b>&"), URI, [])))


def test_rss_2_0_is_the_feed_without_a_type() -> None:
    assert fromstring(feed_of(None)(Destination(QUEUE, "A"), URI, [])).get("version") == "2.0"
    with pytest.raises(BadRequestError, match=r"atom_1\.0"):
        feed_of("atom_2.0")
