"""A certificate's subject in Java's writing."""

from __future__ import annotations

import pytest

from spanwire.tls.subject import subject_of


@pytest.mark.parametrize(
    ("subject", "written"),
    [
        (
            ((("countryName", "DE"),), (("organizationName", "Example"),), (("commonName", "orders"),)),
            "CN=orders, O=Example, C=DE",
        ),
        (((("commonName", "a, b"),),), 'CN="a, b"'),
        (((("commonName", 'say "x"\\'),),), 'CN="say \\"x\\"\\\\"'),
        (((("commonName", " a"),),), 'CN=" a"'),
        (((("organizationalUnitName", "x"), ("commonName", "y")),), "OU=x + CN=y"),
        (((("userId", "u"),), (("1.2.3.4", "v"),)), "1.2.3.4=v, UID=u"),
    ],
)
def test_a_subject_is_written_as_java_writes_it(subject: object, written: str) -> None:
    assert subject_of({"subject": subject}) == written


@pytest.mark.parametrize("certificate", [None, {}, {"subject": ()}, {"issuer": ()}])
def test_no_certificate_names_nobody(certificate: dict[str, object] | None) -> None:
    assert subject_of(certificate) is None
