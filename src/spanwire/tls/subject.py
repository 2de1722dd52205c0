"""The distinguished name in a certificate, written as Java writes it (`X500Name.toString`), since access lists and
``TextFileCertificateLoginModule`` files hold it in that form: ``CN=orders, OU=Trade, O=Example, C=DE``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

# Python's names of the attributes (OpenSSL's long names) and Java's keywords.
KEYWORDS: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "T",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "dnQualifier": "DNQ",
    "surname": "SURNAME",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATION",
    "emailAddress": "EMAILADDRESS",
    "userId": "UID",
    "serialNumber": "SERIALNUMBER",
}
QUOTED: Final = frozenset(',+=\n<>#;\\"')

RelativeName = tuple[tuple[str, str], ...]


def subject_of(certificate: Mapping[str, object] | None) -> str | None:
    """The name in what `ssl.SSLObject.getpeercert` gives; None when there is no certificate or it names nobody."""
    if not certificate:
        return None
    names = cast(tuple[RelativeName, ...], certificate.get("subject", ()))
    written = [
        " + ".join(f"{KEYWORDS.get(name, name)}={_value(value)}" for name, value in relative)
        for relative in reversed(names)
    ]
    return ", ".join(written) or None


def _value(text: str) -> str:
    """Quoted where it would not be read back as it is."""
    if not QUOTED.intersection(text) and text == text.strip() and "  " not in text:
        return text
    inner = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'
