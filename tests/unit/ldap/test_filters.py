"""Names in filters are values: nothing in a name changes a filter or a distinguished name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldap3.operation.search import parse_filter
from ldap3.utils.dn import parse_dn

from spanwire.ldap.filters import MAX_FILTER, filter_template, filter_value, name_value
from spanwire.ldap.rights import unescaped
from spanwire.model.errors import ConfigurationError


@pytest.mark.parametrize(
    ("template", "names", "filled"),
    [
        ("(uid={0})", ("jdoe",), "(uid=jdoe)"),
        ("uid={0}", ("jdoe",), "(uid=jdoe)"),
        ("(uid={0})", ("*",), r"(uid=\2a)"),
        ("(uid={0})", ("x)(uid=*",), r"(uid=x\29\28uid=\2a)"),
        ("(uid={0})", ("a\\b\0",), r"(uid=a\5cb\00)"),
        ("(uid={0})", ("Doe, Jane",), "(uid=Doe, Jane)"),
        ("(&(objectClass=person)(|(uid={0})(mail={0})))", ("x",), "(&(objectClass=person)(|(uid=x)(mail=x)))"),
        ("(member={0})", ("uid=a\\,b,o=c",), r"(member=uid=a\5c,b,o=c)"),
        ("(member=uid={1},ou=User)", ("dn", "a,ou=Admin"), r"(member=uid=a\5c,ou\5c=Admin,ou=User)"),
        ("(member:=uid={1})", ("dn", "x"), "(member:=uid=x)"),
        ("(member=uid={1})", ("dn", "x)(cn=*"), r"(member=uid=x\29\28cn\5c=\2a)"),
    ],
)
def test_s31_a_name_is_escaped_where_it_stands(template: str, names: tuple[str, ...], filled: str) -> None:
    assert filter_template(template, 2).filled(*names) == filled


@given(st.text(max_size=30))
def test_s31_no_name_adds_a_condition_to_a_filter(name: str) -> None:
    text = filter_template("(&(objectClass=person)(uid={0}))", 1).filled(name)
    surrogates = any("\ud800" <= character <= "\udfff" for character in name)
    if surrogates or not name.strip():
        return
    root = parse_filter(text, None, False, False, None, False).elements[0]
    conditions = root.elements
    assert len(conditions) == 2
    assert conditions[1].assertion["attr"] == "uid"


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30))
def test_s31_no_name_adds_a_part_to_a_distinguished_name(name: str) -> None:
    if name != name.strip() or not name.isprintable():
        return
    parts = parse_dn(f"uid={name_value(name)},ou=User")
    assert len(parts) == 2
    assert unescaped(parts[0][1]) == name


def test_values_of_names_are_escaped_as_rfc_4514_says() -> None:
    assert name_value(" a#b ") == r"\ a#b\ "
    assert name_value("#a") == r"\#a"
    assert name_value('a,b+c"d\\e<f>g;h=i') == r"a\,b\+c\"d\\e\<f\>g\;h\=i"
    assert filter_value("ok ä") == "ok ä"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(uid={1})", "may have the places {0} only"),
        ("(uid={name})", "may have the places {0} only"),
        ("(cn='{0}')", "has a quote"),
        ("(uid={0}", "is no search filter"),
        ("(uid={0}))((x=y)", "is no search filter"),
        ("{0}", "is no search filter"),
        ("(uid=" + "x" * MAX_FILTER + ")", "has more than"),
    ],
)
def test_what_is_no_filter_is_refused_when_the_configuration_is_read(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason.replace("{", r"\{")):
        filter_template(text, 1)
