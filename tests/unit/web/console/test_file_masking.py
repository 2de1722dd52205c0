"""Secrets of configuration files: each form in which a file has them is hidden, and the lines stay where they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.web.console.network.file_masking import HIDDEN, masked

CANARY = "hunter2"
FORMS = (
    'password="hunter2"',
    "userPassword = 'a hunter2'",
    "secret = hunter2",
    "password:\n  hunter2",
    "password = a\\\n  hunter2",
    '{"user": "u", "password": "hunter2"}',
    '<a password="hunter2"/>',
    "<a\n  passwd='hunter2'>",
    '<a keyStorePassword = "a hunter2"/>',
    '<a accessKey="hunter2"/>',
    '<a signatureKey="hunter2"/>',
    "<a password=hunter2/>",
    '<a password="x"hunter2">',
    '<a password="hunter2',
    '<property name="password" value="hunter2"/>',
    '<property value="hunter2" name="password"/>',
    '<property\n  value="hunter2"\n  name="pass&#119;ord"/>',
    '<property name="password"><value>hunter2</value></property>',
    '<property name="password">\n  <bean class="B"><constructor-arg value="hunter2"/></bean>\n</property>',
    '<entry key="password" value="hunter2"/>',
    '<entry key="pwd"><value>hunter2</value></entry>',
    "<entry><key>password</key><value>hunter2</value></entry>",
    "<entry><key><value>password</value></key><value>hunter2</value></entry>",
    "<entry><value>hunter2</value><key>password</key></entry>",
    '<entry><key value="password"/><value value="hunter2"/></entry>',
    '<field password="true">hunter2</field>',
    "<password>my hunter2</password>",
    "<password>\nmy\nhunter2\n</password>",
    "<b:password><![CDATA[<x> hunter2]]></b:password>",
    "<value>user=u\npassword=a\\\n hunter2</value>",
    '<!-- <property name="password" value="hunter2"/> -->',
    "<a><!-- the password is\n hunter2 --></a>",
    '<a uri="tcp://h:1?keyStorePassword=a,hunter2"/>',
    '<a uri="static:(amqp://u:hun/hunter2@h,tcp://x)"/>',
    "<a uri='tcp://u:my \"hunter2@h'/>",
    "<uri>amqp://u:my hunter2@h</uri>",
    "amqp://u:hun@hunter2@h",
    '<a url="jdbc:oracle:thin:scott/hunter2@//h:1/x"/>',
)


@pytest.mark.parametrize("text", FORMS)
def test_each_form_of_a_secret_is_hidden(text: str) -> None:
    shown = masked(f"{text}\n")
    assert CANARY not in shown
    assert HIDDEN in shown
    assert shown.count("\n") == text.count("\n") + 1


@pytest.mark.parametrize("text", [form for form in FORMS if form.startswith("<") and form.endswith(">")])
def test_a_secret_is_hidden_inside_of_a_broker_and_of_a_comment(text: str) -> None:
    assert CANARY not in masked(f'<beans>\n<broker brokerName="a">\n{text}\n</broker></beans>')
    if "<!--" not in text:
        assert CANARY not in masked(f"<beans><!-- {text} --></beans>")


def test_what_is_no_secret_is_shown() -> None:
    text = (
        '<?xml version="1.0"?>\n<broker brokerName="a" id="b">\n<!-- don\'t stop -->\n<networkConnector name="n" '
        'uri="static:(tcp://h:61616?wireFormat.maxInactivityDuration=1)"{}>\n<queue physicalName="Q.>"/>\n'
        "</networkConnector>\n{}<plugins><role>it's me</role></plugins></broker>\n"
    )
    plain = text.format("", "")
    assert masked(plain) == plain
    secret = text.format(' password="x"', '<p name="password" value="x"/>')
    assert masked(secret) == text.format(f' password="{HIDDEN}"', f'<p name="password" value="{HIDDEN}"/>')


@given(
    st.text("<>/=\"' \n-!ab") | st.lists(st.sampled_from([*FORMS, "</a>", "<a>", "\n", "x"]), max_size=8).map("".join)
)
def test_any_text_keeps_its_lines(text: str) -> None:
    assert masked(text).count("\n") == text.count("\n")


def test_comments_inside_of_each_other_and_endless_names_are_masked_in_linear_time() -> None:
    assert "password" not in masked("<!--" * 100_000 + "password -->")
    assert masked("<" + "a" * 300_000 + ">") == "<" + "a" * 300_000 + ">"
